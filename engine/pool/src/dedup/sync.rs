//! Writes the dedup tables in the syncing txg. Facts: ddt_sync_flush_entry (module/zfs/ddt.c).

use super::Dedup;
use super::entry::{DITTO, DUPLICATE, Entry, Slot, UNIQUE, count, row};
use super::table::{Class, SpaceOf, Table, name};
use crate::writer::SyncTx;
use errors::{Error, Place, Result};
use object::Object;
use object::zap::{Zap, ZapSpec};
use ondisk::ddt::{self, Key, Phys, Stat};
use ondisk::pool_dir::{self, directory};
use ondisk::zap::{Flags as ZapFlags, Value as ZapValue};
use ondisk::{BlkPtr, Checksum, Compression, Endian, ObjectType, Txg};
use std::sync::atomic::Ordering;

/// The feature; its reference count is the number of tables with a directory.
const FAST: &str = "fast_dedup";

/// log2 of the block size of a table (`ddt_zap_default_bs`, `ddt_zap_default_ibs`).
const BLOCK_SHIFT: u8 = 15;
/// Number of rows of a histogram.
const ROWS: usize = 64;

impl Dedup {
    /// Writes the changes of the txg into the MOS and frees the blocks without references.
    pub fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        let mut tables = self.tables.lock();
        let is_fast = cx.feature_enabled("fast_dedup");
        self.is_fast.store(is_fast, Ordering::Relaxed);
        let mut bytes = 0u64;
        let mut gone = Vec::new();
        for (kind, table) in tables.iter_mut() {
            if table.is_dirty() {
                table.sync(cx, &self.space_bytes)?;
            }
            table.forget();
            match table.exists() {
                true => bytes = bytes.saturating_add(table.disk_bytes(cx.mos())?),
                false => gone.push(*kind),
            }
        }
        for kind in gone {
            tables.remove(&kind);
        }
        self.table_bytes.store(bytes, Ordering::Relaxed);
        let saved = tables.values().map(Table::saved_bytes).fold(0, u64::wrapping_add);
        self.saved_bytes.store(saved, Ordering::Relaxed);
        Ok(())
    }
}

impl Table {
    /// Writes the changed entries. Destroys the objects of a table that has no entries left.
    fn sync(&mut self, cx: &SyncTx<'_>, space_bytes: &SpaceOf) -> Result<()> {
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
            let zap = zap.ok_or_else(|| Error::corrupt(name(self.kind, before), "an entry refers to it"))?;
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
