//! Adds devices to an open pool (`zpool add`).
//!
//! ```text
//!   txg n:    labels of txg 0 on the new devices ─> their objects, configuration and lists in the MOS ─> labels, uberblock
//!   txg n+1:  the first blocks on them
//! ```
//! Facts: spa_vdev_add (module/zfs/spa.c). OpenZFS creates the metaslabs in a second txg, because
//! other threads may allocate at once; here the allocator knows which devices are new.
//!
//! Invariants:
//!   * no block is on a device that the previous uberblock does not lead to: after a power failure
//!     the pool has none of the new devices, or all of them

use super::spa::SyncTx;
use super::spa::{Shared, Writer};
use super::vdevs::{self, ByGuid, List, NewDevices};
use crate::config::VdevConfig;
use block::vdev::{Tree, Vdev};
use errors::{Error, Place, Refusal, Result};
use ondisk::pool_dir::directory;
use std::sync::Arc;

impl Writer {
    /// Adds devices to the pool. They take blocks from the next txg on; spares and cache devices
    /// are only listed. With `same_ashift`, devices whose sector size differs from that of the pool
    /// are refused, if the pool has only one.
    pub fn add(&self, new: NewDevices, same_ashift: bool) -> Result<()> {
        self.task(move |cx| add(cx, &new, same_ashift))
    }
}

fn add(cx: &SyncTx<'_>, new: &NewDevices, same_ashift: bool) -> Result<()> {
    let shared = cx.shared;
    let place = || shared.store.name().to_owned();
    vdevs::check_classes(new, |name| cx.feature_enabled(name))?;
    vdevs::check_version(new, cx.version()).at_with(place)?;
    if same_ashift {
        check_ashift(shared, new)?;
    }
    let mut root = shared.config.root.lock().clone();
    check_removed(shared, &root, new)?;
    let mut devices = ByGuid::new();
    let first = root.children.len();
    let configs = new
        .tops
        .iter()
        .zip(first as u64..)
        .map(|(top, id)| vdevs::top_config(top, id, cx.txg(), &mut devices))
        .collect::<Result<Vec<_>>>()?;
    let mut spares = vdevs::auxiliary_configs(&new.spares, List::Spares, &mut devices)?;
    let present = shared.store.tree();
    if let Some(known) = spares.iter().find(|spare| present.all_leaves().any(|leaf| leaf.guid == spare.guid)) {
        return Err(Refusal::Busy.at(known.path.clone().unwrap_or_default()));
    }
    let caches = vdevs::auxiliary_configs(&new.caches, List::Caches, &mut devices)?;
    root.children.extend(configs);
    let joining = &root.children[first..];
    let tops = vdevs::build(joining, &root, &devices)?;
    let arc = |configs: &[VdevConfig]| -> Result<Vec<Arc<Vdev>>> {
        Ok(vdevs::build(configs, &root, &devices)?.into_iter().map(Arc::new).collect())
    };
    let distributed = vdevs::distributed_spares(joining);
    let spare_vdevs = arc(&spares)?.into_iter().chain(arc(&distributed)?);
    let cache_vdevs = arc(&caches)?;
    for (spec, (top, device)) in new.tops.iter().zip(joining.iter().zip(&tops)) {
        // Devices that the allocator would refuse are refused before anything is written.
        let known = vdevs::for_allocator(spec, top, device)?;
        if known.asize_bytes >> known.metaslab_shift == 0 {
            return Err(Error::invalid(known.name, "device is too small"));
        }
    }
    let identity = shared.config.identity.lock().clone();
    vdevs::initialize(&identity, root.guid, joining, &devices)?;
    vdevs::initialize_auxiliary(identity.version, &spares, List::Spares, &devices)?;
    // Several pools may have a spare: it is locked by the one that uses it.
    new.spares.iter().for_each(|spare| spare.device.release());
    spares.extend(distributed);
    vdevs::initialize_auxiliary(identity.version, &caches, List::Caches, &devices)?;

    let deflates = cx.directory_entry(directory::DEFLATE)?.is_some_and(|n| n != 0);
    cx.all_or_nothing(|| {
        let class = |id: u64| Some(new.tops.get((id as usize).checked_sub(first)?)?.class);
        vdevs::make_zaps(cx, &mut root, &class)?;
        for (spec, (top, device)) in new.tops.iter().zip(root.children[first..].iter().zip(&tops)) {
            shared.allocator.add_device(&vdevs::for_allocator(spec, top, device)?)?;
            shared.accounting.deflate.push(if deflates { crate::usable::deflate_ratio(top) } else { 512 });
        }
        let joined = root.children[first..].to_vec();
        *shared.config.root.lock() = root;
        vdevs::count_draids(cx, &joined)?;
        vdevs::make_arrays(cx)?;
        vdevs::list_auxiliary(cx, &spares, List::Spares)?;
        vdevs::list_auxiliary(cx, &caches, List::Caches)?;
        shared.store.change_tree(|tree| Tree {
            tops: tree.tops.iter().cloned().chain(tops.into_iter().map(Arc::new)).collect(),
            spares: tree.spares.iter().cloned().chain(spare_vdevs).collect(),
            caches: tree.caches.iter().cloned().chain(cache_vdevs).collect(),
        });
        if shared.store.tree().tops.len() != shared.config.root.lock().children.len() {
            return Err(Error::invalid(place(), "devices and configuration do not go together"));
        }
        shared.allocator.publish_units(&shared.store);
        cx.config_changed();
        Ok(())
    })?;
    shared.report_added();
    Ok(())
}

/// Refuses devices that would keep blocks from being moved, in a pool from which devices were or
/// are being removed.
fn check_removed(shared: &Shared, root: &VdevConfig, new: &NewDevices) -> Result<()> {
    let has_removed = root.children.iter().any(|top| top.kind == "indirect");
    let is_removing = shared.background.evacuation.is_active();
    let has_parity = new.tops.iter().any(|top| matches!(top.kind, "raidz" | "draid"));
    let differs = |ashift| new.tops.iter().any(|top| top.ashift != ashift);
    if (has_removed || is_removing) && has_parity
        || is_removing && shared.allocator.normal_ashifts().into_iter().any(differs)
    {
        let what = "invalid config; a pool with removing/removed vdevs does not support adding raidz or dRAID vdevs";
        return Err(Error::invalid(shared.store.name(), what));
    }
    Ok(())
}

/// Refuses devices whose sector size differs from that of the pool's normal devices, if these have
/// only one.
fn check_ashift(shared: &Shared, new: &NewDevices) -> Result<()> {
    match shared.allocator.normal_ashifts().as_slice() {
        [one] if new.tops.iter().any(|top| top.ashift != *one) => Err(Error::invalid(
            shared.store.name(),
            "adding devices with different physical sector sizes is not allowed",
        )),
        _ => Ok(()),
    }
}
