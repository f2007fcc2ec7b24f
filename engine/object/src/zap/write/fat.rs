//! Changes a fat ZAP: header, pointer table, leaves.
//!
//! ```text
//!   insert -> leaf has room?  yes: put it there, count it in the header
//!                             no:  only one table entry points to the leaf?
//!                                    grow the table first (twice as many entries)
//!                                  split the leaf, point the upper half of its table entries
//!                                    to the new leaf, try again
//! ```
//! If OpenZFS has started to copy the table to a larger one, the copy is completed before the first
//! entry of the table changes.
//!
//! Invariants:
//!   * everything needed is read and checked before the first block changes
//!   * after each function here, the header on disk equals the one in memory

use super::change::{Change, Mode};
use super::store::{BlockStore, little};
use block::Block;
use errors::{Error, Place, Refusal, Result};
use ondisk::Endian;
use ondisk::zap::fat::TableSlot;
use ondisk::zap::leaf::edit;
use ondisk::zap::{Header, Key, Leaf, LeafEntry, LeafMut, Value};

const LE: Endian = Endian::Little;

/// The header of a fat ZAP, and its blocks.
pub(super) struct Fat<'a> {
    pub header: &'a mut Header,
    pub store: &'a dyn BlockStore,
    /// Whether keys are numbers.
    pub words: bool,
    /// Whether chains are ordered by cd.
    pub sorted: bool,
}

/// Writes a ZAP without entries: header and one leaf.
pub(super) fn create(store: &dyn BlockStore, header: &Header) -> Result<()> {
    let size = 1usize << header.block_shift;
    let mut first = vec![0; size];
    first[..Header::SIZE_BYTES].copy_from_slice(&header.to_bytes());
    for word in first[size / 2..].chunks_exact_mut(8) {
        LE.put_u64(word, 1);
    }
    let mut leaf = vec![0; size];
    LeafMut::init(&mut leaf, 0, 0, !header.norm_flags.is_empty()).at_with(|| store.place())?;
    store.put(0, &first)?;
    store.put(1, &leaf)
}

impl Fat<'_> {
    /// Adds an entry, or updates an existing one.
    pub fn put(&mut self, change: &Change<'_>, mode: Mode) -> Result<()> {
        let (hash, key, value) = (change.hash, change.key, change.value);
        let room = edit::chunks_in(self.store.block_bytes());
        if edit::chunks_needed(key.len_bytes(), value.len_bytes()) > room {
            return Err(Refusal::TooLarge.at(self.store.place()));
        }
        little(self.store, 0)?;
        loop {
            let number = self.leaf_number(hash)?;
            let block = self.leaf_block(number, hash)?;
            let found = {
                let leaf = Leaf::parse(&block.data, LE).at_with(|| self.store.place())?;
                self.find(&leaf, hash, key)?.is_some()
            };
            if found && mode == Mode::Insert {
                return Err(Refusal::Exists.at(self.store.place()));
            }
            let mut fits = false;
            drop(block);
            self.store.change(number, &mut |bytes| {
                let mut leaf = LeafMut::open(bytes)?;
                fits = match leaf.find(hash, key)? {
                    Some(found) => leaf.set_value(&found, value)?,
                    None => leaf.add(hash, change.cd, key, value)?,
                };
                Ok(())
            })?;
            if fits {
                return if found { Ok(()) } else { self.count(1) };
            }
            if self.is_crowded(number, change)? {
                return Err(Refusal::NoSpace.at(self.store.place()));
            }
            self.split(number, hash)?;
        }
    }

    /// Whether entries with this one hash fill the leaf: neither a split nor a larger table would
    /// separate them.
    fn is_crowded(&self, number: u64, change: &Change<'_>) -> Result<bool> {
        let block = self.leaf_block(number, change.hash)?;
        let leaf = Leaf::parse(&block.data, LE).at_with(|| self.store.place())?;
        let mut chunks = edit::chunks_needed(change.key.len_bytes(), change.value.len_bytes());
        let replaced = self.find(&leaf, change.hash, change.key)?;
        for entry in leaf.chain(change.hash) {
            let entry = entry.at_with(|| self.store.place())?;
            if entry.hash == change.hash && Some(entry) != replaced {
                let key = usize::from(entry.name_ints) * if self.words { 8 } else { 1 };
                let value = usize::from(entry.value_ints) * usize::from(entry.value_int_bytes);
                chunks += edit::chunks_needed(key, value);
            }
        }
        Ok(chunks > edit::chunks_in(self.store.block_bytes()))
    }

    /// Removes an entry. Returns false if there is none.
    pub fn remove(&mut self, hash: u64, key: Key<'_>) -> Result<bool> {
        little(self.store, 0)?;
        let number = self.leaf_number(hash)?;
        let block = self.leaf_block(number, hash)?;
        let leaf = Leaf::parse(&block.data, LE).at_with(|| self.store.place())?;
        if self.find(&leaf, hash, key)?.is_none() {
            return Ok(false);
        }
        let (prefix_bits, words) = (leaf.prefix_bits, self.words);
        drop(block);
        let mut left = 0;
        self.store.change(number, &mut |bytes| {
            let mut leaf = LeafMut::open(bytes)?;
            if let Some(found) = leaf.find(hash, key)? {
                leaf.remove(&found, words)?;
            }
            left = leaf.entries();
            Ok(())
        })?;
        self.count(-1)?;
        if left == 0 && prefix_bits > 0 {
            self.shrink(hash)?;
        }
        Ok(true)
    }

    /// The value of an entry.
    pub fn value(&self, hash: u64, key: Key<'_>) -> Result<Option<Value>> {
        let block = self.leaf_block(self.leaf_number(hash)?, hash)?;
        let leaf = Leaf::parse(&block.data, LE).at_with(|| self.store.place())?;
        let found = self.find(&leaf, hash, key)?;
        found.map(|entry| leaf.value(&entry).at_with(|| self.store.place())).transpose()
    }

    fn find(&self, leaf: &Leaf<'_>, hash: u64, key: Key<'_>) -> Result<Option<LeafEntry>> {
        for entry in leaf.chain(hash) {
            let entry = entry.at_with(|| self.store.place())?;
            let is_it = entry.hash == hash
                && match key {
                    Key::Name(name) => leaf.name_is(&entry, name),
                    Key::Words(words) if usize::from(entry.name_ints) != words.len() => Ok(false),
                    Key::Words(words) => leaf.key(&entry).map(|k| k == words),
                }
                .at_with(|| self.store.place())?;
            if is_it {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn bad(&self, what: String) -> Error {
        Error::corrupt(self.store.place(), format!("zap: {what}"))
    }

    fn count(&mut self, delta: i64) -> Result<()> {
        let entries = self.header.entries.checked_add_signed(delta);
        let entries = entries.ok_or_else(|| self.bad("zap_num_entries is 0, and there are entries".to_owned()))?;
        little(self.store, 0)?;
        self.store.put_at(0, Header::ENTRIES_OFFSET, &entries.to_le_bytes())?;
        self.header.entries = entries;
        Ok(())
    }

    fn write_header(&self) -> Result<()> {
        little(self.store, 0)?;
        self.store.put_at(0, 0, &self.header.to_bytes())
    }

    /// Entry `index` of the table.
    fn table_entry(&self, index: u64) -> Result<u64> {
        let slot = self.header.table_slot(index);
        let block = self.store.block(slot.block)?;
        let number = block.and_then(|b| Some(b.endian.u64(b.data.get(slot.word * 8..slot.word * 8 + 8)?)));
        Ok(number.unwrap_or(0))
    }

    fn leaf_number(&self, hash: u64) -> Result<u64> {
        let index = self.header.table_index(hash);
        match self.table_entry(index)? {
            0 => Err(self.bad(format!("table entry {index} is empty"))),
            number => Ok(number),
        }
    }

    /// The leaf in block `number`. Fails if it does not cover `hash`.
    fn leaf_block(&self, number: u64, hash: u64) -> Result<Block> {
        let block = little(self.store, number)?;
        let leaf = Leaf::parse(&block.data, LE).at_with(|| self.store.place())?;
        if leaf.prefix_bits > self.header.table_shift || !leaf.covers(hash) {
            let what =
                format!("leaf {number} has prefix {:#x} of {} bits, which does not fit", leaf.prefix, leaf.prefix_bits);
            return Err(self.bad(what));
        }
        Ok(block)
    }

    /// The blocks that hold `count` entries of the table, starting at `first`: in each, the first
    /// word and the number of words.
    fn table_parts(&self, first: u64, count: u64) -> Vec<(TableSlot, usize)> {
        let (mut parts, mut index) = (Vec::new(), first);
        while index < first + count {
            let slot = self.header.table_slot(index);
            // The second half of the header also ends at the end of its block.
            let in_block = (self.store.block_bytes() / 8 - slot.word) as u64;
            let n = in_block.min(first + count - index);
            parts.push((slot, n as usize));
            index += n;
        }
        parts
    }

    /// Reads the part of the table that [`Fat::point`] will change.
    fn read_table(&self, first: u64, count: u64) -> Result<()> {
        self.table_parts(first, count).iter().try_for_each(|(slot, _)| little(self.store, slot.block).map(drop))
    }

    /// Points `count` entries of the table, starting at `first`, to leaf `number`. Everything is
    /// read by [`Fat::read_table`].
    fn point(&self, first: u64, count: u64, number: u64) -> Result<()> {
        for (slot, n) in self.table_parts(first, count) {
            self.store.change(slot.block, &mut |bytes| {
                for word in bytes[slot.word * 8..].chunks_exact_mut(8).take(n) {
                    LE.put_u64(word, number);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Allocates blocks after all others. Returns the first one.
    fn allocate(&mut self, count: u64) -> Result<u64> {
        let start = self.header.free_block;
        let used = self.header.table_start.saturating_add(self.header.table_blocks);
        let reach = (u64::MAX >> self.header.block_shift).min(i64::MAX as u64);
        // With a wrong header, leaves would be overwritten.
        let fits = start >= used.max(2) && start.checked_add(count).is_some_and(|end| end < reach);
        if !fits || self.store.block(start)?.is_some() {
            return Err(self.bad(format!("zap_freeblk is {start}, which is not beyond the blocks in use")));
        }
        self.header.free_block += count;
        Ok(start)
    }

    /// Splits the leaf in block `number`. If only one table entry points to it, grows the table
    /// instead.
    fn split(&mut self, number: u64, hash: u64) -> Result<()> {
        if self.header.next_table_start != 0 {
            return self.grow();
        }
        let block = self.leaf_block(number, hash)?;
        let leaf = Leaf::parse(&block.data, LE).at_with(|| self.store.place())?;
        let (prefix, bits, shift) = (leaf.prefix, leaf.prefix_bits, self.header.table_shift);
        if bits == shift {
            return self.grow();
        }
        let [low, high] = edit::split(&block.data, self.words, self.sorted).at_with(|| self.store.place())?;
        drop(block);
        let count = 1u64 << (shift - (bits + 1));
        let first = ((prefix << 1) | 1) << (shift - (bits + 1));
        for index in [first, first + count - 1] {
            if self.table_entry(index)? != number {
                return Err(self.bad(format!("table entry {index} does not point at leaf {number} that it shares")));
            }
        }
        self.read_table(first, count)?;
        let new = self.allocate(1)?;
        self.store.put(new, &high)?;
        self.store.put(number, &low)?;
        self.point(first, count, new)?;
        self.header.leaves += 1;
        self.write_header()
    }

    /// Doubles the table, into blocks of its own.
    fn grow(&mut self) -> Result<()> {
        let header = &*self.header;
        if header.table_shift >= header.flags.hash_bits() - 2 {
            // Too many keys share the same hash bits: no leaf holds them.
            return Err(Refusal::NoSpace.at(self.store.place()));
        }
        let (block_bytes, words_shift) = (self.store.block_bytes(), header.block_shift - 3);
        let full = match header.table_blocks {
            0 => header.table_shift == words_shift - 1,
            n => n.checked_shl(words_shift) == Some(1 << header.table_shift),
        };
        if !full {
            return Err(self.bad(format!("zt_shift {} does not fill the table", header.table_shift)));
        }
        let double = |words: &[u8]| -> Vec<u8> { words.chunks_exact(8).flat_map(|w| [w, w].concat()).collect() };
        if header.table_blocks == 0 {
            let first = little(self.store, 0)?;
            let table = double(&first.data[block_bytes / 2..]);
            drop(first);
            let start = self.allocate(1)?;
            self.store.put(start, &table)?;
            (self.header.table_start, self.header.table_blocks) = (start, 1);
        } else {
            let (old, count) = (header.table_start, header.table_blocks);
            let copied = if header.next_table_start == 0 { 0 } else { header.next_table_copied };
            let words: Vec<_> =
                (copied..count).map(|block| Ok(little(self.store, old + block)?.data)).collect::<Result<_>>()?;
            let new = match header.next_table_start {
                0 => self.allocate(count * 2)?,
                start => start,
            };
            for (block, words) in (copied..count).zip(words) {
                let (lower, upper) = words.split_at(block_bytes / 2);
                self.store.put(new + block * 2, &double(lower))?;
                self.store.put(new + block * 2 + 1, &double(upper))?;
            }
            self.store.free(old, count)?;
            (self.header.table_start, self.header.table_blocks) = (new, count * 2);
            (self.header.next_table_start, self.header.next_table_copied) = (0, 0);
        }
        self.header.table_shift += 1;
        self.write_header()
    }

    /// Merges the empty leaf of `hash` with its sibling, if that is empty too, and so on upwards.
    /// An empty leaf whose sibling cannot be read stays.
    fn shrink(&mut self, hash: u64) -> Result<()> {
        while let Ok(Some(pair)) = self.empty_pair(hash) {
            self.point(pair.first, pair.count, pair.low)?;
            self.store.change(pair.low, &mut |bytes| {
                LeafMut::open(bytes)?.widen();
                Ok(())
            })?;
            self.store.free(pair.high, 1)?;
            self.header.leaves = self.header.leaves.saturating_sub(1);
            if pair.high + 1 == self.header.free_block {
                self.header.free_block = pair.high;
            }
            self.write_header()?;
        }
        Ok(())
    }

    /// The leaf of `hash` and its sibling, if both are empty. Reads everything that merging them
    /// changes.
    fn empty_pair(&self, hash: u64) -> Result<Option<Pair>> {
        if self.header.next_table_start != 0 {
            return Ok(None);
        }
        let number = self.leaf_number(hash)?;
        let block = self.leaf_block(number, hash)?;
        let leaf = Leaf::parse(&block.data, LE).at_with(|| self.store.place())?;
        let (prefix, bits, shift) = (leaf.prefix, leaf.prefix_bits, self.header.table_shift);
        if bits == 0 || leaf.entries != 0 {
            return Ok(None);
        }
        let count = 1u64 << (shift - bits);
        let other_first = (prefix ^ 1) << (shift - bits);
        let other = self.table_entry(other_first)?;
        if other == 0 || other == number || self.table_entry(other_first + count - 1)? != other {
            return Ok(None);
        }
        let other_block = little(self.store, other)?;
        let other_leaf = Leaf::parse(&other_block.data, LE).at_with(|| self.store.place())?;
        if (other_leaf.prefix, other_leaf.prefix_bits, other_leaf.entries) != (prefix ^ 1, bits, 0) {
            return Ok(None);
        }
        let (low, high) = if prefix & 1 == 0 { (number, other) } else { (other, number) };
        let first = (prefix | 1) << (shift - bits);
        self.read_table(first, count)?;
        Ok(Some(Pair { low, high, first, count }))
    }
}

/// Two empty leaves that can be merged.
struct Pair {
    /// The one that stays.
    low: u64,
    high: u64,
    /// Table entries that point to `high`.
    first: u64,
    count: u64,
}

/// The value as a single 64-bit number, if it is one: only these fit into a micro ZAP.
pub(super) fn is_micro_value(value: &Value) -> Option<u64> {
    match (value.int_bytes, &value.ints[..]) {
        (8, [n]) => Some(*n),
        _ => None,
    }
}
