//! Creates the allocator of an existing pool, or of a pool that is being created.

use super::group::{self, Group, Shape};
use super::maps::MapReader;
use super::round::{Log, Logs};
use super::slab::{MapState, Slab};
use super::table::Table;
use super::{Allocator, Options};
use crate::Pool;
use crate::config::VdevConfig;
use crate::space::ranges::UNITS_MAX;
use crate::status::VdevClass;
use block::Class;
use errors::{Error, Place, Result};
use ondisk::pool_dir::config;
use ondisk::spacemap::Header;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A top-level device that is to become part of the pool.
#[derive(Debug, Clone)]
pub struct NewDevice {
    /// Number of the device.
    pub vdev: u32,
    /// Name for messages.
    pub name: String,
    pub class: Class,
    /// Layout, which determines the allocated size of blocks.
    pub shape: Shape,
    /// log2 of its allocation unit in bytes.
    pub ashift: u8,
    /// Size without the labels, in bytes. The part after the last whole metaslab is not used.
    pub asize_bytes: u64,
    /// log2 of the metaslab size in bytes: [`super::metaslab_shift`].
    pub metaslab_shift: u8,
    /// Object number of its ZAP in the MOS, or 0.
    pub top_zap: u64,
}

/// The metaslabs of a device, beginning with number `first`; `maps` in the same order.
fn slabs(
    shape: &Shape,
    ashift: u8,
    shift: u8,
    first: usize,
    maps: impl Iterator<Item = Option<MapState>>,
) -> Vec<Slab> {
    let align = (shape.alignment_bytes() >> ashift).max(1);
    let units = 1u64 << (shift - ashift);
    let one = |(i, map): (usize, Option<MapState>)| {
        // dRAID moves the start of a metaslab up to the start of a row of a group, and cuts it to
        // whole rows.
        let nominal = i as u64 * units;
        let start = nominal.next_multiple_of(align);
        let usable = units.saturating_sub(start - nominal) / align * align;
        Slab::new(i as u32, start, usable as u32, ashift, map)
    };
    (first..).zip(maps).map(one).collect()
}

impl Allocator {
    /// The allocator of an open pool, in the state of its last synced txg. The MOS must stay in
    /// memory as long as the allocator.
    pub fn load(pool: &Pool) -> Result<Arc<Self>> {
        let features = pool.features();
        let options = Options {
            two_words: features.is_active("com.delphix:spacemap_v2"),
            histograms: features.count("com.delphix:spacemap_histogram").is_some(),
            logs: features.count("com.delphix:log_spacemap").is_some() && features.is_active("com.delphix:spacemap_v2"),
        };
        let mos: Arc<dyn MapReader> = pool.mos().clone();
        let mut allocator = Self::empty(pool.name(), options, Arc::downgrade(&mos));
        allocator.checkpoint_txg = pool.checkpoint()?.map_or(0, |u| u.txg.0).into();
        allocator.rounds.set_last_txg(pool.uberblock().txg.0);
        let ratios = pool.deflate_ratios();
        let mut table = Table::default();
        let tree = pool.store().tree();
        for top in &pool.root_vdev().children {
            let Some(device) = tree.tops.get(top.id as usize) else { continue };
            let Some(shape) = Shape::of(&device.kind) else { continue };
            if top.number(config::METASLAB_ARRAY) == 0 {
                continue;
            }
            let ratio = ratios.get(top.id as usize).copied().unwrap_or(512);
            let place = || format!("{}: {}: metaslabs", pool.name(), top.display_name());
            let group = load_group(pool, top, shape, ratio).at_with(place)?;
            group.availability.set_writable(group::is_writable(device));
            table.add(group);
        }
        let place = || format!("{}: log space maps", pool.name());
        let (logs, in_order) = load_logs(pool, &table).at_with(place)?;
        // Devices of a pool that was just upgraded may lack the ZAP that logs need.
        let can_log = options.logs && table.groups().all(|g| g.objects.top_zap != 0);
        if !can_log && !logs.all.is_empty() {
            return Err(Error::corrupt(
                place(),
                "there are some, on a pool whose features or devices have no place for them",
            ));
        }
        allocator.options.logs = can_log;
        allocator.rounds.set_flush_all(!in_order);
        allocator.rounds.get_mut().logs = logs;
        table.groups().for_each(|g| g.set_log_slab_apart());
        *allocator.table.write() = Arc::new(table);
        Ok(Arc::new(allocator))
    }

    /// Adds a device that is completely free. Blocks are allocated there from the next txg on, or
    /// at once if the pool has no other device.
    pub fn add_device(&self, new: &NewDevice) -> Result<()> {
        let place = || format!("{}: {}", self.name, new.name);
        check_shifts(new.ashift, new.metaslab_shift).at_with(place)?;
        if self.options.logs && new.top_zap == 0 {
            return Err(Error::invalid(place(), "a device without an object for what log space maps need"));
        }
        let count = super::metaslab_count(new.asize_bytes, new.metaslab_shift);
        if count == 0 {
            return Err(Error::invalid(place(), format!("{} bytes are less than a metaslab", new.asize_bytes)));
        }
        let group = group_of(new, 0, (0..count).map(|_| None));
        let mut shared = self.table.write();
        let mut table = Table { by_vdev: shared.by_vdev.clone(), by_class: shared.by_class.clone() };
        if table.group(new.vdev).is_some() {
            return Err(Error::invalid(place(), format!("device {} is part of the pool", new.vdev)));
        }
        group.availability.set_new(self.rounds.last_txg() != 0);
        table.add(group);
        *shared = Arc::new(table);
        Ok(())
    }
}

impl Allocator {
    /// The syncing txg makes a device larger. The new space is used only after that txg is on disk:
    /// a crash before leads back to the smaller device.
    pub fn grow_device(&self, vdev: u32, asize_bytes: u64) {
        self.rounds.grow(vdev, asize_bytes);
    }

    /// Adds the new space, after the txg that recorded it is on disk.
    pub(super) fn grow(&self) {
        for (vdev, asize_bytes) in self.rounds.take_growing() {
            let mut shared = self.table.write();
            let Some(group) = shared.group(vdev) else { continue };
            let (known, count) = (group.slabs.len(), super::metaslab_count(asize_bytes, group.slab_shift) as usize);
            if count <= known {
                continue;
            }
            let more = slabs(&group.shape, group.ashift, group.slab_shift, known, (known..count).map(|_| None));
            *shared = Arc::new(shared.with(group.with_more(more)));
        }
    }

    /// Sets the layout by which allocated sizes of new blocks are computed.
    pub(crate) fn set_shape(&self, vdev: u32, shape: Shape) {
        let mut shared = self.table.write();
        if let Some(group) = shared.group(vdev) {
            *shared = Arc::new(shared.with(group.changed(shape, Vec::new())));
        }
    }
}

/// A device with its existing space maps.
pub(super) fn group_of(new: &NewDevice, array: u64, maps: impl Iterator<Item = Option<MapState>>) -> Group {
    let (ashift, shift, shape) = (new.ashift, new.metaslab_shift, new.shape.clone());
    let slabs = slabs(&shape, ashift, shift, 0, maps).into_iter().map(Arc::new).collect();
    let ratio = (1 << 17) / (shape.asize_bytes(1 << 17, ashift, 0) >> 9).max(1);
    let group =
        Group::new(new.vdev, new.name.clone(), new.class, shape, ashift, shift, ratio, new.top_zap, array, slabs);
    group.set_log_slab_apart();
    group
}

fn check_shifts(ashift: u8, metaslab_shift: u8) -> Result<()> {
    let good = (9..=16).contains(&ashift)
        && (ashift..=40).contains(&metaslab_shift)
        && 1u64 << (metaslab_shift - ashift) <= UNITS_MAX;
    good.then_some(()).ok_or_else(|| Error::corrupt("", format!("ashift {ashift} and metaslab shift {metaslab_shift}")))
}

fn load_group(pool: &Pool, top: &VdevConfig, shape: Shape, ratio: u64) -> Result<Group> {
    let small = |key| u8::try_from(top.number(key)).unwrap_or(u8::MAX);
    let (ashift, shift) = (small(config::ASHIFT), small(config::METASLAB_SHIFT));
    check_shifts(ashift, shift)?;
    let count = super::metaslab_count(top.number(config::ASIZE), shift);
    if count > crate::usable::METASLABS_MAX {
        return Err(Error::corrupt(
            "",
            format!("{count} metaslabs, expected at most {}", crate::usable::METASLABS_MAX),
        ));
    }
    let array = top.number(config::METASLAB_ARRAY);
    let objects = pool.mos().object(array)?.read_words(count)?;
    let maps = objects.into_iter().map(|id| load_map(pool, id, 1 << shift)).collect::<Result<Vec<_>>>()?;
    let class = match pool.class(top.id) {
        VdevClass::Log => Class::Log,
        VdevClass::Special => Class::Special,
        VdevClass::Dedup => Class::Dedup,
        _ => Class::Normal,
    };
    let slabs = slabs(&shape, ashift, shift, 0, maps.into_iter()).into_iter().map(Arc::new).collect();
    let top_zap = top.number(config::VDEV_TOP_ZAP);
    let name = top.display_name();
    let group = Group::new(top.id as u32, name, class, shape, ashift, shift, ratio, top_zap, array, slabs);
    group.availability.set_allocating(top.number(config::NONALLOCATING) == 0);
    super::checkpoint::load(pool, &group)?;
    Ok(group)
}

fn load_map(pool: &Pool, id: u64, size_bytes: i64) -> Result<Option<MapState>> {
    if id == 0 {
        return Ok(None);
    }
    let object = pool.mos().object(id)?;
    let header = Header::parse(object.bonus(), object.endian()).at_with(|| object.place())?;
    let block_bytes = object.block_bytes();
    if !(0..=size_bytes).contains(&header.allocated_bytes) || block_bytes < 512 {
        let what = format!("{} bytes allocated of {size_bytes}, in blocks of {block_bytes}", header.allocated_bytes);
        return Err(Error::corrupt(object.place(), what));
    }
    Ok(Some(MapState {
        object: id,
        block_bytes,
        length_bytes: header.length_bytes,
        allocated_bytes: header.allocated_bytes,
        histogram: header.histogram,
    }))
}

/// Replays the log space maps. Returns whether the metaslabs refer to the logs as OpenZFS requires;
/// if not, the first txg must fix it.
fn load_logs(pool: &Pool, table: &Table) -> Result<(Logs, bool)> {
    let mut logs = Logs::default();
    for (txg, object) in crate::space::metaslab::logs(pool)? {
        let map = pool.mos().object(object)?;
        let header = Header::parse(map.bonus(), map.endian()).at_with(|| map.place())?;
        logs.all
            .insert(txg, Log { object, length_bytes: header.length_bytes, allocated_bytes: header.allocated_bytes });
    }
    let since =
        |group: &Group| crate::space::metaslab::unflushed_txgs(pool, group.objects.top_zap, group.slabs.len() as u64);
    let in_order = replay_logs(table, &logs, &since, pool.mos().as_ref())?;
    Ok((logs, in_order))
}

/// Applies the logs to all metaslabs. `since` returns, for each metaslab of a device, the txg from
/// which on logs apply.
pub(super) fn replay_logs(
    table: &Table,
    logs: &Logs,
    since: &dyn Fn(&Group) -> Result<Vec<u64>>,
    reader: &dyn MapReader,
) -> Result<bool> {
    let mut in_order = true;
    for group in table.groups() {
        for (slab, txg) in group.slabs.iter().zip(since(group)?) {
            slab.lock().unflushed_txg = txg;
            in_order &= txg == 0 || logs.all.contains_key(&txg);
        }
    }
    for (txg, log) in &logs.all {
        let mut wrong = None;
        reader.read_map(log.object, &mut |e| {
            // The device was removed since: its metaslabs no longer exist.
            let Some(group) = e.vdev.and_then(|vdev| table.group(vdev)) else { return };
            let (offset, size) = (e.offset.saturating_mul(512), e.run.saturating_mul(512));
            if !group.replay(*txg, offset, size, e.is_alloc) {
                wrong.get_or_insert(format!("log of txg {txg}: {offset:#x}+{size:#x} on {}", group.name));
            }
        })?;
        if let Some(what) = wrong {
            return Err(Error::corrupt("", what));
        }
    }
    for group in table.groups() {
        group.count_unflushed();
        in_order &= group.slabs.iter().map(|s| s.lock()).all(|i| i.unflushed.is_empty() || i.unflushed_txg != 0);
    }
    Ok(in_order)
}

impl Group {
    /// Applies an entry of the log of `txg`; returns false if it is impossible.
    fn replay(&self, txg: u64, offset_bytes: u64, size_bytes: u64, is_alloc: bool) -> bool {
        let Some((slab, start, len)) = self.locate(offset_bytes, size_bytes) else { return false };
        let mut inner = slab.lock();
        // Entries before the last flush are already in the map.
        txg < inner.unflushed_txg || (inner.map.is_some() && inner.unflushed.add(start, len, is_alloc))
    }

    /// Updates the counters after the logs were applied.
    fn count_unflushed(&self) {
        let units: i64 = self.slabs.iter().map(|s| s.count_unflushed()).sum();
        let used = self.totals.used.load(Ordering::Relaxed).saturating_add_signed(units << self.ashift);
        self.totals.used.store(used, Ordering::Relaxed);
    }
}
