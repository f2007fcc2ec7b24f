//! Record marking (RFC 5531, section 11): splits a byte stream into records. Pure.
//!
//! A record consists of fragments, each preceded by its length. Nearly always there is one
//! fragment, read with one call: then the record is a slice of the input. A partial record is kept
//! in a buffer that grows with the data received, so that a length alone allocates no memory.
//!
//! Invariants:
//!   * the buffer is never longer than the maximum record
//!   * after an error no more input is accepted

use crate::nfs::xdr::Malformed;

/// Bit in the length of a record's last fragment.
const LAST: u32 = 1 << 31;
/// Maximum number of consecutive empty fragments. Only an attacker sends them.
const EMPTY_MAX: usize = 16;
/// Buffers of at least this size are reused, because allocating them takes time.
pub(super) const SPARE_MIN: usize = 128 << 10;
/// Initial size of the buffer, which then doubles.
const BUFFER_MIN: usize = 4096;

/// A complete record without the headers of its fragments.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    /// A slice of the input.
    Fed(&'a [u8]),
    /// Assembled in a buffer, which may be longer than the record.
    Kept(Vec<u8>, usize),
}

impl Record<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Fed(bytes) => bytes,
            Self::Kept(buffer, len) => &buffer[..*len],
        }
    }

    /// Copies the record into its own buffer if necessary.
    pub fn into_kept(self) -> Record<'static> {
        match self {
            Self::Fed(bytes) => Record::Kept(bytes.to_vec(), bytes.len()),
            Self::Kept(buffer, len) => Record::Kept(buffer, len),
        }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Framer {
    record_bytes_max: usize,
    header: [u8; 4],
    header_len: usize,
    /// Missing bytes of the current fragment; `None` between fragments.
    left: Option<usize>,
    is_last: bool,
    empty: usize,
    /// Fully initialised; the first `kept` bytes belong to the record.
    buffer: Vec<u8>,
    kept: usize,
    /// Length of the last assembled record. The next one is expected to be as long.
    expected: usize,
    /// A buffer for the next record.
    spare: Option<Vec<u8>>,
}

impl Framer {
    pub fn new(record_bytes_max: usize) -> Self {
        Self {
            record_bytes_max,
            header: [0; 4],
            header_len: 0,
            left: None,
            is_last: false,
            empty: 0,
            buffer: Vec::new(),
            kept: 0,
            expected: 0,
            spare: None,
        }
    }

    /// Memory held for a partial record.
    pub fn held_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Whether more of a partial record fits into its buffer.
    pub fn has_place(&self) -> bool {
        self.left.is_some_and(|left| left > 0) && self.kept < self.buffer.len()
    }

    /// Whether a partial record was received.
    #[cfg(test)]
    pub fn is_within(&self) -> bool {
        self.header_len > 0 || self.left.is_some() || self.kept > 0
    }

    /// Whether a [spare](Framer::lend) buffer would be used if the next record is as long as the
    /// last one.
    pub fn wants_spare(&self) -> bool {
        self.expected >= SPARE_MIN && self.buffer.is_empty()
    }

    /// Lends a fully initialised buffer. If it was not used, [`Framer::take_back`] returns it.
    pub fn lend(&mut self, buffer: Vec<u8>) {
        self.spare = Some(buffer);
    }

    /// Returns the lent buffer if it was not used.
    pub fn take_back(&mut self) -> Option<Vec<u8>> {
        self.spare.take()
    }

    /// Where to read the next bytes of a long fragment, which saves a copy. `None` if fewer than
    /// `min` bytes are missing.
    pub fn place(&mut self, min: usize) -> Option<&mut [u8]> {
        let left = self.left.filter(|left| *left >= min)?;
        self.room(left);
        let end = self.buffer.len().min(self.kept + left);
        self.buffer.get_mut(self.kept..end)
    }

    /// Reports that `count` bytes were read into [`Framer::place`]. Returns the record if it is
    /// complete.
    pub fn placed(&mut self, count: usize) -> Option<Record<'static>> {
        self.kept += count;
        self.left = self.left.map(|left| left.saturating_sub(count));
        self.finished()
    }

    /// Extends the buffer if it is full: by as much as has arrived, or by the length of the last
    /// record, but not beyond the bytes that are missing.
    fn room(&mut self, left: usize) {
        if self.kept < self.buffer.len() {
            return;
        }
        if self.buffer.is_empty()
            && left >= SPARE_MIN
            && let Some(spare) = self.spare.take()
        {
            self.buffer = spare;
            return;
        }
        let more = self.kept.max(BUFFER_MIN).max(self.expected).min(left);
        self.buffer.resize(self.kept + more, 0);
    }

    fn finished(&mut self) -> Option<Record<'static>> {
        if self.left != Some(0) {
            return None;
        }
        self.left = None;
        if !self.is_last {
            return None;
        }
        let (buffer, len) = (std::mem::take(&mut self.buffer), std::mem::take(&mut self.kept));
        self.expected = len;
        Some(Record::Kept(buffer, len))
    }

    /// Consumes `input` up to the end of a record.
    pub fn feed<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Record<'a>>, Malformed> {
        loop {
            let Some(left) = self.left else {
                if !self.header(input)? {
                    return Ok(None);
                }
                continue;
            };
            // The whole record, in one fragment.
            if self.is_last && self.kept == 0 && input.len() >= left {
                let (record, rest) = input.split_at(left);
                *input = rest;
                self.left = None;
                return Ok(Some(Record::Fed(record)));
            }
            while self.left.is_some_and(|left| left > 0) && !input.is_empty() {
                self.room(self.left.unwrap_or(0));
                let count = input.len().min(self.left.unwrap_or(0)).min(self.buffer.len() - self.kept);
                let (head, rest) = input.split_at(count);
                self.buffer[self.kept..self.kept + count].copy_from_slice(head);
                *input = rest;
                self.kept += count;
                self.left = self.left.map(|left| left - count);
            }
            if let Some(record) = self.finished() {
                return Ok(Some(record));
            }
            if self.left.is_some() {
                return Ok(None);
            }
        }
    }

    /// Reads the header of the next fragment. Returns false if more bytes are needed.
    fn header(&mut self, input: &mut &[u8]) -> Result<bool, Malformed> {
        let count = input.len().min(4 - self.header_len);
        let (head, rest) = input.split_at(count);
        self.header[self.header_len..self.header_len + count].copy_from_slice(head);
        *input = rest;
        self.header_len += count;
        if self.header_len < 4 {
            return Ok(false);
        }
        self.header_len = 0;
        let mark = u32::from_be_bytes(self.header);
        let len = (mark & !LAST) as usize;
        self.is_last = mark & LAST != 0;
        self.empty = if len == 0 { self.empty + 1 } else { 0 };
        if self.kept + len > self.record_bytes_max || self.empty > EMPTY_MAX {
            return Err(Malformed);
        }
        self.left = Some(len);
        Ok(true)
    }
}

/// The record mark of a record in one fragment.
pub(super) fn mark(len: usize) -> u32 {
    len as u32 | LAST
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stream(records: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let mut out = Vec::new();
        for fragments in records {
            for (i, fragment) in fragments.iter().enumerate() {
                let last = if i + 1 == fragments.len() { LAST } else { 0 };
                out.extend((fragment.len() as u32 | last).to_be_bytes());
                out.extend(fragment);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn records_come_out_however_the_bytes_arrive(
            records in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9000), 1..4), 1..6),
            cuts in prop::collection::vec(1usize..12_000, 1..40),
        ) {
            let bytes = stream(&records);
            let expected: Vec<Vec<u8>> = records.iter().map(|f| f.concat()).collect();
            let mut framer = Framer::new(1 << 20);
            let (mut found, mut rest, mut cuts) = (Vec::new(), &bytes[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let cut = *cuts.next().expect("a cycle");
                // Some bytes are read directly into place.
                if cut % 3 == 0 && let Some(place) = framer.place(100) {
                    let n = place.len().min(rest.len());
                    place[..n].copy_from_slice(&rest[..n]);
                    rest = &rest[n..];
                    found.extend(framer.placed(n).map(|r| r.bytes().to_vec()));
                    continue;
                }
                let n = cut.min(rest.len());
                let mut piece = &rest[..n];
                rest = &rest[n..];
                while let Some(record) = framer.feed(&mut piece).expect("well formed") {
                    found.push(record.bytes().to_vec());
                }
                prop_assert!(piece.is_empty());
            }
            prop_assert_eq!(found, expected);
            prop_assert!(!framer.is_within());
        }

        #[test]
        fn no_bytes_make_it_take_more_than_came(bytes in prop::collection::vec(any::<u8>(), 0..300), small in any::<bool>()) {
            let mut bytes = bytes;
            if small {
                // Produces plausible lengths.
                bytes.iter_mut().step_by(4).for_each(|b| *b &= 0x80);
            }
            let mut framer = Framer::new(1 << 20);
            let mut rest = &bytes[..];
            while let Ok(Some(record)) = framer.feed(&mut rest) {
                prop_assert!(record.bytes().len() <= bytes.len());
            }
            prop_assert!(framer.held_bytes() <= 2 * bytes.len().max(BUFFER_MIN));
        }
    }

    #[test]
    fn a_record_that_is_too_long_is_refused_at_its_length() {
        let feed = |parts: &[u32], max: usize| {
            let bytes: Vec<u8> = parts.iter().flat_map(|n| n.to_be_bytes()).collect();
            Framer::new(max).feed(&mut &bytes[..]).map(|_| ())
        };
        assert_eq!(feed(&[LAST | 101], 100), Err(Malformed));
        assert_eq!(feed(&[4, 0, LAST | 97], 100), Err(Malformed), "in two fragments");
        assert_eq!(feed(&[LAST | 100], 100), Ok(()));
        assert_eq!(feed(&[0; 20], 100), Err(Malformed), "nothing but empty fragments");
    }
}
