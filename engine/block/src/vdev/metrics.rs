//! The metrics of a leaf: its statistics, the depth of its queue, and its errors.

use super::figures::Seldom;
use super::leaf::{ErrorCounts, Leaf};
use super::queue::Class;
use observe::{Collector, Info, Source, Unit, Value};

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
static READ_TOTAL_TIME: Info = Info {
    name: "device_read_total_time",
    unit: Unit::Nanoseconds,
    help: "Duration of reads from a device, the time in its queue included.",
};
static WRITE_TOTAL_TIME: Info = Info {
    name: "device_write_total_time",
    unit: Unit::Nanoseconds,
    help: "Duration of writes to a device, the time in its queue included.",
};
static QUEUE_PENDING: Info = Info {
    name: "device_queue_pending",
    unit: Unit::Number,
    help: "Operations of a class that wait in the queue of a device, now.",
};
static QUEUE_ACTIVE: Info = Info {
    name: "device_queue_active",
    unit: Unit::Number,
    help: "Operations of a class that a device works on, now; joined ones are one.",
};
static QUEUE_WAIT_TIME: Info = Info {
    name: "device_queue_wait_time",
    unit: Unit::Nanoseconds,
    help: "Time that operations of a class waited in the queue before the device got them; of joined ones, the longest. 0 for those that did not wait.",
};
static IO_SIZE: Info = Info {
    name: "device_io_size",
    unit: Unit::Bytes,
    help: "Sizes of a class's operations as issued to the device; joined: whether the queue or a scrub combined several neighbours.",
};
static ERRORS: Info = Info {
    name: "device_errors",
    unit: Unit::Number,
    help: "Failed reads and writes, and reads with wrong checksums, since the counters were last cleared.",
};

impl Source for Leaf {
    fn collect(&self, out: &mut Collector<'_>) {
        let f = self.figures();
        out.counter(&READ_BYTES, &[], &f.read_bytes);
        out.counter(&WRITTEN_BYTES, &[], &f.written_bytes);
        out.histogram(&READ_TIME, &[], &f.read_time);
        out.histogram(&WRITE_TIME, &[], &f.write_time);
        out.histogram(&FLUSH_TIME, &[], &f.flush_time);
        out.histogram(&READ_TOTAL_TIME, &[], &f.read_total_time);
        out.histogram(&WRITE_TOTAL_TIME, &[], &f.write_total_time);
        let depths = self.queue_depths();
        for class in Class::ALL {
            let name = ("class", class.name());
            let (depth, of) = (depths[class as usize], &f.classes[class as usize]);
            out.put(&QUEUE_PENDING, &[name], Value::Level(depth.pending.into()));
            out.put(&QUEUE_ACTIVE, &[name], Value::Level(depth.active.into()));
            let mut put = |info, labels: &[_], histogram: &Seldom| {
                if let Some(histogram) = histogram.get() {
                    out.histogram(info, labels, histogram);
                }
            };
            put(&QUEUE_WAIT_TIME, &[name], &of.wait_time);
            put(&IO_SIZE, &[name, ("joined", "no")], &of.single_size);
            put(&IO_SIZE, &[name, ("joined", "yes")], &of.joined_size);
        }
        let ErrorCounts { read, checksum, write, .. } = self.errors();
        for (kind, count) in [("read", read), ("write", write), ("checksum", checksum)] {
            out.put(&ERRORS, &[("kind", kind)], Value::Level(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::plug::Plug;
    use super::super::queue::{Task, doing};
    use super::*;
    use bytes::Bytes;
    use host::device::{Device, MemoryDevice};
    use observe::{Registry, Spread};
    use parking_lot::{Mutex, MutexGuard};
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// A device whose writes wait while the gate is locked, and fail if they are longer than
    /// `longest`.
    struct Gated {
        memory: MemoryDevice,
        gate: Mutex<()>,
        longest: AtomicUsize,
        /// Writes whose result is known.
        ended: Arc<AtomicUsize>,
    }

    impl Device for Gated {
        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            self.memory.read_at(offset, buf)
        }
        fn size_bytes(&self) -> u64 {
            self.memory.size_bytes()
        }
        fn name(&self) -> &str {
            self.memory.name()
        }
        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            drop(self.gate.lock());
            match data.len() <= self.longest.load(Ordering::Relaxed) {
                true => self.memory.write_at(offset, data),
                false => Err(io::Error::other("too long")),
            }
        }
        fn is_writable(&self) -> bool {
            true
        }
        fn can_discard(&self) -> bool {
            true
        }
        fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
            self.memory.discard(offset, len)
        }
    }

    const BASE: u64 = 5 << 20;
    const KIB: usize = 1 << 10;

    fn leaf() -> (Arc<Gated>, Arc<Leaf>) {
        let memory = MemoryDevice::new("disk", vec![0; 8 << 20]);
        let (gate, longest) = (Mutex::default(), AtomicUsize::new(usize::MAX));
        let device = Arc::new(Gated { memory, gate, longest, ended: Arc::default() });
        let leaf = Arc::new(Leaf::present(1, device.clone()));
        (device, leaf)
    }

    fn wait(what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Two writes on the device and three neighbours that wait, each of a KiB. All ends when the
    /// gate opens.
    fn begin<'d>(device: &'d Gated, leaf: &Leaf) -> MutexGuard<'d, ()> {
        let closed = device.gate.lock();
        let later = |n: u64| {
            let ended = device.ended.clone();
            let done = Box::new(move |_| {
                ended.fetch_add(1, Ordering::SeqCst);
            });
            leaf.write_later(7, BASE + (n << 10), Bytes::from(vec![1; KIB]), &Plug::default(), done);
            leaf.push();
        };
        let is = |pending, active| {
            let depth = leaf.queue_depths()[Class::AsyncWrite as usize];
            (depth.pending, depth.active) == (pending, active)
        };
        later(0);
        wait("the first is on the device", || is(0, 1));
        later(20);
        wait("two are on the device", || is(0, 2));
        [11, 10, 12].into_iter().for_each(later);
        wait("three wait", || is(3, 2));
        closed
    }

    fn all_ended(device: &Gated, leaf: &Leaf) {
        wait("all have ended", || device.ended.load(Ordering::SeqCst) == 5);
        assert!(leaf.queue_depths().iter().all(|d| (d.pending, d.active) == (0, 0)));
    }

    /// The histograms of a class: waits, sizes of single operations, sizes of joined ones.
    fn spreads(leaf: &Leaf, class: Class) -> [Spread; 3] {
        let of = &leaf.figures().classes[class as usize];
        [&of.wait_time, &of.single_size, &of.joined_size].map(|h| h.get().map(|h| h.spread()).unwrap_or_default())
    }

    #[test]
    fn joined_writes_are_one_operation_that_waited_as_long_as_its_first_part() {
        let (device, leaf) = leaf();
        let open = begin(&device, &leaf);
        std::thread::sleep(Duration::from_millis(5));
        drop(open);
        all_ended(&device, &leaf);
        let [waits, single, joined] = spreads(&leaf, Class::AsyncWrite);
        assert_eq!((single.count, single.sum), (2, 2 * KIB as u64));
        assert_eq!((joined.count, joined.sum), (1, 3 * KIB as u64));
        assert_eq!(waits.count, 3);
        assert!(waits.percentile(100.0) >= 5_000_000, "{waits:?}");
        let total = leaf.figures().write_total_time.spread();
        assert_eq!(total.count, 3);
        assert_eq!(total.sum, waits.sum + leaf.figures().write_time.sum());
    }

    #[test]
    fn parts_of_a_joined_write_that_failed_are_counted_one_by_one_too() {
        let (device, leaf) = leaf();
        device.longest.store(2 * KIB, Ordering::Relaxed);
        drop(begin(&device, &leaf));
        all_ended(&device, &leaf);
        let [waits, single, joined] = spreads(&leaf, Class::AsyncWrite);
        assert_eq!((waits.count, single.count, joined.count), (6, 5, 1));
    }

    #[test]
    fn each_class_has_metrics_of_its_own_and_those_that_do_not_wait_count_as_zero() {
        let (_, leaf) = leaf();
        let mut buf = vec![0; 4 * KIB];
        assert!(leaf.write(7, BASE, &buf).is_some_and(|r| r.is_ok()));
        assert!(leaf.read(BASE, &mut buf).is_some_and(|r| r.is_ok()));
        assert!(leaf.discard(BASE, 64 << 10).is_some_and(|r| r.is_ok()));
        {
            let _scrub = doing(Task::Scrub);
            assert!(leaf.read_without_counting(BASE, &mut buf, true));
        }
        let registry = Registry::new();
        registry.add(&[], &(leaf.clone() as Arc<dyn Source>));
        let mut values = BTreeMap::new();
        for family in registry.collect() {
            for series in family.series {
                let labels: Vec<String> = series.labels.into_iter().map(|(_, value)| value).collect();
                values.insert((family.info.name, labels.join(" ")), series.value);
            }
        }
        let spread = |name, labels: &str| match values.get(&(name, labels.to_owned())) {
            Some(Value::Spread(spread)) => Some((spread.count, spread.sum)),
            _ => None,
        };
        for (class, joined, bytes) in [
            ("sync_write", "no", 4 << 10),
            ("sync_read", "no", 4 << 10),
            ("trim", "no", 64 << 10),
            ("scrub", "yes", 4 << 10),
        ] {
            assert_eq!(spread("device_io_size", &format!("{class} {joined}")), Some((1, bytes)), "{class}");
            assert_eq!(spread("device_queue_wait_time", class), Some((1, 0)), "{class}");
        }
        assert_eq!(values.keys().filter(|(name, _)| *name == "device_io_size").count(), 4);
        assert_eq!(spread("device_read_total_time", "").map(|(count, _)| count), Some(2));
        assert_eq!(values.get(&("device_queue_pending", "rebuild".to_owned())), Some(&Value::Level(0)));
    }
}
