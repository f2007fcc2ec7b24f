//! Statistics of a leaf's operations: number, bytes and duration, and by class of the queue what it
//! holds, how long operations waited there, and their sizes.
//!
//! Reads, writes and discards pass the queue ([`super::queue`]). Labels are written past it, and
//! flushes do not wait for it: both are not counted there.

use super::queue::{CLASSES, Class};
use observe::event::{Note, WRONG_BYTES};
use observe::{Counter, Event, Events, Histogram, Layer};
use std::io;
use std::sync::{Arc, OnceLock};

/// Statistics of a leaf.
#[derive(Default)]
pub(super) struct Figures {
    pub read_bytes: Counter,
    pub written_bytes: Counter,
    pub read_time: Histogram,
    pub write_time: Histogram,
    pub flush_time: Histogram,
    /// Durations with the time in the queue.
    pub read_total_time: Histogram,
    pub write_total_time: Histogram,
    /// By number of the class.
    pub classes: [OfClass; CLASSES],
    target: OnceLock<Target>,
}

/// Operations of a class.
#[derive(Default)]
pub(super) struct OfClass {
    pub wait_time: Seldom,
    pub single_size: Seldom,
    pub joined_size: Seldom,
}

/// A histogram that has no memory until something is counted: most devices never see most classes.
#[derive(Default)]
pub(super) struct Seldom(OnceLock<Box<Histogram>>);

impl Seldom {
    /// The histogram, once something was counted.
    pub fn get(&self) -> Option<&Histogram> {
        self.0.get().map(|histogram| &**histogram)
    }

    fn record(&self, value: u64) {
        self.0.get_or_init(Box::default).record(value);
    }
}

/// How an operation came to the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    pub class: Class,
    pub bytes: usize,
    /// Several neighbours were made one operation.
    pub is_joined: bool,
    /// Time in the queue, in nanoseconds.
    pub waited_ns: u64,
}

/// Log of all operations, with the numbers of pool and device in it.
struct Target {
    events: Arc<Events>,
    pool: u32,
    device: u32,
}

/// For errors without an errno.
const EIO: i32 = 5;
/// Codes of the operations of [`Layer::Disk`].
const READ: u8 = 0;
const WRITE: u8 = 1;
const FLUSH: u8 = 2;

impl Figures {
    /// Counts a finished read. It is logged when the return value is dropped.
    pub fn read(&self, offset: u64, bytes: usize, ns: u64, result: &io::Result<()>) -> Option<Recording<'_>> {
        self.read_bytes.add(bytes as u64);
        self.read_time.record(ns);
        self.log_operation(READ, offset, bytes, ns, result)
    }

    pub fn wrote(&self, offset: u64, bytes: usize, ns: u64, result: &io::Result<()>) {
        self.written_bytes.add(bytes as u64);
        self.write_time.record(ns);
        drop(self.log_operation(WRITE, offset, bytes, ns, result));
    }

    pub fn flushed(&self, ns: u64, result: &io::Result<()>) {
        self.flush_time.record(ns);
        drop(self.log_operation(FLUSH, 0, 0, ns, result));
    }

    /// Counts an operation that has passed the queue.
    pub fn passed(&self, Passed { class, bytes, is_joined, waited_ns }: Passed) {
        let of = &self.classes[class as usize];
        of.wait_time.record(waited_ns);
        (if is_joined { &of.joined_size } else { &of.single_size }).record(bytes as u64);
    }

    /// Counts a read or write that has passed the queue and then took the device `ns` nanoseconds.
    pub fn passed_and_took(&self, is_write: bool, passed: Passed, ns: u64) {
        let total = if is_write { &self.write_total_time } else { &self.read_total_time };
        total.record(ns.saturating_add(passed.waited_ns));
        self.passed(passed);
    }

    /// Sum of the durations of all reads, writes and flushes, in nanoseconds; concurrent ones each
    /// count.
    pub fn busy_ns(&self) -> u64 {
        [&self.read_time, &self.write_time, &self.flush_time].iter().fold(0, |sum, t| sum.wrapping_add(t.sum()))
    }

    /// Logs every operation from now on. Only the first call has an effect.
    pub fn record_to(&self, events: &Arc<Events>, pool: &str, device: &str) {
        self.target.get_or_init(|| Target {
            events: events.clone(),
            pool: events.clients.number(pool),
            device: events.places.number(device),
        });
    }

    /// Prepares the log entry of a finished operation, if the log is on. It is recorded when the
    /// return value is dropped.
    fn log_operation(
        &self,
        op: u8,
        offset: u64,
        bytes: usize,
        latency: u64,
        result: &io::Result<()>,
    ) -> Option<Recording<'_>> {
        let Target { events, pool, device } = self.target.get().filter(|t| t.events.is_on())?;
        let errno = result.as_ref().err().map_or(0, |e| e.raw_os_error().unwrap_or(EIO));
        let note = Note {
            place: *device,
            offset,
            size: u32::try_from(bytes).unwrap_or(u32::MAX),
            result: u16::try_from(errno).unwrap_or(u16::MAX),
            ..Note::default()
        };
        let done = host::clock::nanoseconds();
        Some(Recording { events, event: Event { done, latency, layer: Layer::Disk, op, client: *pool, user: 0, note } })
    }

    /// Number of reads, and their bytes.
    pub fn reads(&self) -> (u64, u64) {
        (self.read_time.count(), self.read_bytes.get())
    }

    /// Number of writes, and their bytes.
    pub fn writes(&self) -> (u64, u64) {
        (self.write_time.count(), self.written_bytes.get())
    }
}

/// An operation that is logged when this is dropped.
pub(super) struct Recording<'f> {
    events: &'f Events,
    event: Event,
}

impl Recording<'_> {
    /// Records that the bytes of a successful read were wrong.
    pub fn was_wrong(&mut self) {
        self.event.note.result = WRONG_BYTES;
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        self.events.record(self.event);
    }
}
