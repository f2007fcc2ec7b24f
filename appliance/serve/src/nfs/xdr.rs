//! XDR (RFC 4506): the encoding of integers, opaque data and lists in ONC RPC. Pure; does no I/O.
//!
//! Invariants:
//!   * reading does not allocate: opaque data is a slice of the record, and the length of a list is
//!     returned only if the record is large enough for it
//!   * after each write, the output length is a multiple of four bytes

use crate::net::output::Message;
use bytes::Bytes;
use std::io::IoSlice;

/// The bytes violate the protocol: too short, too long, or an invalid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

pub type Result<T> = std::result::Result<T, Malformed>;

/// Decodes consecutive values of XDR (RFC 4506). Returns slices of the input, without copying.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Fails unless all bytes were read.
    pub fn end(&self) -> Result<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    pub fn u32(&mut self) -> Result<u32> {
        let (head, rest) = self.rest.split_first_chunk::<4>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(u32::from_be_bytes(*head))
    }

    pub fn i32(&mut self) -> Result<i32> {
        Ok(self.u32()? as i32)
    }

    pub fn u64(&mut self) -> Result<u64> {
        let (head, rest) = self.rest.split_first_chunk::<8>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(u64::from_be_bytes(*head))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(self.u64()? as i64)
    }

    /// Fails unless the value is 0 or 1.
    pub fn bool(&mut self) -> Result<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Exactly `N` bytes, and the padding to a multiple of four.
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.padded(N)?;
        bytes.try_into().map_err(|_| Malformed)
    }

    /// Variable-length opaque data of at most `max` bytes.
    pub fn opaque(&mut self, max: usize) -> Result<&'a [u8]> {
        let len = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if len > max {
            return Err(Malformed);
        }
        self.padded(len)
    }

    /// The length of a list with items of at least `item_bytes` bytes each. Fails if it exceeds
    /// `max` or the record is too short for it.
    pub fn list(&mut self, max: usize, item_bytes: usize) -> Result<usize> {
        let len = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if len > max || len.checked_mul(item_bytes.max(1)).is_none_or(|bytes| bytes > self.rest.len()) {
            return Err(Malformed);
        }
        Ok(len)
    }

    /// `len` bytes, and the padding to a multiple of four.
    fn padded(&mut self, len: usize) -> Result<&'a [u8]> {
        let whole = len.checked_next_multiple_of(4).ok_or(Malformed)?;
        if whole > self.rest.len() {
            return Err(Malformed);
        }
        let (bytes, rest) = self.rest.split_at(whole);
        self.rest = rest;
        Ok(&bytes[..len])
    }
}

/// A position in a [`Writer`] to return to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    own: usize,
    shared: usize,
    shared_bytes: usize,
}

/// Encodes values. Large data is not copied, but referenced between the other output
/// ([`Writer::opaque_shared`]).
#[derive(Debug, Default)]
pub struct Writer {
    own: Vec<u8>,
    /// Referenced data, with its position in `own`.
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
}

/// Shorter data is copied, which costs less than another element of a gathering write. Guessed.
const SHARE_MIN: usize = 2048;

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes written, including data that is only referenced.
    pub fn len(&self) -> usize {
        self.own.len() + self.shared_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Discards all output. Keeps the buffer unless it is large.
    pub fn clear(&mut self) {
        self.rollback(Mark { own: 0, shared: 0, shared_bytes: 0 });
        self.own.shrink_to(256 << 10);
    }

    /// The current position, for [`Self::since`] and [`Self::rollback`].
    pub fn mark(&self) -> Mark {
        Mark { own: self.own.len(), shared: self.shared.len(), shared_bytes: self.shared_bytes }
    }

    /// Bytes written since `mark`.
    pub fn since(&self, mark: Mark) -> usize {
        self.own.len() - mark.own + self.shared_bytes - mark.shared_bytes
    }

    /// Discards all output since `mark`.
    pub fn rollback(&mut self, mark: Mark) {
        self.own.truncate(mark.own);
        self.shared.truncate(mark.shared);
        self.shared_bytes = mark.shared_bytes;
    }

    /// Overwrites the number that was written at `mark`.
    pub fn patch(&mut self, mark: Mark, value: u32) {
        if let Some(at) = self.own.get_mut(mark.own..mark.own + 4) {
            at.copy_from_slice(&value.to_be_bytes());
        }
    }

    pub fn u32(&mut self, value: u32) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.u32(value as u32);
    }

    pub fn u64(&mut self, value: u64) {
        self.own.extend_from_slice(&value.to_be_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.u64(value as u64);
    }

    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Fixed-length opaque data, with padding.
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
        self.pad(bytes.len());
    }

    /// Variable-length opaque data: length, bytes, padding.
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.fixed(bytes);
    }

    /// Like [`Writer::opaque`], but references large data instead of copying it.
    pub fn opaque_shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARE_MIN {
            return self.opaque(&bytes);
        }
        let len = bytes.len();
        self.u32(len as u32);
        self.shared_bytes += len;
        self.shared.push((self.own.len(), bytes));
        self.pad(len);
    }

    /// Like [`Writer::opaque_shared`], for data in several pieces.
    pub fn opaque_pieces(&mut self, pieces: Vec<Bytes>) {
        let len: usize = pieces.iter().map(Bytes::len).sum();
        self.u32(len as u32);
        for piece in pieces {
            if piece.len() < SHARE_MIN {
                self.own.extend_from_slice(&piece);
            } else {
                self.shared_bytes += piece.len();
                self.shared.push((self.own.len(), piece));
            }
        }
        self.pad(len);
    }

    /// Appends all of `other`.
    pub fn append(&mut self, other: Writer) {
        let base = self.own.len();
        self.own.extend_from_slice(&other.own);
        self.shared_bytes += other.shared_bytes;
        self.shared.extend(other.shared.into_iter().map(|(at, bytes)| (base + at, bytes)));
    }

    fn pad(&mut self, len: usize) {
        self.own.resize(self.own.len() + (len.wrapping_neg() & 3), 0);
    }

    /// Fills `out` with pieces of the output in order, starting at byte `from`. Returns the number
    /// of pieces.
    pub fn pieces<'a>(&'a self, from: usize, out: &mut [IoSlice<'a>]) -> usize {
        let (mut skip, mut count, mut own_from) = (from, 0, 0);
        let mut put = |bytes: &'a [u8], count: &mut usize| {
            let bytes = match bytes.get(skip..) {
                Some(rest) if !rest.is_empty() => rest,
                _ => {
                    skip -= bytes.len();
                    return true;
                }
            };
            skip = 0;
            match out.get_mut(*count) {
                Some(slot) => {
                    *slot = IoSlice::new(bytes);
                    *count += 1;
                    true
                }
                None => false,
            }
        };
        for (at, bytes) in &self.shared {
            if !put(&self.own[own_from..*at], &mut count) || !put(bytes, &mut count) {
                return count;
            }
            own_from = *at;
        }
        put(&self.own[own_from..], &mut count);
        count
    }

    /// A copy of the output since `mark`.
    pub fn copy_since(&self, mark: Mark) -> Vec<u8> {
        let (mut all, mut own_from) = (Vec::with_capacity(self.since(mark)), mark.own);
        for (at, bytes) in &self.shared[mark.shared..] {
            all.extend_from_slice(&self.own[own_from..*at]);
            all.extend_from_slice(bytes);
            own_from = *at;
        }
        all.extend_from_slice(&self.own[own_from..]);
        all
    }

    /// A copy of all output.
    pub fn to_vec(&self) -> Vec<u8> {
        self.copy_since(Mark { own: 0, shared: 0, shared_bytes: 0 })
    }
}

impl Message for Writer {
    fn len(&self) -> usize {
        self.len()
    }

    fn pieces<'a>(&'a self, from: usize, out: &mut [IoSlice<'a>]) -> usize {
        self.pieces(from, out)
    }

    fn append(&mut self, other: Self) {
        self.append(other);
    }

    fn clear(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Value {
        U32(u32),
        I64(i64),
        Bool(bool),
        Fixed([u8; 5]),
        Opaque(Vec<u8>),
        Shared(Vec<u8>),
    }

    fn values() -> impl Strategy<Value = Vec<Value>> {
        let value = prop_oneof![
            any::<u32>().prop_map(Value::U32),
            any::<i64>().prop_map(Value::I64),
            any::<bool>().prop_map(Value::Bool),
            any::<[u8; 5]>().prop_map(Value::Fixed),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Opaque),
            (any::<u8>(), 0..3 * SHARE_MIN).prop_map(|(b, n)| Value::Shared(vec![b; n])),
        ];
        prop::collection::vec(value, 0..20)
    }

    fn write(values: &[Value]) -> Writer {
        let mut w = Writer::new();
        for v in values {
            match v {
                Value::U32(n) => w.u32(*n),
                Value::I64(n) => w.i64(*n),
                Value::Bool(b) => w.bool(*b),
                Value::Fixed(b) => w.fixed(b),
                Value::Opaque(b) => w.opaque(b),
                Value::Shared(b) => w.opaque_shared(b.clone().into()),
            }
        }
        w
    }

    proptest! {
        #[test]
        fn encoded_data_is_decoded_and_sent_in_pieces_from_any_byte(values in values(), cut in 0.0..1.0) {
            let w = write(&values);
            let bytes = w.to_vec();
            prop_assert_eq!(bytes.len(), w.len());
            prop_assert_eq!(bytes.len() % 4, 0);
            let mut r = Reader::new(&bytes);
            for v in &values {
                match v {
                    Value::U32(n) => prop_assert_eq!(r.u32(), Ok(*n)),
                    Value::I64(n) => prop_assert_eq!(r.i64(), Ok(*n)),
                    Value::Bool(b) => prop_assert_eq!(r.bool(), Ok(*b)),
                    Value::Fixed(b) => prop_assert_eq!(r.fixed::<5>(), Ok(*b)),
                    Value::Opaque(b) | Value::Shared(b) => prop_assert_eq!(r.opaque(b.len()), Ok(&b[..])),
                }
            }
            prop_assert_eq!(r.end(), Ok(()));
            // A socket accepts any number of bytes, and a call any number of pieces.
            let mut from = (bytes.len() as f64 * cut) as usize;
            let mut sent = bytes[..from].to_vec();
            loop {
                let mut slots = [IoSlice::new(&[]); 3];
                let n = w.pieces(from, &mut slots);
                if n == 0 { break }
                for slot in &slots[..n] {
                    sent.extend_from_slice(slot);
                    from += slot.len();
                }
            }
            prop_assert_eq!(sent, bytes);
        }

        #[test]
        fn rolling_back_restores_the_previous_contents(before in values(), after in values()) {
            let mut w = write(&before);
            let (mark, expected) = (w.mark(), w.to_vec());
            let more = write(&after);
            let len = more.len();
            w.append(more);
            prop_assert_eq!(w.since(mark), len);
            w.rollback(mark);
            prop_assert_eq!(w.to_vec(), expected);
        }

        #[test]
        fn no_bytes_make_a_reader_panic_or_give_more_than_there_is(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut r = Reader::new(&bytes);
            while let Ok(found) = r.opaque(1 << 20) {
                prop_assert!(found.len() <= bytes.len());
            }
            let mut r = Reader::new(&bytes);
            if let Ok(n) = r.list(usize::MAX, 8) {
                prop_assert!(n * 8 <= bytes.len());
            }
            while r.bool().is_ok() {}
            let _ = (r.fixed::<7>(), r.u64());
        }
    }
}
