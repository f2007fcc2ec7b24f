//! Allocation of object numbers.
//!
//! A number freed in the open txg is not reused before that txg is closed. Until then, the free may
//! not be in the intent log yet, and the log would create the new object before it removes the old
//! one.
//!
//! Invariants:
//!   * a number is not allocated again before it was freed
//!   * the slots of one dnode are in one block of dnodes

use ondisk::dnode::SLOTS_PER_BLOCK;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Slots of one block of dnodes: a set bit is a slot in use.
pub(crate) type Mask = u32;

/// Free slots of the blocks of dnodes that were scanned so far.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    blocks: HashMap<u64, Mask>,
    /// Blocks below the cursor in which slots were freed.
    partial: BTreeSet<u64>,
    /// The block in which the next search starts.
    cursor: u64,
    /// By open txg: numbers freed in it, with their slots.
    waiting: BTreeMap<u64, Vec<(u64, u8)>>,
}

/// Maximum number of blocks of dnodes whose free slots are cached: 8 bytes each, plus table
/// overhead.
const BLOCKS_MAX: usize = 1 << 16;

impl Numbers {
    /// Starts to search in block `cursor`.
    pub fn new(cursor: u64) -> Self {
        Self { cursor, ..Self::default() }
    }

    /// Allocates `slots` consecutive free slots, and returns the first number. `look` returns the
    /// slots in use of a block that was not scanned before.
    pub fn take<E>(&mut self, slots: u8, mut look: impl FnMut(u64) -> Result<Mask, E>) -> Result<u64, E> {
        let partial: Vec<u64> = self.partial.iter().copied().take(4).collect();
        for block in partial {
            if let Some(id) = self.take_in(block, slots, &mut look)? {
                return Ok(id);
            }
            self.partial.remove(&block);
        }
        loop {
            if let Some(id) = self.take_in(self.cursor, slots, &mut look)? {
                return Ok(id);
            }
            self.cursor += 1;
            if self.blocks.len() > BLOCKS_MAX {
                let cursor = self.cursor;
                self.blocks.retain(|b, _| *b + 16 > cursor);
            }
        }
    }

    fn take_in<E>(
        &mut self,
        block: u64,
        slots: u8,
        look: &mut impl FnMut(u64) -> Result<Mask, E>,
    ) -> Result<Option<u64>, E> {
        let used = self.used(block, look)?;
        let want = run(slots);
        for at in 0..=SLOTS_PER_BLOCK as u32 - u32::from(slots) {
            // Object 0 is the meta dnode, and has no slot.
            if used & (want << at) == 0 && !(block == 0 && at == 0) {
                self.blocks.insert(block, used | (want << at));
                return Ok(Some(block * SLOTS_PER_BLOCK + u64::from(at)));
            }
        }
        Ok(None)
    }

    /// Slots in use, or freed in the open txg.
    fn used<E>(&mut self, block: u64, look: &mut impl FnMut(u64) -> Result<Mask, E>) -> Result<Mask, E> {
        if let Some(used) = self.blocks.get(&block) {
            return Ok(*used);
        }
        let mut used = look(block)?;
        for (id, slots) in self.waiting.values().flatten() {
            if id / SLOTS_PER_BLOCK == block {
                used |= run(*slots) << (id % SLOTS_PER_BLOCK);
            }
        }
        self.blocks.insert(block, used);
        Ok(used)
    }

    /// Allocates this number, even if it was freed in the open txg: the caller knows what was
    /// there. Returns false if a slot is in use.
    pub fn claim<E>(&mut self, id: u64, slots: u8, mut look: impl FnMut(u64) -> Result<Mask, E>) -> Result<bool, E> {
        let (block, at) = (id / SLOTS_PER_BLOCK, (id % SLOTS_PER_BLOCK) as u32);
        if id == 0 || at + u32::from(slots) > SLOTS_PER_BLOCK as u32 {
            return Ok(false);
        }
        // This includes slots freed under another number: for example, when a dnode within a freed
        // one of several slots is created.
        let end = id + u64::from(slots);
        let is_in_place = |(freed, slots): &mut (u64, u8)| *freed < end && id < *freed + u64::from(*slots);
        let freed: Vec<(u64, u8)> =
            self.waiting.values_mut().flat_map(|freed| freed.extract_if(.., is_in_place).collect::<Vec<_>>()).collect();
        freed.into_iter().for_each(|(freed, slots)| self.give(freed, slots));
        let used = self.used(block, &mut look)?;
        let free = used & (run(slots) << at) == 0;
        self.blocks.insert(block, if free { used | (run(slots) << at) } else { used });
        Ok(free)
    }

    /// Frees a number in the open txg `txg`.
    pub fn give_later(&mut self, txg: u64, id: u64, slots: u8) {
        self.waiting.entry(txg).or_default().push((id, slots));
    }

    /// Makes the numbers freed in `txg`, which is closed now, available.
    pub fn closed(&mut self, txg: u64) {
        let open = self.waiting.split_off(&(txg + 1));
        for (id, slots) in std::mem::replace(&mut self.waiting, open).into_values().flatten() {
            self.give(id, slots);
        }
    }

    /// Frees a number at once.
    pub fn give(&mut self, id: u64, slots: u8) {
        let (block, at) = (id / SLOTS_PER_BLOCK, (id % SLOTS_PER_BLOCK) as u32);
        if let Some(used) = self.blocks.get_mut(&block) {
            *used &= !(run(slots) << at);
        }
        if block < self.cursor {
            self.partial.insert(block);
        }
    }
}

/// A mask of the first `slots` slots of a block.
pub(crate) fn run(slots: u8) -> Mask {
    if slots >= 32 { Mask::MAX } else { (1 << slots) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(_: u64) -> Result<Mask, ()> {
        Ok(0)
    }

    #[test]
    fn numbers_start_at_one_and_do_not_repeat() {
        let mut n = Numbers::new(0);
        let got: Vec<u64> = (0..100).map(|_| n.take(1, empty).unwrap()).collect();
        assert_eq!(got, (1..101).collect::<Vec<_>>());
        n.give(7, 1);
        assert_eq!(n.take(1, empty).unwrap(), 7);
        assert_eq!(n.take(1, empty).unwrap(), 101);
    }

    #[test]
    fn numbers_freed_in_an_open_txg_wait_for_its_end_unless_requested() {
        let mut n = Numbers::new(0);
        (1..=10).for_each(|id| assert_eq!(n.take(1, empty), Ok(id)));
        n.give_later(5, 3, 1);
        n.give_later(5, 4, 1);
        n.give_later(6, 5, 1);
        assert_eq!(n.take(1, empty), Ok(11));
        assert_eq!(n.claim(4, 1, empty), Ok(true));
        assert_eq!(n.claim(4, 1, empty), Ok(false));
        n.closed(5);
        assert_eq!(n.take(1, empty), Ok(3));
        assert_eq!(n.take(1, empty), Ok(12));
        n.closed(6);
        assert_eq!(n.take(1, empty), Ok(5));
    }

    #[test]
    fn a_number_freed_in_an_open_txg_can_be_requested() {
        let mut n = Numbers::new(0);
        assert!(n.claim(4, 4, empty).unwrap() && n.claim(8, 1, empty).unwrap() && n.claim(9, 1, empty).unwrap());
        n.give_later(5, 4, 4);
        assert!(n.claim(6, 1, empty).unwrap());
        n.give_later(6, 8, 1);
        n.give_later(6, 9, 1);
        assert!(n.claim(7, 2, empty).unwrap(), "over two of them");
        assert!(!n.claim(8, 1, empty).unwrap());
        assert!(n.claim(4, 2, empty).unwrap(), "the rest of the first");
        assert_eq!((1..=5).map(|_| n.take(1, empty).unwrap()).collect::<Vec<_>>(), [1, 2, 3, 10, 11]);
        n.closed(6);
        assert_eq!(n.take(1, empty), Ok(9));
    }

    #[test]
    fn the_slots_of_a_large_dnode_stay_in_one_block() {
        let mut n = Numbers::new(0);
        assert_eq!(n.take(16, empty).unwrap(), 1);
        assert_eq!(n.take(16, empty).unwrap(), 32);
        assert_eq!(n.take(8, empty).unwrap(), 48);
        assert!(n.claim(60, 4, empty).unwrap());
        assert!(!n.claim(63, 1, empty).unwrap());
        assert!(!n.claim(62, 4, empty).unwrap(), "crosses into the next block");
        assert_eq!(n.take(32, empty).unwrap(), 64);
    }
}
