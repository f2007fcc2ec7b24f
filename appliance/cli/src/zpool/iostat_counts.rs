//! What a device has done so far, and what is in its queue now: the numbers behind `zpool iostat`.
//!
//! From the metrics of the devices (`block::vdev`, figures.rs). A mirror, a raidz and the pool have
//! the sum of their leaves.

use observe::{Collector, Family, Registry, Source, Spread, Value};
use pool::Pool;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The classes of the queue that `zpool iostat` shows, as the metrics call them, in the order of
/// its columns. It shows neither the removal of devices nor initialize.
pub(super) const CLASSES: [&str; 7] =
    ["sync_read", "sync_write", "async_read", "async_write", "scrub", "trim", "rebuild"];

/// Operations of a class.
#[derive(Debug, Clone, Default)]
pub(super) struct OfClass {
    /// Operations that wait in the queue now.
    pub pending: u64,
    /// Operations that are on the device now.
    pub active: u64,
    /// Time in the queue, in nanoseconds.
    pub wait: Spread,
    /// Sizes in bytes of those that came to the device as they were.
    pub single: Spread,
    /// Sizes in bytes of those that were made of several neighbours.
    pub joined: Spread,
}

/// What is measured at a device. Times are in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Measured {
    pub read_time: Spread,
    pub write_time: Spread,
    /// With the time in the queue.
    pub read_total: Spread,
    pub write_total: Spread,
    /// In the order of [`CLASSES`].
    pub classes: [OfClass; CLASSES.len()],
}

/// The operations of a device so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub read_ops: u64,
    pub write_ops: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub measured: Measured,
}

/// The metrics of a pool's devices, by path.
pub(super) fn measure(pool: &Pool) -> HashMap<String, Measured> {
    let registry = Registry::new();
    let caches: Arc<dyn Source> = Arc::new(Caches(pool.store().tree()));
    registry.add(&[], &(pool.store().clone() as Arc<dyn Source>));
    registry.add(&[], &caches);
    by_device(registry.collect())
}

/// Cache devices, which are not among the metrics of the pool: what they do is not what it stores.
struct Caches(Arc<block::vdev::Tree>);

impl Source for Caches {
    fn collect(&self, out: &mut Collector<'_>) {
        for leaf in self.0.caches.iter().filter_map(|cache| cache.leaf()) {
            out.within(&[("device", leaf.path.as_str())], leaf);
        }
    }
}

fn by_device(families: Vec<Family>) -> HashMap<String, Measured> {
    let mut all: HashMap<String, Measured> = HashMap::new();
    for family in families {
        for series in family.series {
            let label =
                |wanted| series.labels.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str());
            let Some(device) = label("device") else { continue };
            let of = all.entry(device.to_owned()).or_default();
            let class = label("class").and_then(|class| CLASSES.iter().position(|shown| *shown == class));
            let is_joined = label("joined") == Some("yes");
            match series.value {
                Value::Spread(spread) => match (family.info.name, class) {
                    ("device_read_time", _) => of.read_time = spread,
                    ("device_write_time", _) => of.write_time = spread,
                    ("device_read_total_time", _) => of.read_total = spread,
                    ("device_write_total_time", _) => of.write_total = spread,
                    ("device_queue_wait_time", Some(class)) => of.classes[class].wait = spread,
                    ("device_io_size", Some(class)) if is_joined => of.classes[class].joined = spread,
                    ("device_io_size", Some(class)) => of.classes[class].single = spread,
                    _ => {}
                },
                Value::Level(n) => match (family.info.name, class) {
                    ("device_queue_pending", Some(class)) => of.classes[class].pending = n,
                    ("device_queue_active", Some(class)) => of.classes[class].active = n,
                    _ => {}
                },
                Value::Count(_) => {}
            }
        }
    }
    all
}

impl Counts {
    /// Adds the counts of another device, for a mirror, a raidz or the pool.
    pub fn add(&mut self, other: &Self) {
        self.read_ops += other.read_ops;
        self.read_bytes += other.read_bytes;
        self.write_ops += other.write_ops;
        self.write_bytes += other.write_bytes;
        let (all, other) = (&mut self.measured, &other.measured);
        for (all, other) in all.spreads_mut().into_iter().zip(other.spreads()) {
            merge(all, other);
        }
        for (all, other) in all.classes.iter_mut().zip(&other.classes) {
            all.pending += other.pending;
            all.active += other.active;
        }
    }

    /// What was added since `before`. What is in the queue is what is there now.
    pub fn since(mut self, before: &Self) -> Self {
        self.read_ops = self.read_ops.saturating_sub(before.read_ops);
        self.write_ops = self.write_ops.saturating_sub(before.write_ops);
        self.read_bytes = self.read_bytes.saturating_sub(before.read_bytes);
        self.write_bytes = self.write_bytes.saturating_sub(before.write_bytes);
        for (now, before) in self.measured.spreads_mut().into_iter().zip(before.measured.spreads()) {
            *now = now.since(before);
        }
        self
    }
}

impl Measured {
    /// The columns of `-l` and `-w`, in their order.
    pub fn times(&self) -> Vec<&Spread> {
        let device = [&self.read_total, &self.write_total, &self.read_time, &self.write_time];
        device.into_iter().chain(self.classes.iter().map(|of| &of.wait)).collect()
    }

    /// The columns of `-r`, in their order.
    pub fn sizes(&self) -> Vec<&Spread> {
        self.classes.iter().flat_map(|of| [&of.single, &of.joined]).collect()
    }

    fn spreads(&self) -> Vec<&Spread> {
        let device = [&self.read_time, &self.write_time, &self.read_total, &self.write_total];
        let classes = self.classes.iter().flat_map(|of| [&of.wait, &of.single, &of.joined]);
        device.into_iter().chain(classes).collect()
    }

    /// The same as [`Measured::spreads`], in the same order.
    fn spreads_mut(&mut self) -> Vec<&mut Spread> {
        let device = [&mut self.read_time, &mut self.write_time, &mut self.read_total, &mut self.write_total];
        let classes = self.classes.iter_mut().flat_map(|of| [&mut of.wait, &mut of.single, &mut of.joined]);
        device.into_iter().chain(classes).collect()
    }
}

/// Adds the values of another device.
fn merge(all: &mut Spread, other: &Spread) {
    all.count += other.count;
    all.sum = all.sum.wrapping_add(other.sum);
    let mut classes: BTreeMap<u64, u64> = all.classes.iter().copied().collect();
    for (last, count) in &other.classes {
        *classes.entry(*last).or_default() += count;
    }
    all.classes = classes.into_iter().collect();
}
