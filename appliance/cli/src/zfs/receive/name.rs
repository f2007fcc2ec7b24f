//! The name of a received snapshot: how much of the sent name is appended to the name on the
//! command line.
//!
//! | given                    | `pool/a/b@s`, sent of `pool/a` | result         |
//! |--------------------------|--------------------------------|----------------|
//! | `tank/x@y`               | one stream only                | `tank/x@y`     |
//! | `tank/x`                 | everything after `pool/a`      | `tank/x/b@s`   |
//! | `-d tank/x`              | everything after the pool      | `tank/x/a/b@s` |
//! | `-e tank/x`              | from the last component of `pool/a` | `tank/x/a/b@s` |

use super::options::Asked;
use crate::context::Failure;

/// The name of a snapshot to receive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The file system or volume.
    pub dataset: String,
    /// The part after the `@`.
    pub snapshot: String,
}

impl std::fmt::Display for Destination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.dataset, self.snapshot)
    }
}

impl Destination {
    /// The destination of the stream of `to_name`, in a package of `sent`.
    ///
    /// Fails if the stream's names do not fit together, or the result is not a valid name.
    pub fn new(asked: &Asked, to_name: &str, sent: &str) -> Result<Self, Failure> {
        join(&asked.to, to_name, sent, asked.is_prefix, asked.is_tail).map_err(Failure::failed)
    }
}

fn join(given: &str, to_name: &str, sent: &str, is_prefix: bool, is_tail: bool) -> Result<Destination, String> {
    let with_snapshot = given.contains('@');
    if is_prefix && with_snapshot {
        let letter = if is_tail { 'e' } else { 'd' };
        return Err(format!("cannot receive: invalid argument - snapshot not allowed with -{letter}"));
    }
    let bad = || "cannot receive: invalid stream (bad snapshot name)".to_owned();
    if !to_name.contains('@') {
        return Err(bad());
    }
    let tail = if is_tail {
        match sent.rfind('/') {
            Some(at) => to_name.get(at..).ok_or_else(bad)?.to_owned(),
            None => format!("/{to_name}"),
        }
    } else if is_prefix {
        to_name[to_name.find(['/', '@']).unwrap_or(0)..].to_owned()
    } else if with_snapshot {
        String::new()
    } else {
        to_name.strip_prefix(sent).ok_or_else(bad)?.to_owned()
    };
    let full = format!("{given}{tail}");
    match full.split_once('@') {
        Some((dataset, snapshot)) if !dataset.is_empty() && !snapshot.is_empty() && !snapshot.contains(['@', '/']) => {
            Ok(Destination { dataset: dataset.to_owned(), snapshot: snapshot.to_owned() })
        }
        _ => Err(format!("cannot receive: invalid name '{full}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_together_as_openzfs_does() {
        for (given, to_name, sent, letter, becomes) in [
            ("tank/x@y", "p/a@s", "p/a", ' ', "tank/x@y"),
            ("tank/x", "p/a@s", "p/a", ' ', "tank/x@s"),
            ("tank/x", "p/a/b@s", "p/a", ' ', "tank/x/b@s"),
            ("tank/x", "p/a/b@s", "p/a", 'd', "tank/x/a/b@s"),
            ("tank/x", "p@s", "p", 'd', "tank/x@s"),
            ("tank/x", "p/a/b@s", "p/a/b", 'e', "tank/x/b@s"),
            ("tank/x", "p/a/b/c@s", "p/a/b", 'e', "tank/x/b/c@s"),
            ("tank/x", "p@s", "p", 'e', "tank/x/p@s"),
        ] {
            let found = join(given, to_name, sent, matches!(letter, 'd' | 'e'), letter == 'e').expect(becomes);
            assert_eq!(found.to_string(), becomes, "{given} {to_name} -{letter}");
        }
        let wrong = join("tank/x@y", "p/a@s", "p/a", true, false).unwrap_err();
        assert_eq!(wrong, "cannot receive: invalid argument - snapshot not allowed with -d");
        assert!(join("tank/x", "p/a", "p/a", false, false).is_err());
        assert!(join("tank/x", "p/a@", "p/a", false, false).is_err());
    }
}
