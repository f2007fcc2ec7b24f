//! Events of a pool and its devices, as `zpool events`, event programs and webhooks receive them.
//!
//! ```text
//!   leaf (reads, writes, wrong bytes) ─┐
//!   txg engine (states, configuration) ├─> Reporter (of a pool) ─> Queue (of a process) ─> reader
//!   administration (import, export)   ─┘
//! ```
//! Class names and payload names are OpenZFS's (include/sys/fm/fs/zfs.h,
//! include/sys/sysevent/eventdefs.h), so that programs written for its events understand these. ZFS
//! name: zevent (module/zfs/fm.c, zfs_fm.c).
//!
//! Invariants:
//!   * posting an event never waits for a listener: a full queue drops the oldest event and reports
//!     how many it dropped
//!   * event ids only grow, and are unique in a queue
//!   * repeated errors of a device are reported at a limited rate; the counters count them all

use crate::Bookmark;
use host::clock::Instant;
use host::sync::{Condvar, Mutex, RwLock};
use ondisk::nvlist::{Nvlist, Value};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Events that a queue keeps. Chosen: a day of scrubs and snapshots, in less than 2 MiB.
const KEPT: usize = 1024;
/// Maximum of reports of one class about one device per second (as
/// `zfs_checksum_events_per_second`).
const REPORTS_PER_SECOND: u32 = 20;

/// Names of classes, without the prefix `sysevent.fs.zfs.`, `resource.fs.zfs.` or
/// `ereport.fs.zfs.`.
pub mod class {
    #![allow(missing_docs)] // They are named as they are.
    pub const POOL_CREATE: &str = "pool_create";
    pub const POOL_DESTROY: &str = "pool_destroy";
    pub const POOL_IMPORT: &str = "pool_import";
    pub const POOL_EXPORT: &str = "pool_export";
    pub const POOL_REGUID: &str = "pool_reguid";
    pub const CONFIG_SYNC: &str = "config_sync";
    pub const HISTORY_EVENT: &str = "history_event";
    pub const VDEV_ADD: &str = "vdev_add";
    pub const VDEV_ATTACH: &str = "vdev_attach";
    pub const VDEV_AUTOEXPAND: &str = "vdev_autoexpand";
    pub const VDEV_CLEAR: &str = "vdev_clear";
    pub const VDEV_ONLINE: &str = "vdev_online";
    pub const VDEV_REMOVE: &str = "vdev_remove";
    pub const VDEV_REMOVE_AUX: &str = "vdev_remove_aux";
    pub const VDEV_REMOVE_DEV: &str = "vdev_remove_dev";
    pub const VDEV_SPARE: &str = "vdev_spare";
    pub const BOOTFS_VDEV_ATTACH: &str = "bootfs_vdev_attach";
    pub const SCRUB_START: &str = "scrub_start";
    pub const SCRUB_FINISH: &str = "scrub_finish";
    pub const SCRUB_ABORT: &str = "scrub_abort";
    pub const SCRUB_PAUSED: &str = "scrub_paused";
    pub const SCRUB_RESUME: &str = "scrub_resume";
    pub const ERROR_SCRUB_START: &str = "errorscrub_start";
    pub const ERROR_SCRUB_FINISH: &str = "errorscrub_finish";
    pub const ERROR_SCRUB_ABORT: &str = "errorscrub_abort";
    pub const ERROR_SCRUB_PAUSED: &str = "errorscrub_paused";
    pub const ERROR_SCRUB_RESUME: &str = "errorscrub_resume";
    pub const RESILVER_START: &str = "resilver_start";
    pub const RESILVER_FINISH: &str = "resilver_finish";
    pub const TRIM_START: &str = "trim_start";
    pub const TRIM_FINISH: &str = "trim_finish";
    pub const TRIM_CANCEL: &str = "trim_cancel";
    pub const TRIM_RESUME: &str = "trim_resume";
    pub const TRIM_SUSPEND: &str = "trim_suspend";
    pub const STATE_CHANGE: &str = "statechange";
    pub const IO: &str = "io";
    pub const CHECKSUM: &str = "checksum";
    pub const DATA: &str = "data";
    pub const DELAY: &str = "delay";
    pub const IO_FAILURE: &str = "io_failure";
    pub const OPEN_FAILED: &str = "vdev.open_failed";
    pub const TOO_SMALL: &str = "vdev.too_small";
    pub const BAD_LABEL: &str = "vdev.bad_label";
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// `eid`: the first event of a queue is 1, each further one is one more.
    pub id: u64,
    /// Time: seconds since 1970, and nanoseconds.
    pub time: (u64, u32),
    /// Full class name, such as `sysevent.fs.zfs.pool_import`.
    pub class: String,
    /// The payload, including class, time and id.
    pub payload: Nvlist,
}

impl Event {
    /// A string of the payload.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.payload.get_str(name)
    }

    /// The class name after the third dot, such as `pool_import`.
    pub fn subclass(&self) -> &str {
        self.class.splitn(4, '.').nth(3).unwrap_or(&self.class)
    }
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    last: u64,
}

/// The events of a process or, until [`Reporter::join`], of a pool.
#[derive(Default)]
pub struct Queue {
    ring: Mutex<Ring>,
    came: Condvar,
}

/// The events that a listener receives.
#[derive(Debug, Clone, Default)]
pub struct News {
    /// The events, oldest first.
    pub events: Vec<Arc<Event>>,
    /// Number of events that were dropped before they could be read.
    pub dropped: u64,
    /// Id of the last event, whether it was dropped or not: where the next look continues.
    pub last: u64,
}

impl Queue {
    /// Posts an event with the current time. `payload` adds what goes between class and time.
    pub fn post(&self, class: String, payload: impl FnOnce(&mut Nvlist)) {
        let time = host::clock::now();
        let mut list = Nvlist::new();
        payload(&mut list);
        let mut ring = self.ring.lock();
        ring.put(time, class, list);
        drop(ring);
        self.came.notify_all();
    }

    /// Returns the events after event `id`, without waiting.
    pub fn after(&self, id: u64) -> News {
        self.ring.lock().after(id)
    }

    /// As [`Queue::after`], but waits up to `longest` for an event if there is none.
    pub fn wait_after(&self, id: u64, longest: Duration) -> News {
        let deadline = Instant::now() + longest;
        let mut ring = self.ring.lock();
        while ring.last <= id && !self.came.wait_until(&mut ring, deadline).timed_out() {}
        ring.after(id)
    }

    /// The id before the oldest event that is kept, or of the last event if none is kept: where a
    /// new reader starts.
    pub fn start(&self) -> u64 {
        let ring = self.ring.lock();
        ring.events.front().map_or(ring.last, |oldest| oldest.id - 1)
    }

    /// Id of the last event.
    pub fn last(&self) -> u64 {
        self.ring.lock().last
    }

    /// Removes all events and returns how many there were.
    pub fn clear(&self) -> usize {
        let events = std::mem::take(&mut self.ring.lock().events);
        events.len()
    }
}

impl Ring {
    fn put(&mut self, time: (u64, u32), class: String, mut payload: Nvlist) {
        self.last += 1;
        let id = self.last;
        payload.put("time", Value::Int64Array(vec![time.0 as i64, i64::from(time.1)]));
        payload.put("eid", id);
        if self.events.len() >= KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Arc::new(Event { id, time, class, payload }));
    }

    fn after(&self, id: u64) -> News {
        let events: Vec<_> = self.events.iter().filter(|e| e.id > id).cloned().collect();
        let there = events.len() as u64;
        News { events, last: self.last, dropped: self.last.saturating_sub(id).saturating_sub(there) }
    }
}

/// A device, as described in events.
#[derive(Debug, Clone, Default)]
pub struct About {
    pub guid: u64,
    /// `disk` or `file`.
    pub kind: &'static str,
    pub path: String,
    /// Counts of read, write and checksum errors, and of slow operations.
    pub errors: [u64; 4],
}

/// Operation on a device: `zio_type` numbers as they appear in events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Operation {
    Read = 1,
    Write = 2,
    Flush = 5,
}

/// A failed or slow operation on a device.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    pub operation: Operation,
    /// The operating system's error; 0 if none.
    pub errno: i32,
    /// Offset on the device, in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
    /// Duration in nanoseconds.
    pub delay_ns: u64,
}

thread_local! {
    /// The block that this thread is reading.
    static READING: Cell<Option<Bookmark>> = const { Cell::new(None) };
}

/// Attributes all reports of this thread to a block, until dropped.
pub struct Reading(Option<Bookmark>);

impl Reading {
    /// Starts the attribution to block `at`.
    pub fn of(at: &Bookmark) -> Self {
        Self(READING.replace(Some(*at)))
    }

    /// The block to which reports of this thread are attributed.
    pub(crate) fn current() -> Option<Bookmark> {
        READING.get()
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READING.set(self.0);
    }
}

#[derive(Debug, Clone, Default)]
struct Identity {
    name: String,
    guid: u64,
}

/// By device and class: start of the interval, and number of reports in it.
type Rates = HashMap<(u64, &'static str), (Instant, u32)>;

/// Reports the events of one pool.
pub struct Reporter {
    identity: RwLock<Identity>,
    failmode: RwLock<&'static str>,
    queue: RwLock<Arc<Queue>>,
    rates: Mutex<Rates>,
    withheld: AtomicU64,
    quiet: AtomicBool,
}

impl Reporter {
    /// A reporter whose pool guid is set later.
    pub fn new(name: &str) -> Arc<Self> {
        Arc::new(Self {
            identity: RwLock::new(Identity { name: name.to_owned(), guid: 0 }),
            failmode: RwLock::new("wait"),
            queue: RwLock::default(),
            rates: Mutex::default(),
            withheld: AtomicU64::new(0),
            quiet: AtomicBool::new(false),
        })
    }

    /// Sets the pool's name and guid.
    pub fn set_identity(&self, name: &str, guid: u64) {
        *self.identity.write() = Identity { name: name.to_owned(), guid };
    }

    /// Sets the value of the pool's property `failmode`, by its number.
    pub fn set_failmode(&self, number: u64) {
        *self.failmode.write() = match number {
            1 => "continue",
            2 => "panic",
            _ => "wait",
        };
    }

    /// Suppresses all events while `yes` is true.
    pub fn set_quiet(&self, yes: bool) {
        self.quiet.store(yes, Ordering::Relaxed);
    }

    /// Moves all events so far to `queue`, and posts there from now on.
    pub fn join(&self, queue: &Arc<Queue>) {
        let mut own = self.queue.write();
        if Arc::ptr_eq(&own, queue) {
            return;
        }
        let before = std::mem::take(&mut own.ring.lock().events);
        if !before.is_empty() {
            let mut ring = queue.ring.lock();
            for event in before {
                ring.put(event.time, event.class.clone(), event.payload.clone());
            }
        }
        *own = queue.clone();
        queue.came.notify_all();
    }

    /// The queue that events are posted to.
    pub fn queue(&self) -> Arc<Queue> {
        self.queue.read().clone()
    }

    /// Number of reports that the rate limit suppressed.
    pub fn withheld(&self) -> u64 {
        self.withheld.load(Ordering::Relaxed)
    }

    /// Reports a change to the pool: `sysevent.fs.zfs.CLASS`.
    pub fn sysevent(&self, class: &str, more: impl FnOnce(&mut Nvlist)) {
        self.event("sysevent", class, |list| more(list));
    }

    /// Reports a new state of a leaf: `resource.fs.zfs.statechange`. States are `vdev_state_t`.
    pub fn state_change(&self, leaf: &About, state: u64, before: u64, phys_path: Option<&str>) {
        self.event("resource", class::STATE_CHANGE, |list| {
            list.put("vdev_guid", leaf.guid);
            list.put("vdev_state", state);
            list.put("vdev_path", leaf.path.as_str());
            if let Some(path) = phys_path {
                list.put("vdev_physpath", path);
            }
            list.put("vdev_laststate", before);
        });
    }

    fn event(&self, kind: &str, class: &str, more: impl FnOnce(&mut Nvlist)) {
        if self.quiet.load(Ordering::Relaxed) {
            return;
        }
        let class = format!("{kind}.fs.zfs.{class}");
        let identity = self.identity.read().clone();
        self.queue().post(class.clone(), |list| {
            list.put("version", Value::Uint8(0));
            list.put("class", class.as_str());
            list.put("pool", identity.name.as_str());
            list.put("pool_guid", identity.guid);
            list.put("pool_state", 0u64);
            list.put("pool_context", Value::Int32(0));
            more(list);
        });
    }

    /// Reports a problem of the pool itself: `ereport.fs.zfs.CLASS` without a device.
    pub fn pool_report(&self, class: &'static str) {
        self.ereport(class, None, None);
    }

    /// Reports a block without a good copy: `ereport.fs.zfs.data`.
    pub fn data_report(&self, at: &Bookmark) {
        if self.is_too_much(0, class::DATA) {
            self.withheld.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let _reading = Reading::of(at);
        self.ereport(class::DATA, None, None);
    }

    /// Reports a device that cannot be opened: `ereport.fs.zfs.CLASS`.
    pub fn open_report(&self, class: &'static str, leaf: &About) {
        self.ereport(class, Some(leaf), None);
    }

    /// Reports a failed or slow operation on a device: `ereport.fs.zfs.CLASS`.
    pub fn device_report(&self, class: &'static str, leaf: &About, report: Report) {
        if self.is_too_much(leaf.guid, class) {
            self.withheld.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.ereport(class, Some(leaf), Some(report));
    }

    fn is_too_much(&self, guid: u64, class: &'static str) -> bool {
        let now = Instant::now();
        let mut rates = self.rates.lock();
        let (since, count) = rates.entry((guid, class)).or_insert((now, 0));
        if now.duration_since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count > REPORTS_PER_SECOND
    }

    fn ereport(&self, class: &'static str, leaf: Option<&About>, report: Option<Report>) {
        if self.quiet.load(Ordering::Relaxed) {
            return;
        }
        let identity = self.identity.read().clone();
        let failmode = *self.failmode.read();
        let full = format!("ereport.fs.zfs.{class}");
        self.queue().post(full.clone(), |list| {
            list.put("class", full.as_str());
            // The ena is shared by all reports of one operation in ZFS; here each report gets its
            // own.
            list.put("ena", host::random::u64() | 1);
            let mut detector = Nvlist::new();
            detector.put("version", Value::Uint8(0));
            detector.put("scheme", "zfs");
            detector.put("pool", identity.guid);
            if let Some(leaf) = leaf {
                detector.put("vdev", leaf.guid);
            }
            list.put("detector", detector);
            list.put("pool", identity.name.as_str());
            list.put("pool_guid", identity.guid);
            list.put("pool_state", 0u64);
            list.put("pool_context", Value::Int32(0));
            list.put("pool_failmode", failmode);
            if let Some(leaf) = leaf {
                list.put("vdev_guid", leaf.guid);
                list.put("vdev_type", leaf.kind);
                list.put("vdev_path", leaf.path.as_str());
                let names = ["vdev_read_errors", "vdev_write_errors", "vdev_cksum_errors", "vdev_delays"];
                names.iter().zip(leaf.errors).for_each(|(name, count)| list.put(name, count));
            }
            if let Some(report) = report {
                list.put("zio_err", Value::Int32(report.errno));
                list.put("zio_delay", report.delay_ns);
                list.put("zio_type", Value::Uint32(report.operation as u32));
                list.put("zio_offset", report.offset);
                list.put("zio_size", report.size);
            }
            if let Some(at) = READING.get().filter(|_| report.is_some() || class == self::class::DATA) {
                list.put("zio_objset", at.objset);
                list.put("zio_object", at.object);
                list.put("zio_level", Value::Int64(at.level));
                list.put("zio_blkid", at.blkid);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_gets_new_events_and_the_number_of_missed_ones() {
        let reporter = Reporter::new("tank");
        reporter.sysevent(class::POOL_IMPORT, |_| ());
        let queue = Arc::<Queue>::default();
        queue.post("sysevent.fs.zfs.pool_create".into(), |_| ());
        reporter.join(&queue);
        reporter.set_identity("tank", 7);
        reporter.sysevent(class::CONFIG_SYNC, |_| ());
        let news = queue.after(0);
        let listed: Vec<_> = news.events.iter().map(|e| (e.id, e.subclass().to_owned())).collect();
        assert_eq!(listed, [(1, "pool_create".into()), (2, "pool_import".into()), (3, "config_sync".into())]);
        let last = &news.events[2];
        assert_eq!(
            (last.text("pool"), last.payload.get_u64("pool_guid"), last.payload.get_u64("eid")),
            (Some("tank"), Some(7), Some(3))
        );
        assert_eq!(last.text("class"), Some("sysevent.fs.zfs.config_sync"));
        (0..KEPT).for_each(|_| reporter.sysevent(class::CONFIG_SYNC, |_| ()));
        let news = queue.after(1);
        assert_eq!((news.events.len(), news.dropped), (KEPT, 2));
        assert!(queue.wait_after(queue.last(), Duration::from_millis(1)).events.is_empty());
        assert_eq!((queue.clear(), queue.after(0).events.len()), (KEPT, 0));
    }

    #[test]
    fn a_device_that_fails_all_the_time_does_not_push_everything_else_out() {
        let reporter = Reporter::new("tank");
        let leaf = About { guid: 1, kind: "disk", path: "/dev/sda".into(), errors: [1, 2, 3, 4] };
        let report = Report { operation: Operation::Read, errno: 5, offset: 512, size: 1024, delay_ns: 0 };
        let at = Bookmark { objset: 54, object: 2, level: 0, blkid: 9 };
        {
            let _reading = Reading::of(&at);
            (0..1000).for_each(|_| reporter.device_report(class::IO, &leaf, report));
        }
        reporter.device_report(class::CHECKSUM, &leaf, report);
        let events = reporter.queue().after(0).events;
        assert!(events.len() < 200 && reporter.withheld() > 800, "{}", events.len());
        let first = &events[0];
        assert_eq!((first.class.as_str(), first.payload.get_u64("zio_blkid")), ("ereport.fs.zfs.io", Some(9)));
        assert_eq!(
            events.last().map(|e| (e.class.as_str(), e.payload.contains("zio_blkid"))),
            Some(("ereport.fs.zfs.checksum", false))
        );
    }
}
