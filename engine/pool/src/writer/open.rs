//! Opens a pool that was found for writing.
//!
//! Invariants:
//!   * every device is locked before the state of the pool is read: that state is the one that is
//!     written on
//!   * a pool with a feature that cannot be kept consistent is refused here, by name, before
//!     anything is written

use super::accounting::Accounting;
use super::background_state::BackgroundState;
use super::config::{ACTIVE, Identity};
use super::deflate::Deflate;
use super::features::LiveFeatures;
use super::live_config::LiveConfig;
use super::spa::{Shared, Txgs, WriteOptions, Writer};
use super::version::copies_max;
use super::view_cache::Views;
use super::writable::check;
use crate::checkpoint::{Discarding, wind_back};
use crate::clones::Clones;
use crate::config::VdevConfig;
use crate::dedup::Dedup;
use crate::expansion::Expansion;
use crate::import::search::{self, FoundDevice, FoundPool};
use crate::mmp::{self, Activity, Heartbeats, Unchanged};
use crate::removal::{Evacuation, inform_allocator, remove_stale_entries};
use crate::scan::live::Scans;
use crate::space::Allocator;
use crate::txg::gate::Gate;
use crate::{OpenOptions, Pool};
use block::WriteStore;
use errors::{Error, Refusal, Result};
use host::device::{Device, FileDevice};
use host::sync::Mutex;
use object::ObjectSet;
use ondisk::ObjsetKind;
use ondisk::pool_dir::config;
use std::path::Path;
use std::sync::Arc;

impl Writer {
    /// Opens a pool that a search found for writing: locks its devices, reads its current state,
    /// and takes it over for this host in the next txg.
    pub fn open(found: &FoundPool, open: &OpenOptions, options: &WriteOptions) -> Result<Arc<Self>> {
        let found = for_writing(found)?;
        let (hostid, hostname) = options.this_host();
        take_from_others(&found, hostid, open.unchanged)?;
        let pool = Pool::open(&found, open)?;
        let is_multihost = pool.is_on("multihost")?;
        if is_multihost && hostid == 0 {
            return Err(Refusal::NoHostId.at(pool.name()));
        }
        if open.checkpoint {
            wind_back(&pool)?;
        }
        let wound_back = open.checkpoint.then(|| pool.uberblock().checkpoint_txg);
        let writer = Self::of(pool, options, options.dirty_bytes(open.cache_bytes))?;
        {
            let mut identity = writer.shared.config.identity.lock();
            identity.state = ACTIVE;
            (identity.hostid, identity.hostname) = (hostid, hostname);
            if let Some(name) = &open.name {
                identity.name.clone_from(name);
                if !open.temporary_name {
                    identity.label_name.clone_from(name);
                }
            }
        }
        // The labels of a pool that was just created name this host.
        if open.created.is_none() {
            writer.shared.config.mark_dirty();
        }
        if is_multihost {
            // Other hosts know from now on that the pool is in use here.
            writer.sync()?;
        }
        if let Some(txg) = wound_back {
            writer.task(move |cx| cx.history("checkpoint rewind", None, &format!("rewound state to txg={txg}")))?;
        }
        if let Err(error) = writer.task_later(remove_stale_entries) {
            tracing::warn!(pool = writer.name(), %error, "the ZAPs of removed devices stay as they are");
        }
        // Disks may have become larger while the pool was exported.
        if let Err(error) = writer.autoexpand() {
            tracing::warn!(pool = writer.name(), %error, "devices that are larger than before are used as they were");
        }
        Ok(writer)
    }

    fn of(pool: Arc<Pool>, options: &WriteOptions, dirty_bytes: u64) -> Result<Arc<Self>> {
        Self::of_with(pool, options, dirty_bytes, |_| ())
    }

    /// The same; `prepare` runs before the first txg.
    pub(crate) fn of_with(
        pool: Arc<Pool>,
        options: &WriteOptions,
        dirty_bytes: u64,
        prepare: impl FnOnce(&Shared),
    ) -> Result<Arc<Self>> {
        check(&pool)?;
        let uberblock = pool.uberblock().clone();
        super::caches::open(pool.store());
        let allocator = Allocator::load(&pool)?;
        inform_allocator(&pool, &allocator)?;
        let store = WriteStore::new(pool.store().clone(), allocator.clone());
        allocator.publish_units(&store);
        store.set_hole_births(pool.features().is_active("com.delphix:hole_birth"));
        store.set_copies_max(copies_max(pool.version()));
        let mos = ObjectSet::open_live(&store, Some(&uberblock.root), 0, None, ObjsetKind::Meta)?;
        let deflate = Arc::new(Deflate::new(pool.deflate_ratios()));
        let clones = Clones::load(&pool, &mos, {
            let deflate = deflate.clone();
            move |bp| deflate.space_bytes(bp)
        })?;
        store.set_references(clones.clone());
        let dedup = Dedup::load(&pool, &mos, {
            let deflate = deflate.clone();
            move |bp| deflate.space_bytes(bp)
        })?;
        store.set_duplicates(dedup.clone());
        let background = BackgroundState {
            scan: Scans::load(&pool)?,
            expansion: Expansion::load(&pool)?,
            evacuation: Evacuation::load(&pool)?,
            discarding: Discarding::load(&pool)?,
            heartbeats: Heartbeats::new(pool.is_on("multihost")?, &uberblock),
            ..BackgroundState::default()
        };
        let synced = uberblock.txg.0;
        let claimed = match options.claim_logs {
            Some(claim) => claim(&pool, &store, synced + 1)?,
            None => None,
        };
        let gate = Gate::new(synced + 1, store.waiting_bytes().clone(), dirty_bytes);
        let shared = Shared {
            txgs: Txgs::new(synced, gate, claimed.iter().cloned().collect()),
            mos,
            allocator,
            features: LiveFeatures::new(pool.features().clone()),
            config: LiveConfig::new(
                Identity::of(pool.config(), pool.name()),
                with_parity(pool.root_vdev().clone()),
                uberblock,
            ),
            accounting: Accounting::new(deflate, clones, dedup),
            background,
            farewells: Mutex::default(),
            views: Views::new(Some(pool)),
            states: Default::default(),
            options: options.clone(),
            store,
        };
        prepare(&shared);
        let writer = Self::start(Arc::new(shared))?;
        if let Some(claimed) = claimed {
            // Afterwards, opening a dataset finds the log that was claimed.
            writer.sync()?;
            writer.unregister(&claimed);
        }
        Ok(writer)
    }
}

/// The device tree with the parity of each raidz. Before pool version 3 it is always 1, and not
/// stored; OpenZFS refuses newer pools without it.
fn with_parity(mut root: VdevConfig) -> VdevConfig {
    for top in root.children.iter_mut().filter(|top| top.kind == "raidz") {
        if top.all.get_u64(config::NPARITY).is_none() {
            top.all.put(config::NPARITY, 1u64);
        }
    }
    root
}

/// Waits until it is certain that no other host uses the pool, if its labels require that, and
/// claims it. `before`: what an earlier wait found.
fn take_from_others(found: &FoundPool, hostid: u64, before: Option<Unchanged>) -> Result<()> {
    let unchanged = match mmp::check(found, hostid, before, &|| false)? {
        Activity::NotRequired => before,
        Activity::None(unchanged) => Some(unchanged),
        Activity::Active(_) => return Err(Refusal::ImportedElsewhere.at(found.name())),
        Activity::NoHostId => return Err(Refusal::NoHostId.at(found.name())),
    };
    mmp::claim(found, hostid, unchanged)
}

/// The same pool with its devices opened for writing, and locked. Labels are re-read under the
/// lock.
fn for_writing(found: &FoundPool) -> Result<FoundPool> {
    let devices = host::work::each(found.devices.len(), |number| reopen(&found.devices[number]));
    let devices = devices.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(FoundPool { devices, ..found.clone() })
}

fn reopen(found: &FoundDevice) -> Result<FoundDevice> {
    let name = found.device.name().to_owned();
    if found.device.is_writable() {
        return Ok(found.clone());
    }
    let device: Arc<dyn Device> = match FileDevice::open_for_writing(Path::new(&name)) {
        Ok(device) => Arc::new(device),
        Err(e) if matches!(e.kind(), std::io::ErrorKind::ResourceBusy | std::io::ErrorKind::WouldBlock) => {
            return Err(Refusal::Busy.at(name));
        }
        // A partition inside a disk, which the system may know under a name of its own. Only whole
        // devices are locked so far.
        Err(_) if name.contains('#') => {
            return Err(Error::unsupported(
                name,
                "writing to a partition found inside a disk: use the partition's own path",
            ));
        }
        Err(e) => return Err(Error::io(name, e)),
    };
    let labels = block::label::read(device.as_ref(), true);
    let newest = search::newest(&labels);
    match newest {
        Some(config) if config.get_u64(config::GUID) == Some(found.guid) => {
            Ok(FoundDevice { device, labels, guid: found.guid, config })
        }
        _ => Err(Error::corrupt(name, "its labels changed while it was being opened")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::nvlist::Nvlist;

    #[test]
    fn a_raidz_from_before_version_3_gets_the_parity_that_newer_pools_must_have() {
        let vdev = |kind: &str, parity: Option<u64>| {
            let mut all = Nvlist::new();
            parity.into_iter().for_each(|parity| all.put(config::NPARITY, parity));
            VdevConfig { kind: kind.into(), id: 0, guid: 1, path: None, all, children: Vec::new() }
        };
        let tops = vec![vdev("raidz", None), vdev("raidz", Some(2)), vdev("mirror", None)];
        let root = with_parity(VdevConfig { children: tops, ..vdev("root", None) });
        let found: Vec<_> = root.children.iter().map(|top| top.all.get_u64(config::NPARITY)).collect();
        assert_eq!(found, [Some(1), Some(2), None]);
    }
}
