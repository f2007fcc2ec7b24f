//! Statistics of a leaf's operations: number, bytes and duration.

use super::leaf::{ErrorCounts, Leaf};
use observe::event::{Note, WRONG_BYTES};
use observe::{Collector, Counter, Event, Events, Histogram, Info, Layer, Source, Unit, Value};
use std::io;
use std::sync::{Arc, OnceLock};

static READ_BYTES: Info = Info { name: "device_read", unit: Unit::Bytes, help: "Bytes read from a device." };
static WRITTEN_BYTES: Info = Info { name: "device_written", unit: Unit::Bytes, help: "Bytes written to a device." };
static READ_TIME: Info = Info {
    name: "device_read_time",
    unit: Unit::Nanoseconds,
    help: "Duration of reads from a device; the count is the number of reads.",
};
static WRITE_TIME: Info = Info {
    name: "device_write_time",
    unit: Unit::Nanoseconds,
    help: "Duration of writes to a device; the count is the number of writes.",
};
static FLUSH_TIME: Info =
    Info { name: "device_flush_time", unit: Unit::Nanoseconds, help: "Duration of flushes of a device's write cache." };
static ERRORS: Info = Info {
    name: "device_errors",
    unit: Unit::Number,
    help: "Failed reads and writes, and reads with wrong checksums, since the counters were last cleared.",
};

/// Statistics of a leaf.
#[derive(Default)]
pub(super) struct Figures {
    read_bytes: Counter,
    written_bytes: Counter,
    read_time: Histogram,
    write_time: Histogram,
    flush_time: Histogram,
    told: OnceLock<Told>,
}

/// Log of all operations, with the numbers of pool and device in it.
struct Told {
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
    pub fn read(&self, offset: u64, bytes: usize, ns: u64, result: &io::Result<()>) -> Option<Telling<'_>> {
        self.read_bytes.add(bytes as u64);
        self.read_time.record(ns);
        self.tell(READ, offset, bytes, ns, result)
    }

    pub fn wrote(&self, offset: u64, bytes: usize, ns: u64, result: &io::Result<()>) {
        self.written_bytes.add(bytes as u64);
        self.write_time.record(ns);
        drop(self.tell(WRITE, offset, bytes, ns, result));
    }

    pub fn flushed(&self, ns: u64, result: &io::Result<()>) {
        self.flush_time.record(ns);
        drop(self.tell(FLUSH, 0, 0, ns, result));
    }

    /// Sum of the durations of all reads, writes and flushes, in nanoseconds; concurrent ones each
    /// count.
    pub fn busy_ns(&self) -> u64 {
        [&self.read_time, &self.write_time, &self.flush_time].iter().fold(0, |sum, t| sum.wrapping_add(t.sum()))
    }

    /// Logs every operation from now on. Only the first call has an effect.
    pub fn tell_to(&self, events: &Arc<Events>, pool: &str, device: &str) {
        self.told.get_or_init(|| Told {
            events: events.clone(),
            pool: events.clients.number(pool),
            device: events.places.number(device),
        });
    }

    /// Prepares the log entry of a finished operation, if the log is on. It is recorded when the
    /// return value is dropped.
    fn tell(&self, op: u8, offset: u64, bytes: usize, latency: u64, result: &io::Result<()>) -> Option<Telling<'_>> {
        let Told { events, pool, device } = self.told.get().filter(|t| t.events.is_on())?;
        let errno = result.as_ref().err().map_or(0, |e| e.raw_os_error().unwrap_or(EIO));
        let note = Note {
            place: *device,
            offset,
            size: u32::try_from(bytes).unwrap_or(u32::MAX),
            result: u16::try_from(errno).unwrap_or(u16::MAX),
            ..Note::default()
        };
        let done = host::clock::nanoseconds();
        Some(Telling { events, event: Event { done, latency, layer: Layer::Disk, op, client: *pool, user: 0, note } })
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
pub(super) struct Telling<'f> {
    events: &'f Events,
    event: Event,
}

impl Telling<'_> {
    /// Records that the bytes of a successful read were wrong.
    pub fn was_wrong(&mut self) {
        self.event.note.result = WRONG_BYTES;
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.events.record(self.event);
    }
}

impl Source for Leaf {
    fn collect(&self, out: &mut Collector<'_>) {
        let f = self.figures();
        out.counter(&READ_BYTES, &[], &f.read_bytes);
        out.counter(&WRITTEN_BYTES, &[], &f.written_bytes);
        out.histogram(&READ_TIME, &[], &f.read_time);
        out.histogram(&WRITE_TIME, &[], &f.write_time);
        out.histogram(&FLUSH_TIME, &[], &f.flush_time);
        let ErrorCounts { read, checksum, write, .. } = self.errors();
        for (kind, count) in [("read", read), ("write", write), ("checksum", checksum)] {
            out.put(&ERRORS, &[("kind", kind)], Value::Level(count));
        }
    }
}
