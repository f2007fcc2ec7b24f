//! Reads a run: frames are verified on open, columns are decoded on demand.

use super::block::{unpack, unpack_times};
use super::{Column, ColumnId, End, Error, FRAME_BYTES_MAX, MAGIC, Meta, Note, Stamp};
use crate::series::Series;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A run read from a file.
#[derive(Debug)]
pub struct Run {
    /// Path of the file.
    pub path: PathBuf,
    /// Description of the run.
    pub meta: Meta,
    /// Columns, indexed by number.
    pub columns: Vec<Column>,
    /// Times of the rows.
    pub rows: Vec<Stamp>,
    /// Events during the run.
    pub notes: Vec<Note>,
    /// How it ended; `None`: it is still running, or was killed.
    pub end: Option<End>,
    /// Offset at which the file ends without a whole frame: it was truncated there.
    pub torn: Option<u64>,
    bytes: Vec<u8>,
    frames: Vec<Rows>,
}

/// A frame of rows: their range, and the position of each column in the file.
#[derive(Debug)]
struct Rows {
    rows: Range<usize>,
    /// Sorted by number.
    columns: Vec<(u32, Range<usize>)>,
}

/// Takes `n` bytes from the front.
fn take(at: &mut usize, end: usize, n: usize) -> Option<Range<usize>> {
    let range = *at..at.checked_add(n)?;
    (range.end <= end).then(|| {
        *at = range.end;
        range
    })
}

fn word(bytes: &[u8], range: Range<usize>) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(range)?.try_into().ok()?))
}

impl Run {
    /// Reads a whole file into memory. It may still be growing; see [`Self::torn`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let bytes = std::fs::read(path).map_err(|error| Error::Io { path: path.to_owned(), error })?;
        Self::of(path, bytes)
    }

    /// Parses a file that is already in memory.
    pub fn of(path: &Path, bytes: Vec<u8>) -> Result<Self, Error> {
        let corrupt =
            |at: usize, what: &str| Error::Corrupt { path: path.to_owned(), at: at as u64, what: what.to_owned() };
        if !bytes.starts_with(MAGIC) {
            return Err(corrupt(0, "not a recorded run, expected WEIRREC1"));
        }
        let mut at = MAGIC.len();
        let (mut meta, mut columns, mut notes, mut end) = (None, Vec::new(), Vec::new(), None);
        let (mut rows, mut frames, mut torn) = (Vec::new(), Vec::new(), None);
        while at < bytes.len() {
            let begin = at;
            let Some((kind, range)) = frame(&bytes, &mut at) else {
                torn = Some(begin as u64);
                break;
            };
            let contents = &bytes[range.clone()];
            let wrong = |e: serde_json::Error| corrupt(begin, &e.to_string());
            match kind {
                b'M' => meta = Some(serde_json::from_slice(contents).map_err(wrong)?),
                b'C' => columns.extend(serde_json::from_slice::<Vec<Column>>(contents).map_err(wrong)?),
                b'N' => notes.push(serde_json::from_slice(contents).map_err(wrong)?),
                b'E' => end = Some(serde_json::from_slice(contents).map_err(wrong)?),
                b'R' => frames.push(
                    Rows::read(&bytes, range, &mut rows)
                        .ok_or_else(|| corrupt(begin, "the frame of rows does not add up"))?,
                ),
                // Written by a newer version: the known frames are complete without it.
                _ => {}
            }
        }
        let meta = meta.ok_or_else(|| corrupt(MAGIC.len(), "no description of the run, expected a frame M"))?;
        Ok(Self { path: path.to_owned(), meta, columns, rows, notes, end, torn, bytes, frames })
    }

    /// The values of a column, one for each row; NaN: not measured.
    pub fn values(&self, id: ColumnId) -> Vec<f64> {
        let mut out = Vec::with_capacity(self.rows.len());
        for frame in &self.frames {
            let found = frame.columns.binary_search_by_key(&id.0, |(n, _)| *n).ok();
            let range = found.and_then(|at| frame.columns.get(at)).map(|(_, range)| range.clone());
            let before = out.len();
            if range.and_then(|range| unpack(self.bytes.get(range)?, frame.rows.len(), &mut out)).is_none() {
                out.truncate(before);
                out.extend(std::iter::repeat_n(f64::NAN, frame.rows.len()));
            }
        }
        out
    }

    /// A column as a series over time.
    pub fn series(&self, id: ColumnId) -> Option<Series> {
        let column = self.columns.get(id.0 as usize)?;
        Some(Series::of_rows(column, &self.rows, &self.values(id), self.meta.started, self.meta.every_ns))
    }

    /// All columns called `name`.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (ColumnId, &'a Column)> + 'a {
        (0u32..).map(ColumnId).zip(&self.columns).filter(move |(_, c)| c.name == name)
    }
}

/// Kind and contents of the next frame; `None` if there is no whole one.
fn frame(bytes: &[u8], at: &mut usize) -> Option<(u8, Range<usize>)> {
    let begin = *at;
    let kind = *bytes.get(take(at, bytes.len(), 1)?)?.first()?;
    let length = word(bytes, take(at, bytes.len(), 4)?)? as usize;
    if length > FRAME_BYTES_MAX {
        return None;
    }
    let contents = take(at, bytes.len(), length)?;
    let check = word(bytes, take(at, bytes.len(), 4)?)?;
    (crc32fast::hash(bytes.get(begin..contents.end)?) == check).then_some((kind, contents))
}

impl Rows {
    fn read(bytes: &[u8], frame: Range<usize>, rows: &mut Vec<Stamp>) -> Option<Self> {
        let (mut at, end) = (frame.start, frame.end);
        let count = word(bytes, take(&mut at, end, 4)?)? as usize;
        let chunk = |at: &mut usize| {
            let length = word(bytes, take(at, end, 4)?)? as usize;
            take(at, end, length)
        };
        let utc = unpack_times(bytes.get(chunk(&mut at)?)?, count)?;
        let mono = unpack_times(bytes.get(chunk(&mut at)?)?, count)?;
        let first = rows.len();
        rows.extend(utc.into_iter().zip(mono).map(|(utc_ns, mono_ns)| Stamp { utc_ns, mono_ns }));
        let mut columns = Vec::new();
        while at < end {
            let id = word(bytes, take(&mut at, end, 4)?)?;
            columns.push((id, chunk(&mut at)?));
        }
        columns.sort_by_key(|(id, _)| *id);
        Some(Self { rows: first..rows.len(), columns })
    }
}
