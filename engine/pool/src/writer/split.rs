//! Makes one side of each mirror a pool of its own: `zpool split`.
//!
//! ```text
//!   intent logs emptied, log devices take no blocks ─> between two txgs: the sides to split off are flushed and closed
//!     ─> the same state is opened on them alone, with another name and guid, which its first txg writes ─> exported
//!     ─> in the pool's next txg they are no longer among its devices
//! ```
//! Facts: spa_vdev_split_mirror (module/zfs/spa.c), zpool_vdev_split (lib/libzfs/libzfs_pool.c).
//!
//! Invariants:
//!   * the sides to split off contain the same txg, and the pool writes nothing to them after it
//!   * nothing is written to them that combines the pool's guid with a txg that the pool does not
//!     know: after a power failure they belong to the new pool, or are sides of the old one that
//!     are current or have stale data

use super::detach::{free_objects, take_out};
use super::maps::free_maps;
use super::remove::hole;
use super::shape;
use super::spa::SyncTx;
use super::tree::{self, is_required, known};
use super::vdevs::{self, List};
use super::{Shared, WriteOptions, Writer};
use crate::config::VdevConfig;
use crate::import::search::search_devices;
use crate::{OpenOptions, Pool};
use block::vdev::{Aux, Leaf, Tree};
use errors::{Error, Result};
use host::device::Device;
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;
use std::sync::Arc;

/// Cache size of the new pool, which is exported at once.
const CACHE_BYTES: u64 = 16 << 20;
/// After this many txgs, no block of a log device is in use.
const TXGS: usize = 4;

const NO_MIRRORS: &str = "Source pool must be composed only of mirrors\n";
const NOT_ONE_EACH: &str = "Device list must include at most one disk from each mirror";
const INVALID: &str = "Invalid argument";
const BUSY: &str = "pool is busy";

/// Opens the device at a path for writing.
pub type OwnedOpener = Arc<dyn Fn(&str) -> Result<Arc<dyn Device>> + Send + Sync>;

impl Writer {
    /// Guids of the leaves that a split takes: of each mirror the one in `named`, or else the last.
    pub fn plan_split(&self, named: &[u64]) -> Result<Vec<u64>> {
        plan(&self.shared.config.root.lock(), named).map_err(|what| Error::invalid(self.name(), what))
    }

    /// Creates an exported pool called `name` from one side of each mirror: those in `named`, or
    /// else the last ones. `empty_logs` empties the intent logs of all datasets.
    pub fn split(
        &self,
        name: &str,
        named: &[u64],
        open: OwnedOpener,
        empty_logs: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let shared = &self.shared;
        shared.refuse_with_checkpoint()?;
        shared.refuse_while_removing()?;
        let going = self.plan_split(named)?;
        check(shared, &going)?;
        let logs: Vec<u32> = shared.store.tree().tops.iter().map(|top| top.id as u32).collect();
        let logs: Vec<u32> = logs.into_iter().filter(|id| shared.is_log(u64::from(*id))).collect();
        logs.iter().for_each(|id| shared.allocator.set_allocating(*id, false));
        let (name, named) = (name.to_owned(), named.to_vec());
        let split = empty_logs()
            .and_then(|()| (0..TXGS).try_for_each(|_| self.task(|_| Ok(()))))
            .and_then(|()| shared.task_among(&shared.txgs.early_jobs, move |cx| split(cx, &name, &named, &open)));
        logs.iter().for_each(|id| shared.allocator.set_allocating(*id, true));
        split
    }
}

fn is_log(top: &VdevConfig) -> bool {
    top.number(config::IS_LOG) != 0
}

fn plan(root: &VdevConfig, named: &[u64]) -> std::result::Result<Vec<u64>, &'static str> {
    let (mut going, mut found) = (Vec::new(), 0);
    for top in root.children.iter().filter(|top| !is_log(top)) {
        match (top.kind.as_str(), top.children.last()) {
            ("hole" | "indirect", _) => {}
            ("mirror", Some(last)) => {
                let chosen = top.children.iter().find(|child| named.contains(&child.guid));
                found += usize::from(chosen.is_some());
                going.push(chosen.unwrap_or(last).guid);
            }
            _ => return Err(NO_MIRRORS),
        }
    }
    if found != named.len() { Err(NOT_ONE_EACH) } else { Ok(going) }
}

/// Refuses sides that have stale data, or that the pool needs.
fn check(shared: &Shared, going: &[u64]) -> Result<()> {
    let tree = shared.store.tree();
    for guid in going {
        let refuse = |what: &str| Err(Error::invalid(shared.store.name(), what));
        let Some(top) = tree.tops.iter().find(|top| top.find(*guid).is_some()) else { return refuse(INVALID) };
        let leaf = top.find(*guid).and_then(|vdev| vdev.leaf());
        match leaf {
            Some(leaf) if leaf.is_open() && !leaf.has_failed() => {
                if is_required(top, *guid) || !leaf.stale_ranges().is_empty() {
                    return refuse(BUSY);
                }
            }
            _ => return refuse(INVALID),
        }
    }
    Ok(())
}

fn split(cx: &SyncTx<'_>, name: &str, named: &[u64], open: &OwnedOpener) -> Result<()> {
    let shared = cx.shared;
    let root = shared.config.root.lock().clone();
    let going = plan(&root, named).map_err(|what| Error::invalid(shared.store.name(), what))?;
    check(shared, &going)?;
    let tree = cx.store().tree();
    let leaves: Vec<Leaf> = tree.leaves().into_iter().filter(|leaf| going.contains(&leaf.guid)).cloned().collect();
    leaves.iter().for_each(|leaf| leaf.close(Aux::Offline));
    if let Err(error) = make(cx, name, &root, &going, &leaves, open) {
        for leaf in &leaves {
            match open(&leaf.path) {
                Ok(device) => leaf.open(device),
                Err(error) => tracing::warn!(device = leaf.path, %error, "cannot be opened again"),
            }
        }
        // Overwrites any changes to its labels.
        cx.config_changed();
        return Err(error);
    }
    cx.all_or_nothing(|| going.iter().try_for_each(|guid| take_out(cx, *guid)))
}

/// Creates the new pool and exports it.
fn make(
    cx: &SyncTx<'_>,
    name: &str,
    root: &VdevConfig,
    going: &[u64],
    leaves: &[Leaf],
    open: &OwnedOpener,
) -> Result<()> {
    let shared = cx.shared;
    let devices = leaves.iter().map(|leaf| open(&leaf.path)).collect::<Result<Vec<_>>>()?;
    let found = search_devices(devices).pools.into_iter().find(|found| found.guid == root.guid);
    let found =
        found.ok_or_else(|| Error::corrupt(shared.store.name(), "the labels of the devices are another pool's"))?;
    let offline = root.leaves().iter().map(|leaf| leaf.guid).filter(|guid| !going.contains(guid)).collect();
    let options =
        OpenOptions { cache_bytes: CACHE_BYTES, name: Some(name.to_owned()), offline, ..OpenOptions::default() };
    let pool = Pool::open(&found, &options)?;
    let synced = shared.config.uberblock.lock().txg;
    if pool.uberblock().txg != synced {
        let what = format!("the devices are at txg {}, the pool is at {synced}", pool.uberblock().txg);
        return Err(Error::corrupt(shared.store.name(), what));
    }
    let (name, from) = (name.to_owned(), shared.config.identity.lock().clone());
    let guid = vdevs::new_guid();
    let new_root = new_root(root, guid, going);
    let going = going.to_vec();
    let write = WriteOptions { ..shared.options.clone() };
    let writer = Writer::of_with(pool, &write, write.dirty_bytes(CACHE_BYTES), move |new| {
        {
            let mut identity = new.config.identity.lock();
            (identity.name, identity.label_name) = (name.clone(), name);
            identity.guid = guid;
            (identity.hostid, identity.hostname) = (from.hostid, from.hostname.clone());
        }
        let job = move |cx: &SyncTx<'_>| {
            // A failure here aborts the txg.
            let _ = cx.all_or_nothing(|| become_pool(cx, new_root, &going, &from.name));
        };
        new.txgs.early_jobs.lock().push(Box::new(job));
    })?;
    writer.sync()?;
    writer.export()
}

/// The root of the new pool: its top-level devices are the sides of the mirrors. Logs become holes,
/// except at the end.
fn new_root(root: &VdevConfig, guid: u64, going: &[u64]) -> VdevConfig {
    let mut new = VdevConfig { children: Vec::new(), ..root.clone() };
    new.set_guid(guid);
    for top in &root.children {
        new.children.push(match top.kind.as_str() {
            "indirect" => top.clone(),
            "mirror" if !is_log(top) => shape::side_alone(top, going),
            _ => hole(top.id),
        });
    }
    while new.children.last().is_some_and(|top| top.kind == "hole") {
        new.children.pop();
    }
    new
}

/// Runs in the first txg of the new pool: keeps only its own devices and their objects.
fn become_pool(cx: &SyncTx<'_>, mut root: VdevConfig, going: &[u64], from: &str) -> Result<()> {
    let shared = cx.shared;
    let old = shared.config.root.lock().clone();
    let tree = cx.store().tree();
    for top in &old.children {
        if is_log(top) {
            if !shared.allocator.is_empty(top.id as u32) {
                return Err(Error::invalid(shared.store.name(), "Mount encrypted datasets to replay logs."));
            }
            free_maps(cx, top)?;
            vdevs::free_zap(cx, top.number(config::VDEV_TOP_ZAP))?;
            shared.allocator.remove_device(top.id as u32);
        }
        for leaf in top.leaves().into_iter().filter(|leaf| leaf.is_leaf() && !going.contains(&leaf.guid)) {
            free_objects(cx, leaf)?;
        }
    }
    for (list, all) in [(List::Spares, &tree.spares), (List::Caches, &tree.caches)] {
        for vdev in all {
            vdevs::unlist_auxiliary(cx, vdev.guid, list)?;
        }
    }
    cx.store().change_tree(|tree| Tree { tops: tree.tops.clone(), ..Tree::default() });
    root.all = keep_root(&old.all, root.guid);
    tree::commit(cx, root, &known(&tree))?;
    shared.allocator.publish_units(&shared.store);
    cx.config_changed();
    cx.history("split", None, &format!("from pool {from}"))
}

/// The root's entries, with another guid.
fn keep_root(all: &Nvlist, guid: u64) -> Nvlist {
    let mut all = all.clone();
    all.put(config::GUID, guid);
    all
}

#[cfg(test)]
mod tests {
    use super::super::shape::tests::device;
    use super::*;

    #[test]
    fn the_last_or_the_named_side_of_each_mirror_is_split_off() {
        let disk = |guid, id| device("file", guid, id, vec![]);
        let mut first = device("mirror", 10, 0, vec![disk(11, 0), disk(12, 1)]);
        first.all.put(config::ASIZE, 99u64);
        let mut log = disk(20, 1);
        log.all.put(config::IS_LOG, 1u64);
        let second = device("mirror", 30, 2, vec![disk(31, 0), disk(32, 1), disk(33, 2)]);
        let mut late = disk(40, 3);
        late.all.put(config::IS_LOG, 1u64);
        let mut root = device("root", 1, 0, vec![first, log, second, late]);
        assert_eq!(plan(&root, &[]), Ok(vec![12, 33]));
        assert_eq!(plan(&root, &[31]), Ok(vec![12, 31]));
        assert_eq!(plan(&root, &[31, 32]), Err(NOT_ONE_EACH));
        assert_eq!(plan(&root, &[20]), Err(NOT_ONE_EACH));
        let new = new_root(&root, 7, &[11, 32]);
        let tops: Vec<_> = new.children.iter().map(|top| (top.kind.as_str(), top.guid, top.id)).collect();
        assert_eq!((new.guid, tops), (7, vec![("file", 11, 0), ("hole", 0, 1), ("file", 32, 2)]));
        assert_eq!(new.children[0].number(config::ASIZE), 99);
        root.children.push(disk(50, 4));
        assert_eq!(plan(&root, &[]), Err(NO_MIRRORS));
    }
}
