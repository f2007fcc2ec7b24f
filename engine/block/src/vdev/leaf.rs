//! A leaf of the vdev tree: one disk or file, or the place of a missing one.
//!
//! A [`Leaf`] is a handle: all handles of a leaf share the device, the counters and the dtl, even
//! when a later tree uses another identity for the leaf (the last side of a mirror takes over the
//! mirror's identity).
//!
//! Invariants:
//!   * a leaf is not written again after a failed flush, because the system does not report which
//!     bytes were lost
//!   * block writes never reach into the labels
//!   * everything written before [`Leaf::close`] is durable, or recorded in the dtl; later writes
//!     are refused

use super::dtl::Dtl;
use super::fence::Fence;
use super::figures::{Figures, Passed, Recording};
use super::plug::{Fate, Plug};
use super::queue::{Added, CLASSES, Class, Depth, Done, Queue, Queued, Task, doing};
use crate::zevent::{About, Operation, Reading, Report, Reporter, class};
use bytes::Bytes;
use host::clock::Stopwatch;
use host::device::Device;
use host::device::faults::{Faults, Faulty};
use host::device::latency::Latency;
use host::sync::{Mutex, RwLock};
use observe::{Histogram, Spread};
use ondisk::label;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Duration from which an operation is slow: `zio_slow_io_ms`, 30 seconds as in OpenZFS. One value
/// for all pools of a process.
static SLOW_NS: AtomicU64 = AtomicU64::new(30_000_000_000);

/// How far ahead of the intent log a device allocates space, in bytes. Guessed: with more, a single
/// sync waits longer; with less, more syncs wait.
const READY_BYTES: u64 = 1 << 20;

/// Sets the duration from which device operations count as slow, at least one millisecond.
pub fn set_slow(after: std::time::Duration) {
    let ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
    SLOW_NS.store(ns.max(1_000_000), Ordering::Relaxed);
}

/// Why a leaf cannot be used, as in `zpool status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aux {
    /// No device with this guid was found.
    NotFound,
    /// The labels are unreadable or belong to another vdev.
    CorruptLabel,
    /// Taken offline by an administrator.
    Offline,
    Removed,
    /// Marked faulted by the pool.
    Faulted,
    /// Smaller than the configuration requires.
    TooSmall,
}

/// Error counts of a leaf, since the pool was opened or they were cleared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read: u64,
    /// Reads that succeeded but returned wrong bytes.
    pub checksum: u64,
    /// Writes and flushes that failed.
    pub write: u64,
    /// Slow operations: see [`set_slow`].
    pub slow: u64,
}

/// A read that the device completed. It is logged as good when this is dropped, unless
/// [`Answer::is_wrong`] was called.
pub struct Answer<'l> {
    leaf: &'l Leaf,
    recording: Option<Recording<'l>>,
    report: Report,
}

impl<'l> Answer<'l> {
    /// The leaf that was read.
    pub fn leaf(&self) -> &'l Leaf {
        self.leaf
    }

    /// Counts a checksum error, and logs the read as wrong. Wrong bytes where a block of an intent
    /// log is expected are the end of the log and no error.
    pub fn is_wrong(mut self) {
        if Reading::current().is_some_and(|at| at.level < -1) {
            return;
        }
        self.leaf.state.errors.checksum.fetch_add(1, Ordering::Relaxed);
        self.leaf.report(class::CHECKSUM, Report { errno: WRONG_BYTES_ERRNO, ..self.report });
        if let Some(recording) = &mut self.recording {
            recording.was_wrong();
        }
    }
}

/// Minimum interval between two probes of a failing device.
const PROBE_NS: u64 = 1_000_000_000;

/// Errno of wrong bytes (`ECKSUM`, on Linux `EBADE`).
const WRONG_BYTES_ERRNO: i32 = 52;

/// One disk or file.
#[derive(Clone)]
pub struct Leaf {
    /// Guid, as in the labels.
    pub guid: u64,
    /// Path, as opened or, if not opened, from the configuration.
    pub path: String,
    state: Arc<State>,
}

/// Errors counted since they were last cleared, those of trim and initialize since the pool was
/// opened, and what was repaired.
#[derive(Default)]
struct Errors {
    read: AtomicU64,
    checksum: AtomicU64,
    write: AtomicU64,
    /// Operations that took longer than [`SLOW_NS`].
    slow: AtomicU64,
    trim: AtomicU64,
    initialize: AtomicU64,
    /// Bytes repaired by self-healing, and by the last scan.
    healed: (AtomicU64, AtomicU64),
}

/// What the last probe of the device found.
#[derive(Default)]
struct Probe {
    failed: AtomicBool,
    /// When it was: nanoseconds since 1970.
    at_ns: AtomicU64,
}

/// What a flush has to do.
struct Flush {
    /// First and last txg written since the last one; `u64::MAX` and 0 if none.
    first: AtomicU64,
    last: AtomicU64,
    /// Held during a flush.
    turn: Mutex<()>,
    failed: AtomicBool,
}

/// What all leaves of a pool share, once they belong to one.
#[derive(Default)]
struct OfPool {
    /// Where errors are reported.
    reporter: OnceLock<Arc<Reporter>>,
    /// Injected faults of the device.
    faults: OnceLock<Arc<Faults>>,
    /// Until when the device may be written.
    fence: OnceLock<Arc<Fence>>,
}

/// State shared by all handles of a leaf.
struct State {
    /// Writes hold a read lock, so that closing waits for writes in progress.
    access: RwLock<Access>,
    dtl: Dtl,
    /// Whether this is the dtl of a distributed spare, whose space is on other leaves.
    is_distributed: bool,
    errors: Errors,
    probe: Probe,
    flush: Flush,
    pool: OfPool,
    figures: Figures,
    queue: Queue,
    /// Duration of reads, and of writes.
    latency: (Latency, Latency),
    /// Range for which the device last allocated space.
    readied: Mutex<Range<u64>>,
    sweeps: Sweeps,
}

/// What trim and initialize ask.
#[derive(Default)]
struct Sweeps {
    /// Whether the device can discard, or could when it was last open.
    could_discard: AtomicBool,
    /// How far trim, and initialize, have come.
    done: [AtomicU64; 2],
}

/// End of the allocatable space of a device: its back labels start there.
fn end_bytes(device: &dyn Device) -> u64 {
    label::usable_bytes(device.size_bytes()).saturating_sub(label::END_BYTES)
}

/// The device, or the reason why there is none.
struct Access {
    device: Option<Arc<Faulty>>,
    aux: Option<Aux>,
}

impl Leaf {
    /// A leaf with an open device.
    pub fn present(guid: u64, device: Arc<dyn Device>) -> Self {
        let path = device.name().to_owned();
        Self::new(guid, path, Some(Arc::new(Faulty::new(device, guid))), None)
    }

    /// The dtl of a distributed spare: always open, without a device of its own.
    pub fn distributed(guid: u64, path: String) -> Self {
        Self::of(guid, path, None, None, true)
    }

    /// A leaf whose device cannot be used.
    pub fn absent(guid: u64, path: String, aux: Aux) -> Self {
        Self::new(guid, path, None, Some(aux))
    }

    fn new(guid: u64, path: String, device: Option<Arc<Faulty>>, aux: Option<Aux>) -> Self {
        Self::of(guid, path, device, aux, false)
    }

    fn of(guid: u64, path: String, device: Option<Arc<Faulty>>, aux: Option<Aux>, is_distributed: bool) -> Self {
        let flush = Flush {
            first: AtomicU64::new(u64::MAX),
            last: AtomicU64::new(0),
            turn: Mutex::new(()),
            failed: AtomicBool::new(false),
        };
        let could_discard = device.as_ref().is_some_and(|device| device.can_discard());
        let state = State {
            access: RwLock::new(Access { device, aux }),
            dtl: Dtl::default(),
            is_distributed,
            errors: Errors::default(),
            probe: Probe::default(),
            flush,
            pool: OfPool::default(),
            figures: Figures::default(),
            queue: Queue::default(),
            latency: Default::default(),
            readied: Mutex::default(),
            sweeps: Sweeps { could_discard: could_discard.into(), ..Sweeps::default() },
        };
        Self { guid, path, state: Arc::new(state) }
    }

    /// Another handle of the same leaf, with another guid and path.
    pub fn known_as(&self, guid: u64, path: String) -> Self {
        Self { guid, path, state: self.state.clone() }
    }

    /// The device, if it can be used.
    pub fn device(&self) -> Option<Arc<dyn Device>> {
        self.open_device().map(|device| -> Arc<dyn Device> { device })
    }

    fn open_device(&self) -> Option<Arc<Faulty>> {
        // Writes that fail come here with the lock held, and a thread that closes the device may
        // wait for them.
        self.state.access.read_recursive().device.clone()
    }

    /// Whether this is the dtl of a distributed spare.
    pub fn is_distributed(&self) -> bool {
        self.state.is_distributed
    }

    /// Whether the device can be used. Always true for a distributed spare.
    pub fn is_open(&self) -> bool {
        self.state.is_distributed || self.state.access.read_recursive().device.is_some()
    }

    pub fn aux(&self) -> Option<Aux> {
        self.state.access.read().aux
    }

    /// Uses `device` from now on. Since it was opened again, earlier failures are forgotten. The
    /// dtl is kept.
    pub fn open(&self, device: Arc<dyn Device>) {
        self.state.sweeps.could_discard.store(device.can_discard(), Ordering::Relaxed);
        let device = Arc::new(Faulty::new(device, self.guid));
        if let Some(faults) = self.state.pool.faults.get() {
            device.obey(faults);
        }
        self.change(Access { device: Some(device), aux: None });
        self.state.flush.failed.store(false, Ordering::Release);
        self.state.probe.failed.store(false, Ordering::Release);
    }

    /// Stops using the device, after flushing it. If the flush fails, the txgs written since the
    /// last one are recorded in the dtl.
    pub fn close(&self, why: Aux) {
        self.change(Access { device: None, aux: Some(why) });
    }

    fn change(&self, next: Access) {
        let _turn = self.state.flush.turn.lock();
        // Waits for writes in progress.
        let mut access = self.state.access.write();
        let before = std::mem::replace(&mut *access, next).device;
        let (first, last) = self.take_unflushed();
        let Some(device) = before else { return };
        if first != u64::MAX && (self.has_failed() || device.flush().is_err()) {
            self.note_missed(first, last.max(first));
        }
        drop(access);
        device.release();
    }

    /// Gives up write access, so that other processes can open the device for writing. Waits for
    /// writes in progress: after another process has opened it, they would overwrite what that
    /// process wrote.
    pub fn release(&self) {
        let access = self.state.access.write();
        if let Some(device) = &access.device {
            device.release();
        }
    }

    /// Changes the reason why there is no device. Does nothing if there is one.
    pub fn set_aux(&self, why: Aux) {
        let mut access = self.state.access.write();
        if access.device.is_none() {
            access.aux = Some(why);
        }
    }

    /// Applies these fault rules to the device from now on.
    pub(crate) fn obey(&self, faults: &Arc<Faults>) {
        let faults = self.state.pool.faults.get_or_init(|| faults.clone());
        if let Some(device) = self.open_device() {
            device.obey(faults);
        }
    }

    /// Writes only as long as `fence` allows from now on. Only the first call has an effect.
    pub(crate) fn keep_to(&self, fence: &Arc<Fence>) {
        self.state.pool.fence.get_or_init(|| fence.clone());
    }

    /// Fails if the device may not be written any more: see [`Fence`]. That is not counted as an
    /// error of the device.
    pub(crate) fn check_fence(&self) -> io::Result<()> {
        self.state.pool.fence.get().map_or(Ok(()), |fence| fence.check())
    }

    /// Reads from `offset` on the device, labels included. Returns `None` if there is no device.
    pub fn read(&self, offset: u64, buf: &mut [u8]) -> Option<io::Result<()>> {
        Some(self.read_to_judge(offset, buf)?.map(drop))
    }

    /// As [`Leaf::read`], for a caller that will verify the bytes.
    pub fn read_to_judge(&self, offset: u64, buf: &mut [u8]) -> Option<io::Result<Answer<'_>>> {
        let (result, ns) = self.read_timed(offset, buf, false)?;
        Some(self.account_read(offset, buf.len(), ns, result))
    }

    /// Reads when the queue has room. Returns the duration on the device in nanoseconds too. Only
    /// what concerns the queue is counted: see [`Leaf::account_read`]. `is_joined`: several reads
    /// were made this one.
    pub(super) fn read_timed(&self, offset: u64, buf: &mut [u8], is_joined: bool) -> Option<(io::Result<()>, u64)> {
        let class = Class::of(false);
        let since = self.wait_clear(class, offset, buf.len());
        let device = self.open_device()?;
        let slot = self.state.queue.enter(class, since);
        let clock = Stopwatch::start();
        let result = device.read_at(offset, buf);
        let ns = clock.ns();
        self.state.latency.0.note(ns);
        let passed = Passed { class, bytes: buf.len(), is_joined, waited_ns: slot.waited_ns(&clock) };
        self.state.figures.passed_and_took(false, passed, ns);
        Some((result, ns))
    }

    /// Counts and logs a read.
    pub(super) fn account_read(
        &self,
        offset: u64,
        len: usize,
        ns: u64,
        result: io::Result<()>,
    ) -> io::Result<Answer<'_>> {
        let recording = self.state.figures.read(offset, len, ns, &result);
        let report = Report { operation: Operation::Read, errno: 0, offset, size: len as u64, delay_ns: ns };
        self.note_slow(report);
        if let Err(error) = &result {
            self.count(&self.state.errors.read, "reading", error, report);
        }
        result.map(|()| Answer { leaf: self, recording, report })
    }

    /// Whether reads wait for the device, so that several should run at once.
    pub(super) fn has_slow_reads(&self) -> bool {
        self.state.latency.0.is_slow()
    }

    /// As [`Leaf::has_slow_reads`], for writes. Until one is measured, they count as being as slow
    /// as reads.
    pub(super) fn has_slow_writes(&self) -> bool {
        let (reads, writes) = &self.state.latency;
        if writes.is_known() { writes.is_slow() } else { reads.is_slow() }
    }

    /// Duration of writes to the device.
    pub(crate) fn write_latency(&self) -> &Latency {
        &self.state.latency.1
    }

    /// Number of operations on the device.
    pub(super) fn active(&self) -> u32 {
        self.state.queue.active()
    }

    /// What the queue holds, by number of the class.
    pub(super) fn queue_depths(&self) -> [Depth; CLASSES] {
        self.state.queue.depths()
    }

    /// Reads without counting a failure as an error: the caller's closer look will count it.
    /// `is_joined`: as for [`Leaf::read_timed`].
    pub(super) fn read_without_counting(&self, offset: u64, buf: &mut [u8], is_joined: bool) -> bool {
        let Some((result, ns)) = self.read_timed(offset, buf, is_joined) else { return false };
        drop(self.state.figures.read(offset, buf.len(), ns, &result));
        result.is_ok()
    }

    pub fn errors(&self) -> ErrorCounts {
        ErrorCounts {
            read: self.state.errors.read.load(Ordering::Relaxed),
            checksum: self.state.errors.checksum.load(Ordering::Relaxed),
            write: self.state.errors.write.load(Ordering::Relaxed),
            slow: self.state.errors.slow.load(Ordering::Relaxed),
        }
    }

    /// Resets all error counts, as `zpool clear` does. A failed flush stays until the device is
    /// opened again.
    pub fn clear_errors(&self) {
        for count in
            [&self.state.errors.read, &self.state.errors.checksum, &self.state.errors.write, &self.state.errors.slow]
        {
            count.store(0, Ordering::Relaxed);
        }
        if self.is_gone() {
            self.probe();
        }
    }

    pub(super) fn figures(&self) -> &Figures {
        &self.state.figures
    }

    /// Counts bytes that were rewritten because those on the device were wrong or missing.
    pub fn note_repaired(&self, bytes: u64, self_heal: bool, during_scan: bool) {
        if self_heal {
            self.state.errors.healed.0.fetch_add(bytes, Ordering::Relaxed);
        }
        if during_scan {
            self.state.errors.healed.1.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes repaired by self-healing since the pool was opened, and bytes that the last scan
    /// repaired.
    pub fn repaired(&self) -> (u64, u64) {
        (self.state.errors.healed.0.load(Ordering::Relaxed), self.state.errors.healed.1.load(Ordering::Relaxed))
    }

    /// Resets the count of the last scan when a new one starts.
    pub fn clear_scanned(&self) {
        self.state.errors.healed.1.store(0, Ordering::Relaxed);
    }

    /// Logs each read, write and flush from now on, as one of `pool`.
    pub fn record_to(&self, events: &Arc<observe::Events>, pool: &str) {
        self.state.figures.record_to(events, pool, &self.path);
    }

    /// Operations that wait in the queue or are on the device, by class as in metrics.
    pub fn in_queue(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let count = |depth: Depth| u64::from(depth.pending) + u64::from(depth.active);
        Class::ALL.into_iter().zip(self.queue_depths()).map(move |(class, depth)| (class.name(), count(depth)))
    }

    /// Sum of the durations of all reads, writes and flushes, in nanoseconds; concurrent ones each
    /// count.
    pub fn busy_ns(&self) -> u64 {
        self.state.figures.busy_ns()
    }

    /// Durations of all reads and of all writes in nanoseconds, without the time in the queue.
    pub fn times(&self) -> [Spread; 2] {
        [&self.state.figures.read_time, &self.state.figures.write_time].map(Histogram::spread)
    }

    /// Number of reads, and their bytes.
    pub fn traffic(&self) -> (u64, u64) {
        self.state.figures.reads()
    }

    /// Number of writes, and their bytes.
    pub fn write_traffic(&self) -> (u64, u64) {
        self.state.figures.writes()
    }

    /// Writes part of a block of `txg` at `offset` on the device. Returns `None` if there is no
    /// device.
    pub fn write(&self, txg: u64, offset: u64, data: &[u8]) -> Option<io::Result<()>> {
        // Before the lock, which the asynchronous writes need too.
        let since = self.wait_clear(Class::of(true), offset, data.len());
        let access = self.state.access.read();
        let device = access.device.as_ref()?;
        Some(
            match self.check_write(device.as_ref(), offset, data.len()) {
                Ok(()) => self.write_counted(device.as_ref(), offset, data, false, since),
                Err(error) => Err(self.note_write_error(offset, data.len(), error)),
            }
            .inspect(|()| self.note_unflushed(txg)),
        )
    }

    /// Starts to write `data`, part of a block of `txg`, at `offset` on the device. `done` is
    /// called with what [`Leaf::write`] would have returned, on another thread or on this one. The
    /// write is held, and noted in `plug`, until there are enough of them.
    pub(super) fn write_later(&self, txg: u64, offset: u64, data: Bytes, plug: &Plug, done: Done) {
        match self.state.queue.add(offset, data, txg, done) {
            Added::Nothing => {}
            Added::Start => self.start_writers(1),
            Added::Held => {
                let leaf = self.clone();
                plug.note(Box::new(move |fate| match fate {
                    Fate::Write => leaf.push(),
                    Fate::Cancel => leaf.cancel(),
                }));
            }
        }
    }

    /// See [`Queue::allow_fill`].
    pub(super) fn allow_fill(&self, offset: u64, len: u64) {
        self.state.queue.allow_fill(offset, len);
    }

    /// Starts the asynchronous writes that are held.
    pub(super) fn push(&self) {
        self.start_writers(self.state.queue.push());
    }

    /// Forgets the asynchronous writes that are held, as if there were no device.
    fn cancel(&self) {
        self.state.queue.cancel().into_iter().flat_map(|queued| queued.done).for_each(|done| done(None));
    }

    fn start_writers(&self, threads: u32) {
        for _ in 0..threads {
            let leaf = self.clone();
            if !host::work::start(move || leaf.write_runs()) {
                self.write_runs();
            }
        }
    }

    /// Waits for asynchronous writes to a range: see [`Queue::wait_clear`].
    fn wait_clear(&self, class: Class, offset: u64, len: usize) -> Option<Stopwatch> {
        self.state.queue.wait_clear(class, offset, len as u64, |threads| self.start_writers(threads))
    }

    /// Performs asynchronous writes until there are none.
    fn write_runs(&self) {
        let _doing = doing(Task::Background);
        loop {
            let run = self.state.queue.next_run();
            if run.is_empty() {
                return;
            }
            // A panic was reported when it happened. The writes are dropped, and so have failed;
            // those behind them must not wait for this thread.
            let results = catch_unwind(AssertUnwindSafe(|| self.write_run(&run)));
            self.state.queue.end_run(run.iter().map(|(offset, _)| *offset));
            let Ok(results) = results else { continue };
            let _ = catch_unwind(AssertUnwindSafe(|| {
                for ((_, queued), result) in run.into_iter().zip(results) {
                    let result = result.map(|result| result.map_err(Arc::new));
                    queued.done.into_iter().for_each(|done| done(result.clone()));
                }
            }));
        }
    }

    /// Writes a run of neighbours at once. If that fails, one by one, so that each has its own
    /// result.
    fn write_run(&self, run: &[(u64, Queued)]) -> Vec<Option<io::Result<()>>> {
        let access = self.state.access.read();
        let Some(device) = access.device.as_deref() else { return run.iter().map(|_| None).collect() };
        let one = |offset: u64, data: &[u8], is_joined: bool, since: Option<Stopwatch>| {
            let checked = self.check_write(device, offset, data.len());
            checked.map_err(|error| self.note_write_error(offset, data.len(), error))?;
            self.write_counted(device, offset, data, is_joined, since)
        };
        let joined = match run {
            [(first, _), _, ..] => {
                let mut joined = Vec::with_capacity(run.iter().map(|(_, queued)| queued.data.len()).sum());
                run.iter().for_each(|(_, queued)| joined.extend_from_slice(&queued.data));
                one(*first, &joined, true, run.iter().map(|(_, queued)| queued.since).min()).is_ok()
            }
            _ => false,
        };
        // Recorded after the write, so that a concurrent flush cannot clear the record without
        // flushing the bytes.
        let result = |(offset, queued): &(u64, Queued)| {
            let result = if joined { Ok(()) } else { one(*offset, &queued.data, false, Some(queued.since)) };
            Some(result.inspect(|()| self.note_unflushed(queued.txg)))
        };
        run.iter().map(result).collect()
    }

    fn check_write(&self, device: &Faulty, offset: u64, len: usize) -> io::Result<()> {
        let end_bytes = end_bytes(device);
        let within = offset >= label::BOOT_OFFSET && offset.checked_add(len as u64).is_some_and(|e| e <= end_bytes);
        if self.has_failed() {
            return Err(io::Error::other("an earlier flush failed"));
        }
        if !within {
            let what = "the device is smaller than the pool believes";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        Ok(())
    }

    /// Writes when the queue has room. `is_joined`: several writes were made this one. `since` was
    /// started when the first of them began to wait, if one has waited already.
    fn write_counted(
        &self,
        device: &Faulty,
        offset: u64,
        data: &[u8],
        is_joined: bool,
        since: Option<Stopwatch>,
    ) -> io::Result<()> {
        let class = Class::of(true);
        let slot = self.state.queue.enter(class, since);
        self.check_fence()?;
        let clock = Stopwatch::start();
        let result = device.write_at(offset, data);
        let ns = clock.ns();
        self.state.latency.1.note(ns);
        let passed = Passed { class, bytes: data.len(), is_joined, waited_ns: slot.waited_ns(&clock) };
        self.state.figures.passed_and_took(true, passed, ns);
        self.state.figures.wrote(offset, data.len(), ns, &result);
        let report = Report { operation: Operation::Write, errno: 0, offset, size: data.len() as u64, delay_ns: ns };
        self.note_slow(report);
        if let Err(error) = &result {
            self.count(&self.state.errors.write, "writing", error, report);
        }
        result
    }

    fn note_write_error(&self, offset: u64, len: usize, error: io::Error) -> io::Error {
        let report = Report { operation: Operation::Write, errno: 0, offset, size: len as u64, delay_ns: 0 };
        self.count(&self.state.errors.write, "writing", &error, report);
        error
    }

    /// Whether [`Leaf::discard`] has an effect on the device.
    pub fn can_discard(&self) -> bool {
        self.open_device().is_some_and(|device| device.can_discard())
    }

    /// Whether the device can discard, or could when it was last open. False if it was never open.
    pub fn could_discard(&self) -> bool {
        self.state.sweeps.could_discard.load(Ordering::Relaxed)
    }

    /// Discards (trims) unused bytes on the device, when the queue has room. Returns `None` if
    /// there is no device. The caller counts failures.
    pub fn discard(&self, offset: u64, len: u64) -> Option<io::Result<()>> {
        let access = self.state.access.read();
        let device = access.device.as_ref()?;
        let end_bytes = end_bytes(device.as_ref());
        if offset < label::START_BYTES || offset.checked_add(len).is_none_or(|end| end > end_bytes) {
            return Some(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        *self.state.readied.lock() = 0..0;
        let class = Class::Trim;
        let slot = self.state.queue.enter(class, None);
        let waited_ns = slot.waited_ns(&Stopwatch::start());
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        self.state.figures.passed(Passed { class, bytes, is_joined: false, waited_ns });
        Some(self.check_fence().and_then(|()| device.discard(offset, len)))
    }

    /// Counts a failure to trim free space (`is_trim`), or to initialize it.
    pub fn note_sweep_error(&self, is_trim: bool) {
        let Errors { trim, initialize, .. } = &self.state.errors;
        (if is_trim { trim } else { initialize }).fetch_add(1, Ordering::Relaxed);
    }

    /// Number of failures of trim, and of initialize, since the pool was opened.
    pub fn sweep_errors(&self) -> (u64, u64) {
        let Errors { trim, initialize, .. } = &self.state.errors;
        (trim.load(Ordering::Relaxed), initialize.load(Ordering::Relaxed))
    }

    /// Records how far trim, or else initialize, has come: an offset on the device.
    pub fn note_swept(&self, is_trim: bool, offset: u64) {
        let [trim, initialize] = &self.state.sweeps.done;
        (if is_trim { trim } else { initialize }).store(offset, Ordering::Relaxed);
    }

    /// How far trim, and initialize, have come since the pool was opened: offsets on the device.
    pub fn swept(&self) -> [u64; 2] {
        self.state.sweeps.done.each_ref().map(|offset| offset.load(Ordering::Relaxed))
    }

    /// Prepares the device for small writes from `offset` on, each followed by a flush. The first
    /// one has `len` bytes.
    pub fn take_space(&self, offset: u64, len: u64) {
        let access = self.state.access.read();
        let Some(device) = access.device.as_ref().filter(|_| !self.has_failed()) else { return };
        let end_bytes = end_bytes(device.as_ref());
        let mut readied = self.state.readied.lock();
        if (readied.contains(&offset) && offset + len <= readied.end) || offset >= end_bytes {
            return;
        }
        *readied = offset..end_bytes.min(offset + READY_BYTES);
        // This only saves time. A failing device reports its error on the next write.
        if let Err(error) = device.take_space(offset, readied.end - offset) {
            tracing::debug!(device = %self.path, %error, "space for the intent log is taken block by block");
        }
    }

    /// Counts an error. The first of its kind since errors were last cleared is logged.
    fn count(&self, errors: &AtomicU64, what: &str, error: &io::Error, report: Report) {
        self.report(class::IO, Report { errno: errno(error), ..report });
        self.probe_after_error();
        if errors.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(device = %self.path, %error, "{what} failed; more of these are only counted");
        }
    }

    /// Probes the device, at most once per [`PROBE_NS`].
    fn probe_after_error(&self) {
        let (now, last) = (host::clock::nanoseconds(), self.state.probe.at_ns.load(Ordering::Relaxed));
        let turn = now.abs_diff(last) >= PROBE_NS
            && self.state.probe.at_ns.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if turn {
            self.probe();
        }
    }

    /// Probes the device. Returns false if it fails, or if there is no device.
    pub fn probe(&self) -> bool {
        let works = self.open_device().is_some_and(|device| device.probe().is_ok());
        if self.state.probe.failed.swap(!works, Ordering::AcqRel) == works {
            tracing::warn!(device = %self.path, works, "the device was tried after an error");
        }
        works
    }

    /// Whether the device failed its last probe.
    pub fn is_gone(&self) -> bool {
        self.state.probe.failed.load(Ordering::Acquire)
    }

    fn note_slow(&self, report: Report) {
        if report.delay_ns >= SLOW_NS.load(Ordering::Relaxed) {
            self.state.errors.slow.fetch_add(1, Ordering::Relaxed);
            self.report(class::DELAY, report);
        }
    }

    fn report(&self, class: &'static str, report: Report) {
        if let Some(reporter) = self.state.pool.reporter.get() {
            reporter.device_report(class, &self.about(), report);
        }
    }

    /// Description of the leaf for events.
    pub fn about(&self) -> About {
        let ErrorCounts { read, checksum, write, slow } = self.errors();
        let kind = if self.path.starts_with("/dev/") { "disk" } else { "file" };
        About { guid: self.guid, kind, path: self.path.clone(), errors: [read, write, checksum, slow] }
    }

    /// Reports errors there from now on. Only the first call has an effect.
    pub(crate) fn report_to(&self, reporter: &Arc<Reporter>) {
        self.state.pool.reporter.get_or_init(|| reporter.clone());
    }

    fn take_unflushed(&self) -> (u64, u64) {
        let Flush { first, last, .. } = &self.state.flush;
        (first.swap(u64::MAX, Ordering::AcqRel), last.swap(0, Ordering::AcqRel))
    }

    /// Records that something of `txg` was written, so that the next flush reaches the device.
    pub fn note_unflushed(&self, txg: u64) {
        self.state.flush.first.fetch_min(txg, Ordering::AcqRel);
        self.state.flush.last.fetch_max(txg, Ordering::AcqRel);
    }

    /// Whether a flush has something to do, or to wait for.
    pub fn needs_flush(&self) -> bool {
        self.state.flush.first.load(Ordering::Acquire) != u64::MAX || self.state.flush.turn.is_locked()
    }

    /// Whether a flush failed since the device was opened.
    pub fn has_failed(&self) -> bool {
        self.state.flush.failed.load(Ordering::Acquire)
    }

    /// Flushes everything written to stable storage. On an error, the txgs of which something may
    /// be lost are recorded in the dtl, and the leaf accepts no more writes.
    pub fn flush(&self) -> io::Result<()> {
        self.flush_if(false)
    }

    /// As [`Leaf::flush`], even if only labels were written.
    pub fn flush_labels(&self) -> io::Result<()> {
        self.flush_if(true)
    }

    fn flush_if(&self, always: bool) -> io::Result<()> {
        // One at a time: a system reports an error only once, to the first caller, and a thread
        // that finds nothing left to flush must wait for the one that took it.
        let _turn = self.state.flush.turn.lock();
        let (first, last) = self.take_unflushed();
        let dirty = first != u64::MAX;
        let Some(device) = self.open_device().filter(|_| dirty || always) else { return Ok(()) };
        if self.has_failed() {
            return Err(io::Error::other("an earlier flush failed"));
        }
        let clock = Stopwatch::start();
        let result = device.flush();
        let ns = clock.ns();
        self.state.figures.flushed(ns, &result);
        let report = Report { operation: Operation::Flush, errno: 0, offset: 0, size: 0, delay_ns: ns };
        self.note_slow(report);
        result.inspect_err(|error| {
            self.state.flush.failed.store(true, Ordering::Release);
            self.count_write_error();
            self.report(class::IO, Report { errno: errno(error), ..report });
            tracing::error!(device = %self.path, %error, "written data may be lost: the device no longer accepts writes");
            if dirty {
                self.note_missed(first, last.max(first));
            }
        })
    }

    /// Counts a failed write that bypassed [`Leaf::write`], such as one of a label.
    pub fn count_write_error(&self) {
        self.state.errors.write.fetch_add(1, Ordering::Relaxed);
    }

    /// Records in the dtl that blocks of the txgs `first` to `last` are missing on this device.
    pub fn note_missed(&self, first: u64, last: u64) {
        self.state.dtl.add(first, last);
    }

    /// Whether [`Leaf::stale_ranges`] changed since [`Leaf::take_missed`] was last called.
    pub fn has_missed_more(&self) -> bool {
        self.state.dtl.has_changed()
    }

    /// Returns and resets whether [`Leaf::stale_ranges`] changed, so that the dtl must be written
    /// to disk.
    pub fn take_missed(&self) -> bool {
        self.state.dtl.take_changed()
    }

    /// Removes txgs before `end` from the dtl after a resilver. The next txg writes the dtl.
    pub fn excise(&self, end: u64) {
        self.state.dtl.excise(end);
    }

    /// Sets the dtl: the txg ranges that the device missed. Checksum errors counted before it was
    /// known, while the pool was being opened, are reset.
    pub fn set_stale(&self, ranges: Vec<(u64, u64)>) {
        if !ranges.is_empty() {
            self.state.errors.checksum.store(0, Ordering::Relaxed);
        }
        self.state.dtl.set(ranges);
    }

    /// Whether blocks born in `txg` are missing on this device.
    pub fn is_stale(&self, txg: u64) -> bool {
        self.state.dtl.contains(txg)
    }

    /// Whether the device is open and has everything that was written to it.
    pub fn is_whole(&self) -> bool {
        self.is_open() && !self.has_failed() && self.state.dtl.is_empty()
    }

    /// The dtl: the txg ranges that the device missed.
    pub fn stale_ranges(&self) -> Vec<(u64, u64)> {
        self.state.dtl.ranges()
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(host::device::faults::errno::EIO)
}
