//! The metaslabs of one top-level device.
//!
//! Allocating threads contend for the lock of one metaslab, for the time of a search in memory.
//! Each copy of a block uses its own metaslab, so that copies on one device are far apart.

use super::availability::Availability;
use super::slab::{Freed, MapState, Reader, Slab};
use super::totals::Totals;
use block::Class;
use block::vdev::{Kind, Vdev, draid, raidz};
use errors::Result;
use host::sync::Mutex;
use ondisk::Dva;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of active metaslabs: one for each copy of a block, and one for the intent log.
const SLOTS: usize = 4;
/// The slot of the intent log.
pub(super) const LOG_SLOT: usize = 3;
const NONE: u32 = u32::MAX;

/// Layout of a device, which determines the allocated size of blocks.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Single devices and mirrors.
    Plain,
    Raidz(raidz::Geometry),
    Draid(draid::Geometry),
}

impl Shape {
    /// The shape of a device; `None` if it holds no blocks.
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

/// Whether enough children are available for new data to be readable again.
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

/// Part of a device, by purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The metaslabs for the blocks of its class.
    Main,
    /// The metaslab reserved for the intent log.
    Log,
}

/// Size of these metaslabs in bytes.
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
    pub objects: Objects,
    pub slabs: Vec<Arc<Slab>>,
    pub totals: Arc<Totals>,
    pub availability: Availability,
    active: [AtomicU32; SLOTS],
}

/// The device's objects in the MOS, other than the space maps of its metaslabs.
pub(super) struct Objects {
    pub top_zap: u64,
    /// Object that lists the space maps; 0 until it is created.
    pub array: AtomicU64,
    /// The device's checkpoint space map.
    pub checkpoint: Arc<Mutex<Option<MapState>>>,
}

impl Clone for Objects {
    fn clone(&self) -> Self {
        Self {
            top_zap: self.top_zap,
            array: self.array.load(Ordering::Relaxed).into(),
            checkpoint: self.checkpoint.clone(),
        }
    }
}

/// Parameters of an allocation.
pub(super) struct Search<'a> {
    pub reader: Reader<'a>,
    pub psize_bytes: u64,
    pub txg: u64,
    /// Number of the copy, or [`LOG_SLOT`].
    pub slot: usize,
    /// The block is for the intent log.
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
            objects: Objects { top_zap, array: array.into(), checkpoint: Arc::default() },
            slabs,
            totals,
            availability: Availability::new(),
            active: [const { AtomicU32::new(NONE) }; SLOTS],
        }
    }

    /// Reserves the emptiest metaslab for the intent log if the device has enough of them, as
    /// OpenZFS does at import.
    pub fn set_log_slab_apart(&self) {
        if self.class == Class::Normal
            && self.slabs.len() as u64 > crate::usable::EMBEDDED_LOG_METASLABS_MIN
            && let Some(s) = self.slabs.iter().rev().max_by_key(|s| s.free_units.load(Ordering::Relaxed))
        {
            s.is_log.store(true, Ordering::Relaxed);
            self.totals.for_log.store(u64::from(s.units) << self.ashift, Ordering::Relaxed);
        }
    }

    /// The same device with the metaslabs `more` appended.
    pub fn with_more(&self, more: Vec<Slab>) -> Self {
        self.changed(self.shape.clone(), more)
    }

    /// The same device with another shape, and the metaslabs `more` appended.
    pub fn changed(&self, shape: Shape, more: Vec<Slab>) -> Self {
        let more: Vec<Arc<Slab>> = more.into_iter().map(Arc::new).collect();
        self.totals.size.fetch_add(bytes_of(&more, self.ashift), Ordering::Relaxed);
        Self {
            name: self.name.clone(),
            shape,
            objects: self.objects.clone(),
            slabs: self.slabs.iter().cloned().chain(more).collect(),
            totals: self.totals.clone(),
            availability: self.availability.clone(),
            active: [const { AtomicU32::new(NONE) }; SLOTS],
            ..*self
        }
    }

    /// Allocated size of a block in bytes.
    pub fn asize_bytes(&self, psize_bytes: u64, txg: u64) -> u64 {
        self.shape.asize_bytes(psize_bytes, self.ashift, txg)
    }

    /// Whether blocks may be allocated there now.
    pub fn is_open(&self) -> bool {
        self.availability.is_open()
    }

    /// Allocates space for a block. Returns offset and size in bytes, and the metaslab's number.
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
            // A metaslab that is full and one that cannot be read are different things.
            Some(e @ errors::Error::Io { .. }) => Err(e),
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

    /// Chooses the next metaslab: the emptiest that should hold the block, is not used by another
    /// copy and is preferably far from it; else one that might hold it.
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
            // If two are equal, the lower number wins: outer tracks, and less of the device
            // touched.
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

    /// Frees a DVA, unless it belongs to the pool's `checkpoint`. Returns false if it was free
    /// already or does not exist.
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

    /// Allocates the given range, which must be free.
    pub fn claim(&self, reader: Reader<'_>, offset_bytes: u64, asize_bytes: u64, txg: u64) -> Result<bool> {
        let Some((slab, at, len)) = self.locate(offset_bytes, asize_bytes) else { return Ok(false) };
        let is_claimed = slab.claim(reader, at, len, txg)?;
        if is_claimed {
            self.totals.allocated(u64::from(len) << self.ashift);
        }
        Ok(is_claimed)
    }
}
