//! Attaches a device to others: `zpool attach` creates a mirror or widens one, `zpool replace`
//! attaches a new device to the one that it replaces, until a resilver has filled it.
//!
//! ```text
//!   txg n:   label of txg 0 on the new device ─> configuration, objects, DTL of all txgs up to n + 2 ─> labels, uberblock
//!   later:   a resilver empties the DTL ─> `detach` detaches the old device
//! ```
//! Facts: spa_vdev_attach (module/zfs/spa.c).
//!
//! Invariants:
//!   * no data written before the new device joined is read from it: its DTL contains all earlier
//!     txgs
//!   * every refusal comes before anything is written

use super::create::FIRST_TXG;
use super::scan;
use super::shape;
use super::tree::{self, known};
use super::tx::SyncTx;
use super::vdevs::{self, ByGuid};
use super::{Shared, Writer};
use crate::config::VdevConfig;
use crate::import::build::REPLACED_BY_NAMESAKE;
use block::vdev::{Kind, Leaf, Tree};
use block::zevent::class;
use errors::{Error, Result};
use host::device::Device;
use ondisk::label::{END_BYTES, START_BYTES, usable_bytes};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;
use std::sync::Arc;

/// Number of txgs in flight (`TXG_CONCURRENT_STATES`): their blocks may be written by threads that
/// do not know the new device.
pub(super) const TXGS_UNDER_WAY: u64 = 3;

/// A device that is to be attached.
#[derive(Clone)]
pub struct NewLeaf {
    /// `disk` or `file`, or `dspare`.
    pub kind: &'static str,
    pub path: String,
    /// The device, open for writing. A distributed spare has none.
    pub device: Option<Arc<dyn Device>>,
    /// log2 of its smallest write unit in bytes.
    pub ashift: u8,
    /// Guid, if it is one of the pool's hot spares.
    pub spare: Option<u64>,
    /// Fill it by a sequential rebuild, in the order of addresses and without reading block
    /// pointers. A scrub follows.
    pub sequentially: bool,
}

/// How a device is attached to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joins {
    /// Both stay.
    Attach,
    /// The new device replaces the other, or, if it is a spare, stands in for it.
    Replace,
}

impl Writer {
    /// Attaches `new` to the device `to`. It is filled by a resilver, which is requested, or by a
    /// rebuild; it becomes another child of a raidz (`expand`).
    pub fn attach(&self, to: u64, new: NewLeaf, how: Joins) -> Result<()> {
        self.task(move |cx| {
            cx.shared.refuse_with_checkpoint()?;
            cx.shared.refuse_while_removing()?;
            check_resilvers(cx, &new)?;
            let is_raidz = cx.shared.root.lock().find(to).is_some_and(|c| c.kind == "raidz");
            match is_raidz && how == Joins::Attach && !new.sequentially {
                true => super::expand::widen(cx, to, &new),
                false => attach(cx, to, &new, how),
            }
        })
    }
}

fn attach(cx: &SyncTx<'_>, to: u64, new: &NewLeaf, how: Joins) -> Result<()> {
    let shared = cx.shared;
    let mut root = shared.root.lock().clone();
    if new.sequentially {
        check_sequential(cx, root.top_of(to).ok_or_else(no_device)?, new, how)?;
    }
    let kind = check(shared, &root, to, new, how)?;
    let vdev = root.top_of(to).ok_or_else(no_device)?.id;
    let tree = cx.store().tree();
    let mut leaves = known(&tree);

    let guid = new.spare.unwrap_or_else(vdevs::new_guid);
    let mut joining = leaf_config(new, guid, cx.txg());
    if let Some(place) = spare_place(&tree, guid) {
        joining.all.put(config::TOP_GUID, place.0);
        joining.all.put(config::SPARE_ID, place.1);
    }
    let old = root.find_mut(to).ok_or_else(no_device)?;
    if let Some(txg) = old.all.get_u64(config::CREATE_TXG) {
        joining.all.put(config::CREATE_TXG, txg);
    }
    let mut old_path = old.path.clone().unwrap_or_default();
    if how == Joins::Replace && old_path == new.path {
        // The old device must not be mistaken for the new one.
        old_path.push_str(REPLACED_BY_NAMESAKE);
        old.set_path(&old_path);
        old.all.remove(config::DEVID);
    }
    let above = match root.parent(to) {
        Some(parent) if parent.kind == kind => parent.guid,
        _ => shape::add_parent(&mut root, to, kind).ok_or_else(no_device)?,
    };
    let parent = root.find_mut(above).ok_or_else(no_device)?;
    joining.set_id(parent.children.len() as u64);
    parent.children.push(joining);

    // A power failure leaves at most a label of txg 0, which belongs to no pool.
    let identity = shared.identity.lock().clone();
    let top = root.top_of(guid).ok_or_else(no_device)?;
    let leaf = match &new.device {
        Some(device) => {
            vdevs::initialize_leaf(&identity, root.guid, top, guid, &ByGuid::from([(guid, device.clone())]))?;
            Leaf::present(guid, device.clone())
        }
        None => Leaf::distributed(guid, new.path.clone()),
    };
    leaf.note_missed(FIRST_TXG, cx.txg() + TXGS_UNDER_WAY - 1);
    leaves.insert(guid, leaf);
    cx.all_or_nothing(|| {
        vdevs::make_zaps(cx, &mut root, &|_| None)?;
        tree::commit(cx, root, &leaves)?;
        let (verb, word) = match (how, new.spare) {
            (Joins::Attach, _) => ("attach", "to"),
            (Joins::Replace, None) => ("replace", "for"),
            (Joins::Replace, Some(_)) => ("spare in", "for"),
        };
        cx.history("vdev attach", None, &format!("{verb} vdev={} {word} vdev={old_path}", new.path))?;
        if new.sequentially { scan::rebuild::begin(cx, vdev) } else { Ok(()) }
    })?;
    let boots = cx.pool_number("bootfs")?.is_some_and(|dataset| dataset != 0);
    if let Some(leaf) = cx.store().tree().logs().into_iter().find(|leaf| leaf.guid == guid) {
        let events = [(new.spare.is_some(), class::VDEV_SPARE), (boots, class::BOOTFS_VDEV_ATTACH)];
        events.iter().filter(|(holds, _)| *holds).for_each(|(_, class)| shared.report_leaf(class, leaf));
        shared.report_leaf(class::VDEV_ATTACH, leaf);
    }
    if !new.sequentially {
        shared.scan.resilver_wanted();
    }
    Ok(())
}

/// Refuses a second kind of resilver at the same time.
fn check_resilvers(cx: &SyncTx<'_>, new: &NewLeaf) -> Result<()> {
    let refuse = |what: &str| Err(Error::invalid(new.path.as_str(), what));
    match new.sequentially {
        true if cx.shared.is_resilvering() => refuse("currently resilvering"),
        false if cx.shared.is_rebuilding() => refuse("currently sequentially resilvering"),
        _ => Ok(()),
    }
}

/// Checks whether devices below `top` can be rebuilt sequentially.
fn check_sequential(cx: &SyncTx<'_>, top: &VdevConfig, new: &NewLeaf, how: Joins) -> Result<()> {
    let refuse = |what: &str| Err(Error::invalid(new.path.as_str(), what));
    let is_enabled = cx.feature_enabled("device_rebuild");
    match (top.kind.as_str(), how) {
        ("raidz", Joins::Attach) => {
            refuse("raidz_expansion feature must be enabled in order to attach a device to raidz")
        }
        (_, Joins::Attach) if !is_enabled => {
            refuse("device_rebuild feature must be enabled in order to use sequential reconstruction")
        }
        ("raidz", _) => refuse(ONLY_SOME),
        (_, Joins::Replace) if !is_enabled => refuse(ONLY_SOME),
        _ => Ok(()),
    }
}

/// OpenZFS's message for devices that cannot be rebuilt sequentially.
const ONLY_SOME: &str = "only mirror and dRAID vdevs support sequential reconstruction";

fn no_device() -> Error {
    Error::invalid("", "no such device in pool")
}

/// Refuses invalid combinations. Returns the kind of the parent of both devices.
fn check(shared: &Shared, root: &VdevConfig, to: u64, new: &NewLeaf, how: Joins) -> Result<&'static str> {
    let refuse = |what: &str| Err(Error::invalid(new.path.as_str(), what));
    let old = root.find(to).ok_or_else(no_device)?;
    let (parent, top) = (root.parent(to).ok_or_else(no_device)?, root.top_of(to).ok_or_else(no_device)?);
    let is_spare = |c: &VdevConfig| c.number(config::IS_SPARE) != 0;
    if !old.is_leaf() {
        return refuse(match how {
            Joins::Attach => "can only attach to mirrors and top-level disks",
            Joins::Replace => BUSY_REPLACING,
        });
    }
    let is_set_apart = top.number(config::IS_LOG) != 0
        || shared.allocator.class_of(top.id as u32).is_some_and(|class| class != block::Class::Normal);
    if is_set_apart && new.spare.is_some() {
        return refuse(match top.number(config::IS_LOG) {
            0 => BUSY_REPLACING,
            _ => "cannot replace a log with a spare",
        });
    }
    let kind = match (how, new.spare) {
        (Joins::Attach, _) if !matches!(parent.kind.as_str(), "mirror" | "root") => {
            return refuse("can only attach to mirrors and top-level disks");
        }
        (Joins::Attach, _) => "mirror",
        (Joins::Replace, _) if parent.kind == "spare" && new.spare.is_some() != is_spare(old) => {
            return refuse(match is_spare(old) {
                true => "can only be replaced by another hot spare",
                false => BUSY_REPLACING,
            });
        }
        (Joins::Replace, Some(_)) => "spare",
        (Joins::Replace, None) => "replacing",
    };
    if let Some(guid) = new.spare {
        let place = spare_place(&shared.store.tree(), guid);
        let is_it = match &new.device {
            Some(device) => {
                block::label::read(device.as_ref(), false).configs().any(|c| c.get_u64(config::GUID) == Some(guid))
            }
            None => place.is_some(),
        };
        if root.find(guid).is_some() || !is_it {
            return refuse(&format!("{} is busy", new.path));
        }
        if place.is_some_and(|(draid, _)| draid != top.guid) {
            return refuse(match new.sequentially {
                true => ONLY_SOME,
                false => "dRAID spares can only replace child devices in their parent's dRAID vdev",
            });
        }
    }
    check_fits(new, top)?;
    Ok(kind)
}

/// Guid of the draid of a distributed spare, and the number of the spare in it.
fn spare_place(tree: &Tree, guid: u64) -> Option<(u64, u64)> {
    let spare = tree.spares.iter().find(|spare| spare.guid == guid)?;
    let Kind::DraidSpare { top, spare, .. } = &spare.kind else { return None };
    Some((tree.tops.get(*top as usize)?.guid, *spare))
}

/// Refuses a device that is too small to become a child of a top-level device, or has larger
/// sectors.
pub(super) fn check_fits(new: &NewLeaf, top: &VdevConfig) -> Result<()> {
    let refuse = |what: &str| Err(Error::invalid(new.path.as_str(), what));
    // A distributed spare is as large as any other child.
    let Some(device) = &new.device else { return Ok(()) };
    let bytes = usable_bytes(device.size_bytes()).saturating_sub(START_BYTES + END_BYTES);
    if bytes < needed_bytes(top) {
        return refuse("device is too small");
    }
    if u64::from(new.ashift) > top.number(config::ASHIFT) {
        return refuse("The new device cannot have a higher alignment requirement than the top-level vdev.");
    }
    Ok(())
}

/// OpenZFS's message for devices that cannot be replaced now.
const BUSY_REPLACING: &str = "already in replacing/spare config; wait for completion or use 'zpool detach'";

/// Allocatable bytes that a leaf below `top` must have: its share of all metaslabs
/// (`vdev_get_min_asize`).
fn needed_bytes(top: &VdevConfig) -> u64 {
    let shift = top.number(config::METASLAB_SHIFT).min(63);
    let all = top.number(config::ASIZE) >> shift << shift;
    match top.kind.as_str() {
        "raidz" => all.div_ceil(top.children.len().max(1) as u64),
        // Rows of 16 MiB are spread over the children; the configured size is a multiple of a row.
        "draid" => {
            let spares = top.number(config::DRAID_NSPARES) as usize;
            let data = top.children.len().saturating_sub(spares).max(1) as u64;
            all.div_ceil(data).next_multiple_of(16 << 20)
        }
        _ => all,
    }
}

pub(super) fn leaf_config(new: &NewLeaf, guid: u64, txg: u64) -> VdevConfig {
    let mut all = Nvlist::new();
    all.put(config::TYPE, new.kind);
    all.put(config::ID, 0u64);
    all.put(config::GUID, guid);
    all.put(config::PATH, new.path.as_str());
    if new.kind == "disk" {
        all.put(config::WHOLE_DISK, 0u64);
    }
    if new.spare.is_some() {
        all.put(config::IS_SPARE, 1u64);
    }
    all.put(if new.sequentially { config::REBUILD_TXG } else { config::RESILVER_TXG }, txg);
    VdevConfig { kind: new.kind.into(), id: 0, guid, path: Some(new.path.clone()), all, children: Vec::new() }
}
