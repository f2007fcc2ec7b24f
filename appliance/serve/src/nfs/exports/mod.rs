//! Shares: which file systems are served, to which clients, and with which options.
//!
//! The daemon implements [`Exports`] from the pools' `sharenfs` properties, which [`options`]
//! parses. The server consults the [`Table`] for each call; it is rebuilt when
//! [`Exports::generation`] has changed.
//!
//! A share is one file system with its snapshots. A child dataset is a separate share (if
//! `sharenfs` is inherited, it is one) or cannot be entered.

pub mod hosts;
pub mod options;

pub use options::{Granted, ShareOptions};

use super::status::{Result, Status};
use files::vfs::{FileHandle, Vfs};
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of snapshots whose dataset is cached. Above this, the cache is cleared.
const HOMES_MAX: usize = 1 << 16;

/// A shared file system.
#[derive(Clone)]
pub struct Share {
    /// Path for clients: the mount point, as shown by `showmount -e`. `/` followed by components.
    pub path: String,
    /// Full name of the dataset, for messages.
    pub dataset: String,
    /// GUID of the pool. It is part of file handles, because a pool that was split from another has
    /// file systems with the same GUIDs.
    pub pool_guid: u64,
    /// `ds_fsid_guid` of the dataset, equal to [`FileHandle::fs_guid`] of its files.
    pub fs_guid: u64,
    /// A tree that contains the file system: the file system itself, or a
    /// [`files::namespace::Namespace`] that shows others too. Shares of one pool should use the
    /// same tree, so that clients can cross from one file system to the next.
    pub vfs: Arc<dyn Vfs>,
    pub options: ShareOptions,
}

impl std::fmt::Debug for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.dataset, self.path)
    }
}

impl Share {
    /// File handle of the root.
    pub fn root(&self) -> FileHandle {
        FileHandle::root_of(self.fs_guid)
    }
}

/// The current shares, implemented by the daemon.
pub trait Exports: Send + Sync {
    /// Changes whenever [`Exports::shares`] would return something else. Called for each request,
    /// so it must be cheap.
    fn generation(&self) -> u64;
    /// All shares, in any order.
    fn shares(&self) -> Vec<Share>;
}

/// Shares that are fixed or changed explicitly, for tests and examples.
#[derive(Default)]
pub struct FixedExports {
    shares: Mutex<Vec<Share>>,
    generation: AtomicU64,
}

impl FixedExports {
    pub fn new(shares: Vec<Share>) -> Self {
        Self { shares: Mutex::new(shares), generation: AtomicU64::new(1) }
    }

    /// Replaces the shares. The next request already uses the new ones.
    pub fn set(&self, shares: Vec<Share>) {
        *self.shares.lock() = shares;
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

impl Exports for FixedExports {
    fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }
    fn shares(&self) -> Vec<Share> {
        self.shares.lock().clone()
    }
}

/// Shares by pool GUID and file system GUID.
type Homes = HashMap<(u64, u64), Option<Arc<Share>>>;

/// The shares, indexed by what calls contain: a file handle or a path.
pub struct Table {
    generation: u64,
    shares: Vec<Arc<Share>>,
    by_guid: HashMap<(u64, u64), Arc<Share>>,
    /// For file systems that are not shares themselves: the share that they belong to, if there is
    /// one.
    homes: RwLock<Homes>,
}

impl Table {
    fn new(generation: u64, shares: Vec<Share>) -> Self {
        let mut shares: Vec<_> = shares.into_iter().map(Arc::new).collect();
        shares.sort_by(|a, b| a.path.cmp(&b.path));
        let by_guid = shares.iter().map(|s| ((s.pool_guid, s.fs_guid), s.clone())).collect();
        Self { generation, shares, by_guid, homes: RwLock::default() }
    }

    /// All shares, sorted by path.
    pub fn shares(&self) -> &[Arc<Share>] {
        &self.shares
    }

    /// The share that a file system belongs to: its own, or for a snapshot that of its dataset.
    /// Returns `Ok(None)` if it is not shared. Returns an error if this cannot be determined now,
    /// [`Status::JUKEBOX`] if the client should retry.
    pub fn of(&self, pool_guid: u64, fs_guid: u64) -> Result<Option<Arc<Share>>> {
        let key = (pool_guid, fs_guid);
        if let Some(share) = self.by_guid.get(&key) {
            return Ok(Some(share.clone()));
        }
        if let Some(known) = self.homes.read().get(&key) {
            return Ok(known.clone());
        }
        let (mut found, mut failed) = (None, None);
        for share in self.shares.iter().filter(|s| s.pool_guid == pool_guid) {
            match share.vfs.home_of(fs_guid) {
                Ok(home) if home != fs_guid => found = self.by_guid.get(&(pool_guid, home)).cloned(),
                Ok(_) => {}
                Err(error) => match why_unknown(&error) {
                    Unknown::NotThere => {}
                    other => failed = Some(other),
                },
            }
            if found.is_some() {
                break;
            }
        }
        // Only a complete answer is cached: what failed once may succeed at the next call.
        match failed.filter(|_| found.is_none()) {
            Some(Unknown::Failed(status)) => return Err(status),
            Some(_) => return Ok(None),
            None => {}
        }
        let mut homes = self.homes.write();
        if homes.len() >= HOMES_MAX {
            homes.clear();
        }
        homes.insert(key, found.clone());
        Ok(found)
    }

    /// The share with the longest path that is a prefix of `path`, and the remaining components.
    pub fn by_path<'p>(&self, path: &'p [u8]) -> Option<(Arc<Share>, Vec<&'p [u8]>)> {
        let wanted = components(path);
        let longest = self
            .shares
            .iter()
            .filter(|share| wanted.starts_with(&components(share.path.as_bytes())))
            .max_by_key(|share| components(share.path.as_bytes()).len())?;
        let skip = components(longest.path.as_bytes()).len();
        Some((longest.clone(), wanted[skip..].to_vec()))
    }
}

/// Why a tree does not report where a file system belongs.
enum Unknown {
    /// The tree has no such file system.
    NotThere,
    /// Not available until a key is loaded.
    Locked,
    /// The lookup failed. The client gets this status.
    Failed(Status),
}

fn why_unknown(error: &errors::Error) -> Unknown {
    use errors::{Error, Refusal};
    match error {
        Error::NotFound { .. } | Error::Refused { why: Refusal::Stale, .. } => Unknown::NotThere,
        Error::KeyUnavailable { .. } => Unknown::Locked,
        Error::Io { .. } | Error::Refused { why: Refusal::Suspended | Refusal::Busy, .. } => {
            tracing::warn!(%error, "cannot look up the share of a file system; clients retry");
            Unknown::Failed(Status::JUKEBOX)
        }
        other => Unknown::Failed(Status::from(other)),
    }
}

/// The components of a path, without empty ones and `.`.
pub fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".").collect()
}

/// The latest [`Table`], and the permissions of clients.
pub struct Watched {
    exports: Arc<dyn Exports>,
    table: RwLock<Arc<Table>>,
    hosts: hosts::HostNames,
    secure_by_default: bool,
}

impl Watched {
    /// Watches `exports`. `secure_by_default`: shares without `secure` or `insecure` require
    /// clients to use ports below 1024, as in exports(5).
    pub fn new(exports: Arc<dyn Exports>, secure_by_default: bool) -> Self {
        let table = Arc::new(Table::new(exports.generation(), exports.shares()));
        Self { exports, table: RwLock::new(table), hosts: hosts::HostNames::default(), secure_by_default }
    }

    /// The current shares. Rebuilds the table, with a lock held, if [`Exports::generation`] has
    /// changed.
    pub fn table(&self) -> Arc<Table> {
        let generation = self.exports.generation();
        {
            let table = self.table.read();
            if table.generation == generation {
                return table.clone();
            }
        }
        let mut table = self.table.write();
        if table.generation != generation {
            // Read the generation again under the lock. Shares that are newer than their generation
            // do no harm.
            let generation = self.exports.generation();
            *table = Arc::new(Table::new(generation, self.exports.shares()));
        }
        table.clone()
    }

    /// What a client may do with a share; `None`: nothing.
    pub fn granted(&self, share: &Share, client: SocketAddr) -> Option<Granted> {
        if share.options.secure.unwrap_or(self.secure_by_default) && client.port() >= 1024 {
            return None;
        }
        share.options.granted(client.ip(), &self.hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;
    use files::vfs::{Attr, DirEntry, NodeId, StatFs};
    use std::sync::atomic::AtomicBool;

    fn share(path: &str, fs_guid: u64, options: &str) -> Share {
        Share {
            path: path.to_owned(),
            dataset: path.trim_start_matches('/').to_owned(),
            pool_guid: 1,
            fs_guid,
            vfs: Arc::new(MemoryVfs::new().identity(fs_guid)),
            options: ShareOptions::parse(options).expect("options").expect("shared"),
        }
    }

    #[test]
    fn the_longest_path_wins_and_names_are_whole() {
        let table = Table::new(1, vec![share("/tank", 5, "on"), share("/tank/home", 6, "on")]);
        let find = |path: &str| table.by_path(path.as_bytes()).map(|(s, rest)| (s.fs_guid, rest.join(&b'/')));
        assert_eq!(find("/tank"), Some((5, b"".to_vec())));
        assert_eq!(find("/tank/home/"), Some((6, b"".to_vec())));
        assert_eq!(find("//tank/./home/a/b"), Some((6, b"a/b".to_vec())));
        assert_eq!(find("/tank/homes"), Some((5, b"homes".to_vec())));
        assert_eq!(find("/tan"), None);
    }

    #[test]
    fn a_change_of_the_shares_shows_at_the_next_call() {
        let exports = Arc::new(FixedExports::new(vec![share("/tank", 5, "ro=10.0.0.1,insecure")]));
        let watched = Watched::new(exports.clone(), true);
        let client: SocketAddr = ([10, 0, 0, 1], 5000).into();
        let granted = || watched.table().of(1, 5).expect("an answer").and_then(|s| watched.granted(&s, client));
        assert_eq!(granted(), Some(Granted { read_only: true, trusts_root: false }));
        exports.set(vec![share("/tank", 5, "rw=10.0.0.2,insecure")]);
        assert_eq!(granted(), None);
        exports.set(vec![share("/tank", 5, "on")]);
        assert_eq!(granted(), None, "not from a high port");
        exports.set(Vec::new());
        assert!(watched.table().of(1, 5).expect("an answer").is_none());
    }

    /// A tree whose device fails at times.
    struct Flaky(AtomicBool);

    impl Vfs for Flaky {
        fn root(&self) -> NodeId {
            NodeId(1)
        }
        fn lookup(&self, _: NodeId, _: &[u8]) -> errors::Result<Attr> {
            unreachable!("only its file systems are requested")
        }
        fn attr(&self, _: NodeId) -> errors::Result<Attr> {
            unreachable!("only its file systems are requested")
        }
        fn read_link(&self, _: NodeId) -> errors::Result<Vec<u8>> {
            unreachable!("only its file systems are requested")
        }
        fn read(&self, _: NodeId, _: u64, _: usize) -> errors::Result<bytes::Bytes> {
            unreachable!("only its file systems are requested")
        }
        fn read_dir(&self, _: NodeId, _: u64, _: &mut dyn FnMut(DirEntry) -> bool) -> errors::Result<()> {
            unreachable!("only its file systems are requested")
        }
        fn list_xattr(&self, _: NodeId) -> errors::Result<Vec<Vec<u8>>> {
            unreachable!("only its file systems are requested")
        }
        fn get_xattr(&self, _: NodeId, _: &[u8]) -> errors::Result<Option<Vec<u8>>> {
            unreachable!("only its file systems are requested")
        }
        fn seek_data(&self, _: NodeId, _: u64) -> errors::Result<Option<u64>> {
            unreachable!("only its file systems are requested")
        }
        fn seek_hole(&self, _: NodeId, _: u64) -> errors::Result<u64> {
            unreachable!("only its file systems are requested")
        }
        fn stat_fs(&self, _: NodeId) -> errors::Result<StatFs> {
            unreachable!("only its file systems are requested")
        }
        fn home_of(&self, fs_guid: u64) -> errors::Result<u64> {
            match fs_guid {
                _ if self.0.load(Ordering::SeqCst) => {
                    Err(errors::Error::io("vdev 0", std::io::Error::from_raw_os_error(5)))
                }
                70 => Ok(5),
                _ => Err(errors::Refusal::Stale.at("file system")),
            }
        }
    }

    /// Regression: it was cached as not shared until the shares changed, so clients saw ESTALE in a
    /// snapshot long after the device was back.
    #[test]
    fn a_share_that_could_not_be_looked_up_is_looked_up_again() {
        let flaky = Arc::new(Flaky(AtomicBool::new(true)));
        let table = Table::new(1, vec![Share { vfs: flaky.clone(), ..share("/tank", 5, "on") }]);
        let of = |fs_guid| table.of(1, fs_guid).map(|found| found.map(|share| share.fs_guid));
        assert_eq!(of(5), Ok(Some(5)), "a share requires no device of its own");
        assert_eq!(of(70), Err(Status::JUKEBOX));
        assert_eq!(of(71), Err(Status::JUKEBOX));
        flaky.0.store(false, Ordering::SeqCst);
        assert_eq!(of(70), Ok(Some(5)));
        assert_eq!(of(71), Ok(None));
        flaky.0.store(true, Ordering::SeqCst);
        assert_eq!((of(70), of(71)), (Ok(Some(5)), Ok(None)), "both are known now");
    }
}
