//! Finds where a pool's blocks are on its devices, by recording what `verify` reads for each block.

use crate::image::{self, Scenario};
use crate::overlay::{Extent, Reads, Recorder};
use anyhow::Result;
use block::Bookmark;
use host::device::Device;
use ondisk::{BlkPtr, Endian, ObjectType};
use pool::scan::walk::{Visit, Visitor, walk};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// A block, with the extents of its copies, columns and parity.
#[derive(Debug, Clone)]
pub struct Place {
    /// Identity of the block.
    pub at: Bookmark,
    /// Type of its object.
    pub kind: ObjectType,
    /// For each of its addresses, the distinct extents that are read to verify it.
    pub copies: Vec<Vec<Extent>>,
}

/// Size of a DVA.
const DVA_BYTES: usize = 16;

impl Place {
    /// All extents that are read to verify the block.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.copies.iter().flatten()
    }

    /// Whether the block is not file contents.
    pub fn is_metadata(&self) -> bool {
        self.at.level != 0 || !matches!(self.kind, ObjectType::PLAIN_FILE_CONTENTS | ObjectType::ZVOL)
    }
}

struct Watcher<'a> {
    store: &'a block::Store,
    reads: Reads,
    seen: Mutex<BTreeSet<(u32, u64, u64)>>,
    places: Mutex<Vec<Place>>,
}

impl Watcher<'_> {
    /// The extents that are read to verify one copy, determined with a pointer that has only this
    /// copy.
    fn copy(&self, bp: &BlkPtr, index: usize) -> Vec<Extent> {
        let mut raw = bp.to_bytes(Endian::Little);
        let dva: Vec<u8> = raw[index * DVA_BYTES..(index + 1) * DVA_BYTES].to_vec();
        // An encrypted block stores its salt in place of the third address, so only the addresses
        // in use are cleared.
        for i in 0..bp.dvas().count() {
            raw[i * DVA_BYTES..(i + 1) * DVA_BYTES].fill(0);
        }
        raw[..DVA_BYTES].copy_from_slice(&dva);
        let Ok(alone) = BlkPtr::parse(&raw, Endian::Little) else { return Vec::new() };
        self.reads.lock().expect("no thread panics").clear();
        self.store.verify(&alone);
        let reads = std::mem::take(&mut *self.reads.lock().expect("no thread panics"));
        let extents: BTreeSet<Extent> = reads.into_iter().collect();
        extents.into_iter().collect()
    }

    fn is_new(&self, bp: &BlkPtr) -> bool {
        let dva = bp.dva(0);
        self.seen.lock().expect("no thread panics").insert((dva.vdev, dva.offset_bytes, bp.physical_birth().0))
    }
}

impl Visitor for Watcher<'_> {
    fn block(&self, visit: &Visit<'_>) -> bool {
        // Blocks shared by dedup and clones are verified once, embedded blocks and the intent log
        // not at all.
        if visit.bp.is_embedded() || visit.at.level == -2 || !self.is_new(visit.bp) {
            return true;
        }
        let copies = (0..visit.bp.dvas().count()).map(|i| self.copy(visit.bp, i)).collect();
        let place = Place { at: visit.at, kind: visit.bp.object_type(), copies };
        self.places.lock().expect("no thread panics").push(place);
        true
    }

    fn broken(&self, _: usize, _: Bookmark, _: &errors::Error) {}
}

/// The blocks of a scenario's pool, and the GUID of each device that holds any.
pub fn places(scenario: &Scenario) -> Result<(Vec<Place>, BTreeMap<usize, u64>)> {
    let reads = Reads::default();
    let recorder =
        |(i, d): (usize, &Arc<dyn Device>)| -> Arc<dyn Device> { Arc::new(Recorder::new(d.clone(), i, reads.clone())) };
    let devices = scenario.devices.iter().enumerate().map(recorder);
    let opened = image::open(devices, scenario.keys.as_ref())?;
    let pool = opened.pool();
    let (roots, _) = pool::scan::roots(pool)?;
    let watcher = Watcher { store: pool.store(), reads, seen: Mutex::default(), places: Mutex::default() };
    walk(pool.store(), &roots, 1, &watcher);
    let mut guids = BTreeMap::new();
    for leaf in pool.store().tree().leaves() {
        let index = scenario.devices.iter().position(|d| leaf.device().is_some_and(|l| l.name() == d.name()));
        if let Some(index) = index {
            guids.insert(index, leaf.guid);
        }
    }
    Ok((watcher.places.into_inner().expect("no thread panics"), guids))
}
