//! The pseudo file system: the read-only directories above all shares (RFC 7530 section 7, RFC 8881
//! section 7).
//!
//! Pure: built from the paths of the shares, and rebuilt when they change. A directory is
//! identified by a hash of its path, so its file handle survives restarts.
//!
//! ```text
//!   /            pseudo
//!   ├── srv/     pseudo
//!   │   └── x    root of a share
//!   └── tank     root of a share; shares below are reached through it
//! ```

use std::collections::{BTreeMap, HashMap};

/// A directory of the tree, or the place of a share's root.
#[derive(Debug)]
pub(crate) struct PseudoDir {
    /// Identity in file handles.
    pub id: u64,
    pub parent: usize,
    pub children: BTreeMap<Vec<u8>, usize>,
    /// Index of the share whose root is here.
    pub share: Option<usize>,
}

/// The tree. Index 0 is its root.
#[derive(Debug)]
pub(crate) struct PseudoTree {
    dirs: Vec<PseudoDir>,
    by_id: HashMap<u64, usize>,
    /// Version of the tree, incremented when it is rebuilt: the change attribute of its
    /// directories.
    pub version: u64,
}

/// Maximum depth of a path.
const DEPTH_MAX: usize = 64;

/// FNV-1a. Collisions are very unlikely; a share whose path collides is left out.
fn id_of(path: &[u8]) -> u64 {
    let hash = path.iter().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    hash | 1
}

impl PseudoTree {
    /// Builds the tree from the paths of the shares, in their order.
    pub fn new<'p>(paths: impl Iterator<Item = &'p [u8]>, version: u64) -> Self {
        let root = PseudoDir { id: id_of(b"/"), parent: 0, children: BTreeMap::new(), share: None };
        let mut tree = Self { by_id: HashMap::from([(root.id, 0)]), dirs: vec![root], version };
        for (share, path) in paths.enumerate() {
            if let Some(at) = tree.place(path) {
                tree.dirs[at].share = Some(share);
            }
        }
        tree
    }

    fn place(&mut self, path: &[u8]) -> Option<usize> {
        let (mut at, mut so_far) = (0, Vec::new());
        for name in path.split(|b| *b == b'/').filter(|n| !n.is_empty()).take(DEPTH_MAX) {
            so_far.push(b'/');
            so_far.extend_from_slice(name);
            at = match self.dirs[at].children.get(name) {
                Some(child) => *child,
                None => {
                    let (id, next) = (id_of(&so_far), self.dirs.len());
                    if self.by_id.contains_key(&id) {
                        tracing::error!(path = %String::from_utf8_lossy(path), "share is not shown: its number is taken");
                        return None;
                    }
                    self.by_id.insert(id, next);
                    self.dirs.push(PseudoDir { id, parent: at, children: BTreeMap::new(), share: None });
                    self.dirs[at].children.insert(name.to_vec(), next);
                    next
                }
            };
        }
        Some(at)
    }

    pub fn dir(&self, index: usize) -> Option<&PseudoDir> {
        self.dirs.get(index)
    }

    pub fn by_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub fn child(&self, index: usize, name: &[u8]) -> Option<usize> {
        self.dirs.get(index)?.children.get(name).copied()
    }

    /// Index of a share's root.
    pub fn place_of(&self, share: usize) -> Option<usize> {
        self.dirs.iter().position(|d| d.share == Some(share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_hang_at_their_paths_and_directories_keep_their_numbers() {
        let tree = PseudoTree::new([&b"/srv/x"[..], b"/tank", b"/tank/a/b"].into_iter(), 1);
        let tank = tree.child(0, b"tank").unwrap();
        assert_eq!(tree.dir(tank).unwrap().share, Some(1));
        let a = tree.child(tank, b"a").unwrap();
        assert_eq!((tree.dir(a).unwrap().share, tree.dir(a).unwrap().parent), (None, tank));
        assert_eq!(tree.place_of(2), tree.child(a, b"b"));
        let srv = tree.dir(tree.child(0, b"srv").unwrap()).unwrap().id;
        let later = PseudoTree::new([&b"/new"[..], b"/srv/y"].into_iter(), 2);
        assert_eq!(later.by_id(srv), later.child(0, b"srv"));
        assert_eq!(later.child(0, b"tank"), None);
    }

    #[test]
    fn a_share_of_everything_takes_the_place_of_the_root() {
        let tree = PseudoTree::new([&b"/"[..]].into_iter(), 1);
        assert_eq!(tree.dir(0).unwrap().share, Some(0));
    }
}
