//! The dedup table of one checksum algorithm: up to three objects, one for each class of blocks,
//! and with fast_dedup a directory of its own.

use super::entry::{DITTO, DUPLICATE, Entry, Slot, UNIQUE, count, row};
use super::{SpaceOf, Tables, logs};
use crate::writer::SyncTx;
use errors::{Error, Place, Result};
use object::zap::{Zap, ZapSpec};
use object::{Object, ObjectSet};
use ondisk::ddt::{self, Key, LogHeader, PackedValue, Phys, Stat};
use ondisk::pool_dir::{self, DIRECTORY_OBJECT, directory};
use ondisk::zap::{Flags as ZapFlags, Value as ZapValue};
use ondisk::{BlkPtr, Checksum, Compression, Endian, ObjectType, Txg};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The feature; its reference count is the number of tables with a directory.
const FAST: &str = "fast_dedup";
/// log2 of the block size of a table (`ddt_zap_default_bs`, `ddt_zap_default_ibs`).
const BLOCK_SHIFT: u8 = 15;
/// Number of rows of a histogram.
const ROWS: usize = 64;
/// Checksums that are strong enough for dedup (`DDT_CHECKSUM_VALID`).
const KINDS: [Checksum; 5] = [Checksum::Sha256, Checksum::Sha512, Checksum::Skein, Checksum::EdonR, Checksum::Blake3];

/// The object of one class.
struct Class {
    zap: Zap,
    histogram: Vec<Stat>,
}

/// The dedup table of one checksum algorithm.
pub(super) struct Table {
    kind: Checksum,
    /// Flat entries have one place, traditional entries four.
    is_flat: bool,
    /// Object number of the table's directory (fast_dedup), or 0 until it is created.
    fast: Option<u64>,
    classes: [Option<Class>; 3],
    /// Logs that OpenZFS wrote, with their object numbers; the next txg empties them.
    logs: Vec<(u64, LogHeader)>,
    /// Entries that the current txg has looked up, and the contents of the logs.
    pub entries: BTreeMap<Key, Slot>,
}

/// The objects that contain the entries, for lookups without the lock.
pub(super) struct OnDisk {
    is_flat: bool,
    zaps: [Option<Zap>; 3],
}

/// Loads all dedup tables of a pool.
pub(super) fn load(mos: &Arc<ObjectSet>) -> Result<Tables> {
    let mut tables = Tables::new();
    let root = Zap::open(mos.object(DIRECTORY_OBJECT)?)?;
    let Some(statistics) = root.lookup_u64(directory::DDT_STATS)?.filter(|id| *id != 0) else { return Ok(tables) };
    let statistics = Zap::open(mos.object(statistics)?)?;
    for kind in KINDS {
        let name = pool_dir::ddt_directory(kind.name());
        let table = match root.lookup_u64(&name)? {
            Some(id) => Some(Table::load_fast(mos, kind, id, &statistics).at(&name)?),
            None => Table::load_traditional(mos, kind, &root, &statistics).at(&name)?,
        };
        if let Some(table) = table {
            tables.insert(kind as u8, table);
        }
    }
    Ok(tables)
}

fn name(kind: Checksum, class: usize) -> String {
    pool_dir::ddt_object(kind.name(), ddt::STORE, ddt::CLASSES[class])
}

impl Table {
    /// A table that does not exist on disk yet.
    pub fn new(kind: Checksum, is_fast: bool) -> Self {
        let fast = is_fast.then_some(0);
        Self { kind, is_flat: is_fast, fast, classes: [const { None }; 3], logs: Vec::new(), entries: BTreeMap::new() }
    }

    /// Opens the objects of all classes that `parent` names. Returns false if there are none.
    fn load_classes(&mut self, mos: &Arc<ObjectSet>, parent: &Zap, statistics: &Zap) -> Result<bool> {
        for (class, slot) in self.classes.iter_mut().enumerate() {
            let name = name(self.kind, class);
            let Some(id) = parent.lookup_u64(&name)? else { continue };
            let histogram = match statistics.lookup(&name)? {
                Some(value) => ddt::histogram_from_words(&value.ints).at(&name)?,
                None => return Err(Error::corrupt(name, "has no entry in the statistics of dedup tables")),
            };
            *slot = Some(Class { zap: Zap::open(mos.object(id)?)?, histogram });
        }
        Ok(self.classes.iter().any(Option::is_some))
    }

    fn load_traditional(mos: &Arc<ObjectSet>, kind: Checksum, root: &Zap, statistics: &Zap) -> Result<Option<Self>> {
        let mut table = Self::new(kind, false);
        Ok(table.load_classes(mos, root, statistics)?.then_some(table))
    }

    fn load_fast(mos: &Arc<ObjectSet>, kind: Checksum, id: u64, statistics: &Zap) -> Result<Self> {
        let dir = Zap::open(mos.object(id)?)?;
        let (version, flags) = (dir.lookup_u64(ddt::DIRECTORY_VERSION)?, dir.lookup_u64(ddt::DIRECTORY_FLAGS)?);
        let flags = flags.unwrap_or(0);
        if version != Some(1) || flags & !(ddt::FLAG_FLAT | ddt::FLAG_LOG) != 0 || flags & ddt::FLAG_FLAT == 0 {
            let what = format!("a dedup table of version {} with flags {flags:#x}", version.unwrap_or(0));
            return Err(Error::unsupported("", what));
        }
        let mut table = Self { fast: Some(id), ..Self::new(kind, true) };
        table.load_classes(mos, &dir, statistics)?;
        let (found, logged) = logs::read(mos, &dir)?;
        table.logs = found;
        for (key, (class, phys)) in logged {
            let class = Some(usize::from(class)).filter(|class| *class < ddt::CLASSES.len());
            table.entries.insert(key, Slot::Ready(Box::new(Entry::logged(class, phys))));
        }
        Ok(table)
    }

    /// Index of the place in an entry for a block with this number of copies.
    pub fn place(&self, copies: u8) -> usize {
        if self.is_flat { 0 } else { usize::from(copies) }
    }

    /// The table's objects, for lookups without the lock.
    pub fn on_disk(&self) -> OnDisk {
        OnDisk { is_flat: self.is_flat, zaps: self.classes.each_ref().map(|class| Some(class.as_ref()?.zap.clone())) }
    }

    /// Whether the next txg must write the table.
    pub fn is_dirty(&self) -> bool {
        let is_changed = |slot: &Slot| matches!(slot, Slot::Ready(entry) if entry.is_changed);
        self.logs.iter().any(|(_, header)| header.length_bytes > 0) || self.entries.values().any(is_changed)
    }

    /// Whether the table exists on disk or has entries that are to be written.
    pub fn exists(&self) -> bool {
        self.fast.is_some_and(|id| id != 0) || self.classes.iter().any(Option::is_some) || !self.entries.is_empty()
    }

    /// Drops the entries in memory, so that the next txg reads them again. Entries whose block is
    /// being written are kept.
    pub fn forget(&mut self) {
        self.entries.retain(|_, slot| !matches!(slot, Slot::Ready(entry) if !entry.is_being_written));
    }

    /// Space that the table's objects take on disk, in bytes.
    pub fn disk_bytes(&self, mos: &Arc<ObjectSet>) -> Result<u64> {
        let classes = self.classes.iter().flatten().map(|class| class.zap.id());
        classes.map(|id| Ok(mos.object(id)?.dnode_now().used_bytes)).sum()
    }

    /// Bytes that the pool would need in addition if every reference to a block were a copy.
    pub fn saved_bytes(&self) -> u64 {
        let rows = self.classes.iter().flatten().flat_map(|class| &class.histogram);
        rows.fold(0, |sum, row| sum.wrapping_add(row.referenced_dsize_bytes.wrapping_sub(row.dsize_bytes)))
    }

    /// Writes the changed entries. Destroys the objects of a table that has no entries left.
    pub fn sync(&mut self, cx: &SyncTx<'_>, space_bytes: &SpaceOf) -> Result<()> {
        let statistics = self.statistics(cx)?;
        if self.fast == Some(0) {
            self.fast = Some(make_directory(cx, self.kind)?);
        }
        for (key, slot) in std::mem::take(&mut self.entries) {
            match slot {
                Slot::Ready(entry) if entry.is_changed => self.write(cx, &statistics, &key, *entry, space_bytes)?,
                other => _ = self.entries.insert(key, other),
            }
        }
        self.empty_logs(cx)?;
        let mut entries = 0u64;
        for class in self.classes.iter().flatten() {
            entries = entries.saturating_add(class.zap.count()?);
        }
        if entries == 0 {
            return self.destroy(cx, &statistics);
        }
        for (index, class) in self.classes.iter().enumerate() {
            if let Some(class) = class {
                statistics.update(cx.tx(), name(self.kind, index), &histogram(&class.histogram))?;
            }
        }
        Ok(())
    }

    fn statistics(&self, cx: &SyncTx<'_>) -> Result<Zap> {
        let root = cx.directory()?;
        match root.lookup_u64(directory::DDT_STATS)?.filter(|id| *id != 0) {
            Some(id) => Zap::open(cx.mos().object(id)?),
            None => {
                let spec = ZapSpec::new(ObjectType::DDT_STATS);
                Zap::create_linked(cx.mos(), cx.tx(), &spec, &root, directory::DDT_STATS)
            }
        }
    }

    fn parent(&self, cx: &SyncTx<'_>) -> Result<Zap> {
        match self.fast {
            Some(id) => Zap::open(cx.mos().object(id)?),
            None => cx.directory(),
        }
    }

    fn pointer(&self, key: &Key, phys: &Phys) -> Result<BlkPtr> {
        Ok(key.pointer(self.kind, phys)?)
    }

    /// Adds `places` to the histogram of a class, or subtracts them.
    fn count(&mut self, class: usize, key: &Key, places: &[Phys; 4], space: &SpaceOf, is_more: bool) {
        let row = row(key, places, |phys| self.pointer(key, phys).map_or(0, |bp| space(&bp)));
        if let (Some((index, stat)), Some(class)) = (row, &mut self.classes[class]) {
            count(&mut class.histogram[index], &stat, is_more);
        }
    }

    fn write(
        &mut self,
        cx: &SyncTx<'_>,
        statistics: &Zap,
        key: &Key,
        mut entry: Entry,
        space_bytes: &SpaceOf,
    ) -> Result<()> {
        for (index, phys) in entry.now.iter_mut().enumerate().filter(|(_, phys)| phys.is_used()) {
            // Blocks that the old `dedupditto` property wrote are not kept.
            if phys.references == 0 || (!self.is_flat && index == DITTO) {
                cx.free(&self.pointer(key, phys)?)?;
                *phys = Phys::default();
            }
        }
        let uses = Entry::uses(&entry.now);
        let class = if uses > 1 { DUPLICATE } else { UNIQUE };
        if let (Some(before), Some(counted)) = (entry.class, &entry.counted) {
            self.count(before, key, counted, space_bytes, false);
        }
        if let Some(before) = entry.class.filter(|before| *before != class || uses == 0) {
            let zap = self.classes[before].as_ref().map(|class| &class.zap);
            let zap = zap.ok_or_else(|| Error::corrupt(name(self.kind, before), "an entry is said to be in it"))?;
            zap.remove_key(cx.tx(), &key.to_words()).at_with(|| name(self.kind, before))?;
        }
        if uses == 0 {
            return Ok(());
        }
        if self.classes[class].is_none() {
            self.classes[class] = Some(self.make_class(cx, statistics, class)?);
        }
        self.count(class, key, &entry.now, space_bytes, true);
        if let Some(stored) = &self.classes[class] {
            let value = pack(self.is_flat, &entry.now, host::clock::seconds());
            stored.zap.update_key(cx.tx(), &key.to_words(), &value)?;
        }
        Ok(())
    }

    fn make_class(&self, cx: &SyncTx<'_>, statistics: &Zap, class: usize) -> Result<Class> {
        let mut flags = ZapFlags::HASH64 | ZapFlags::UINT64_KEY;
        // The checksums are used as hashes of the keys. Only those of Edon-R are not good enough.
        flags.set(ZapFlags::PRE_HASHED_KEY, self.kind != Checksum::EdonR);
        let spec = ZapSpec {
            flags,
            block_shift: BLOCK_SHIFT,
            indirect_shift: BLOCK_SHIFT,
            ..ZapSpec::new(ObjectType::DDT_ZAP)
        };
        let name = name(self.kind, class);
        let zap = Zap::create_linked(cx.mos(), cx.tx(), &spec, &self.parent(cx)?, &name)?;
        let rows = vec![Stat::default(); ROWS];
        statistics.insert(cx.tx(), &name, &histogram(&rows))?;
        Ok(Class { zap, histogram: rows })
    }

    /// Empties the logs, after their entries were written to the tables.
    fn empty_logs(&mut self, cx: &SyncTx<'_>) -> Result<()> {
        for (id, header) in self.logs.iter_mut().filter(|(_, header)| header.length_bytes > 0) {
            let object: Object = cx.mos().object(*id)?;
            object.punch(cx.tx(), 0, u64::MAX)?;
            (header.length_bytes, header.checkpoint, header.first_txg) = (0, None, Txg(cx.txg()));
            object.set_bonus(cx.tx(), header.to_bytes(object.endian()).to_vec())?;
        }
        Ok(())
    }

    /// Destroys all objects of a table without entries.
    fn destroy(&mut self, cx: &SyncTx<'_>, statistics: &Zap) -> Result<()> {
        let parent = self.parent(cx)?;
        for (index, class) in self.classes.iter_mut().enumerate() {
            if let Some(class) = class.take() {
                let name = name(self.kind, index);
                parent.remove(cx.tx(), &name)?;
                statistics.remove(cx.tx(), &name)?;
                cx.mos().free_object(cx.tx(), class.zap.id())?;
            }
        }
        let Some(id) = self.fast.as_mut().map(std::mem::take).filter(|id| *id != 0) else { return Ok(()) };
        for (log, _) in self.logs.drain(..) {
            cx.mos().free_object(cx.tx(), log)?;
        }
        cx.mos().free_object(cx.tx(), id)?;
        cx.directory()?.remove(cx.tx(), pool_dir::ddt_directory(self.kind.name()))?;
        cx.feature_decrement(FAST)
    }
}

fn make_directory(cx: &SyncTx<'_>, kind: Checksum) -> Result<u64> {
    let spec = ZapSpec::new(ObjectType::OTN_ZAP_METADATA);
    let name = pool_dir::ddt_directory(kind.name());
    let dir = Zap::create_linked(cx.mos(), cx.tx(), &spec, &cx.directory()?, name)?;
    dir.insert_u64(cx.tx(), ddt::DIRECTORY_VERSION, 1)?;
    dir.insert_u64(cx.tx(), ddt::DIRECTORY_FLAGS, ddt::FLAG_FLAT | ddt::FLAG_LOG)?;
    cx.feature_increment(FAST)?;
    Ok(dir.id())
}

fn histogram(rows: &[Stat]) -> ZapValue {
    ZapValue { int_bytes: 8, ints: ddt::histogram_to_words(rows) }
}

fn pack(is_flat: bool, places: &[Phys; 4], now_seconds: u64) -> ZapValue {
    let bytes = match is_flat {
        true => Phys { class_start: Some(now_seconds), ..places[0] }.to_flat_bytes(Endian::Little).to_vec(),
        false => Phys::to_traditional_bytes(places, Endian::Little).to_vec(),
    };
    let packed = block::compress(Compression::Zle, &bytes);
    let compression = if packed.is_some() { Compression::Zle } else { Compression::Off };
    let all = std::iter::once(ddt::packing(compression)).chain(packed.unwrap_or(bytes));
    ZapValue { int_bytes: 1, ints: all.map(u64::from).collect() }
}

impl OnDisk {
    /// Reads the entry of `key`; returns a new one if no table contains it.
    pub fn find(&self, key: &Key) -> Result<Entry> {
        for (class, zap) in self.zaps.iter().enumerate() {
            let Some(zap) = zap else { continue };
            let Some(value) = zap.lookup_key(&key.to_words())? else { continue };
            let place = || format!("the entry of {:016x} of a dedup table", key.checksum[0]);
            let value = value.as_bytes().ok_or_else(|| Error::corrupt(place(), "is not bytes"))?;
            let packed = PackedValue::parse(&value).at_with(place)?;
            return Ok(Entry::stored(class, logs::places(&packed, self.is_flat).at_with(place)?));
        }
        Ok(Entry::default())
    }
}
