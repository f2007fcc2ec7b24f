//! The dedup table of one checksum algorithm: up to three objects, one for each class of blocks,
//! and with fast_dedup a directory of its own.

use super::entry::{Entry, Slot};
use super::logs;
use errors::{Error, Place, Result};
use object::ObjectSet;
use object::zap::Zap;
use ondisk::ddt::{self, Key, LogHeader, PackedValue, Stat};
use ondisk::pool_dir::{self, DIRECTORY_OBJECT, directory};
use ondisk::{BlkPtr, Checksum};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checksums that are strong enough for dedup (`DDT_CHECKSUM_VALID`).
const KINDS: [Checksum; 5] = [Checksum::Sha256, Checksum::Sha512, Checksum::Skein, Checksum::EdonR, Checksum::Blake3];

/// Function that returns the space a pointer's block takes, without parity (`bp_get_dsize`).
pub(crate) type SpaceOf = Box<dyn Fn(&BlkPtr) -> u64 + Send + Sync>;

/// All tables, by checksum algorithm.
pub(super) type Tables = BTreeMap<u8, Table>;

/// The object of one class.
pub(super) struct Class {
    pub zap: Zap,
    pub histogram: Vec<Stat>,
}

/// The dedup table of one checksum algorithm.
pub(super) struct Table {
    pub kind: Checksum,
    /// Flat entries have one place, traditional entries four.
    pub is_flat: bool,
    /// Object number of the table's directory (fast_dedup), or 0 until it is created.
    pub fast: Option<u64>,
    pub classes: [Option<Class>; 3],
    /// Logs that OpenZFS wrote, with their object numbers; the next txg empties them.
    pub logs: Vec<(u64, LogHeader)>,
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

pub(super) fn name(kind: Checksum, class: usize) -> String {
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
