//! Names of files and users: from an object number to a path, through its parent directories.
//!
//! Invariant: a directory is read at most every few seconds, and never beyond [`NAMES`] names.

use crate::owner::Owner;
use analytics::engine::Resolver;
use files::vfs::{NodeId, Vfs};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Limit for the directories whose names are remembered.
const DIRECTORIES: usize = 64;
/// Limit for the names read from a directory; files after it have no name here.
const NAMES: usize = 50_000;
/// Time after which the names of a directory are read again.
const FRESH: Duration = Duration::from_secs(5);
/// Limit for the depth of directories; anything deeper is damage.
const DEPTH: usize = 512;

struct Directory {
    read: Instant,
    names: HashMap<u64, String>,
}

/// Dataset and object number of a directory -> its contents.
type Directories = HashMap<(String, u64), Directory>;

/// Finds names in the pools that are open.
pub struct Paths {
    owner: Weak<Owner>,
    directories: Mutex<Directories>,
    users: Mutex<HashMap<u32, Option<String>>>,
}

impl Paths {
    pub fn new(owner: &Arc<Owner>) -> Self {
        Self { owner: Arc::downgrade(owner), directories: Mutex::default(), users: Mutex::default() }
    }

    fn root(&self, dataset: &str) -> Option<Arc<dyn Vfs>> {
        let owner = self.owner.upgrade()?;
        let pool = dataset.split('/').next()?;
        let pool = owner.house.list().into_iter().find(|p| p.name() == pool)?;
        pool.provider(dataset).ok()?.root().ok()
    }

    fn name(&self, dataset: &str, vfs: &dyn Vfs, directory: NodeId, object: u64) -> Option<String> {
        let key = (dataset.to_owned(), directory.0);
        let mut known = self.directories.lock();
        if let Some(there) = known.get(&key) {
            match there.names.get(&object) {
                Some(name) => return Some(name.clone()),
                None if there.read.elapsed() < FRESH => return None,
                None => {}
            }
        }
        let mut names = HashMap::new();
        let read = vfs.read_dir(directory, 0, &mut |entry| {
            names.insert(entry.node.0, String::from_utf8_lossy(&entry.name).into_owned());
            names.len() < NAMES
        });
        if known.len() >= DIRECTORIES {
            known.clear();
        }
        let name = read.ok().and_then(|()| names.get(&object).cloned());
        known.insert(key, Directory { read: Instant::now(), names });
        name
    }
}

impl Resolver for Paths {
    fn file(&self, dataset: &str, object: u64) -> Option<String> {
        let vfs = self.root(dataset)?;
        let root = vfs.root();
        let mut path = String::new();
        let mut at = NodeId(object);
        for _ in 0..DEPTH {
            if at == root {
                return Some(if path.is_empty() { "/".to_owned() } else { path });
            }
            let parent = vfs.parent(at).ok()??;
            let name = self.name(dataset, &*vfs, parent, at.0)?;
            path.insert_str(0, &name);
            path.insert(0, '/');
            at = parent;
        }
        None
    }

    fn user(&self, id: u32) -> Option<String> {
        let mut users = self.users.lock();
        users.entry(id).or_insert_with(|| user_name(id)).clone()
    }
}

/// Name from /etc/passwd. Other sources would need the C library, which may wait for the network.
fn user_name(id: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|line| line.get(2).and_then(|n| n.parse().ok()) == Some(id))?;
    line.first().map(|name| (*name).to_owned())
}
