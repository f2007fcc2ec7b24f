//! Names of datasets, snapshots and bookmarks, and the order in which they are listed.

use errors::{Error, Result};
use std::cmp::Ordering;

/// A valid name, split before `@` or `#`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetName<'a> {
    /// `pool/fs`.
    pub dir: &'a str,
    /// The part after it.
    pub tail: Tail<'a>,
}

/// The part after the name of a file system or volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail<'a> {
    /// No suffix: the name is that of the head.
    Head,
    /// The name after the `@`.
    Snapshot(&'a str),
    /// The name after the `#`.
    Bookmark(&'a str),
}

impl<'a> DatasetName<'a> {
    /// Parses `name`; rejects invalid names.
    pub fn parse(name: &'a str) -> Result<Self> {
        let invalid = |what: &str| Error::invalid(name, what);
        let (dir, tail) = match name.find(['@', '#']) {
            None => (name, Tail::Head),
            Some(at) => {
                let (dir, rest) = name.split_at(at);
                let short = &rest[1..];
                if short.is_empty() || short.contains(['@', '#', '/']) {
                    return Err(invalid("the name of a snapshot or bookmark is empty or has a '/', '@' or '#' in it"));
                }
                (dir, if rest.starts_with('@') { Tail::Snapshot(short) } else { Tail::Bookmark(short) })
            }
        };
        if dir.is_empty() || dir.split('/').any(str::is_empty) {
            return Err(invalid("the name has an empty component"));
        }
        if name.contains('\0') {
            return Err(invalid("the name has a NUL in it"));
        }
        Ok(Self { dir, tail })
    }

    pub fn pool(&self) -> &'a str {
        self.dir.split('/').next().unwrap_or(self.dir)
    }
}

/// Name of the hidden clone, below its dataset, that receives a stream into an existing dataset.
pub const RECEIVE_CLONE: &str = "%recv";

/// Whether OpenZFS omits datasets of this name from all lists: `$MOS`, `$ORIGIN`, `%recv`.
pub fn is_hidden(name: &str) -> bool {
    name.contains(['$', '%'])
}

/// The order of `zfs list`: by name, a dataset before its snapshots, snapshots by creation.
///
/// Names compare byte by byte as a whole, so `a-b` sorts before `a/b`, and a bookmark sorts like
/// any other name.
pub fn listing_order(left: (&str, u64), right: (&str, u64)) -> Ordering {
    let split = |name: &str| name.find('@').map_or((name.len(), false), |at| (at, true));
    let ((left_end, left_snap), (right_end, right_snap)) = (split(left.0), split(right.0));
    let by_dir = left.0.as_bytes()[..left_end].cmp(&right.0.as_bytes()[..right_end]);
    by_dir.then(left_snap.cmp(&right_snap)).then(if left_snap { left.1.cmp(&right.1) } else { Ordering::Equal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        let name = DatasetName::parse("tank/a b@s").unwrap();
        assert_eq!((name.pool(), name.dir, name.tail), ("tank", "tank/a b", Tail::Snapshot("s")));
        assert_eq!(DatasetName::parse("tank#b").unwrap().tail, Tail::Bookmark("b"));
        for bad in ["", "/a", "a//b", "a/", "a@", "@s", "a@b@c", "a@b/c", "a#b#c"] {
            assert!(DatasetName::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_are_in_the_order_of_openzfs() {
        let mut names = [("a/b", 9), ("a@late", 7), ("a-x", 2), ("a#mark", 3), ("a", 1), ("a@early", 5), ("a/b@s", 1)];
        names.sort_by(|l, r| listing_order(*l, *r));
        let names: Vec<_> = names.iter().map(|n| n.0).collect();
        assert_eq!(names, ["a", "a@early", "a@late", "a#mark", "a-x", "a/b", "a/b@s"]);
    }
}
