//! Changing a volume: writes, zeroing, flushes, and intent log replay.
//!
//! Facts: zvol_write, zvol_discard, zvol_log_write, zvol_log_truncate and the replay
//! vector in module/zfs/zvol.c.
//!
//! Invariants:
//!   * lock order is transaction, then size, then range: no thread begins a transaction while it
//!     holds a range
//!   * each change and its log record are in one transaction
//!   * after a power failure, a piece of [`PIECE_BYTES`] is changed as a whole, or in whole sectors
//!     as a disk does it: a write of more than 128 KiB has several records

use super::{DATA_OBJECT, Live, Volume};
use dataset::live::SyncMode;
use errors::{Error, Place, Refusal, Result};
use object::Tx;
use ondisk::BlkPtr;
use ondisk::zil::record::Body;
use ondisk::zil::{Record, RecordType};

/// Maximum written in one transaction, so that a txg can close soon.
const PIECE_BYTES: u64 = 4 << 20;
/// Space that changing indirect blocks may need on top of the data. Guessed.
const OVERHEAD_BYTES: u64 = 64 << 10;
/// Maximum number of zeros written at once.
const ZEROS: &[u8] = &[0; 256 << 10];

impl Volume {
    /// Whether the volume is read-only: a snapshot, opened only for reading, or with `readonly` on.
    pub fn is_read_only(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.dataset.settings().read_only)
    }

    fn live(&self) -> Result<&Live> {
        self.live.as_ref().ok_or_else(|| Refusal::ReadOnly.at(self.name()))
    }

    /// Writes `data` at `offset`; the range must lie within the volume. The write is visible to
    /// others at once; a power failure may lose it until [`Volume::flush`], unless `sync` is
    /// `always`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = 0;
        self.changing(offset, data.len() as u64, |live, tx, offset, bytes| {
            let piece = &data[at..at + bytes as usize];
            at += bytes as usize;
            self.data.write_at(tx, offset, piece)?;
            record_write(live, tx, offset, bytes);
            Ok(())
        })
    }

    /// Zeroes `len` bytes from `offset`. With `punch`, whole blocks become holes and their space is
    /// freed. Without it, zeros are written (which still become holes where `compression` is on,
    /// since it stores no block of zeros).
    pub fn write_zeros(&self, offset: u64, len: u64, punch: bool) -> Result<()> {
        if punch {
            return self.punch(offset, len);
        }
        self.changing(offset, len, |live, tx, offset, bytes| {
            let mut done = 0;
            while done < bytes {
                let n = (bytes - done).min(ZEROS.len() as u64);
                self.data.write_at(tx, offset + done, &ZEROS[..n as usize])?;
                done += n;
            }
            record_write(live, tx, offset, bytes);
            Ok(())
        })
    }

    /// Discards `len` bytes from `offset`: whole blocks become holes, partial blocks at the edges
    /// keep their contents.
    pub fn trim(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.block_bytes().max(1);
        let end = offset.checked_add(len).ok_or_else(|| Refusal::TooLarge.at(self.name()))?;
        let (first, last) = (offset.div_ceil(size).saturating_mul(size), end - end % size);
        if first >= last {
            self.check_range(offset, len)?;
            return self.check_writable(self.live()?);
        }
        self.punch(first, last - first)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let live = self.live()?;
        self.check_writable(live)?;
        if len == 0 {
            return self.check_range(offset, len);
        }
        let tx = live.dataset.begin_freeing(self.edges(offset, len) + OVERHEAD_BYTES)?;
        self.punch_in(live, &tx, offset, len)?;
        drop(tx);
        self.keep_promise(live)
    }

    /// Bytes of the blocks that are only partly punched.
    fn edges(&self, offset: u64, len: u64) -> u64 {
        let size = self.block_bytes().max(1);
        u64::from(!offset.is_multiple_of(size)) * size + u64::from(!(offset + len).is_multiple_of(size)) * size
    }

    fn punch_in(&self, live: &Live, tx: &Tx, offset: u64, len: u64) -> Result<()> {
        let size = live.dataset.volume_bytes();
        self.check_within(*size, offset, len)?;
        let _range = live.ranges.hold(offset, len);
        self.data.punch(tx, offset, len).at_with(|| self.name())?;
        let body = Body::Truncate { object: DATA_OBJECT, offset, length: len };
        live.dataset.log().record(tx, DATA_OBJECT, RecordType::TRUNCATE, &body);
        Ok(())
    }

    /// Applies `change` to `len` bytes from `offset` in pieces, each in its own transaction.
    fn changing(
        &self,
        offset: u64,
        len: u64,
        mut change: impl FnMut(&Live, &Tx, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let live = self.live()?;
        self.check_writable(live)?;
        self.check_range(offset, len)?;
        let mut done = 0;
        while done < len {
            let at = offset + done;
            // Pieces end at block boundaries, so that no block is changed twice.
            let piece = (PIECE_BYTES - at % PIECE_BYTES).min(len - done);
            let tx = live.dataset.begin(self.blocks_bytes(at, piece) + OVERHEAD_BYTES)?;
            let size = live.dataset.volume_bytes();
            self.check_within(*size, at, piece)?;
            let range = live.ranges.hold(at, piece);
            change(live, &tx, at, piece).at_with(|| self.name())?;
            drop((range, size, tx));
            done += piece;
        }
        self.keep_promise(live)
    }

    fn check_within(&self, size: u64, offset: u64, len: u64) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            // The volume was shrunk in the meantime.
            _ => Err(Refusal::NoSpace.at(format!("{}: bytes beyond its end", self.name()))),
        }
    }

    /// Bytes of all blocks that a range touches.
    fn blocks_bytes(&self, offset: u64, len: u64) -> u64 {
        let size = self.block_bytes().max(1);
        (offset + len).next_multiple_of(size) - (offset - offset % size)
    }

    fn check_writable(&self, live: &Live) -> Result<()> {
        match live.dataset.settings().read_only {
            true => Err(Refusal::ReadOnly.at(self.name())),
            false => Ok(()),
        }
    }

    /// With `sync=always`, waits until a change is on stable storage before it is acknowledged.
    fn keep_promise(&self, live: &Live) -> Result<()> {
        match live.dataset.settings().sync {
            SyncMode::Always => self.flush(),
            SyncMode::Standard | SyncMode::Disabled => Ok(()),
        }
    }

    /// Returns when all previous writes are on stable storage. Does nothing for a volume that is
    /// open read-only.
    pub fn flush(&self) -> Result<()> {
        match &self.live {
            Some(live) => live.dataset.log().commit(Some(DATA_OBJECT)).at_with(|| self.name()),
            None => Ok(()),
        }
    }

    /// Replays the intent log, and frees it. `readonly` is ignored.
    pub(super) fn replay(&self) -> Result<()> {
        let live = self.live()?;
        let log = live.dataset.log();
        if !log.needs_replay() {
            return Ok(());
        }
        let replayed = log
            .replay(&mut |record, body| self.replay_record(live, record, body), &|_, _| None)
            .at_with(|| self.name())?;
        if replayed.is_kept {
            tracing::error!(volume = self.name(), "{}", crate::zpl::KEPT);
        }
        Ok(())
    }

    fn replay_record(&self, live: &Live, record: &Record<'_>, body: &Body<'_>) -> Result<()> {
        match body {
            Body::Commit => Ok(()),
            Body::Write { object: DATA_OBJECT, offset, length, data, .. } if record.kind == RecordType::WRITE => {
                // A whole block contains data that later records depend on.
                let is_block = data.len() as u64 > *length;
                let at = if is_block { offset - offset % data.len() as u64 } else { *offset };
                // It was admitted before the crash, and must be admitted again.
                let tx = live.dataset.begin_freeing(data.len() as u64 + OVERHEAD_BYTES)?;
                // Beyond the end: written before the volume was shrunk.
                let len = (*live.dataset.volume_bytes()).saturating_sub(at).min(data.len() as u64);
                self.data.write_at(&tx, at, &data[..len as usize])?;
                record_write(live, &tx, at, len);
                Ok(())
            }
            Body::Truncate { object: DATA_OBJECT, offset, length } => {
                let size = *live.dataset.volume_bytes();
                let (offset, len) = ((*offset).min(size), (*length).min(size.saturating_sub(*offset)));
                let tx = live.dataset.begin_freeing(self.edges(offset, len) + OVERHEAD_BYTES)?;
                self.punch_in(live, &tx, offset, len)
            }
            _ => Err(Error::unsupported(self.name(), format!("{} in the intent log of a volume", record.kind.name()))),
        }
    }
}

fn record_write(live: &Live, tx: &Tx, offset: u64, length: u64) {
    let body = Body::Write { object: DATA_OBJECT, offset, length, pointer: BlkPtr::HOLE, data: &[] };
    live.dataset.log().record(tx, DATA_OBJECT, RecordType::WRITE, &body);
}
