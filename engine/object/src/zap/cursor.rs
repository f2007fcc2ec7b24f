//! Walks over a ZAP in the order of (hash, collision number).
//!
//! The cookie of a position equals that of OpenZFS's `zap_cursor_serialize`: the hash's 28 (48)
//! significant bits at the bottom, the collision number above them. The position after an entry is
//! its own with the collision number plus one.

use super::Zap;
use super::form::{Form, Kind, MicroForm};
use block::Block;
use errors::{Place, Result};
use ondisk::zap::{Leaf, LeafEntry, Value as ZapValue};

/// An entry of a ZAP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZapEntry {
    /// Name as stored, without its NUL; empty if keys are numbers.
    pub name: Vec<u8>,
    /// Key, if keys are numbers.
    pub key: Vec<u64>,
    pub value: ZapValue,
}

/// A walk; see [`Zap::cursor`]. It ends after the first error.
pub struct Cursor<'z> {
    zap: &'z Zap,
    /// The next entry has at least this hash and collision number; `None` at the end.
    place: Option<(u64, u32)>,
    /// Remaining entries of the current leaf, last first.
    leaf: Option<(Block, Vec<LeafEntry>)>,
}

impl Zap {
    /// All entries, in the order of a walk. Holds the whole ZAP in memory: see [`Zap::cursor`] for
    /// an alternative.
    pub fn entries(&self) -> Result<Vec<ZapEntry>> {
        self.cursor(0).map(|step| step.map(|(entry, _)| entry)).collect()
    }

    /// Walks from `cookie` (0: from the start). Yields each entry and the cookie of the position
    /// after it.
    pub fn cursor(&self, cookie: u64) -> Cursor<'_> {
        Cursor::new(self, cookie)
    }
}

impl<'z> Cursor<'z> {
    fn new(zap: &'z Zap, cookie: u64) -> Self {
        let flags = zap.flags();
        let hash = cookie << (64 - flags.hash_bits());
        let mut cd = (cookie >> flags.hash_bits()) as u32;
        if cd >= flags.max_cd() {
            cd = 0;
        }
        Self { zap, place: (cookie != u64::MAX).then_some((hash, cd)), leaf: None }
    }

    fn cookie_behind(&self, hash: u64, cd: u32) -> u64 {
        let bits = self.zap.flags().hash_bits();
        (hash >> (64 - bits)) | (u64::from(cd) + 1) << bits
    }

    fn step(&mut self) -> Result<Option<(ZapEntry, u64)>> {
        let form = self.zap.form()?;
        match &form.kind {
            Kind::Micro(kind) => self.step_micro(&form, kind),
            Kind::Fat(_) => self.step_fat(&form),
        }
    }

    fn step_micro(&mut self, form: &Form, kind: &MicroForm) -> Result<Option<(ZapEntry, u64)>> {
        let Some(from) = self.place else { return Ok(None) };
        let first = form.first(&*self.zap.source)?;
        let micro = self.zap.micro(&first)?;
        let index = &kind.index(&micro).places;
        let at = index.partition_point(|p| (p.hash, p.cd) < from);
        let Some(place) = index.get(at) else { return Ok(None) };
        let Some(entry) = micro.entry(place.index as usize) else { return Ok(None) };
        self.place = behind(place.hash, place.cd);
        let found = ZapEntry { name: entry.name.to_vec(), key: Vec::new(), value: ZapValue::one(entry.value) };
        Ok(Some((found, self.cookie_behind(place.hash, place.cd))))
    }

    fn step_fat(&mut self, form: &Form) -> Result<Option<(ZapEntry, u64)>> {
        let zap = self.zap;
        let at = || zap.source.place();
        while let Some(from) = self.place {
            if self.leaf.is_none() {
                let Some(block) = zap.leaf_block(form, from.0)? else { return Ok(None) };
                let leaf = Leaf::parse(&block.data, block.endian).at_with(at)?;
                let mut entries = leaf.entries().at_with(at)?;
                entries.retain(|e| (e.hash, e.cd) >= from && leaf.covers(e.hash));
                entries.sort_unstable_by_key(|e| std::cmp::Reverse((e.hash, e.cd)));
                self.leaf = Some((block, entries));
            }
            let Some((block, entries)) = &mut self.leaf else { return Ok(None) };
            let leaf = Leaf::parse(&block.data, block.endian).at_with(at)?;
            if let Some(entry) = entries.pop() {
                let (name, key) = leaf.name_or_key(&entry, zap.flags()).at_with(at)?;
                let value = leaf.value(&entry).at_with(at)?;
                self.place = behind(entry.hash, entry.cd);
                return Ok(Some((ZapEntry { name, key, value }, self.cookie_behind(entry.hash, entry.cd))));
            }
            self.place = leaf.next_hash().map(|hash| (hash, 0));
            self.leaf = None;
        }
        Ok(None)
    }
}

fn behind(hash: u64, cd: u32) -> Option<(u64, u32)> {
    match cd.checked_add(1) {
        Some(cd) => Some((hash, cd)),
        None => hash.checked_add(1).map(|hash| (hash, 0)),
    }
}

impl Iterator for Cursor<'_> {
    type Item = Result<(ZapEntry, u64)>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().transpose();
        if !matches!(step, Some(Ok(_))) {
            (self.place, self.leaf) = (None, None);
        }
        step
    }
}
