//! Scans, removals, expansions and the checkpoint, as recorded in the MOS.

use crate::Pool;
use crate::config::VdevConfig;
use crate::status::{
    CheckpointStatus, DedupRow, DedupStatus, ExpandStatus, Progress, RebuildStatus, RemovalStatus, ScanKind, ScanStatus,
};
use crate::writer::{RANGE_BYTES_MAX, SPAN_BYTES_MAX};
use errors::Result;
use object::zap::Zap;
use ondisk::pool_dir::{config, directory, vdev_top};
use ondisk::removal::{Rebuild, Removing};
use ondisk::scan::{ErrorScrub, Scan, ScanFunction, ScanState};
use ondisk::uberblock::Uberblock;

fn progress(state: ScanState) -> Progress {
    match state {
        ScanState::None => Progress::None,
        ScanState::Scanning | ScanState::ErrorScrubbing => Progress::Active,
        ScanState::Finished => Progress::Finished,
        ScanState::Canceled => Progress::Cancelled,
    }
}

impl Pool {
    /// The last sequential rebuild of a top-level device. Damaged state counts as none
    /// (`vdev_rebuild_load`).
    pub(crate) fn rebuild_of(&self, top: &VdevConfig) -> Option<Rebuild> {
        let zap = Some(top.number(config::VDEV_TOP_ZAP)).filter(|zap| *zap != 0)?;
        let zap = self.mos().object(zap).and_then(Zap::open).ok()?;
        Rebuild::from_words(&zap.lookup(vdev_top::VDEV_REBUILD_PHYS).ok()??.ints).ok()
    }

    pub(super) fn rebuild_status(&self, top: &VdevConfig) -> Option<RebuildStatus> {
        let kept = self.rebuild_of(top).filter(|rebuild| rebuild.state != 0)?;
        let live = self.scan_figures.as_ref().filter(|_| kept.state == Rebuild::ACTIVE);
        // In memory: the latest progress, newer than that on disk, and the progress when the pool
        // was opened.
        let (now, before) = live.and_then(|f| f.rebuilds.lock().get(&top.id).copied()).unwrap_or((kept, kept));
        Some(RebuildStatus {
            now: Rebuild {
                state: kept.state,
                start_time: kept.start_time,
                end_time: kept.end_time,
                total_bytes: now.total_bytes.max(now.scanned_bytes),
                ..now
            },
            pass_time_ms: now.run_time_ms.saturating_sub(before.run_time_ms),
            pass_scanned_bytes: now.scanned_bytes.saturating_sub(before.scanned_bytes),
            pass_issued_bytes: now.issued_bytes.saturating_sub(before.issued_bytes),
        })
    }

    pub(super) fn scan_status(&self) -> Result<Option<ScanStatus>> {
        if let Some(status) = self.error_scrub_status()? {
            return Ok(Some(status));
        }
        let Some(value) = self.directory().lookup(directory::SCAN)? else { return Ok(None) };
        let scan = Scan::from_words(&value.ints)?;
        let kind = match scan.function {
            ScanFunction::None => return Ok(None),
            ScanFunction::Scrub => ScanKind::Scrub,
            ScanFunction::Resilver => ScanKind::Resilver,
            _ => ScanKind::ErrorScrub,
        };
        let mut status = ScanStatus {
            kind,
            state: progress(scan.state),
            start_time: scan.start_time,
            end_time: scan.end_time,
            to_examine_bytes: scan.to_examine_bytes,
            examined_bytes: scan.examined_bytes,
            skipped_bytes: scan.skipped_bytes,
            processed_bytes: scan.processed_bytes,
            errors: scan.errors,
            pass_start: scan.start_time,
            pause_time: if scan.flags & Scan::FLAG_PAUSED != 0 { scan.end_time.max(scan.start_time) } else { 0 },
            ..ScanStatus::default()
        };
        if let Some(figures) = &self.scan_figures {
            figures.show(&mut status);
        }
        Ok(Some(status))
    }

    /// The scrub of the error log, if it was the last scan: a normal scrub clears it. Sizes are
    /// numbers of blocks.
    fn error_scrub_status(&self) -> Result<Option<ScanStatus>> {
        let Some(value) = self.directory().lookup(directory::ERRORSCRUB)? else { return Ok(None) };
        let scrub = ErrorScrub::from_words(&value.ints)?;
        if scrub.function != ScanFunction::ErrorScrub {
            return Ok(None);
        }
        Ok(Some(ScanStatus {
            kind: ScanKind::ErrorScrub,
            state: progress(scrub.state),
            start_time: scrub.start_time,
            end_time: scrub.end_time,
            to_examine_bytes: scrub.to_examine.saturating_add(scrub.examined),
            examined_bytes: scrub.examined,
            errors: scrub.errors,
            pass_start: scrub.start_time,
            pause_time: if scrub.paused != 0 { scrub.start_time } else { 0 },
            ..ScanStatus::default()
        }))
    }

    pub(super) fn removal_status(&self) -> Result<Option<RemovalStatus>> {
        let Some(value) = self.directory().lookup(directory::REMOVING)? else { return Ok(None) };
        let r = Removing::from_words(&value.ints)?;
        if r.state == ScanState::None {
            return Ok(None);
        }
        let mut mapping_bytes = 0;
        for top in &self.root_vdev().children {
            if let Some(block::vdev::Kind::Indirect(m)) = self.store().tree().tops.get(top.id as usize).map(|v| &v.kind)
            {
                // An entry takes 24 bytes, on disk and in memory.
                mapping_bytes += m.read().as_ref().map_or(0, |m| m.entries().len() as u64 * 24);
            }
        }
        Ok(Some(RemovalStatus {
            state: progress(r.state),
            // Once the removal has finished, the device is the head of the chain of indirect
            // devices.
            vdev: r.vdev.or(r.previous_indirect_vdev).unwrap_or(0),
            start_time: r.start_time,
            end_time: r.end_time,
            to_copy_bytes: r.to_copy_bytes,
            copied_bytes: r.copied_bytes,
            mapping_bytes,
        }))
    }

    /// Size in bytes that the mapping would have if this top-level device were removed; `None` if
    /// the device cannot be removed.
    pub fn mapping_bytes_if_removed(&self, guid: u64) -> Result<Option<u64>> {
        let plain = |kind: &str| matches!(kind, "disk" | "file" | "mirror");
        let top = self.root_vdev().children.iter().find(|top| top.guid == guid && plain(&top.kind));
        let Some(top) = top.filter(|top| top.number(config::IS_LOG) == 0) else { return Ok(None) };
        let space = crate::space::Space::load(self)?;
        let Some(device) = space.device(top.id) else { return Ok(None) };
        let (mut ranges, mut start, mut end) = (0, 0, 0);
        for run in device.allocated.runs() {
            let (from, to) = (run.start << device.shift, (run.start + run.len) << device.shift);
            if ranges == 0 || from - end > SPAN_BYTES_MAX || to - start > RANGE_BYTES_MAX {
                ranges += (to - from).div_ceil(RANGE_BYTES_MAX);
                start = from;
            }
            end = to;
        }
        Ok(Some(ranges * ondisk::indirect::MappingEntry::SIZE_BYTES as u64))
    }

    pub(super) fn checkpoint_status(&self) -> Result<Option<CheckpointStatus>> {
        let mut space_bytes = 0;
        for top in &self.root_vdev().children {
            space_bytes += self.checkpoint_bytes(top)?;
        }
        match self.directory().lookup(directory::ZPOOL_CHECKPOINT)? {
            // The value is an uberblock, stored as words. Its timestamp is the time of the
            // checkpoint.
            Some(value) => {
                let start_time = Uberblock::from_words(&value.ints).map_or(0, |u| u.timestamp);
                Ok(Some(CheckpointStatus { discarding: false, start_time, space_bytes }))
            }
            None if self.features().is_active("com.delphix:zpool_checkpoint") => {
                Ok(Some(CheckpointStatus { discarding: true, start_time: 0, space_bytes }))
            }
            None => Ok(None),
        }
    }

    pub(super) fn expand_status(&self) -> Result<Option<ExpandStatus>> {
        let mut last: Option<ExpandStatus> = None;
        for top in &self.root_vdev().children {
            let zap = top.number(config::VDEV_TOP_ZAP);
            if top.kind != "raidz" || zap == 0 {
                continue;
            }
            let zap = Zap::open(self.mos().object(zap)?)?;
            let number = |name: &str| -> Result<u64> { Ok(zap.lookup_u64(name)?.unwrap_or(0)) };
            let state = match number(vdev_top::RAIDZ_EXPAND_STATE)? {
                1 => Progress::Active,
                2 => Progress::Finished,
                3 => Progress::Cancelled,
                _ => continue,
            };
            let copied = number(vdev_top::RAIDZ_EXPAND_BYTES_COPIED)?;
            let found = ExpandStatus {
                state,
                vdev: top.id,
                start_time: number(vdev_top::RAIDZ_EXPAND_START_TIME)?,
                end_time: number(vdev_top::RAIDZ_EXPAND_END_TIME)?,
                to_reflow_bytes: copied,
                reflowed_bytes: copied,
                waiting_for_resilver: false,
            };
            if last.as_ref().is_none_or(|l| found.start_time >= l.start_time) {
                last = Some(found);
            }
        }
        Ok(last)
    }

    pub(super) fn dedup_status(&self) -> Result<DedupStatus> {
        let mut status = DedupStatus::default();
        for (bucket, row) in self.dedup_histogram()?.into_iter().enumerate() {
            status.entries = status.entries.saturating_add(row.blocks);
            if row.blocks > 0 {
                status.histogram.push(DedupRow {
                    bucket: bucket as u32,
                    blocks: row.blocks,
                    lsize: row.lsize_bytes,
                    psize: row.psize_bytes,
                    dsize: row.dsize_bytes,
                    ref_blocks: row.referenced_blocks,
                    ref_lsize: row.referenced_lsize_bytes,
                    ref_psize: row.referenced_psize_bytes,
                    ref_dsize: row.referenced_dsize_bytes,
                });
            }
        }
        for id in self.dedup_objects()? {
            if let Ok(object) = self.mos().object(id) {
                let dnode = object.dnode();
                let filled: u64 = dnode.blkptrs.iter().map(ondisk::BlkPtr::fill).fold(0, u64::saturating_add);
                status.disk_bytes = status.disk_bytes.saturating_add(dnode.used_bytes);
                status.core_bytes = status.core_bytes.saturating_add(filled.saturating_mul(object.block_bytes()));
            }
        }
        Ok(status)
    }

    /// Reads the dedup tables into the cache (`ddt_prefetch_all`).
    pub fn prefetch_dedup(&self) -> Result<()> {
        for id in self.dedup_objects()? {
            let object = self.mos().object(id)?;
            for number in 0..=object.max_block_id() {
                object.block(number)?;
            }
        }
        Ok(())
    }

    /// The part of [`DedupStatus::core_bytes`] that is in the cache. Looks at all pointers of the
    /// tables.
    pub fn dedup_cached_bytes(&self) -> Result<u64> {
        let mut cached = 0;
        for id in self.dedup_objects()? {
            let object = self.mos().object(id)?;
            for number in 0..=object.max_block_id() {
                if self.store().is_in_memory(&object.block_pointer(0, number)?) {
                    cached += object.block_bytes();
                }
            }
        }
        Ok(cached)
    }

    /// Object numbers of the dedup tables. The MOS directory names them; with fast_dedup it names a
    /// directory for each checksum, which names them.
    fn dedup_objects(&self) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in self.directory().entries()? {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let Some(id) = entry.value.as_u64().filter(|_| name.starts_with("DDT-") && name != directory::DDT_STATS)
            else {
                continue;
            };
            if name.contains("-zap-") {
                found.push(id);
            } else if !name.contains("-log-") {
                let tables = Zap::open(self.mos().object(id)?)?.entries()?;
                let is_table = |e: &&object::zap::ZapEntry| String::from_utf8_lossy(&e.name).contains("-zap-");
                found.extend(tables.iter().filter(is_table).filter_map(|e| e.value.as_u64()));
            }
        }
        Ok(found)
    }
}
