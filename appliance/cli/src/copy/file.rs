//! Copies the contents of one file in pieces, several at a time.

use super::attributes::{self, Target};
use super::damage::DamageMap;
use super::options::Options;
use super::reach::reach;
use super::report::Report;
use anyhow::{Context, Result, bail};
use files::vfs::{Attr, Vfs};
use parking_lot::Mutex;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size of a worker's piece. Guessed: large relative to a record, small relative to a core's cache.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Records from this size on are read individually: a read of exactly one record is not copied in
/// memory.
const RECORD_BYTES_ALONE: u64 = 64 << 10;

/// A file that is being copied.
pub(super) struct OutFile {
    pub attr: Attr,
    pub shown: String,
    pub path: PathBuf,
    pub file: File,
    /// The target is a file that can have holes; otherwise (a disk) zeros are written.
    pub sparse: bool,
    damage: Mutex<DamageMap>,
    /// The first error that makes the copy fail.
    failed: Mutex<Option<anyhow::Error>>,
    gave_up: AtomicBool,
}

impl OutFile {
    /// `file` is open for writing, empty, at `path`.
    pub fn new(attr: Attr, shown: String, path: PathBuf, file: File) -> Result<Self> {
        let sparse = file.metadata()?.is_file();
        if sparse {
            file.set_len(attr.size).with_context(|| format!("cannot set its size to {} bytes", attr.size))?;
        }
        let (damage, failed, gave_up) = (Mutex::default(), Mutex::default(), AtomicBool::new(false));
        Ok(Self { attr, shown, path, file, sparse, damage, failed, gave_up })
    }

    /// The next range at or after `from` that must be written; at most a piece.
    pub fn next_piece(&self, vfs: &dyn Vfs, from: u64, options: &Options) -> Option<Range<u64>> {
        let size = self.attr.size;
        if from >= size || self.gave_up.load(Ordering::Relaxed) {
            return None;
        }
        let mut start = from;
        let mut end = size;
        if self.sparse {
            let data = vfs.seek_data(self.attr.node, from).and_then(|found| match found {
                Some(at) => Ok(Some((at, vfs.seek_hole(self.attr.node, at)?))),
                None => Ok(None),
            });
            match data {
                Ok(None) => return None,
                Ok(Some((at, hole))) => (start, end) = (at.max(from), hole.min(size)),
                // Holes are unknown: try to read everything.
                Err(_) if options.best_effort => {}
                Err(e) => {
                    self.give_up(e.into());
                    return None;
                }
            }
        }
        // Pieces end at multiples of their size, so that no record is read twice.
        let piece_end = (start / PIECE_BYTES).checked_add(1)?.saturating_mul(PIECE_BYTES);
        (start < end).then(|| start..end.min(piece_end))
    }

    fn give_up(&self, error: anyhow::Error) {
        self.gave_up.store(true, Ordering::Relaxed);
        self.failed.lock().get_or_insert(error);
    }

    /// Copies a range in steps. An error fails the file, and its other ranges are skipped; with
    /// [`Options::best_effort`], what cannot be read becomes a hole.
    pub fn copy(&self, vfs: &dyn Vfs, range: Range<u64>, options: &Options, report: &Report) {
        if self.gave_up.load(Ordering::Relaxed) {
            return;
        }
        let record = u64::from(self.attr.block_bytes).max(512);
        let step = if record >= RECORD_BYTES_ALONE { record } else { PIECE_BYTES };
        if let Err(e) = self.copy_in_steps(vfs, range, step, record, options, report) {
            self.give_up(e);
        }
    }

    fn copy_in_steps(
        &self,
        vfs: &dyn Vfs,
        range: Range<u64>,
        step: u64,
        record: u64,
        options: &Options,
        report: &Report,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let len = (step - at % step).min(range.end - at);
            match vfs.read(self.attr.node, at, len as usize) {
                Ok(data) if data.len() as u64 == len => {
                    self.file
                        .write_all_at(&data, at)
                        .with_context(|| format!("{}: cannot write", self.path.display()))?;
                    report.advance(len);
                }
                Ok(data) => bail!("read {} bytes at offset {at}, expected {len}", data.len()),
                Err(e) if !options.best_effort => {
                    return Err(anyhow::Error::from(e).context(format!("bytes {at} to {} cannot be read", at + len)));
                }
                // One of several records is bad: find out which.
                Err(_) if step > record => self.copy_in_steps(vfs, at..at + len, record, record, options, report)?,
                Err(e) => {
                    self.damage.lock().add(at, len, &e);
                    report.advance(len);
                }
            }
            at += len;
        }
        Ok(())
    }

    /// After the last piece: sets attributes, or reports the error and removes the copy.
    pub fn finish(self, vfs: &dyn Vfs, options: &Options, report: &Report) {
        if let Some(error) = self.failed.into_inner() {
            let hint = if options.best_effort { "" } else { " (--best-effort copies what can be verified)" };
            report.fail(&self.shown, format_args!("{error:#}{hint}"));
            // A partial file must not pass for a complete one. (A disk given as the target is not
            // removed.)
            if self.sparse
                && let Err(e) = reach(&self.path).and_then(|path| std::fs::remove_file(&*path))
            {
                report.fail(&self.path.display().to_string(), e);
            }
            return;
        }
        if self.sparse {
            attributes::apply(vfs, &self.attr, &self.shown, &Target::Open(&self.file), options, report);
        }
        let mut damage = self.damage.into_inner();
        if !damage.is_empty() {
            let ranges = damage.ranges();
            let (count, bytes) = (ranges.len(), ranges.iter().map(|r| r.1).sum::<u64>());
            let first = ranges.first().map_or("", |r| r.2.as_str()).to_owned();
            let what = format!("{bytes} of {} bytes in {count} ranges could not be read: {first}", self.attr.size);
            let written = reach(&self.path).and_then(|path| damage.write(&self.shown, self.attr.size, &path));
            match written.map(|_| DamageMap::path_for(&self.path)) {
                Ok(map) => report.fail(&self.shown, format_args!("{what}; the ranges are in {}", map.display())),
                Err(e) => report.fail(&self.shown, format_args!("{what}; and their list could not be written: {e}")),
            }
        }
    }
}
