//! Space in use: that of the blocks that datasets reference, and that of everything else.
//!
//! It is compared with the space maps at the end. Space that is allocated but not used is leaked;
//! space that is used but not allocated is in danger.

use super::report::{Leak, Report, push};
use crate::Pool;
use crate::space::bits::{Bits, Run};
use crate::space::{Space, for_each_entry};
use block::vdev::Kind;
use errors::Result;
use host::sync::Mutex;
use object::bpobj::Bpobj;
use object::zap::Zap;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::{BlkPtr, Dva};
use std::collections::HashMap;

/// Limit for chains of gang headers, and for chains of removed devices.
const DEPTH_MAX: u32 = 16;

/// Limit for the gang members followed for one block, because headers that point to each other
/// would form an endless tree. Enough for 16 MiB in pieces of 512 bytes, three copies.
const MEMBERS_MAX: u32 = 100_000;

/// The allocation units in use, by device.
pub(super) struct Used<'a> {
    pool: &'a Pool,
    space: &'a Space,
    bits: HashMap<u64, Mutex<Bits>>,
    /// Blocks beyond the end of their device.
    beyond: Mutex<Vec<Leak>>,
}

impl<'a> Used<'a> {
    pub fn new(pool: &'a Pool, space: &'a Space) -> Self {
        let bits = |d: &crate::space::DeviceSpace| Mutex::new(Bits::new(d.allocated.units()));
        let bits = space.devices.iter().map(|d| (d.vdev, bits(d))).collect();
        Self { pool, space, bits, beyond: Mutex::default() }
    }

    /// Marks the space of a block, including its gang members. Returns false if some of it was
    /// already in use.
    pub fn block(&self, bp: &BlkPtr) -> bool {
        self.block_at(bp, 0, 0, &mut { MEMBERS_MAX })
    }

    /// Marks all copies of a shared block except the first. A later reference may have more copies
    /// than the one that was found first.
    pub fn further_copies(&self, bp: &BlkPtr) {
        self.block_at(bp, 1, 0, &mut { MEMBERS_MAX });
    }

    fn block_at(&self, bp: &BlkPtr, skipped: usize, depth: u32, budget: &mut u32) -> bool {
        let mut fresh = true;
        for dva in bp.dvas().skip(skipped) {
            // The DVA of a gang block is that of its header; the members have their own.
            let size = if dva.is_gang { self.gang_header_bytes(&dva) } else { dva.asize_bytes };
            fresh &= self.range(u64::from(dva.vdev), dva.offset_bytes, size, 0);
            if dva.is_gang && depth < DEPTH_MAX {
                for member in block::gang_members(self.pool.store(), bp, &dva).unwrap_or_default() {
                    let Some(left) = budget.checked_sub(1) else { break };
                    *budget = left;
                    self.block_at(&member, 0, depth + 1, budget);
                }
            }
        }
        fresh
    }

    fn range(&self, vdev: u64, offset: u64, size: u64, depth: u32) -> bool {
        let tree = self.pool.store().tree();
        let Some(top) = tree.tops.get(vdev as usize) else { return true };
        if let Kind::Indirect(mapping) = &top.kind {
            let mapping = mapping.read().clone();
            let Some(Ok(pieces)) = mapping.map(|m| m.resolve(offset, size)) else { return true };
            let mut fresh = true;
            for p in pieces.iter().filter(|_| depth < DEPTH_MAX) {
                fresh &= self.range(u64::from(p.vdev), p.offset_bytes, p.size_bytes, depth + 1);
            }
            return fresh;
        }
        let (Some(bits), Some(device)) = (self.bits.get(&vdev), self.space.device(vdev)) else { return true };
        let run = Run { start: offset >> device.shift, len: size.div_ceil(1 << device.shift) };
        if run.start.saturating_add(run.len) > device.allocated.units() {
            push(&mut self.beyond.lock(), Leak { vdev, offset_bytes: offset, size_bytes: size });
            return true;
        }
        bits.lock().set(run, true) == 0
    }

    fn gang_header_bytes(&self, dva: &Dva) -> u64 {
        self.pool.store().tree().tops.get(dva.vdev as usize).map_or(512, |top| match &top.kind {
            Kind::Raidz(g) => g.asize_bytes(512, u64::MAX),
            Kind::Draid(g) => g.asize_bytes(512),
            _ => 1 << top.ashift.min(16),
        })
    }

    /// Whether a block's space is allocated in the space maps.
    pub fn is_allocated(&self, bp: &BlkPtr) -> bool {
        bp.dvas().all(|dva| {
            let device = self.space.device(u64::from(dva.vdev));
            device.is_some_and(|d| d.allocated.contains(dva.offset_bytes >> d.shift))
        })
    }

    /// Marks blocks that are no longer referenced but not freed yet, and calls `sink` for each.
    pub fn pending_frees(&self, mut sink: impl FnMut(&BlkPtr)) -> Result<()> {
        let pool = self.pool;
        for name in [directory::SYNC_BPOBJ, directory::FREE_BPOBJ] {
            let Some(id) = pool.directory().lookup_u64(name)?.filter(|id| *id != 0) else { continue };
            Bpobj::open(pool.mos(), id)?.for_each(pool.mos(), &mut |entry| {
                if !entry.bp.is_embedded() {
                    self.block(&entry.bp);
                    sink(&entry.bp);
                }
                Ok(true)
            })?;
        }
        self.copies_of_removal()?;
        self.checkpoint_frees()
    }

    /// Marks the copies made by a running removal: they are allocated in both places.
    fn copies_of_removal(&self) -> Result<()> {
        for top in self.pool.root_vdev().children.iter().filter(|top| top.number(config::REMOVING) != 0) {
            let Some(device) = self.space.device(top.id) else { continue };
            let mapping = crate::import::indirect_mapping::load(self.pool.mos(), top)?;
            let end = mapping.entries().last().map_or(0, |e| e.source_bytes + e.size_bytes);
            let runs = device.allocated.runs().map(|run| (run.start << device.shift, run.len << device.shift));
            for (at, len) in runs.take_while(|(at, _)| *at < end) {
                for p in mapping.resolve(at, len.min(end - at)).unwrap_or_default() {
                    self.range(u64::from(p.vdev), p.offset_bytes, p.size_bytes, 0);
                }
            }
        }
        Ok(())
    }

    /// Marks blocks freed since a checkpoint: they stay allocated until the checkpoint is
    /// discarded.
    fn checkpoint_frees(&self) -> Result<()> {
        let pool = self.pool;
        for top in &pool.root_vdev().children {
            let zap = top.number(config::VDEV_TOP_ZAP);
            if zap == 0 {
                continue;
            }
            let Some(id) = Zap::open(pool.mos().object(zap)?)?.lookup_u64(vdev_top::POOL_CHECKPOINT_SM)? else {
                continue;
            };
            let shift = top.number(config::ASHIFT).min(16);
            for_each_entry(&pool.mos().object(id)?, |e| {
                if let (Some(offset), Some(size)) = (e.offset.checked_mul(1 << shift), e.run.checked_mul(1 << shift)) {
                    self.range(top.id, offset, size, 0);
                }
            })?;
        }
        Ok(())
    }

    /// Reports the blocks beyond the end of their device, which the space maps cannot cover.
    pub fn note_beyond(&self, report: &mut Report) {
        for leak in self.beyond.lock().drain(..) {
            report.unallocated(leak);
        }
    }

    /// Compares the space in use with the space maps.
    pub fn compare(&self, report: &mut Report) {
        for device in &self.space.devices {
            let Some(bits) = self.bits.get(&device.vdev) else { continue };
            let bits = bits.lock();
            let leak = |run: Run| Leak {
                vdev: device.vdev,
                offset_bytes: run.start << device.shift,
                size_bytes: run.len << device.shift,
            };
            for run in device.allocated.minus(&bits) {
                report.leaked_bytes += run.len << device.shift;
                push(&mut report.leaked, leak(run));
            }
            for run in bits.minus(&device.allocated) {
                report.unallocated(leak(run));
            }
        }
    }
}
