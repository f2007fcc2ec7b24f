//! NFSv4.0, 4.1 and the parts of 4.2 that clients use.
//!
//! ```text
//!   Registry ─> Server ─> compound ─> ops ─┬─ place ── pseudo tree, shares ─> dyn Vfs
//!                                          ├─ attr ─── fattr4
//!                                          └─ state ── clients, sessions, opens, locks; pure
//! ```
//!
//! RFC 7530, 7531 (4.0), 8881, 5662 (4.1), 7862, 7863 (4.2), 8275 (umask), 8276 (extended
//! attributes). Delegations, layouts and callbacks are not supported: the server never calls a
//! client, so clients need not be reachable.

mod attr;
mod bitmap;
mod compound;
mod names;
mod node;
mod op;
mod ops;
mod place;
mod program;
mod pseudo;
mod recovery;
mod rights;
mod state;
mod status;
mod waits;

pub use recovery::{ClientRecords, FolderRecords, NoRecords};

use super::core::{self, Core};
use super::exports::{Share, Table};
use super::rpc::Call;
use files::vfs::{FileHandle, Time, Vfs};
use node::{Granted, KeptOpen};
use parking_lot::{Mutex, RwLock};
use pseudo::PseudoTree;
use state::{Chore, Limits, Start, State};
use status::{Result, Status};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of cached file system roots. Above it, the cache is cleared.
const ROOTS_MAX: usize = 1 << 16;

/// Configuration of version 4.
#[derive(Debug, Clone)]
pub struct Config {
    /// Lease: how long a silent client keeps its state, and how long clients may reclaim after a
    /// restart.
    pub lease_seconds: u32,
    /// Identifies this server permanently, independent of its addresses.
    pub server_id: Vec<u8>,
    /// Which of 4.0, 4.1 and 4.2 are enabled.
    pub minor_versions: [bool; 3],
}

/// Version 4 of the NFS program. One lock protects the state of all clients.
pub struct Server {
    core: Arc<Core>,
    config: Config,
    state: Mutex<State>,
    records: Arc<dyn ClientRecords>,
    started: Time,
    clock: Instant,
    tree: RwLock<Option<Known>>,
    /// Object numbers of file system roots.
    roots: RwLock<HashMap<u64, u64>>,
}

/// A table of shares with the pseudo tree built from it.
struct Known {
    table: Arc<Table>,
    tree: Arc<PseudoTree>,
}

impl Server {
    /// Creates a server. The clients in `records` may reclaim their state for the length of one
    /// lease.
    pub fn new(core: Arc<Core>, config: Config, records: Arc<dyn ClientRecords>) -> Self {
        let may_reclaim: HashSet<_> = records.load().into_iter().collect();
        core.grace.wait_for_v4(!may_reclaim.is_empty());
        let now = Time::now();
        let start = Start {
            // Unique per run: two runs that start within one millisecond cannot both have had
            // clients.
            epoch: (now.seconds as u64).wrapping_mul(1000).wrapping_add(u64::from(now.nanoseconds) / 1_000_000) as u32,
            lease_ms: u64::from(config.lease_seconds) * 1000,
            may_reclaim,
            limits: Limits::default(),
            session_key: host::random::bytes(),
        };
        Self {
            state: Mutex::new(State::new(start, core.locks.clone())),
            core,
            config,
            records,
            started: now,
            clock: Instant::now(),
            tree: RwLock::new(None),
            roots: RwLock::default(),
        }
    }

    /// Numbers of clients, sessions, and stateids.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.state.lock().counts()
    }

    /// Runs `ask` on the state, then performs the resulting chores before the answer is sent.
    fn with<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        let now = u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (answer, (chores, released)) = {
            let mut state = self.state.lock();
            state.wait_for_v3(self.core.grace.is_v3());
            state.tick(now);
            let answer = ask(&mut state);
            self.core.grace.wait_for_v4(state.in_grace());
            (answer, state.take_chores())
        };
        for chore in chores {
            match chore {
                Chore::Record(name) => self.records.add(&name),
                Chore::Forget(name) => self.records.remove(&name),
                Chore::Refuse(table) => self.core.figures.refuse(table),
            }
        }
        drop(released);
        answer
    }

    /// Reloads the shares and releases those that are gone, including files that clients have open
    /// in pools of which nothing is shared any more.
    pub fn refresh(&self) {
        let (table, _) = self.tree();
        let pools: HashSet<u64> = table.shares().iter().map(|share| share.pool_guid).collect();
        let is_gone = |kept: &KeptOpen| !pools.contains(&kept.pool_guid);
        self.with(|state| state.release_opens(|held| held.downcast_ref().is_some_and(is_gone)));
    }

    /// The current shares, and the pseudo tree above them.
    fn tree(&self) -> (Arc<Table>, Arc<PseudoTree>) {
        let table = self.core.table();
        if let Some(known) = &*self.tree.read()
            && Arc::ptr_eq(&known.table, &table)
        {
            return (table, known.tree.clone());
        }
        let mut known = self.tree.write();
        let version = known.as_ref().map_or(1, |k| k.tree.version + 1);
        let tree = Arc::new(PseudoTree::new(table.shares().iter().map(|s| s.path.as_bytes()), version));
        *known = Some(Known { table: table.clone(), tree: tree.clone() });
        (table, tree)
    }

    /// What the caller may do in a share.
    fn grant(&self, share: &Share, call: &Call<'_>) -> Result<Granted> {
        let granted = self.core.exports.granted(share, call.peer.address).ok_or(Status::ACCESS)?;
        let who = core::caller(&call.header.credential, share, granted).map_err(|_| Status::WRONGSEC)?;
        Ok(Granted { who, read_only: granted.read_only, is_async: share.options.is_async })
    }

    /// Object number of a file system's root.
    fn root_number(&self, vfs: &dyn Vfs, fs_guid: u64) -> Option<u64> {
        if let Some(object) = self.roots.read().get(&fs_guid) {
            return Some(*object);
        }
        let root = vfs.by_handle(&FileHandle::root_of(fs_guid)).ok()?;
        let object = vfs.handle(root.node).ok()?.object;
        let mut roots = self.roots.write();
        if roots.len() >= ROOTS_MAX {
            roots.clear();
        }
        roots.insert(fs_guid, object);
        Some(object)
    }
}
