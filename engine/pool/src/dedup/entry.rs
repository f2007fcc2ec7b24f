//! An entry of a dedup table in memory: the contents of one block and how often it is referenced.

use ondisk::BlkPtr;
use ondisk::ddt::{Key, Phys, Stat};

/// Index of the class of blocks with more than one reference, and of the class of blocks with one
/// (`ondisk::ddt::CLASSES`).
pub const DUPLICATE: usize = 1;
pub const UNIQUE: usize = 2;
/// Index of the place of a traditional entry that is no longer written (`DDT_PHYS_DITTO`).
pub const DITTO: usize = 0;

/// An entry in memory, or a marker that a thread is reading it from disk.
pub enum Slot {
    Busy,
    Ready(Box<Entry>),
}

/// The state of one entry, in memory and on disk.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Class of the table on disk that contains the entry; `None` if no table does.
    pub class: Option<usize>,
    /// The values that the histogram of its class counts; `None` if the histogram does not count
    /// the entry, for example because it comes from a log.
    pub counted: Option<[Phys; 4]>,
    /// The current values. A flat entry uses only the first place.
    pub now: [Phys; 4],
    /// The entry must be written.
    pub is_changed: bool,
    /// A thread is writing the block of this entry.
    pub is_being_written: bool,
}

impl Entry {
    /// An entry as a table on disk stores it.
    pub fn stored(class: usize, places: [Phys; 4]) -> Self {
        Self { class: Some(class), counted: Some(places), now: places, ..Self::default() }
    }

    /// An entry as a log stores it. `class` is the class of the table that contains the key too.
    pub fn logged(class: Option<usize>, phys: Phys) -> Self {
        let now = [phys, Phys::default(), Phys::default(), Phys::default()];
        Self { class, now, is_changed: true, ..Self::default() }
    }

    /// Whether no table contains the entry and no thread has changed it or is writing its block.
    pub fn is_new(&self) -> bool {
        self.class.is_none() && !self.is_changed && !self.is_being_written
    }

    /// Index of the place that a block pointer refers to. The address and the birth txg must match,
    /// so that an older block, whose entry was removed from the table, is not taken for the new
    /// one.
    pub fn place_of(&self, bp: &BlkPtr) -> Option<usize> {
        let is_it = |phys: &Phys| phys.is_used() && phys.dva(0) == bp.dva(0) && phys.birth == bp.physical_birth();
        self.now.iter().position(is_it)
    }

    /// Sum of the references of all places.
    pub fn uses(places: &[Phys; 4]) -> u64 {
        places.iter().map(|phys| phys.references).fold(0, u64::saturating_add)
    }
}

/// The histogram row of an entry, and its index; `None` for an entry without references.
pub fn row(key: &Key, places: &[Phys; 4], space_bytes: impl Fn(&Phys) -> u64) -> Option<(usize, Stat)> {
    let mut stat = Stat::default();
    for phys in places.iter().filter(|phys| phys.is_used()) {
        let (lsize, psize, dsize) = (key.lsize_bytes(), key.psize_bytes(), space_bytes(phys));
        stat.blocks += 1;
        stat.lsize_bytes += lsize;
        stat.psize_bytes += psize;
        stat.dsize_bytes += dsize;
        stat.referenced_blocks = stat.referenced_blocks.wrapping_add(phys.references);
        stat.referenced_lsize_bytes = stat.referenced_lsize_bytes.wrapping_add(lsize.wrapping_mul(phys.references));
        stat.referenced_psize_bytes = stat.referenced_psize_bytes.wrapping_add(psize.wrapping_mul(phys.references));
        stat.referenced_dsize_bytes = stat.referenced_dsize_bytes.wrapping_add(dsize.wrapping_mul(phys.references));
    }
    let index = stat.referenced_blocks.checked_ilog2()? as usize;
    Some((index, stat))
}

/// Adds `stat` to a row, or subtracts it. Sums saturate: wrong counts of another implementation are
/// kept and cause no error.
pub fn count(row: &mut Stat, stat: &Stat, is_more: bool) {
    let change = |n: &mut u64, by: u64| *n = if is_more { n.saturating_add(by) } else { n.saturating_sub(by) };
    change(&mut row.blocks, stat.blocks);
    change(&mut row.lsize_bytes, stat.lsize_bytes);
    change(&mut row.psize_bytes, stat.psize_bytes);
    change(&mut row.dsize_bytes, stat.dsize_bytes);
    change(&mut row.referenced_blocks, stat.referenced_blocks);
    change(&mut row.referenced_lsize_bytes, stat.referenced_lsize_bytes);
    change(&mut row.referenced_psize_bytes, stat.referenced_psize_bytes);
    change(&mut row.referenced_dsize_bytes, stat.referenced_dsize_bytes);
}
