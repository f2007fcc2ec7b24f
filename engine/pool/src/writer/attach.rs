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

use super::new_leaf::{NewLeaf, TXGS_UNDER_WAY, check_fits, leaf_config};
use super::shape;
use super::spa::{Shared, SyncTx, Writer};
use super::tree::{self, known};
use super::vdevs::{self, ByGuid};
use crate::config::VdevConfig;
use crate::import::build::REPLACED_BY_NAMESAKE;
use crate::scan::live;
use crate::txg::FIRST_TXG;
use block::vdev::{Kind, Leaf, Tree};
use block::zevent::class;
use errors::{Error, Result};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;

/// How a device is attached to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joins {
    /// Both stay.
    Attach,
    /// The new device replaces the other, or, if it is a spare, is active in its place.
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
            let is_raidz = cx.shared.config.root.lock().find(to).is_some_and(|c| c.kind == "raidz");
            match is_raidz && how == Joins::Attach && !new.sequentially {
                true => crate::expansion::widen(cx, to, &new),
                false => attach(cx, to, &new, how),
            }
        })
    }
}

fn attach(cx: &SyncTx<'_>, to: u64, new: &NewLeaf, how: Joins) -> Result<()> {
    let shared = cx.shared;
    let mut root = shared.config.root.lock().clone();
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
    let identity = shared.config.identity.lock().clone();
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
        if new.sequentially { live::rebuild::begin(cx, vdev) } else { Ok(()) }
    })?;
    let boots = cx.pool_number("bootfs")?.is_some_and(|dataset| dataset != 0);
    if let Some(leaf) = cx.store().tree().logs().into_iter().find(|leaf| leaf.guid == guid) {
        let events = [(new.spare.is_some(), class::VDEV_SPARE), (boots, class::BOOTFS_VDEV_ATTACH)];
        events.iter().filter(|(holds, _)| *holds).for_each(|(_, class)| shared.report_leaf(class, leaf));
        shared.report_leaf(class::VDEV_ATTACH, leaf);
    }
    if !new.sequentially {
        shared.background.scan.resilver_wanted();
    }
    Ok(())
}

/// Refuses a second kind of resilver at the same time.
fn check_resilvers(cx: &SyncTx<'_>, new: &NewLeaf) -> Result<()> {
    let refuse = |what: &str| Err(Error::invalid(new.path.as_str(), what));
    match new.sequentially {
        true if cx.shared.background.scan.is_resilvering() => refuse("currently resilvering"),
        false if cx.shared.background.scan.is_rebuilding() => refuse("currently sequentially resilvering"),
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
        (Joins::Replace, _)
            if parent.kind == "replacing" && shared.config.identity.lock().version < ondisk::version::MULTI_REPLACE =>
        {
            return refuse(BUSY_REPLACING);
        }
        (Joins::Replace, Some(_)) => "spare",
        (Joins::Replace, None) => "replacing",
    };
    if let Some(guid) = new.spare {
        let place = spare_place(&shared.store.tree(), guid);
        let is_it = match &new.device {
            Some(device) => {
                // A spare may belong to several pools: it is free unless another one uses it.
                let is_free = |c: &Nvlist| {
                    c.get_u64(config::POOL_STATE) == Some(vdevs::SPARE)
                        || c.get_u64(config::POOL_GUID) == Some(root.guid)
                };
                let labels = block::label::read(device.as_ref(), false);
                labels.configs().any(|c| c.get_u64(config::GUID) == Some(guid) && is_free(c))
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

/// OpenZFS's message for devices that cannot be replaced now.
const BUSY_REPLACING: &str = "already in replacing/spare config; wait for completion or use 'zpool detach'";
