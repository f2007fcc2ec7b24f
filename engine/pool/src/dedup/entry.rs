//! What a table knows of one block's contents.

use ondisk::BlkPtr;
use ondisk::ddt::{Key, Phys, Stat};

/// Number of the class of blocks with more than one use, and of those with one (`ondisk::ddt::CLASSES`).
pub const DUPLICATE: usize = 1;
pub const UNIQUE: usize = 2;
/// Of a traditional entry, the place that nothing is written to any more (`DDT_PHYS_DITTO`).
pub const DITTO: usize = 0;

/// An entry in memory, or somebody reading it.
pub enum Slot {
    Busy,
    Ready(Box<Entry>),
}

/// What is known of contents.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// Class of the table on disk that has it.
    pub class: Option<usize>,
    /// As its class's histogram counts it; `None`: it does not, as with entries of a log.
    pub counted: Option<[Phys; 4]>,
    /// As it is now. A flat entry has the first place alone.
    pub now: [Phys; 4],
    /// It has to be written.
    pub is_changed: bool,
    /// Somebody writes a block for it.
    pub is_being_written: bool,
}

impl Entry {
    /// As a table on disk has it.
    pub fn stored(class: usize, places: [Phys; 4]) -> Self {
        Self { class: Some(class), counted: Some(places), now: places, ..Self::default() }
    }

    /// As a log has it, for contents that the table of `class` has too.
    pub fn logged(class: Option<usize>, phys: Phys) -> Self {
        let now = [phys, Phys::default(), Phys::default(), Phys::default()];
        Self { class, now, is_changed: true, ..Self::default() }
    }

    /// Whether neither a table nor anybody else knows of it.
    pub fn is_new(&self) -> bool {
        self.class.is_none() && !self.is_changed && !self.is_being_written
    }

    /// Which of its places a pointer means: addresses and birth tell, so that a block of before, whose entry was taken out of
    /// the table since, is not taken for the new one.
    pub fn place_of(&self, bp: &BlkPtr) -> Option<usize> {
        let is_it = |phys: &Phys| phys.is_used() && phys.dva(0) == bp.dva(0) && phys.birth == bp.physical_birth();
        self.now.iter().position(is_it)
    }

    /// All uses.
    pub fn uses(places: &[Phys; 4]) -> u64 {
        places.iter().map(|phys| phys.references).fold(0, u64::saturating_add)
    }
}

/// A row of a histogram for an entry, and which one it is; `None`: without uses there is none.
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

/// Adds `stat` to a row, or takes it away. What OpenZFS counted wrong stays wrong: nothing is refused for it.
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
