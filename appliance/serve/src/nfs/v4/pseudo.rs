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

impl PseudoDir {
    /// READDIR cookie: not 0 to 2, which NFSv4 reserves, and positive as an `off_t`. Different for
    /// each directory, because the lowest bit of every identity is set.
    fn cookie(&self) -> u64 {
        (self.id >> 1).max(3)
    }
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
                        tracing::error!(path = %String::from_utf8_lossy(path), "share is not listed: its number is in use");
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

    /// The entries of a directory after `cookie`: cookie, name, index. They come in the order of
    /// their cookies, which are derived from their identities: an entry that stays is listed once
    /// by a client that reads on after the tree was rebuilt.
    pub fn entries_after(&self, index: usize, cookie: u64) -> Vec<(u64, &[u8], usize)> {
        let children = self.dirs.get(index).into_iter().flat_map(|dir| &dir.children);
        let entries = children.map(|(name, &child)| (self.dirs[child].cookie(), name.as_slice(), child));
        let mut after: Vec<_> = entries.filter(|(own, ..)| *own > cookie).collect();
        after.sort_unstable();
        after
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
    fn a_directory_that_stays_is_listed_once_while_the_tree_is_rebuilt() {
        let mut paths: Vec<String> = (0..10).flat_map(|n| [format!("/gone{n}"), format!("/kept{n}")]).collect();
        let (mut listed, mut cookie) = (Vec::new(), 0);
        for version in 0.. {
            let tree = PseudoTree::new(paths.iter().map(|path| path.as_bytes()), version);
            let Some(&(next, name, child)) = tree.entries_after(0, cookie).first() else { break };
            assert!(next > cookie && (3..1 << 63).contains(&next) && tree.child(0, name) == Some(child));
            cookie = next;
            listed.push(String::from_utf8(name.to_vec()).unwrap());
            paths.retain(|path| *path != format!("/gone{version}"));
            if version < 10 {
                paths.insert(0, format!("/new{version}"));
            }
        }
        listed.retain(|name| name.starts_with("kept"));
        listed.sort();
        assert_eq!(listed, (0..10).map(|n| format!("kept{n}")).collect::<Vec<_>>());
    }

    #[test]
    fn a_share_of_everything_takes_the_place_of_the_root() {
        let tree = PseudoTree::new([&b"/"[..]].into_iter(), 1);
        assert_eq!(tree.dir(0).unwrap().share, Some(0));
    }
}
