//! Reads a stream record by record.

use super::kind_name;
use errors::{Error, Place, Result};
use ondisk::Endian;
use ondisk::blkptr::MAX_BLOCK_BYTES;
use ondisk::send_record::{Begin, Body, CHECKSUM_OFFSET, RECORD_BYTES, Record, stream_endian};
use std::io::Read;
use transform::checksum::Order;
use transform::checksum::fletcher4::Fletcher4;

/// Longest list in a BEGIN record. OpenZFS's default limit in a receiver is a quarter of its memory
/// (`libzfs_max_nvlist`).
const LIST_BYTES_MAX: u64 = 256 << 20;

/// A record with its payload.
pub struct Packet<'a> {
    pub record: Record,
    pub payload: &'a [u8],
    /// Start of the record, in bytes from the start of the input.
    pub offset: u64,
}

/// Parses a stream, or a package of streams.
pub struct Reader<R> {
    source: R,
    /// Known after the first record.
    endian: Option<Endian>,
    sum: Fletcher4,
    is_checked: bool,
    offset: u64,
    count: u64,
    /// Inside a stream: after BEGIN and before END.
    is_open: bool,
    /// Inside a package of streams.
    in_package: bool,
    payload: Vec<u8>,
}

fn order(endian: Endian) -> Order {
    match endian {
        Endian::Little => Order::Little,
        Endian::Big => Order::Big,
    }
}

/// Formats four words as OpenZFS prints a checksum.
fn words([a, b, c, d]: [u64; 4]) -> String {
    format!("{a:x}/{b:x}/{c:x}/{d:x}")
}

impl<R: Read> Reader<R> {
    /// Starts at the first byte of `source`.
    pub fn new(source: R) -> Self {
        Self {
            source,
            endian: None,
            sum: Fletcher4::new(Order::Little),
            is_checked: true,
            offset: 0,
            count: 0,
            is_open: false,
            in_package: false,
            payload: Vec::new(),
        }
    }

    /// Like `new`, but without verifying checksums.
    #[must_use]
    pub fn unchecked(self) -> Self {
        Self { is_checked: false, ..self }
    }

    /// Byte order of the sender; `None` before the first record.
    pub fn endian(&self) -> Option<Endian> {
        self.endian
    }

    /// Whether a stream may end after the data read so far.
    pub fn is_whole(&self) -> bool {
        !self.is_open && !self.in_package && self.count > 0
    }

    /// Bytes read from the input so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Like [`Reader::next_record`], but returns owned data: the record, its payload and its start.
    pub fn next_owned(&mut self) -> Result<Option<(Record, Vec<u8>, u64)>> {
        let Some(Packet { record, offset, .. }) = self.next_record()? else { return Ok(None) };
        Ok(Some((record, std::mem::take(&mut self.payload), offset)))
    }

    /// Returns the next record; `None` at the end of the input.
    pub fn next_record(&mut self) -> Result<Option<Packet<'_>>> {
        let offset = self.offset;
        let mut head = [0; RECORD_BYTES];
        let got = self.fill(&mut head)?;
        if got == 0 {
            return Ok(None);
        }
        let place = format!("record {} at byte {offset}", self.count);
        if got < RECORD_BYTES {
            return Err(Error::corrupt(place, format!("the stream ends after {got} of its {RECORD_BYTES} bytes")));
        }
        let endian = match self.endian {
            Some(endian) => endian,
            None => {
                let endian = stream_endian(&head).at(&place)?;
                self.sum = Fletcher4::new(order(endian));
                *self.endian.insert(endian)
            }
        };
        let record = Record::parse(&head, endian).at(&place)?;
        let place = format!("record {} ({}) at byte {offset}", self.count, kind_name(&record.body));
        self.check(&head, &record, endian).at(&place)?;
        self.count += 1;
        match &record.body {
            Body::Begin(begin) => {
                self.in_package |= begin.header_type == Begin::PACKAGE;
                self.is_open = true;
            }
            // After the streams of a package comes an END without a BEGIN.
            Body::End { .. } if !self.is_open => self.in_package = false,
            Body::End { .. } => self.is_open = false,
            _ => {}
        }
        self.take_payload(&record).at(&place)?;
        Ok(Some(Packet { record, payload: &self.payload, offset }))
    }

    fn check(&mut self, head: &[u8], record: &Record, endian: Endian) -> Result<()> {
        if !self.is_checked {
            return Ok(());
        }
        let before = self.sum.words();
        self.sum.update(&head[..CHECKSUM_OFFSET]);
        let (found, expected) = (record.checksum, self.sum.words());
        if found != [0; 4] && found != expected {
            let what = format!(
                "its checksum is {}, expected {}: the data before it was altered",
                words(found),
                words(expected)
            );
            return Err(Error::corrupt("", what));
        }
        self.sum.update(&head[CHECKSUM_OFFSET..]);
        if let Body::End { checksum, .. } = record.body {
            if checksum != before {
                let what = format!("the stream's checksum is {}, expected {}", words(checksum), words(before));
                return Err(Error::corrupt("", what));
            }
            self.sum = Fletcher4::new(order(endian));
        }
        Ok(())
    }

    fn take_payload(&mut self, record: &Record) -> Result<()> {
        let len = record.payload_bytes();
        let most = if matches!(record.body, Body::Begin(_)) { LIST_BYTES_MAX } else { MAX_BLOCK_BYTES };
        if len > most {
            return Err(Error::corrupt("", format!("{len} bytes follow, expected at most {most}")));
        }
        self.payload.clear();
        // The buffer grows with the data: a length alone allocates nothing.
        let got = (&mut self.source).take(len).read_to_end(&mut self.payload).map_err(|e| Error::io("", e))?;
        self.offset += got as u64;
        if (got as u64) < len {
            return Err(Error::corrupt("", format!("the stream ends after {got} of the {len} bytes that follow")));
        }
        if self.is_checked {
            self.sum.update(&self.payload);
        }
        Ok(())
    }

    /// Reads until `buf` is full or the input ends.
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        let mut got = 0;
        while got < buf.len() {
            match self.source.read(&mut buf[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(format!("byte {}", self.offset + got as u64), e)),
            }
        }
        self.offset += got as u64;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Writer, begin};
    use super::*;

    fn stream(endian: Endian) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), endian);
        writer.record(begin(1), b"a list of pairs!").unwrap();
        writer.record(Body::FreeObjects { first: 1, count: 2, to_guid: 7 }, &[]).unwrap();
        writer.end(7).unwrap();
        writer.into_inner()
    }

    fn read(bytes: &[u8]) -> Result<Vec<(Body, Vec<u8>)>> {
        let (mut reader, mut all) = (Reader::new(bytes), Vec::new());
        while let Some(packet) = reader.next_record()? {
            all.push((packet.record.body, packet.payload.to_vec()));
        }
        if !reader.is_whole() {
            return Err(Error::corrupt("", "not whole"));
        }
        Ok(all)
    }

    #[test]
    fn written_records_are_read_back_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let all = read(&stream(endian)).unwrap();
            assert_eq!(all.len(), 3);
            assert_eq!(all[0], (begin(1), b"a list of pairs!".to_vec()));
        }
    }

    #[test]
    fn a_flipped_bit_or_truncation_anywhere_is_detected() {
        let whole = stream(Endian::Big);
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert!(read(&bytes).is_err(), "byte {at}");
            assert!(read(&whole[..at]).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn the_record_that_is_wrong_is_named() {
        let mut bytes = stream(Endian::Little);
        bytes[RECORD_BYTES] ^= 1;
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.starts_with("record 1 (FREEOBJECTS) at byte 328: its checksum is "), "{error}");
    }

    #[test]
    fn a_package_ends_with_an_end_of_its_own() {
        let mut writer = Writer::new(Vec::new(), Endian::Little);
        writer.record(begin(2), &[]).unwrap();
        writer.list_end().unwrap();
        let without_streams = writer.into_inner();
        let mut bytes = without_streams.clone();
        bytes.extend(stream(Endian::Little));
        assert!(read(&bytes).is_err());
        let mut writer = Writer::new(bytes, Endian::Little);
        writer.last_end().unwrap();
        assert_eq!(read(&writer.into_inner()).unwrap().len(), 6);
    }
}
