//! Writes a run, frame by frame.

use super::block::{pack, pack_times};
use super::{Column, ColumnId, End, Error, MAGIC, Meta, Note, Stamp};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Maximum number of rows in a frame.
const ROWS: usize = 60;
/// Maximum age in nanoseconds of a row that is not in the file yet: what a killed process loses.
const PATIENCE_NS: i64 = 5_000_000_000;

/// A run being written.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    numbers: HashMap<Column, ColumnId>,
    /// Columns that are not in the file yet.
    fresh: Vec<Column>,
    rows: Vec<Stamp>,
    /// For each column, a value for each of `rows`; shorter if the last rows lack it.
    values: Vec<Vec<f64>>,
    written: u64,
}

impl Writer {
    /// Starts a run in a new file; an existing file is an error.
    pub fn create(path: &Path, meta: &Meta) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.to_owned(), error };
        let mut file = File::create_new(path).map_err(io)?;
        file.write_all(MAGIC).map_err(io)?;
        let mut writer = Self {
            path: path.to_owned(),
            file,
            numbers: HashMap::new(),
            fresh: Vec::new(),
            rows: Vec::new(),
            values: Vec::new(),
            written: 0,
        };
        writer.document(b'M', meta)?;
        Ok(writer)
    }

    /// The number of a column, assigned on first use.
    pub fn column(&mut self, column: &Column) -> ColumnId {
        if let Some(id) = self.numbers.get(column) {
            return *id;
        }
        let id = ColumnId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.numbers.insert(column.clone(), id);
        self.fresh.push(column.clone());
        self.values.push(Vec::new());
        id
    }

    /// Adds a row. Columns that are not listed were not measured.
    pub fn row(&mut self, at: Stamp, values: &[(ColumnId, f64)]) -> Result<(), Error> {
        let before = self.rows.len();
        self.rows.push(at);
        for (id, value) in values {
            if let Some(column) = self.values.get_mut(id.0 as usize) {
                column.resize(before, f64::NAN);
                column.push(*value);
            }
        }
        let oldest = self.rows.first().map_or(at.mono_ns, |s| s.mono_ns);
        if self.rows.len() >= ROWS || at.mono_ns.saturating_sub(oldest) >= PATIENCE_NS {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds an event, after the rows that were added before it.
    pub fn note(&mut self, at: Stamp, text: &str) -> Result<(), Error> {
        self.flush()?;
        self.document(b'N', &Note { at, text: text.to_owned() })
    }

    /// Writes everything added so far to the file.
    pub fn flush(&mut self) -> Result<(), Error> {
        if !self.fresh.is_empty() {
            let fresh = std::mem::take(&mut self.fresh);
            self.document(b'C', &fresh)?;
        }
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let mut out = Vec::new();
        let chunk = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend((bytes.len() as u32).to_le_bytes());
            out.extend(bytes);
        };
        out.extend((rows.len() as u32).to_le_bytes());
        let times = |of: fn(&Stamp) -> i64| pack_times(&rows.iter().map(of).collect::<Vec<_>>());
        chunk(&mut out, &times(|s| s.utc_ns));
        chunk(&mut out, &times(|s| s.mono_ns));
        for (id, column) in (0u32..).zip(&mut self.values) {
            // A column without a value here is omitted from the frame.
            if !column.is_empty() {
                column.resize(rows.len(), f64::NAN);
                out.extend(id.to_le_bytes());
                chunk(&mut out, &pack(column));
                column.clear();
            }
        }
        self.written += rows.len() as u64;
        self.frame(b'R', &out)
    }

    /// Ends the run: completes the file and syncs it.
    pub fn finish(mut self, missed: u64) -> Result<(), Error> {
        self.flush()?;
        self.document(b'E', &End { at: Stamp::now(), rows: self.written, missed })?;
        self.file.sync_all().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::Io { path: self.path.clone(), error }
    }

    fn document(&mut self, kind: u8, what: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_vec(what).map_err(|e| self.failed(io::Error::other(e)))?;
        self.frame(kind, &text)
    }

    /// Kind, length, contents, and a checksum over all three: in one write, so that only the last
    /// frame can be torn.
    fn frame(&mut self, kind: u8, contents: &[u8]) -> Result<(), Error> {
        let mut out = Vec::with_capacity(contents.len() + 9);
        out.push(kind);
        out.extend((contents.len() as u32).to_le_bytes());
        out.extend(contents);
        let check = crc32fast::hash(&out);
        out.extend(check.to_le_bytes());
        self.file.write_all(&out).map_err(|error| self.failed(error))
    }
}
