//! The metaslabs of one top-level device.
//!
//! Threads that allocate meet at the lock of one metaslab, for the time of a search in memory. Each copy of a block has its
//! own metaslab in use, so that copies on one device lie far apart.

use super::Totals;
use super::slab::{Freed, MapState, Reader, Slab};
use crate::Result;
use block::Class;
use block::vdev::{Kind, Vdev, draid, raidz};
use ondisk::Dva;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Metaslabs in use at once: one for each copy of a block, and one for the intent log.
const SLOTS: usize = 4;
/// The slot of the intent log.
pub(super) const LOG_SLOT: usize = 3;
const NONE: u32 = u32::MAX;

/// How large blocks become on a device.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Single devices and mirrors.
    Plain,
    /// RAID-Z.
    Raidz(raidz::Geometry),
    /// dRAID.
    Draid(draid::Geometry),
}

impl Shape {
    /// Of a device in the tree; `None`: it holds no blocks.
    pub fn of(kind: &Kind) -> Option<Self> {
        match kind {
            Kind::Leaf(_) | Kind::Mirror(_) => Some(Self::Plain),
            Kind::Raidz(g) => Some(Self::Raidz(g.clone())),
            Kind::Draid(g) => Some(Self::Draid(g.clone())),
            Kind::Missing => Some(Self::Plain),
            Kind::DraidSpare { .. } | Kind::Indirect(_) | Kind::Hole => None,
        }
    }

    pub(super) fn asize_bytes(&self, psize_bytes: u64, ashift: u8, txg: u64) -> u64 {
        match self {
            Self::Plain => psize_bytes.next_multiple_of(1 << ashift),
            Self::Raidz(g) => g.asize_bytes(psize_bytes, txg),
            Self::Draid(g) => g.asize_bytes(psize_bytes),
        }
    }

    pub(super) fn minimum_psize_bytes(&self, ashift: u8) -> u64 {
        match self {
            Self::Draid(g) => g.minimum_psize_bytes(),
            _ => 1 << ashift,
        }
    }

    /// Metaslabs begin and end at multiples of this.
    pub(super) fn alignment_bytes(&self) -> u64 {
        match self {
            Self::Draid(g) => g.alignment_bytes().max(1),
            _ => 1,
        }
    }
}

/// Whether enough of a device is there for what is written to it to be read again.
pub(crate) fn is_writable(device: &Vdev) -> bool {
    let away = || device.children.iter().filter(|c| !is_writable(c)).count();
    match &device.kind {
        Kind::Leaf(leaf) => leaf.is_open() && !leaf.has_failed(),
        Kind::Mirror(_) => away() < device.children.len(),
        Kind::Raidz(g) => away() <= g.parity(),
        Kind::Draid(g) => away() <= g.parity(),
        Kind::DraidSpare { .. } => true,
        Kind::Indirect(_) | Kind::Hole | Kind::Missing => false,
    }
}

/// What a device is for, to the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Its class.
    Main,
    /// The metaslab that is set apart for the intent log.
    Log,
}

/// Bytes of these metaslabs.
fn bytes_of(slabs: &[Arc<Slab>], ashift: u8) -> u64 {
    slabs.iter().map(|s| u64::from(s.units) << ashift).sum()
}

/// A top-level device.
pub(super) struct Group {
    pub vdev: u32,
    pub name: String,
    pub class: Class,
    pub shape: Shape,
    pub ashift: u8,
    pub slab_shift: u8,
    pub deflate_ratio: u64,
    pub top_zap: u64,
    /// Object that lists the space maps; 0: not made yet.
    pub array: AtomicU64,
    pub slabs: Vec<Arc<Slab>>,
    pub totals: Arc<Totals>,
    /// Bytes of the metaslab that is set apart for the intent log.
    pub log_bytes: AtomicU64,
    /// It is configured to take new blocks.
    pub is_allocating: AtomicBool,
    /// Enough of it is there to write to.
    pub is_writable: AtomicBool,
    /// It is part of the pool from the next txg on only.
    pub is_new: AtomicBool,
    active: [AtomicU32; SLOTS],
    /// The space map of what the pool's checkpoint keeps on it.
    pub checkpoint: Arc<Mutex<Option<MapState>>>,
}

/// What an allocation looks for.
pub(super) struct Search<'a> {
    pub reader: Reader<'a>,
    pub psize_bytes: u64,
    pub txg: u64,
    /// Number of the copy, or [`LOG_SLOT`].
    pub slot: usize,
    /// For the intent log.
    pub is_log: bool,
    pub part: Part,
    /// Metaslabs that hold another copy of the block.
    pub avoid: &'a [u32],
}

impl Group {
    #[allow(clippy::too_many_arguments)] // The facts of a device; they have no better name together.
    pub fn new(
        vdev: u32,
        name: String,
        class: Class,
        shape: Shape,
        ashift: u8,
        slab_shift: u8,
        deflate_ratio: u64,
        top_zap: u64,
        array: u64,
        slabs: Vec<Arc<Slab>>,
    ) -> Self {
        let used = |s: &Arc<Slab>| u64::from(s.units - s.free_units.load(Ordering::Relaxed)) << ashift;
        let totals = Arc::new(Totals::new(bytes_of(&slabs, ashift)));
        totals.used.store(slabs.iter().map(used).sum(), Ordering::Relaxed);
        Self {
            vdev,
            name,
            class,
            shape,
            ashift,
            slab_shift,
            deflate_ratio,
            top_zap,
            array: array.into(),
            slabs,
            totals,
            log_bytes: 0.into(),
            is_allocating: true.into(),
            is_writable: true.into(),
            is_new: false.into(),
            active: [const { AtomicU32::new(NONE) }; SLOTS],
            checkpoint: Arc::default(),
        }
    }

    /// Sets the emptiest metaslab apart for the intent log, if there are enough of them, as OpenZFS does at import.
    pub fn set_log_slab_apart(&self) {
        if self.class == Class::Normal
            && self.slabs.len() as u64 > crate::usable::EMBEDDED_LOG_METASLABS_MIN
            && let Some(s) = self.slabs.iter().rev().max_by_key(|s| s.free_units.load(Ordering::Relaxed))
        {
            s.is_log.store(true, Ordering::Relaxed);
            self.log_bytes.store(u64::from(s.units) << self.ashift, Ordering::Relaxed);
        }
    }

    /// The same device with `more` metaslabs behind those that it has.
    pub fn with_more(&self, more: Vec<Slab>) -> Self {
        self.changed(self.shape.clone(), more)
    }

    /// The same device, of another shape, with `more` metaslabs behind those that it has.
    pub fn changed(&self, shape: Shape, more: Vec<Slab>) -> Self {
        let more: Vec<Arc<Slab>> = more.into_iter().map(Arc::new).collect();
        self.totals.size.fetch_add(bytes_of(&more, self.ashift), Ordering::Relaxed);
        let same = |flag: &AtomicBool| AtomicBool::new(flag.load(Ordering::Relaxed));
        Self {
            name: self.name.clone(),
            shape,
            array: self.array.load(Ordering::Relaxed).into(),
            slabs: self.slabs.iter().cloned().chain(more).collect(),
            totals: self.totals.clone(),
            log_bytes: self.log_bytes.load(Ordering::Relaxed).into(),
            is_allocating: same(&self.is_allocating),
            is_writable: same(&self.is_writable),
            is_new: same(&self.is_new),
            active: [const { AtomicU32::new(NONE) }; SLOTS],
            checkpoint: self.checkpoint.clone(),
            ..*self
        }
    }

    /// Bytes that a block takes.
    pub fn asize_bytes(&self, psize_bytes: u64, txg: u64) -> u64 {
        self.shape.asize_bytes(psize_bytes, self.ashift, txg)
    }

    /// Whether blocks may go there now.
    pub fn is_open(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is(&self.is_allocating) && is(&self.is_writable) && !is(&self.is_new)
    }

    /// Takes room for a block: offset and bytes, and the metaslab.
    pub fn allocate(&self, search: &Search<'_>) -> Result<Option<(u64, u64, u32)>> {
        let asize = self.asize_bytes(search.psize_bytes, search.txg);
        let Ok(need) = u32::try_from(asize >> self.ashift) else { return Ok(None) };
        let mut tried: SmallVec<[u32; 16]> = SmallVec::from_slice(search.avoid);
        let mut error = None;
        let mut next = self.current(search, need, &tried);
        while let Some(id) = next {
            match self.slabs[id as usize].allocate(search.reader, need, search.txg, search.is_log) {
                Ok(Some(at)) => {
                    let offset = (self.slabs[id as usize].start_units + u64::from(at)) << self.ashift;
                    self.totals.allocated(asize);
                    return Ok(Some((offset, asize, id)));
                }
                Ok(None) => {}
                Err(e) => {
                    tracing::error!("{}: metaslab {id} is not used: {e}", self.name);
                    error = Some(e);
                }
            }
            tried.push(id);
            next = self.choose(search, need, &tried);
            if let Some(id) = next {
                self.active[search.slot].store(id, Ordering::Relaxed);
            }
        }
        match error {
            // That there is no room and that we cannot know are different things.
            Some(e @ crate::Error::Io { .. }) => Err(e),
            _ => Ok(None),
        }
    }

    fn current(&self, search: &Search<'_>, need: u32, tried: &[u32]) -> Option<u32> {
        let id = self.active[search.slot].load(Ordering::Relaxed);
        let good = self.slabs.get(id as usize).is_some_and(|s| s.may_hold(need, false) && self.suits(s, search));
        if good && !tried.contains(&id) {
            return Some(id);
        }
        let id = self.choose(search, need, tried)?;
        self.active[search.slot].store(id, Ordering::Relaxed);
        Some(id)
    }

    fn suits(&self, slab: &Slab, search: &Search<'_>) -> bool {
        slab.is_log.load(Ordering::Relaxed) == (search.part == Part::Log)
    }

    /// The metaslab to go on with: the emptiest that should hold the block, not one that another copy uses and preferably far
    /// from it; else one that might.
    fn choose(&self, search: &Search<'_>, need: u32, tried: &[u32]) -> Option<u32> {
        let others: SmallVec<[u32; SLOTS]> = (0..SLOTS)
            .filter(|s| *s != search.slot)
            .map(|s| self.active[s].load(Ordering::Relaxed))
            .chain(search.avoid.iter().copied())
            .filter(|id| *id != NONE)
            .collect();
        let far = self.slabs.len() as u32 / 8;
        let rank = |s: &Slab| {
            let distance = others.iter().map(|o| o.abs_diff(s.id)).min().unwrap_or(u32::MAX);
            let free = s.free_units.load(Ordering::Relaxed);
            // The lower number wins a draw: outer tracks, and less of the device touched.
            (distance > 0, distance > far, free, std::cmp::Reverse(s.id))
        };
        [false, true].into_iter().find_map(|hopefully| {
            self.slabs
                .iter()
                .filter(|s| s.may_hold(need, hopefully) && self.suits(s, search) && !tried.contains(&s.id))
                .max_by_key(|s| rank(s))
                .map(|s| s.id)
        })
    }

    /// The metaslab of an address, and the range in it.
    pub(super) fn locate(&self, offset_bytes: u64, asize_bytes: u64) -> Option<(&Slab, u32, u32)> {
        let slab = self.slabs.get((offset_bytes >> self.slab_shift) as usize)?;
        let at = (offset_bytes >> self.ashift).checked_sub(slab.start_units)?;
        let len = asize_bytes.div_ceil(1 << self.ashift);
        let fits = offset_bytes & ((1 << self.ashift) - 1) == 0 && at + len <= u64::from(slab.units) && len > 0;
        fits.then_some((slab, at as u32, len as u32))
    }

    /// Gives an address back, unless it is part of the pool's `checkpoint`; false: it was free, or there is no such address.
    pub fn free(&self, dva: &Dva, txg: u64, birth: u64, was_named: bool, checkpoint: &AtomicU64) -> bool {
        let Some((slab, at, len)) = self.locate(dva.offset_bytes, dva.asize_bytes) else { return false };
        match slab.free(at, len, txg, birth, was_named, checkpoint) {
            Freed::Some(at_once, later) => {
                self.totals.freed(at_once << self.ashift, later << self.ashift);
                true
            }
            Freed::Twice => false,
        }
    }

    /// Takes an address that must be free.
    pub fn claim(&self, reader: Reader<'_>, offset_bytes: u64, asize_bytes: u64, txg: u64) -> Result<bool> {
        let Some((slab, at, len)) = self.locate(offset_bytes, asize_bytes) else { return Ok(false) };
        let is_claimed = slab.claim(reader, at, len, txg)?;
        if is_claimed {
            self.totals.allocated(u64::from(len) << self.ashift);
        }
        Ok(is_claimed)
    }
}
