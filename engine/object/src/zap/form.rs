//! Cached state of a ZAP: the header of a fat one, the index of a micro one.
//!
//! All handles of a live object share one [`Shared`], so that a write by one is visible to the
//! others at once, and an insert into a directory of two thousand names does not read them all.
//! Each handle of a read-only object has its own.
//!
//! Invariants:
//!   * a form is changed only together with the blocks it was made from, under the same lock
//!   * after a change that failed half-way, and after the object was freed, it is read again

use super::norm::normalise;
use super::source::BlockSource;
use block::Block;
use errors::{Error, Place, Result};
use host::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use ondisk::zap::{BlockKind, Flags as ZapFlags, Header, Micro, MicroEntry, NormFlags, hash};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The form of one ZAP, shared by its handles.
#[derive(Default)]
pub struct Shared {
    form: RwLock<Option<Box<Form>>>,
    epoch: AtomicU64,
}

impl Shared {
    /// Makes the next user read the form again: the object was freed, or written by others.
    pub fn forget(&self) {
        // Takes no lock: the caller may hold the object's lock, which is taken inside of this one.
        self.epoch.fetch_add(1, Ordering::Release);
    }

    pub(super) fn read(&self, source: &dyn BlockSource, keep_first: bool) -> Result<FormRead<'_>> {
        loop {
            let guard = self.form.read();
            if let Some(form) = guard.as_deref()
                && form.epoch == self.epoch.load(Ordering::Acquire)
            {
                return Ok(FormRead(guard));
            }
            drop(guard);
            drop(self.write(source, keep_first)?);
        }
    }

    pub(super) fn write(&self, source: &dyn BlockSource, keep_first: bool) -> Result<FormWrite<'_>> {
        let mut guard = self.form.write();
        let epoch = self.epoch.load(Ordering::Acquire);
        if guard.as_deref().is_none_or(|f| f.epoch != epoch) {
            *guard = None;
            *guard = Some(Box::new(Form::load(source, epoch, keep_first)?));
        }
        Ok(FormWrite(guard))
    }
}

/// A form that cannot change meanwhile.
pub(super) struct FormRead<'s>(RwLockReadGuard<'s, Option<Box<Form>>>);

impl std::ops::Deref for FormRead<'_> {
    type Target = Form;

    fn deref(&self) -> &Form {
        self.0.as_deref().expect("`Shared::read` gives only forms that are there")
    }
}

/// A form with exclusive access.
pub(super) struct FormWrite<'s>(RwLockWriteGuard<'s, Option<Box<Form>>>);

impl FormWrite<'_> {
    pub fn form(&mut self) -> &mut Form {
        self.0.as_deref_mut().expect("`Shared::write` gives only forms that are there")
    }

    /// Drops the form: it may differ from the blocks.
    pub fn discard(mut self) {
        *self.0 = None;
    }
}

/// Contents of block 0.
pub(super) struct Form {
    epoch: u64,
    pub kind: Kind,
    /// Block 0, cached if the object is read-only.
    pub first: Option<Block>,
}

pub(super) enum Kind {
    Micro(MicroForm),
    Fat(Header),
}

/// State of a micro ZAP.
pub(super) struct MicroForm {
    pub salt: u64,
    pub norm_flags: NormFlags,
    pub index: OnceLock<MicroIndex>,
}

/// Positions of the entries of a micro ZAP, and its free slots.
pub(super) struct MicroIndex {
    /// In the order of walks.
    pub places: Vec<MicroPlace>,
    /// A bit for each slot in use.
    used: Vec<u64>,
    /// Number of slots in the block.
    pub slots: usize,
    /// Slot where the search for a free one starts.
    next: usize,
}

/// Position of an entry of a micro ZAP in the order of walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MicroPlace {
    pub hash: u64,
    pub cd: u32,
    pub index: u32,
}

impl Form {
    fn load(source: &dyn BlockSource, epoch: u64, keep_first: bool) -> Result<Self> {
        let first = source
            .block(0)?
            .ok_or_else(|| Error::corrupt(source.place(), "zap: block 0 is a hole, expected a header"))?;
        let kind = match BlockKind::of(&first.data, first.endian).at_with(|| source.place())? {
            BlockKind::Micro => {
                let micro = Micro::parse(&first.data, first.endian).at_with(|| source.place())?;
                Kind::Micro(MicroForm { salt: micro.salt, norm_flags: micro.norm_flags, index: OnceLock::new() })
            }
            _ => Kind::Fat(Header::parse(&first.data, first.endian).at_with(|| source.place())?),
        };
        Ok(Self { epoch, kind, first: keep_first.then_some(first) })
    }

    /// Block 0, without a read if it is kept in memory.
    pub fn first(&self, source: &dyn BlockSource) -> Result<Block> {
        match &self.first {
            Some(first) => Ok(first.clone()),
            None => source.block(0)?.ok_or_else(|| Error::corrupt(source.place(), "zap: block 0 is a hole")),
        }
    }

    pub fn salt(&self) -> u64 {
        match &self.kind {
            Kind::Micro(micro) => micro.salt,
            Kind::Fat(header) => header.salt,
        }
    }

    pub fn norm_flags(&self) -> NormFlags {
        match &self.kind {
            Kind::Micro(micro) => micro.norm_flags,
            Kind::Fat(header) => header.norm_flags,
        }
    }

    pub fn flags(&self) -> ZapFlags {
        match &self.kind {
            Kind::Micro(_) => ZapFlags::empty(),
            Kind::Fat(header) => header.flags,
        }
    }
}

impl MicroForm {
    pub fn hash(&self, name: &[u8]) -> u64 {
        hash::of_name(self.salt, ZapFlags::empty(), &normalise(name, self.norm_flags))
    }

    /// The index, built on first use.
    pub fn index(&self, micro: &Micro<'_>) -> &MicroIndex {
        self.index.get_or_init(|| {
            let place = |e: MicroEntry<'_>| MicroPlace { hash: self.hash(e.name), cd: e.cd, index: e.index as u32 };
            let mut places: Vec<_> = micro.entries().map(place).collect();
            places.sort_unstable();
            let mut index = MicroIndex { places, used: Vec::new(), slots: 0, next: 0 };
            index.grow(micro.slots());
            for place in &index.places {
                index.used[place.index as usize / 64] |= 1 << (place.index % 64);
            }
            index
        })
    }
}

impl MicroIndex {
    /// The entries with this hash, ordered by cd.
    pub fn of_hash(&self, hash: u64) -> &[MicroPlace] {
        let start = self.places.partition_point(|p| p.hash < hash);
        let len = self.places[start..].iter().take_while(|p| p.hash == hash).count();
        &self.places[start..start + len]
    }

    /// Extends the index to `slots` slots.
    pub fn grow(&mut self, slots: usize) {
        self.slots = slots;
        self.used.resize(slots.div_ceil(64), 0);
    }

    /// A free slot; `None` if all are in use.
    pub fn free_slot(&self) -> Option<usize> {
        if self.places.len() >= self.slots {
            return None;
        }
        let free = |i: &usize| self.used[i / 64] >> (i % 64) & 1 == 0;
        (self.next..self.slots).chain(0..self.next.min(self.slots)).find(free)
    }

    pub fn add(&mut self, place: MicroPlace) {
        let at = self.places.partition_point(|p| *p < place);
        self.places.insert(at, place);
        let slot = place.index as usize;
        self.used[slot / 64] |= 1 << (slot % 64);
        self.next = if slot + 1 == self.slots { 0 } else { slot + 1 };
    }

    pub fn remove(&mut self, place: MicroPlace) {
        if let Ok(at) = self.places.binary_search(&place) {
            self.places.remove(at);
        }
        let slot = place.index as usize;
        self.used[slot / 64] &= !(1 << (slot % 64));
    }

    /// The lowest collision number that no entry of `hash` has.
    pub fn free_cd(&self, hash: u64) -> u32 {
        let mut free = 0;
        for place in self.of_hash(hash) {
            if place.cd == free {
                free += 1;
            }
        }
        free
    }
}
