//! Verified records: each record is held back until a later checksum has covered it.
//!
//! The checksum that covers a record's payload is in the next record; the checksum of the whole
//! stream is in END. Input is read only as needed and never past END: the bytes after a stream
//! belong to the next reader.

use crate::stream::{Reader, Watch, kind_name};
use errors::{Error, Result};
use ondisk::Endian;
use ondisk::send_record::{Body, RECORD_BYTES, Record};
use std::io::Read;

/// A record that a sum covers.
pub struct VerifiedRecord {
    pub record: Record,
    pub payload: Vec<u8>,
    /// Start of the record, in bytes from the start of the input.
    pub offset: u64,
    number: u64,
}

impl VerifiedRecord {
    /// Object and offset of a content block.
    pub(super) fn written(&self) -> Option<(u64, u64)> {
        match &self.record.body {
            Body::Write(write) => Some((write.object, write.offset)),
            Body::WriteEmbedded(write) if write.offset <= i64::MAX as u64 => Some((write.object, write.offset)),
            _ => None,
        }
    }

    /// End of the payload, in bytes from the start of the input.
    pub(super) fn end(&self) -> u64 {
        self.offset + RECORD_BYTES as u64 + self.payload.len() as u64
    }

    /// Identifies the record in messages.
    pub fn place(&self) -> String {
        format!("record {} ({}) at byte {}", self.number, kind_name(&self.record.body), self.offset)
    }
}

/// Reads a stream, or a package of streams, and verifies it.
pub struct VerifyingReader<R> {
    reader: Reader<R>,
    held: Option<VerifiedRecord>,
    count: u64,
    watch: Option<Box<dyn Watch>>,
}

impl<R: Read> VerifyingReader<R> {
    /// Starts at the first byte of `source`.
    pub fn new(source: R) -> Self {
        Self { reader: Reader::new(source), held: None, count: 0, watch: None }
    }

    /// Adds a watcher that is notified of each record before a checksum has covered it.
    #[must_use]
    pub fn watched(self, watch: Option<Box<dyn Watch>>) -> Self {
        Self { watch, ..self }
    }

    /// Byte order of the sender; `None` before the first record.
    pub fn endian(&self) -> Option<Endian> {
        self.reader.endian()
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// Returns the next record; `None` at the end of the input, if a stream may end there.
    pub fn next_record(&mut self) -> Result<Option<VerifiedRecord>> {
        let record = match self.held.take() {
            Some(held) => Some(held),
            None => self.read()?,
        };
        match &record {
            None if !self.reader.is_whole() && self.count > 0 => Err(cut()),
            // END itself contains the checksum of everything before it.
            Some(VerifiedRecord { record: Record { body: Body::End { .. }, .. }, .. }) | None => Ok(record),
            Some(_) => {
                self.held = Some(self.read()?.ok_or_else(cut)?);
                Ok(record)
            }
        }
    }

    fn read(&mut self) -> Result<Option<VerifiedRecord>> {
        let Some((record, payload, offset)) = self.reader.next_owned()? else { return Ok(None) };
        if let Some(watch) = &mut self.watch {
            watch.passed(&record.body, (RECORD_BYTES + payload.len()) as u64)?;
        }
        let number = self.count;
        self.count += 1;
        Ok(Some(VerifiedRecord { record, payload, offset, number }))
    }
}

fn cut() -> Error {
    Error::corrupt("", "the stream ends without an END record")
}

/// The error for a record that no sender writes.
pub(super) fn bad(what: impl Into<String>) -> Error {
    Error::corrupt("", what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Writer, begin};
    use ondisk::send_record::Begin;

    fn stream() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), Endian::Little);
        writer.record(begin(Begin::STREAM), b"a list of pairs!").unwrap();
        writer.record(Body::FreeObjects { first: 1, count: 2, to_guid: 7 }, &[]).unwrap();
        writer.end(7).unwrap();
        writer.into_inner()
    }

    /// Returns how many records are returned before the end or an error.
    fn handed_out(bytes: &[u8]) -> (usize, bool) {
        let mut checked = VerifyingReader::new(bytes);
        for count in 0.. {
            match checked.next_record() {
                Ok(Some(_)) => {}
                Ok(None) => return (count, true),
                Err(_) => return (count, false),
            }
        }
        unreachable!()
    }

    #[test]
    fn no_data_is_returned_before_a_later_checksum_matched() {
        let whole = stream();
        assert_eq!(handed_out(&whole), (3, true));
        let records = [0, 328, 640];
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            let (count, good) = handed_out(&bytes);
            let holds = records.iter().filter(|start| **start <= at).count();
            assert!(!good && count < holds, "byte {at}: {count} of {holds}");
            let (count, good) = handed_out(&whole[..at]);
            assert!((!good || at == 0) && count < 3, "cut at {at}: {count}");
        }
    }

    #[test]
    fn data_after_a_stream_is_left_to_the_next_reader() {
        let (mut two, one) = (stream(), stream().len());
        two.extend_from_slice(b"not a stream");
        let mut source = &two[..];
        let mut checked = VerifyingReader::new(&mut source);
        while !matches!(checked.next_record().unwrap().unwrap().record.body, Body::End { .. }) {}
        assert_eq!(source.len(), two.len() - one);
    }
}
