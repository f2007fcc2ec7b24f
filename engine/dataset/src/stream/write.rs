//! Writes a stream record by record.

use super::Watch;
use errors::{Error, Result};
use ondisk::Endian;
use ondisk::send_record::{Body, CHECKSUM_OFFSET, RECORD_BYTES, Record};
use std::io::{self, Write};
use transform::checksum::Order;
use transform::checksum::fletcher4::Fletcher4;

/// Writes records in sequence, each with the checksum of everything before it.
pub struct Writer<W> {
    out: W,
    endian: Endian,
    sum: Fletcher4,
    bytes: u64,
    /// Whether records get checksums; not if their bytes are only counted.
    has_sums: bool,
    watch: Option<Box<dyn Watch>>,
}

impl Writer<io::Sink> {
    /// Counts the bytes of records, and writes nothing.
    pub fn measuring(endian: Endian) -> Self {
        Self { has_sums: false, ..Self::new(io::sink(), endian) }
    }
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, with numbers in the byte order `endian`.
    pub fn new(out: W, endian: Endian) -> Self {
        Self { out, endian, sum: new_sum(endian), bytes: 0, has_sums: true, watch: None }
    }

    /// Adds a watcher that is notified of each record.
    #[must_use]
    pub fn watched(self, watch: Option<Box<dyn Watch>>) -> Self {
        Self { watch, ..self }
    }

    /// Bytes written so far: records and payloads.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes a record and its payload.
    pub fn record(&mut self, body: Body, payload: &[u8]) -> Result<()> {
        let is_begin = matches!(body, Body::Begin(_));
        // Only BEGIN has its payload length in this field.
        let payload_len = if is_begin { payload.len() as u32 } else { 0 };
        let record = Record { payload_len, body, checksum: [0; 4] };
        assert_eq!(record.payload_bytes(), payload.len() as u64, "a payload is as long as its record says");
        let mut bytes = record.to_bytes(self.endian);
        self.sum.update(&bytes[..CHECKSUM_OFFSET]);
        if !is_begin {
            for (i, word) in self.sum.words().into_iter().enumerate() {
                self.endian.put_u64(&mut bytes[CHECKSUM_OFFSET + i * 8..], word);
            }
        }
        self.sum.update(&bytes[CHECKSUM_OFFSET..]);
        self.put(&bytes)?;
        if self.has_sums {
            self.sum.update(payload);
        }
        self.put(payload)?;
        self.report_progress(&record.body, payload.len())
    }

    /// Writes the END of a stream, with its checksum.
    pub fn end(&mut self, to_guid: u64) -> Result<()> {
        let checksum = self.sum.words();
        self.record(Body::End { checksum, to_guid }, &[])?;
        self.sum = new_sum(self.endian);
        Ok(())
    }

    /// Writes the END of a package's list: like the END of a stream, but the record itself has no
    /// checksum.
    pub fn list_end(&mut self) -> Result<()> {
        let checksum = self.sum.words();
        self.bare_end(checksum)
    }

    /// Writes the END of a package.
    pub fn last_end(&mut self) -> Result<()> {
        self.bare_end([0; 4])
    }

    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|e| Error::io("the stream", e))
    }

    fn bare_end(&mut self, checksum: [u64; 4]) -> Result<()> {
        let record = Record { payload_len: 0, body: Body::End { checksum, to_guid: 0 }, checksum: [0; 4] };
        let bytes: [u8; RECORD_BYTES] = record.to_bytes(self.endian);
        self.sum = new_sum(self.endian);
        self.put(&bytes)?;
        self.report_progress(&record.body, 0)
    }

    fn report_progress(&mut self, body: &Body, payload: usize) -> Result<()> {
        match &mut self.watch {
            Some(watch) => watch.passed(body, (RECORD_BYTES + payload) as u64),
            None => Ok(()),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|e| Error::io("the stream", e))
    }
}

fn new_sum(endian: Endian) -> Fletcher4 {
    Fletcher4::new(match endian {
        Endian::Little => Order::Little,
        Endian::Big => Order::Big,
    })
}
