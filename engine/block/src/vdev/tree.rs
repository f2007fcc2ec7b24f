//! Reads through the vdev tree: tries copies until one passes the caller's check.
//!
//! A read goes to the cheapest source first (one copy, or the data columns) and widens only if the
//! check fails: to other copies, then parity, then the search for the combination of silently wrong
//! columns.

use super::{Kind, Leaf, Source, Vdev};
use crate::vdev::DATA_START_BYTES;
use std::cell::Cell;
use std::sync::Arc;

/// Maximum number of indirect vdevs in a chain.
const INDIRECT_DEPTH_MAX: u32 = 16;
/// Maximum number of combinations of copies tried for a block that device removal split over
/// several mirrors.
const SPLIT_COMBINATIONS_MAX: usize = 4096;

/// Limit of the total size of those combinations, in bytes, so that a large block takes neither
/// minutes nor all memory.
const SPLIT_BYTES_MAX: u64 = 128 << 20;

/// Number of combinations tried for a block of that size.
fn combinations_max(size_bytes: u64) -> usize {
    SPLIT_COMBINATIONS_MAX.min((SPLIT_BYTES_MAX / size_bytes.max(1)).max(1) as usize)
}

/// All top-level vdevs of a pool, by number. A tree never changes; a pool that gets another vdev
/// gets another tree, which shares the existing vdevs.
#[derive(Default, Clone)]
pub struct Tree {
    /// Index: number in addresses.
    pub tops: Vec<Arc<Vdev>>,
    /// Cache devices (L2ARC).
    pub caches: Vec<Arc<Vdev>>,
    /// Hot spares that are not in use.
    pub spares: Vec<Arc<Vdev>>,
}

/// Why no source gave bytes that pass the check.
#[derive(Debug, Default, Clone)]
pub struct Failure {
    /// Names of devices that are unavailable.
    pub missing: Vec<String>,
    /// Devices whose read failed.
    pub io: Vec<(String, Arc<std::io::Error>)>,
    /// Devices that returned wrong bytes (for RAID-Z: the vdev as a whole).
    pub wrong: Vec<String>,
    /// Other reasons, such as an address beyond the device.
    pub other: Vec<String>,
}

impl Failure {
    pub(crate) fn other(what: impl Into<String>) -> Self {
        Self { other: vec![what.into()], ..Self::default() }
    }

    /// Adds the reasons of another attempt.
    pub fn merge(&mut self, more: Self) {
        self.missing.extend(more.missing);
        self.io.extend(more.io);
        self.wrong.extend(more.wrong);
        self.other.extend(more.other);
        for list in [&mut self.missing, &mut self.wrong, &mut self.other] {
            list.sort();
            list.dedup();
        }
    }

    /// Converts to the error of a read of the block at `place`.
    pub fn into_error(self, place: String) -> errors::Error {
        if self.wrong.is_empty() && self.io.is_empty() && self.other.is_empty() && !self.missing.is_empty() {
            return errors::Error::missing(place, self.missing.join(", "));
        }
        if self.wrong.is_empty()
            && self.other.is_empty()
            && self.missing.is_empty()
            && let Some((name, source)) = self.io.first()
        {
            return errors::Error::Io { place: format!("{place}: {name}"), error: source.clone() };
        }
        errors::Error::corrupt(place, format!("no good copy: {}", self.reasons()))
    }

    /// Converts to the error of a write of the block at `place`.
    pub fn into_write_error(self, place: String) -> errors::Error {
        if let ([(name, source)], true, true) = (self.io.as_slice(), self.missing.is_empty(), self.other.is_empty()) {
            let place = if place.is_empty() { name.clone() } else { format!("{place}: {name}") };
            return errors::Error::Io { place, error: source.clone() };
        }
        if self.io.is_empty() && self.other.is_empty() {
            return errors::Error::missing(place, self.missing.join(", "));
        }
        let kind = self.io.first().map_or(std::io::ErrorKind::Other, |(_, e)| e.kind());
        let reasons = self.reasons().replace("read error", "write error");
        errors::Error::io(place, std::io::Error::new(kind, reasons))
    }

    fn reasons(self) -> String {
        let mut parts = Vec::new();
        if !self.wrong.is_empty() {
            parts.push(format!("checksum mismatch on {}", self.wrong.join(", ")));
        }
        for (name, e) in &self.io {
            parts.push(format!("read error on {name} ({e})"));
        }
        if !self.missing.is_empty() {
            parts.push(format!("missing {}", self.missing.join(", ")));
        }
        parts.extend(self.other);
        parts.join("; ")
    }
}

/// Bytes that passed the check, or why none did.
pub type Outcome = Result<Vec<u8>, Failure>;

impl Tree {
    /// A tree of these top-level vdevs, in order, without caches and spares.
    pub fn of(tops: Vec<Vdev>) -> Self {
        Self { tops: tops.into_iter().map(Arc::new).collect(), ..Self::default() }
    }

    /// The vdev with this guid, caches and spares included.
    pub fn find(&self, guid: u64) -> Option<&Vdev> {
        self.tops.iter().chain(&self.caches).chain(&self.spares).find_map(|v| v.find(guid))
    }

    /// All leaves, those of caches and spares included.
    pub fn all_leaves(&self) -> impl Iterator<Item = &Leaf> {
        self.tops.iter().chain(&self.caches).chain(&self.spares).flat_map(|v| v.leaves())
    }

    /// All leaves of top-level vdevs, in order.
    pub fn leaves(&self) -> Vec<&Leaf> {
        self.tops.iter().flat_map(|top| top.leaves()).collect()
    }

    /// Reads a sector of each leaf of top-level vdevs, at the same time, so that it is known
    /// whether the first writes wait for devices. Errors are counted as always.
    pub fn measure(&self) {
        let leaves = self.leaves();
        host::work::each(leaves.len(), |number| leaves[number].read(ondisk::label::START_BYTES, &mut [0; 4096]));
    }

    /// Whether reads of some top-level vdev wait for devices.
    pub fn has_slow_reads(&self) -> bool {
        self.tops.iter().any(|top| top.has_slow_reads())
    }

    /// As [`Tree::has_slow_reads`], for writes.
    pub fn has_slow_writes(&self) -> bool {
        self.tops.iter().any(|top| top.any_leaf(&Leaf::has_slow_writes))
    }

    /// All owners of a dtl below top-level vdevs, in order: leaves, and distributed spares in use.
    pub fn logs(&self) -> Vec<&Leaf> {
        self.tops.iter().flat_map(|top| top.logs()).collect()
    }

    /// Reads `size` bytes at `offset` of top-level vdev `vdev`, born in `birth`, that pass `check`.
    pub fn read(&self, vdev: u32, offset: u64, size: u64, birth: u64, check: &mut dyn FnMut(&[u8]) -> bool) -> Outcome {
        self.read_noting(vdev, offset, size, birth, check, &Cell::new(false))
    }

    /// As [`Tree::read`]; sets `met_bad` if some device that should have the right bytes returned
    /// wrong ones, or failed.
    pub(crate) fn read_noting(
        &self,
        vdev: u32,
        offset: u64,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        met_bad: &Cell<bool>,
    ) -> Outcome {
        let Some(top) = self.tops.get(vdev as usize) else {
            return Err(Failure::other(format!("address on device {vdev} of {}", self.tops.len())));
        };
        match &top.kind {
            Kind::Leaf(_) | Kind::Mirror(_) => self.read_copies(top, offset, size, birth, check, met_bad),
            Kind::Raidz(_) | Kind::Draid(_) => self.read_parity(top, offset, size, birth, check, met_bad),
            Kind::Indirect(_) => self.read_indirect(top, offset, size, birth, check, met_bad),
            Kind::DraidSpare { .. } => {
                Err(Failure::other(format!("{} is a distributed spare and holds no blocks of its own", top.name)))
            }
            Kind::Hole => Err(Failure::other(format!("address on device {vdev}, which is a hole"))),
            Kind::Missing => Err(Failure { missing: vec![top.name.clone()], ..Failure::default() }),
        }
    }

    /// The sources at and below `vdev` that should all hold the same bytes: fresh ones first, then
    /// stale ones. A distributed spare resolves to the leaf that holds `offset` for it.
    pub(super) fn sources<'a>(&'a self, vdev: &'a Vdev, offset: u64, birth: u64) -> Vec<Source<'a>> {
        let mut found = self.collect(vdev, offset);
        if found.len() > 1 {
            // Reads of different regions are spread over the copies. Each region stays on one copy,
            // which helps read-ahead.
            let len = found.len();
            found.rotate_left((offset >> 20) as usize % len);
            // A side that is busy with slow operations comes after one that has fewer of them.
            let busy = |source: &Source<'_>| if source.has_slow_reads() { source.active() } else { 0 };
            found.sort_by_cached_key(|source| (!source.is_open(), source.is_stale(birth), busy(source)));
        }
        found
    }

    /// As [`Tree::sources`], in no order of preference.
    pub(super) fn collect<'a>(&'a self, vdev: &'a Vdev, offset: u64) -> Vec<Source<'a>> {
        let mut found = Vec::with_capacity(1);
        self.collect_by(vdev, offset, &mut Vec::new(), &mut found);
        found
    }

    /// `spares`: the distributed spares passed so far.
    fn collect_by<'a>(&'a self, vdev: &'a Vdev, offset: u64, spares: &mut Vec<&'a Leaf>, found: &mut Vec<Source<'a>>) {
        match &vdev.kind {
            Kind::Leaf(leaf) => found.push(Source::new(leaf, spares)),
            // A spare that leads back to itself is at a place of its own spare space, where its
            // child holds nothing.
            Kind::DraidSpare { top, spare, log } if spares.iter().all(|passed| passed.guid != log.guid) => {
                if let Some(d) = self.tops.get(*top as usize)
                    && let Kind::Draid(geometry) = &d.kind
                    && let Some(child) = geometry.spare_child(*spare as usize, offset)
                    && let Some(child) = d.children.get(child)
                {
                    spares.push(log);
                    self.collect_by(child, offset, spares, found);
                    spares.pop();
                }
            }
            _ => vdev.children.iter().for_each(|child| self.collect_by(child, offset, spares, found)),
        }
    }

    fn read_copies(
        &self,
        vdev: &Vdev,
        offset: u64,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        met_bad: &Cell<bool>,
    ) -> Outcome {
        let mut failure = Failure::default();
        let Some(at) = offset.checked_add(DATA_START_BYTES) else {
            return Err(Failure::other(format!("offset {offset:#x} on {}", vdev.name)));
        };
        let mut buf = vec![0; size as usize];
        for leaf in self.sources(vdev, offset, birth) {
            match leaf.read_to_judge(at, &mut buf) {
                None => failure.missing.push(leaf.path.clone()),
                Some(Err(e)) => {
                    met_bad.set(met_bad.get() || !leaf.is_stale(birth));
                    failure.io.push((leaf.path.clone(), Arc::new(e)));
                }
                Some(Ok(_)) if check(&buf) => return Ok(buf),
                Some(Ok(answer)) => {
                    if !leaf.is_stale(birth) {
                        answer.is_wrong();
                        met_bad.set(true);
                    }
                    failure.wrong.push(leaf.path.clone());
                }
            }
        }
        Err(failure)
    }

    /// Every distinct content of the copies below `vdev` for a range, without a check.
    fn variants(&self, vdev: u32, offset: u64, size: u64, birth: u64, depth: u32) -> Result<Vec<Vec<u8>>, Failure> {
        let Some(top) = self.tops.get(vdev as usize) else {
            return Err(Failure::other(format!("moved to device {vdev} of {}", self.tops.len())));
        };
        if let Kind::Indirect(_) = &top.kind {
            let mut whole = vec![Vec::new()];
            for piece in self.pieces(top, offset, size, depth)? {
                let next = self.variants(piece.vdev, piece.offset_bytes, piece.size_bytes, birth, depth + 1)?;
                let mut longer = Vec::new();
                for w in &whole {
                    for n in next.iter().take(combinations_max(size) / whole.len().max(1)) {
                        longer.push([w.as_slice(), n].concat());
                    }
                }
                whole = longer;
            }
            return Ok(whole);
        }
        if matches!(top.kind, Kind::Raidz(_) | Kind::Draid(_)) {
            return Ok(vec![self.read_parity(top, offset, size, birth, &mut |_| true, &Cell::new(false))?]);
        }
        let mut failure = Failure::default();
        let mut found: Vec<Vec<u8>> = Vec::new();
        for leaf in self.sources(top, offset, birth) {
            let mut buf = vec![0; size as usize];
            match leaf.read(offset.saturating_add(DATA_START_BYTES), &mut buf) {
                None => failure.missing.push(leaf.path.clone()),
                Some(Err(e)) => failure.io.push((leaf.path.clone(), Arc::new(e))),
                Some(Ok(())) if !found.contains(&buf) => found.push(buf),
                Some(Ok(())) => {}
            }
        }
        if found.is_empty() { Err(failure) } else { Ok(found) }
    }

    pub(super) fn pieces(
        &self,
        top: &Vdev,
        offset: u64,
        size: u64,
        depth: u32,
    ) -> Result<Vec<super::indirect::Entry>, Failure> {
        let Kind::Indirect(mapping) = &top.kind else { unreachable!("only called for indirect devices") };
        if depth >= INDIRECT_DEPTH_MAX {
            return Err(Failure::other(format!("{} and others point at each other in a circle", top.name)));
        }
        let mapping = mapping.read().clone();
        let Some(mapping) = mapping else {
            return Err(Failure::other(format!("the mapping of {} is not loaded", top.name)));
        };
        mapping
            .resolve(offset, size)
            .map_err(|at| Failure::other(format!("{} has no mapping for offset {at:#x}", top.name)))
    }

    /// Whether a top-level device was removed, and its blocks are at other places.
    pub(crate) fn is_indirect(&self, vdev: u32) -> bool {
        self.tops.get(vdev as usize).is_some_and(|top| matches!(top.kind, Kind::Indirect(_)))
    }

    fn read_indirect(
        &self,
        top: &Vdev,
        offset: u64,
        size: u64,
        birth: u64,
        check: &mut dyn FnMut(&[u8]) -> bool,
        met_bad: &Cell<bool>,
    ) -> Outcome {
        let pieces = self.pieces(top, offset, size, 0)?;
        if let [one] = pieces.as_slice()
            && self.tops.get(one.vdev as usize).is_some_and(|v| !matches!(v.kind, Kind::Indirect(_)))
        {
            return self.read_noting(one.vdev, one.offset_bytes, one.size_bytes, birth, check, met_bad);
        }
        let mut all = Vec::new();
        for piece in &pieces {
            all.push(self.variants(piece.vdev, piece.offset_bytes, piece.size_bytes, birth, 1)?);
        }
        // Odometer over the variants of each piece; the first try takes the first of each.
        let mut choice = vec![0; all.len()];
        let tries = combinations_max(size);
        for _ in 0..tries {
            let whole = choice.iter().zip(&all).map(|(c, v)| v[*c].as_slice()).collect::<Vec<_>>().concat();
            if check(&whole) {
                // The first copies of all pieces together failed the check.
                met_bad.set(met_bad.get() || choice.iter().any(|c| *c > 0));
                return Ok(whole);
            }
            let mut digit = 0;
            loop {
                if digit == choice.len() {
                    let names = pieces.iter().filter_map(|p| self.tops.get(p.vdev as usize)).map(|v| v.name.clone());
                    return Err(Failure { wrong: names.collect(), ..Failure::default() });
                }
                choice[digit] += 1;
                if choice[digit] < all[digit].len() {
                    break;
                }
                choice[digit] = 0;
                digit += 1;
            }
        }
        Err(Failure::other(format!("{}: more than {tries} combinations of copies", top.name)))
    }
}
