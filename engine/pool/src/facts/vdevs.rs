//! The state of every device.

use crate::Pool;
use crate::config::VdevConfig;
use crate::feature::default_features;
use crate::space::Space;
use crate::status::{FeatureSet, PoolStatus, Progress, VdevAux, VdevClass, VdevState, VdevStatus, VdevWork};
use crate::writer::tree::find_leaf;
use crate::writer::{Work, WorkState, read_work};
use block::vdev::{Aux, Kind, Leaf, Vdev};
use errors::Result;
use object::zap::Zap;
use ondisk::pool_dir::{allocation_bias, config, vdev_top};
use std::sync::Arc;

impl Pool {
    /// Allocation class of the top-level device `id`.
    pub fn class(&self, id: u64) -> VdevClass {
        let Some(top) = self.root_vdev().children.iter().find(|t| t.id == id) else { return VdevClass::Normal };
        if top.number(config::IS_LOG) != 0 {
            return VdevClass::Log;
        }
        let bias = || -> Result<Option<String>> {
            let zap = top.number(config::VDEV_TOP_ZAP);
            if zap == 0 {
                return Ok(None);
            }
            Ok(Zap::open(self.mos().object(zap)?)?.lookup(vdev_top::ALLOCATION_BIAS)?.and_then(|v| v.as_string()))
        };
        // An unreadable class is shown as normal: the damage itself is reported elsewhere.
        match bias().ok().flatten().as_deref() {
            Some(allocation_bias::SPECIAL) => VdevClass::Special,
            Some(allocation_bias::DEDUP) => VdevClass::Dedup,
            Some(allocation_bias::LOG) => VdevClass::Log,
            _ => VdevClass::Normal,
        }
    }

    /// The complete status of the pool.
    pub fn status(&self) -> Result<PoolStatus> {
        // A pool whose space maps cannot be read still has a status.
        let space = Space::totals(self).unwrap_or_default();
        let tree = self.store().tree();
        let mut tops = Vec::new();
        for c in &self.root_vdev().children {
            let mut status = device(c, tree.tops.get(c.id as usize).map(|v| &**v));
            status.expand_bytes = expand_bytes(c, tree.tops.get(c.id as usize).map(|v| &**v));
            let class = self.class(c.id);
            set_class(&mut status, class);
            if let Some(d) = space.device(c.id) {
                status.alloc_bytes = d.allocated_bytes();
                status.space_bytes = d.size_bytes;
                let ratio = self.deflate_ratios().get(c.id as usize).copied().unwrap_or(512);
                status.dspace_bytes = (d.size_bytes >> 9).saturating_mul(ratio);
                status.fragmentation_percent = d.fragmentation_percent;
            }
            self.set_work(&mut status, c);
            status.rebuild = self.rebuild_status(c);
            status.checkpoint_bytes = self.checkpoint_bytes(c).unwrap_or(0);
            tops.push(status);
        }
        let mut root = VdevStatus {
            name: self.name().to_owned(),
            kind: "root".into(),
            guid: self.guid(),
            children: tops,
            ..VdevStatus::default()
        };
        (root.state, root.aux) = root_state(&root.children);
        for t in root.children.iter().filter(|t| t.class != VdevClass::Log) {
            root.alloc_bytes += t.alloc_bytes;
            root.space_bytes += t.space_bytes;
            root.dspace_bytes += t.dspace_bytes;
            root.expand_bytes += t.expand_bytes;
        }
        let auxiliary = |configs: &[VdevConfig], devices: &[Arc<Vdev>], class| -> Vec<VdevStatus> {
            configs
                .iter()
                .map(|c| {
                    let mut s = device(c, devices.iter().find(|v| v.guid == c.guid).map(|v| &**v));
                    s.alloc_bytes = self.store().second().held_bytes(c.guid);
                    set_class(&mut s, class);
                    s
                })
                .collect()
        };
        let mut spares = auxiliary(self.spares(), &tree.spares, VdevClass::Spare);
        mark_spares_in_use(&mut spares, &root);
        let mut expand = readable(self.name(), self.expand_status());
        if let Some(expand) = expand.as_mut().filter(|e| e.state == Progress::Active) {
            let top = root.children.iter().find(|top| top.id == expand.vdev);
            expand.to_reflow_bytes = top.map_or(0, |top| top.alloc_bytes).max(expand.reflowed_bytes);
        }
        let errors = self.error_log().unwrap_or_default();
        Ok(PoolStatus {
            suspended: None,
            name: self.name().to_owned(),
            guid: self.guid(),
            version: self.version(),
            config_txg: self.config().get_u64(config::POOL_TXG).unwrap_or(0),
            root,
            caches: auxiliary(self.caches(), &tree.caches, VdevClass::Cache),
            spares,
            scan: readable(self.name(), self.scan_status()),
            removal: readable(self.name(), self.removal_status()),
            checkpoint: readable(self.name(), self.checkpoint_status()),
            expand,
            dedup: readable(self.name(), self.dedup_status()),
            error_count: errors.len() as u64,
            // Paths need the datasets; the caller that has them fills this in.
            errors: Vec::new(),
            feature_set: match self.version() >= 5000 && self.lacks_features() {
                true => FeatureSet::Lacking,
                false => FeatureSet::AsRequested,
            },
            compatibility: self.text_property("compatibility"),
            errata: self.config().get_u64(config::ERRATA).unwrap_or(0),
            comment: self.config().get_str(config::COMMENT).map(str::to_owned),
        })
    }

    /// Updates the device states and error counts of an earlier status. They are in memory: nothing
    /// is read from disk.
    pub fn refresh(&self, status: &mut PoolStatus) {
        let tree = self.store().tree();
        for c in &self.root_vdev().children {
            let now = device(c, tree.tops.get(c.id as usize).map(|v| &**v));
            if let Some(shown) = status.root.children.iter_mut().find(|shown| shown.guid == now.guid) {
                take_states(shown, &now);
            }
        }
        (status.root.state, status.root.aux) = root_state(&status.root.children);
    }

    /// Trim and initialize progress of all leaves below a top-level device.
    fn set_work(&self, top: &mut VdevStatus, c: &VdevConfig) {
        let disks = if matches!(c.kind.as_str(), "raidz" | "draid") { c.children.len().max(1) as u64 } else { 1 };
        let tree = self.store().tree();
        let (free, each) = (top.space_bytes.saturating_sub(top.alloc_bytes) / disks, (top.space_bytes / disks).max(1));
        for leaf in c.leaves() {
            let zap = leaf.number(config::VDEV_LEAF_ZAP);
            let Some(status) = top.find_mut(leaf.guid).filter(|_| zap != 0) else { continue };
            let read =
                |work| readable(self.name(), self.mos().object(zap).and_then(|z| read_work(&Zap::open(z)?, work)));
            let swept = find_leaf(&tree, leaf.guid).map_or([0; 2], |(_, leaf)| leaf.swept());
            let status_of = |work, errors| -> VdevWork {
                let p = read(work);
                // The pool records the progress of active work from time to time only.
                let live = swept[usize::from(work == Work::Initialize)];
                let last_offset = if p.state == WorkState::Active { p.last_offset.max(live) } else { p.last_offset };
                let part = last_offset.saturating_sub(block::vdev::DATA_START_BYTES).min(each);
                let done = (u128::from(free) * u128::from(part) / u128::from(each)) as u64;
                let done_bytes = if p.state == WorkState::Complete { free } else { done };
                VdevWork { state: p.state as u64, done_bytes, total_bytes: free, action_time: p.action_time, errors }
            };
            status.trim = status_of(Work::Trim, status.trim.errors);
            status.initialize = status_of(Work::Initialize, status.initialize.errors);
        }
    }

    fn text_property(&self, name: &str) -> Option<String> {
        self.set_properties().ok()?.into_iter().find(|(n, _)| n == name)?.1.as_string()
    }

    /// Whether a feature that OpenZFS 2.3 knows is not enabled.
    fn lacks_features(&self) -> bool {
        default_features().filter_map(ondisk::feature::by_name).any(|f| self.features().count(f.guid).is_none())
    }
}

/// The value, or the default if it cannot be read: missing devices must not hide the rest of the
/// status.
fn readable<T: Default>(pool: &str, part: Result<T>) -> T {
    part.unwrap_or_else(|error| {
        tracing::warn!(pool, %error, "part of the status cannot be read");
        T::default()
    })
}

/// Bytes by which a top-level device could grow, in whole metaslabs.
pub(super) fn expand_bytes(c: &VdevConfig, v: Option<&Vdev>) -> u64 {
    let shift = c.number(config::METASLAB_SHIFT).min(63);
    let could = v.and_then(Vdev::capacity_bytes).unwrap_or(0);
    could.saturating_sub(c.number(config::ASIZE)) >> shift << shift
}

/// Copies the state that is in memory from `now` to `shown`, for the whole subtree.
fn take_states(shown: &mut VdevStatus, now: &VdevStatus) {
    (shown.state, shown.aux, shown.not_present) = (now.state, now.aux, now.not_present);
    (shown.read_errors, shown.write_errors, shown.checksum_errors) =
        (now.read_errors, now.write_errors, now.checksum_errors);
    shown.slow_ios = now.slow_ios;
    (shown.read_ops, shown.read_bytes) = (now.read_ops, now.read_bytes);
    (shown.write_ops, shown.write_bytes) = (now.write_ops, now.write_bytes);
    for child in &mut shown.children {
        if let Some(now) = now.children.iter().find(|now| now.guid == child.guid) {
            take_states(child, now);
        }
    }
}

fn set_class(status: &mut VdevStatus, class: VdevClass) {
    status.class = class;
    status.children.iter_mut().for_each(|c| set_class(c, class));
}

/// Marks spares that are in use. The state of such a spare is shown where it replaces a device in
/// the tree; the list of spares only shows it as in use.
fn mark_spares_in_use(spares: &mut [VdevStatus], root: &VdevStatus) {
    let active = root.walk();
    for spare in spares {
        if active.iter().any(|v| v.is_leaf() && v.guid == spare.guid) {
            (spare.state, spare.aux) = (VdevState::CantOpen, VdevAux::Spared);
        }
    }
}

fn device(c: &VdevConfig, v: Option<&Vdev>) -> VdevStatus {
    let text = |key: &str| c.all.get_str(key).map(str::to_owned);
    let mut s = VdevStatus {
        name: c.display_name(),
        kind: c.kind.clone(),
        guid: c.guid,
        id: c.id,
        path: c.path.clone(),
        devid: text(config::DEVID),
        phys_path: text(config::PHYS_PATH),
        whole_disk: c.number(config::WHOLE_DISK) != 0,
        asize_bytes: c.number(config::ASIZE),
        ashift: c.number(config::ASHIFT),
        parity: c.number(config::NPARITY),
        removing: c.number(config::REMOVING) != 0,
        no_alloc: c.number(config::NONALLOCATING) != 0,
        expanding: c.all.contains(config::RAIDZ_EXPANDING),
        ..VdevStatus::default()
    };
    // By guid: the configuration is the last synced one, and the devices may have changed since.
    let found = |child: &VdevConfig| v.and_then(|v| v.children.iter().find(|v| v.guid == child.guid));
    s.children = c.children.iter().map(|child| device(child, found(child))).collect();
    match v.map(|v| &v.kind) {
        Some(Kind::Leaf(leaf)) => {
            (s.state, s.aux) = leaf_state(leaf.aux());
            s.not_present = leaf.aux() == Some(Aux::NotFound);
            if leaf.is_open() {
                s.path = Some(leaf.path.clone());
                s.name = leaf.path.clone();
            } else if s.not_present {
                s.name = c.guid.to_string();
            }
            s.trim_unsupported = !leaf.could_discard();
            s.is_direct = leaf.device().is_some_and(|device| device.is_direct());
            s.phys_bytes = leaf.device().map_or(0, |d| d.size_bytes());
            let errors = leaf.errors();
            (s.read_errors, s.write_errors, s.checksum_errors) = (errors.read, errors.write, errors.checksum);
            s.slow_ios = errors.slow;
            (s.trim.errors, s.initialize.errors) = leaf.sweep_errors();
            (s.read_ops, s.read_bytes) = leaf.traffic();
            (s.write_ops, s.write_bytes) = leaf.write_traffic();
            (s.self_healed_bytes, s.scan_processed_bytes) = leaf.repaired();
            if leaf.has_failed() || leaf.is_gone() {
                (s.state, s.aux) = (VdevState::Faulted, VdevAux::ErrExceeded);
            } else if leaf.is_open() && c.number(config::DEGRADED) != 0 {
                (s.state, s.aux) = (VdevState::Degraded, VdevAux::External);
            }
        }
        Some(Kind::Missing) => (s.state, s.aux) = (VdevState::CantOpen, VdevAux::NoReplicas),
        Some(Kind::DraidSpare { log, .. }) => {
            s.state = VdevState::Healthy;
            s.scan_processed_bytes = log.repaired().1;
        }
        Some(Kind::Hole | Kind::Indirect(_)) => s.state = VdevState::Healthy,
        Some(_) => {
            let tolerates = match c.kind.as_str() {
                "raidz" | "draid" => c.number(config::NPARITY).max(1) as usize,
                _ => s.children.len().saturating_sub(1),
            };
            (s.state, s.aux) = group_state(&s.children, tolerates);
        }
        None => (s.state, s.aux) = (VdevState::CantOpen, VdevAux::OpenFailed),
    }
    s
}

/// `vdev_state_t` of a configured device.
pub(crate) fn device_state(c: &VdevConfig, v: Option<&Vdev>) -> u64 {
    device(c, v).state as u64
}

/// `vdev_state_t` of a leaf.
pub(crate) fn state_number(leaf: &Leaf) -> u64 {
    let state = if leaf.has_failed() || leaf.is_gone() { VdevState::Faulted } else { leaf_state(leaf.aux()).0 };
    state as u64
}

fn leaf_state(aux: Option<Aux>) -> (VdevState, VdevAux) {
    match aux {
        None => (VdevState::Healthy, VdevAux::None),
        Some(Aux::NotFound) => (VdevState::CantOpen, VdevAux::OpenFailed),
        Some(Aux::CorruptLabel) => (VdevState::CantOpen, VdevAux::BadLabel),
        Some(Aux::TooSmall) => (VdevState::CantOpen, VdevAux::TooSmall),
        Some(Aux::Offline) => (VdevState::Offline, VdevAux::None),
        Some(Aux::Removed) => (VdevState::Removed, VdevAux::None),
        Some(Aux::Faulted) => (VdevState::Faulted, VdevAux::External),
    }
}

fn group_state(children: &[VdevStatus], tolerates: usize) -> (VdevState, VdevAux) {
    let away = children.iter().filter(|c| c.state < VdevState::Degraded).count();
    if away > tolerates {
        (VdevState::CantOpen, VdevAux::NoReplicas)
    } else if children.iter().any(|c| c.state < VdevState::Healthy) {
        (VdevState::Degraded, VdevAux::None)
    } else {
        (VdevState::Healthy, VdevAux::None)
    }
}

/// State of the root: a pool without one of its top-level devices is unusable, unless that device
/// is a log.
fn root_state(tops: &[VdevStatus]) -> (VdevState, VdevAux) {
    let needed = |t: &&VdevStatus| t.class != VdevClass::Log;
    if tops.iter().filter(needed).any(|t| t.state < VdevState::Degraded) {
        (VdevState::CantOpen, VdevAux::NoReplicas)
    } else if tops.iter().any(|t| t.state < VdevState::Healthy) {
        (VdevState::Degraded, VdevAux::None)
    } else {
        (VdevState::Healthy, VdevAux::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_active_spare_is_in_use() {
        let leaf = |guid| VdevStatus { guid, kind: "file".into(), state: VdevState::Healthy, ..VdevStatus::default() };
        let stands_in = VdevStatus { kind: "spare".into(), children: vec![leaf(1), leaf(7)], ..VdevStatus::default() };
        let root = VdevStatus { kind: "root".into(), children: vec![stands_in], ..VdevStatus::default() };
        let mut spares = [leaf(7), leaf(8)];
        mark_spares_in_use(&mut spares, &root);
        let spare_states: Vec<_> = spares.iter().map(|s| (s.state, s.aux)).collect();
        let taken = (VdevState::CantOpen, VdevAux::Spared);
        assert_eq!(spare_states, [taken, (VdevState::Healthy, VdevAux::None)]);
    }
}
