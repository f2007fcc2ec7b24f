//! Encodes events as bytes: zero fields take no space.
//!
//! ```text
//! flags │ op │ layer? │ step of time │ latency │ client │ place │ object │ size
//!       │ result? cache? waits? offset? user? queue?                               (varints)
//! ```

use crate::column::take;
use observe::event::{Event, Layer, Lookups, Note};

/// The difference of two times, encoded such that it is small in either direction.
fn zigzag(now: u64, before: u64) -> u64 {
    let step = now.wrapping_sub(before).cast_signed();
    ((step << 1) ^ (step >> 63)).cast_unsigned()
}

fn unzigzag(value: u64, before: u64) -> u64 {
    let step = (value >> 1) ^ (value & 1).wrapping_neg();
    before.wrapping_add(step)
}

/// Appends an event; its time is the difference from `before`.
pub fn encode(event: &Event, before: u64, out: &mut Vec<u8>) {
    let n = &event.note;
    let c = n.cache;
    let cached = [c.data_hits, c.data_misses, c.prefetched, c.metadata_hits, c.metadata_misses, c.level2_hits];
    let waits = [n.log_wait, n.txg_wait, n.disk_wait];
    let has = |yes: bool, bit: u8| if yes { 1u8 << bit } else { 0 };
    // Bits 0-2: the layer, or that a separate byte holds it; then which of the optional fields are
    // non-zero.
    let flags = (event.layer as u8).min(FURTHER)
        | has(event.note.result != 0, 3)
        | has(cached.iter().any(|n| *n > 0), 4)
        | has(waits.iter().any(|n| *n > 0), 5)
        | has(n.offset != 0, 6)
        | has(event.user != 0, 7);
    let mut to = Piece { bytes: [0; LONGEST], len: 2 };
    // Bit 7 of the operation: no layer has that many operations.
    (to.bytes[0], to.bytes[1]) = (flags, event.op & !QUEUED | if n.queue_wait != 0 { QUEUED } else { 0 });
    if event.layer as u8 >= FURTHER {
        to.put(event.layer as u64);
    }
    to.put(zigzag(event.done, before));
    to.put(event.latency);
    to.put(event.client.into());
    to.put(n.place.into());
    to.put(n.object);
    to.put(n.size.into());
    if event.note.result != 0 {
        to.put(event.note.result.into());
    }
    if flags & 1 << 4 != 0 {
        cached.iter().for_each(|n| to.put(u64::from(*n)));
    }
    if flags & 1 << 5 != 0 {
        waits.iter().for_each(|n| to.put(u64::from(*n)));
    }
    if n.offset != 0 {
        to.put(n.offset);
    }
    if event.user != 0 {
        to.put(event.user.into());
    }
    if n.queue_wait != 0 {
        to.put(n.queue_wait.into());
    }
    out.extend_from_slice(&to.bytes[..to.len]);
}

/// In place of a layer: its number, this one or a higher one, follows the operation.
const FURTHER: u8 = 7;
/// Flag in the operation: the time in the queue follows.
const QUEUED: u8 = 1 << 7;

/// Flags and operation, and at most 20 numbers of at most 10 bytes.
const LONGEST: usize = 2 + 20 * 10;

/// The bytes of one event, appended to the vector at once.
struct Piece {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Piece {
    /// Appends a varint, like [`crate::column::put`].
    #[inline]
    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes[self.len] = value as u8 | 0x80;
            self.len += 1;
            value >>= 7;
        }
        self.bytes[self.len] = value as u8;
        self.len += 1;
    }
}

/// Decodes an event from the front of `bytes`; `None` if it is invalid.
pub fn decode(bytes: &mut &[u8], before: u64) -> Option<Event> {
    let (&[flags, op], rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    let layer = match flags & 7 {
        FURTHER => usize::try_from(take(bytes)?).ok()?,
        layer => layer.into(),
    };
    let layer = *Layer::ALL.get(layer)?;
    let mut event = Event { layer, op: op & !QUEUED, ..Event::default() };
    event.done = unzigzag(take(bytes)?, before);
    event.latency = take(bytes)?;
    event.client = u32::try_from(take(bytes)?).ok()?;
    let mut note = Note { place: u32::try_from(take(bytes)?).ok()?, ..Note::default() };
    note.object = take(bytes)?;
    note.size = u32::try_from(take(bytes)?).ok()?;
    let has = |bit: u8| flags & 1 << bit != 0;
    if has(3) {
        note.result = u16::try_from(take(bytes)?).ok()?;
    }
    if has(4) {
        let mut next = || u16::try_from(take(bytes)?).ok();
        note.cache = Lookups {
            data_hits: next()?,
            data_misses: next()?,
            prefetched: next()?,
            metadata_hits: next()?,
            metadata_misses: next()?,
            level2_hits: next()?,
        };
    }
    if has(5) {
        let mut next = || u32::try_from(take(bytes)?).ok();
        (note.log_wait, note.txg_wait, note.disk_wait) = (next()?, next()?, next()?);
    }
    if has(6) {
        note.offset = take(bytes)?;
    }
    if has(7) {
        event.user = u32::try_from(take(bytes)?).ok()?;
    }
    if op & QUEUED != 0 {
        note.queue_wait = u32::try_from(take(bytes)?).ok()?;
    }
    event.note = note;
    Some(event)
}
