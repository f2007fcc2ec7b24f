//! The queue of a leaf: how many operations of each class it gets at once.
//!
//! ```text
//!   operation ── class ──> Queue::enter (waits while the class has its maximum) ──> device ──> Slot dropped
//! ```
//! The class follows from the operation and from the [`Task`] of the thread: a client's
//! request, the sync of a txg, read-ahead, a scrub. ZFS name: vdev_queue.
//!
//! Facts: `zfs_vdev_*_min_active`, `zfs_vdev_*_max_active`, `zfs_vdev_nia_credit`,
//! `zfs_vdev_nia_delay` (zfs(4)).
//!
//! Nothing waits for an asynchronous write but the end of its txg. So it is held until there are
//! enough of them or a thread waits ([`super::plug`]). Meanwhile newer contents of the same place
//! replace it, and neighbours are joined:
//!
//! ```text
//!   write of a column ── Queue::add ──> pending, by offset ── run of neighbours, up to 1 MiB ──> one write
//! ```
//! So few large writes are on the device even if it takes them one at a time, like a disk or a
//! file.
//!
//! An operation that waits reads the clock when it begins to; [`Slot::waited_ns`] is the time until
//! it had its turn, measured to the start of the clock that times the device.
//!
//! Invariants:
//!   * operations that overlap an asynchronous write wait for its end; asynchronous writes that
//!     overlap one that is not on the device yet are merged with it. So each read finds what was
//!     written before it
//!   * asynchronous writes are held only while no thread waits for one of them, and only if
//!     [`Queue::add`] returned [`Added::Held`]
//!   * a gap is filled with zeros only while it belongs to a block whose parts are being written:
//!     any other operation there ends that
//!   * a class never has more operations on the device than its maximum
//!   * scrub, removal, initialize and rebuild fall back to their minimum while clients'
//!     requests or a txg are on the device, and for some operations after that

use bytes::Bytes;
use host::clock::Stopwatch;
use host::sync::{Condvar, Mutex, MutexGuard};
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// What a thread works on. Determines the class of its device operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Task {
    /// The request of a client, which waits for it.
    #[default]
    Request,
    /// The sync of a txg, or read-ahead.
    Background,
    /// Scrub and resilver.
    Scrub,
    /// Removal of a device, and expansion of a raidz.
    Removal,
    /// Writing a pattern to free space.
    Initialize,
    /// Sequential resilver.
    Rebuild,
}

thread_local! {
    static TASK: Cell<Task> = const { Cell::new(Task::Request) };
}

/// Restores the previous task of the thread when dropped.
pub struct Doing(Task);

/// Device operations of this thread belong to `task`, until the result is dropped.
pub fn doing(task: Task) -> Doing {
    Doing(TASK.replace(task))
}

impl Task {
    /// The task of this thread.
    pub fn current() -> Self {
        TASK.get()
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        TASK.set(self.0);
    }
}

/// Class of a device operation, as in `zpool iostat -q`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    SyncRead,
    SyncWrite,
    AsyncRead,
    AsyncWrite,
    Scrub,
    Removal,
    Initialize,
    Trim,
    Rebuild,
}

pub const CLASSES: usize = 9;

/// Minimum and maximum of a class on the device, by class. OpenZFS's defaults, except for maxima
/// that would leave devices with deep queues idle: there synchronous reads and writes and
/// asynchronous writes have 10, asynchronous reads 3.
const LIMITS: [(u32, u32); CLASSES] = [(10, 32), (10, 32), (1, 16), (2, 16), (1, 3), (1, 2), (1, 1), (1, 2), (1, 3)];

/// Operations of non-interactive classes that may start between two interactive ones.
const CREDIT: u32 = 5;
/// Number of their operations after which they have their maximum again.
const DELAY: u32 = 5;

impl Class {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; CLASSES] = [
        Self::SyncRead,
        Self::SyncWrite,
        Self::AsyncRead,
        Self::AsyncWrite,
        Self::Scrub,
        Self::Removal,
        Self::Initialize,
        Self::Trim,
        Self::Rebuild,
    ];

    /// Class of a read or write of this thread.
    pub fn of(is_write: bool) -> Self {
        match (TASK.get(), is_write) {
            (Task::Request, false) => Self::SyncRead,
            (Task::Request, true) => Self::SyncWrite,
            (Task::Background, false) => Self::AsyncRead,
            (Task::Background, true) => Self::AsyncWrite,
            (Task::Scrub, _) => Self::Scrub,
            (Task::Removal, _) => Self::Removal,
            (Task::Initialize, _) => Self::Initialize,
            (Task::Rebuild, _) => Self::Rebuild,
        }
    }

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::SyncRead => "sync_read",
            Self::SyncWrite => "sync_write",
            Self::AsyncRead => "async_read",
            Self::AsyncWrite => "async_write",
            Self::Scrub => "scrub",
            Self::Removal => "removal",
            Self::Initialize => "initialize",
            Self::Trim => "trim",
            Self::Rebuild => "rebuild",
        }
    }

    /// Whether a client or a txg waits for it.
    fn is_interactive(self) -> bool {
        !matches!(self, Self::Scrub | Self::Removal | Self::Initialize | Self::Rebuild)
    }
}

/// Longest run of writes that are joined, in bytes: as OpenZFS (`zfs_vdev_aggregation_limit`).
const RUN_BYTES_MAX: usize = 1 << 20;
/// Asynchronous writes of a leaf are held until they have this many bytes: half of the longest run.
/// Guessed.
const HELD_BYTES_MAX: usize = RUN_BYTES_MAX / 2;
/// One more asynchronous write than the minimum may be on the device for this many runs of
/// neighbours that wait, and for each two of the longest runs. Fewer wait for more neighbours: a
/// device that takes one write at a time is faster with few large ones, and one that takes many
/// gets at least the minimum of large ones. Guessed.
const RUNS_FOR_ONE: usize = 16;
/// Maximum of asynchronous writes on the device (`zfs_vdev_async_write_max_active`).
const JOINED_MAX: u32 = 10;

/// Number of operations of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Waiting: for room on the device, for neighbours, or for an earlier write to the same place.
    pub pending: u32,
    /// On the device. Joined operations are one.
    pub active: u32,
}

#[derive(Default)]
struct State {
    depths: [Depth; CLASSES],
    /// Interactive operations on the device.
    interactive: u32,
    /// While interactive operations are on the device: how many others may start. Otherwise: how
    /// many others have ended since.
    credit: u32,
}

impl State {
    fn may_start(&self, class: Class) -> bool {
        let (min, max) = LIMITS[class as usize];
        let limit = match (class.is_interactive(), self.interactive) {
            (true, _) => max,
            (false, 0) if self.credit < DELAY => min.max(1),
            (false, 0) => max,
            (false, _) => min.min(self.credit),
        };
        self.depths[class as usize].active < limit
    }

    fn start(&mut self, class: Class) {
        self.depths[class as usize].active += 1;
        if class.is_interactive() {
            self.interactive += 1;
            if self.interactive == 1 {
                self.credit = 1;
            }
        } else if self.interactive > 0 {
            self.credit = self.credit.saturating_sub(1);
        }
    }

    fn end(&mut self, class: Class) {
        self.depths[class as usize].active -= 1;
        if class.is_interactive() {
            self.interactive -= 1;
            self.credit = if self.interactive == 0 { 0 } else { CREDIT };
        } else if self.interactive == 0 {
            self.credit = self.credit.saturating_add(1);
        }
    }
}

/// Is called with the result of a write; `None` if there is no device.
pub(super) type Done = Box<dyn FnOnce(Option<Result<(), Arc<io::Error>>>) + Send>;

/// A write that waits for the device.
pub(super) struct Queued {
    pub data: Bytes,
    pub txg: u64,
    /// Started when the first contents were added.
    pub since: Stopwatch,
    /// One for each write that was merged into this one. None: it fills a gap.
    pub done: SmallVec<[Done; 1]>,
}

/// What the caller of [`Queue::add`] must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// Nothing: threads write already, or the leaf is known to hold writes.
    Nothing,
    /// Call [`Queue::next_run`], on another thread, until there is none.
    Start,
    /// See to it that [`Queue::push`] is called when a thread waits for a write.
    Held,
}

/// Asynchronous writes of a leaf. No two of them overlap.
#[derive(Default)]
struct Pending {
    /// Those that wait, by offset on the device.
    writes: BTreeMap<u64, Queued>,
    /// Sum of their bytes.
    bytes: usize,
    /// Number of runs of neighbours that they form.
    runs: usize,
    /// Gaps that may be filled with zeros if that joins two writes: offset and length in bytes.
    gaps: BTreeMap<u64, u64>,
    /// They are written even if they are few, until there are none.
    pushed: bool,
    /// [`Added::Held`] has been returned since the last push.
    noted: bool,
    /// Those on the device: offset and length in bytes.
    running: BTreeMap<u64, u64>,
    /// End of the last run: the next one begins after it, if there is one.
    last: u64,
    /// Threads that write.
    active: u32,
    /// Operations that wait for the end of writes that they overlap, by class.
    held: [u32; CLASSES],
}

impl Pending {
    /// Whether there are enough writes, or a thread waits for one.
    fn is_due(&self) -> bool {
        self.pushed || self.bytes >= HELD_BYTES_MAX
    }

    /// Whether the writes that wait must stay: only then is the leaf known to hold some.
    fn is_held(&self) -> bool {
        self.noted && !self.is_due()
    }

    /// Number of threads that may write.
    fn limit(&self) -> u32 {
        let more = self.runs / RUNS_FOR_ONE + self.bytes / (2 * RUN_BYTES_MAX);
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        LIMITS[Class::AsyncWrite as usize].0.saturating_add(more).min(JOINED_MAX)
    }

    fn is_waiting(&self, offset: u64, len: u64) -> bool {
        let before = self.writes.range(..offset.saturating_add(len)).next_back();
        before.is_some_and(|(at, queued)| at + queued.data.len() as u64 > offset)
    }

    fn is_running(&self, offset: u64, len: u64) -> bool {
        let before = self.running.range(..offset.saturating_add(len)).next_back();
        before.is_some_and(|(at, len)| at + len > offset)
    }

    fn overlaps(&self, offset: u64, len: u64) -> bool {
        self.is_waiting(offset, len) || self.is_running(offset, len)
    }

    /// Number of writes that wait just before and just after this range.
    fn neighbours(&self, offset: u64, end: u64) -> usize {
        let before = self.writes.range(..offset).next_back();
        let joins = before.is_some_and(|(at, queued)| at + queued.data.len() as u64 == offset);
        usize::from(joins) + usize::from(self.writes.contains_key(&end))
    }

    /// The range belongs to another block now.
    fn forget_gaps(&mut self, offset: u64, end: u64) {
        while let Some((at, len)) = self.gaps.range(..end).next_back()
            && at + len > offset
        {
            let at = *at;
            self.gaps.remove(&at);
        }
    }

    fn insert(&mut self, offset: u64, queued: Queued) {
        let end = offset + queued.data.len() as u64;
        self.forget_gaps(offset, end);
        self.runs = self.runs + 1 - self.neighbours(offset, end);
        self.bytes += queued.data.len();
        self.writes.insert(offset, queued);
    }

    fn remove(&mut self, offset: u64) -> Option<Queued> {
        let queued = self.writes.remove(&offset)?;
        self.bytes -= queued.data.len();
        self.runs = self.runs + self.neighbours(offset, offset + queued.data.len() as u64) - 1;
        Some(queued)
    }

    /// Adds a write, merged with those that wait and that it overlaps. Returns how many those were.
    fn merge(&mut self, offset: u64, mut queued: Queued) -> usize {
        let end = offset + queued.data.len() as u64;
        let mut older = Vec::new();
        while let Some((at, before)) = self.writes.range(..end).next_back()
            && at + before.data.len() as u64 > offset
        {
            let at = *at;
            older.extend(self.remove(at).map(|before| (at, before)));
        }
        let (mut first, mut last) = (offset, end);
        for (at, before) in &older {
            (first, last) = (first.min(*at), last.max(at + before.data.len() as u64));
        }
        if (first, last) != (offset, end) {
            // Each overlaps the new one, so there are no gaps.
            let mut whole = vec![0; (last - first) as usize];
            let all = older.iter().map(|(at, before)| (*at, &before.data)).chain([(offset, &queued.data)]);
            for (at, data) in all {
                let at = (at - first) as usize;
                whole[at..at + data.len()].copy_from_slice(data);
            }
            queued.data = whole.into();
        }
        let count = older.len();
        for (_, before) in older {
            queued.since = queued.since.min(before.since);
            queued.txg = queued.txg.max(before.txg);
            queued.done.extend(before.done);
        }
        self.insert(first, queued);
        count
    }

    /// Starts as many threads as there is work for. Returns their number.
    fn start_all(&mut self) -> u32 {
        let most = self.limit().saturating_sub(self.active);
        let more = u32::try_from(self.writes.len()).unwrap_or(u32::MAX).min(most);
        self.active += more;
        more
    }

    /// Takes the next run of neighbours, if they are due.
    fn take_run(&mut self) -> Vec<(u64, Queued)> {
        if self.is_held() {
            return Vec::new();
        }
        let behind = self.writes.range(self.last..).next().or_else(|| self.writes.iter().next());
        let Some(mut at) = behind.map(|(offset, _)| *offset) else { return Vec::new() };
        let mut run: Vec<(u64, Queued)> = Vec::new();
        let mut bytes = 0;
        loop {
            if let Some(queued) = self.writes.get(&at)
                && (run.is_empty() || bytes + queued.data.len() <= RUN_BYTES_MAX)
            {
                let queued = self.remove(at).expect("`get` found it");
                run.push((at, queued));
            } else if let Some((_, before)) = run.last()
                && let Some(len) = self.gaps.remove(&at)
                && self.writes.get(&(at + len)).is_some_and(|q| bytes + len as usize + q.data.len() <= RUN_BYTES_MAX)
            {
                let (txg, since, data) = (before.txg, before.since, Bytes::from(vec![0; len as usize]));
                run.push((at, Queued { data, txg, since, done: SmallVec::new() }));
            } else {
                break;
            }
            let len = run.last().map_or(0, |(_, queued)| queued.data.len());
            self.running.insert(at, len as u64);
            bytes += len;
            at += len as u64;
        }
        if self.writes.is_empty() {
            self.gaps.clear();
        }
        self.last = at;
        self.pushed &= !self.writes.is_empty();
        run
    }
}

/// The operations of a leaf.
#[derive(Default)]
pub(super) struct Queue {
    pending: Mutex<Pending>,
    /// Asynchronous writes have ended.
    ended: Condvar,
    /// Number of asynchronous writes that have not ended.
    unended: AtomicUsize,
    state: Mutex<State>,
    /// One for each class.
    room: [Condvar; CLASSES],
    /// Operations on the device, of all classes.
    active: AtomicU32,
}

impl Queue {
    /// Waits until the device may have another operation of `class`. `since` was started when the
    /// operation began to wait, if it has waited already.
    pub fn enter(&self, class: Class, mut since: Option<Stopwatch>) -> Slot<'_> {
        let mut state = self.state.lock();
        if !state.may_start(class) {
            since = since.or_else(|| Some(Stopwatch::start()));
            state.depths[class as usize].pending += 1;
            while !state.may_start(class) {
                self.room[class as usize].wait(&mut state);
            }
            state.depths[class as usize].pending -= 1;
        }
        state.start(class);
        if state.depths[class as usize].pending > 0 && state.may_start(class) {
            self.room[class as usize].notify_one();
        }
        drop(state);
        self.active.fetch_add(1, Ordering::Relaxed);
        Slot { queue: self, class, since }
    }

    /// Adds an asynchronous write. Waits for the end of those that it overlaps and that are on the
    /// device.
    #[must_use]
    pub fn add(&self, offset: u64, data: Bytes, txg: u64, done: Done) -> Added {
        let len = data.len() as u64;
        let since = Stopwatch::start();
        let mut pending = self.pending.lock();
        while pending.is_running(offset, len) {
            self.hold(&mut pending, Class::AsyncWrite);
        }
        self.unended.fetch_add(1, Ordering::SeqCst);
        let merged = pending.merge(offset, Queued { data, txg, since, done: smallvec![done] });
        self.unended.fetch_sub(merged, Ordering::SeqCst);
        match pending.is_due() {
            true if pending.active < pending.limit() => {
                pending.active += 1;
                Added::Start
            }
            false if !pending.noted => {
                pending.noted = true;
                Added::Held
            }
            _ => Added::Nothing,
        }
    }

    /// Allows to fill a gap, which belongs to a block whose parts were added, with zeros: if writes
    /// before and after it wait, all are joined. Facts: OpenZFS writes such sectors for the same
    /// reason (optional I/Os in vdev_raidz_io_start_write).
    pub fn allow_fill(&self, offset: u64, len: u64) {
        let mut pending = self.pending.lock();
        if !pending.writes.is_empty() && !pending.overlaps(offset, len) {
            pending.gaps.insert(offset, len);
        }
    }

    /// Writes what is held, and what is added until all of it is on the device. Returns how many
    /// threads must call [`Queue::next_run`] until there is none.
    #[must_use]
    pub fn push(&self) -> u32 {
        let mut pending = self.pending.lock();
        pending.noted = false;
        pending.pushed = !pending.writes.is_empty();
        pending.start_all()
    }

    /// Removes the writes that wait, so that they are never written.
    pub fn cancel(&self) -> Vec<Queued> {
        let mut pending = self.pending.lock();
        let writes = std::mem::take(&mut pending.writes);
        pending.gaps.clear();
        (pending.bytes, pending.runs, pending.pushed, pending.noted) = (0, 0, false, false);
        self.unended.fetch_sub(writes.len(), Ordering::SeqCst);
        drop(pending);
        self.ended.notify_all();
        writes.into_values().collect()
    }

    /// The writes that are next, which are neighbours; empty if none are due: then the thread ends.
    /// [`Queue::end_run`] must follow.
    pub fn next_run(&self) -> Vec<(u64, Queued)> {
        let mut pending = self.pending.lock();
        let run = pending.take_run();
        let gaps = run.iter().filter(|(_, queued)| queued.done.is_empty()).count();
        self.unended.fetch_add(gaps, Ordering::SeqCst);
        pending.active -= u32::from(run.is_empty());
        run
    }

    /// The writes of a run have ended; their results need not be known yet.
    pub fn end_run(&self, offsets: impl Iterator<Item = u64>) {
        let mut pending = self.pending.lock();
        for offset in offsets {
            pending.running.remove(&offset);
            self.unended.fetch_sub(1, Ordering::SeqCst);
        }
        drop(pending);
        self.ended.notify_all();
    }

    /// Waits until no asynchronous write to this range waits or is on the device. Returns when an
    /// operation of `class` began to wait for that, if it did. `start` gets the number of threads
    /// that must call [`Queue::next_run`].
    pub fn wait_clear(&self, class: Class, offset: u64, len: u64, start: impl Fn(u32)) -> Option<Stopwatch> {
        if self.unended.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut since = None;
        let mut pending = self.pending.lock();
        // The caller may write there.
        pending.forget_gaps(offset, offset.saturating_add(len));
        while pending.overlaps(offset, len) {
            since = since.or_else(|| Some(Stopwatch::start()));
            if pending.is_waiting(offset, len) && !pending.pushed {
                pending.pushed = true;
                let threads = pending.start_all();
                host::sync::unlocked(&mut pending, || start(threads));
                continue;
            }
            self.hold(&mut pending, class);
        }
        since
    }

    /// Waits until some asynchronous write has ended.
    fn hold(&self, pending: &mut MutexGuard<'_, Pending>, class: Class) {
        pending.held[class as usize] += 1;
        self.ended.wait(pending);
        pending.held[class as usize] -= 1;
    }

    /// Number of operations on the device.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// Depth of each class, by its number.
    pub fn depths(&self) -> [Depth; CLASSES] {
        let mut depths = self.state.lock().depths;
        let pending = self.pending.lock();
        for (depth, held) in depths.iter_mut().zip(pending.held) {
            depth.pending += held;
        }
        depths[Class::AsyncWrite as usize].pending += u32::try_from(pending.writes.len()).unwrap_or(u32::MAX);
        depths
    }
}

/// An operation on the device; it has ended when this is dropped.
pub(super) struct Slot<'q> {
    queue: &'q Queue,
    class: Class,
    /// Started when the operation began to wait; `None`: it did not wait.
    since: Option<Stopwatch>,
}

impl Slot<'_> {
    /// Nanoseconds that the operation waited, if the device gets it when `clock` starts.
    pub fn waited_ns(&self, clock: &Stopwatch) -> u64 {
        self.since.map_or(0, |since| since.ns_until(clock))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.queue.active.fetch_sub(1, Ordering::Relaxed);
        let mut state = self.queue.state.lock();
        state.end(self.class);
        for class in Class::ALL {
            if state.depths[class as usize].pending > 0 && state.may_start(class) {
                // If there is room for more, the one that starts wakes the next.
                self.queue.room[class as usize].notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex as Lock;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    fn none() -> Done {
        Box::new(|_| ())
    }

    #[test]
    fn a_class_never_has_more_than_its_maximum_on_the_device() {
        for class in Class::ALL {
            let queue = Queue::default();
            let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..48 {
                    scope.spawn(|| {
                        let slot = queue.enter(class, None);
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(2));
                        now.fetch_sub(1, Ordering::SeqCst);
                        drop(slot);
                    });
                }
            });
            let most = most.load(Ordering::SeqCst) as u32;
            assert!(most <= LIMITS[class as usize].1 && most > 0, "{class:?}: {most}");
            assert_eq!((queue.depths(), queue.active()), ([Depth::default(); CLASSES], 0));
        }
    }

    #[test]
    fn a_scrub_has_its_minimum_next_to_a_read() {
        let mut state = State::default();
        (0..DELAY).for_each(|_| {
            state.start(Class::Scrub);
            state.end(Class::Scrub);
        });
        let most = |state: &mut State| {
            let mut count = 0;
            while state.may_start(Class::Scrub) {
                state.start(Class::Scrub);
                count += 1;
            }
            (0..count).for_each(|_| state.end(Class::Scrub));
            count
        };
        assert_eq!(most(&mut state), 3, "alone");
        state.start(Class::SyncRead);
        assert_eq!(most(&mut state), 1, "next to a read");
        state.end(Class::SyncRead);
        assert_eq!(most(&mut state), 1, "just after it");
        (0..DELAY).for_each(|_| {
            state.start(Class::Scrub);
            state.end(Class::Scrub);
        });
        assert_eq!(most(&mut state), 3, "later");
    }

    #[test]
    fn neighbours_are_one_run_and_newer_contents_replace_those_that_wait() {
        let queue = Queue::default();
        let add = |n: u64, byte: u8| queue.add(n << 10, Bytes::from(vec![byte; 1 << 10]), 7, none());
        assert_eq!([5, 3, 4, 9].map(|n| add(n, 1)), [Added::Held, Added::Nothing, Added::Nothing, Added::Nothing]);
        assert_eq!(add(4, 2), Added::Nothing);
        assert!(queue.pending.lock().take_run().is_empty(), "held");
        assert_eq!(queue.pending.lock().runs, 2);
        assert_eq!(queue.push(), 2, "the minimum");
        let run = queue.next_run();
        assert_eq!(
            run.iter().map(|(at, queued)| (at >> 10, queued.data[0])).collect::<Vec<_>>(),
            [(3, 1), (4, 2), (5, 1)]
        );
        assert_eq!(run[1].1.done.len(), 2);
        assert!(queue.pending.lock().overlaps((5 << 10) + 1, 1) && queue.pending.lock().overlaps((9 << 10) - 1, 2));
        assert!(!queue.pending.lock().overlaps(6 << 10, 3 << 10));
        std::thread::scope(|scope| {
            // Waits, as the place is on the device, and starts again.
            let again = scope.spawn(|| add(4, 3));
            let read = scope.spawn(|| queue.wait_clear(Class::SyncRead, 3 << 10, 1, |_| unreachable!()));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!again.is_finished() && !read.is_finished());
            let depths = queue.depths();
            assert_eq!(depths[Class::SyncRead as usize], Depth { pending: 1, active: 0 });
            assert_eq!(depths[Class::AsyncWrite as usize].pending, 2, "one waits for the place, one for its turn");
            queue.end_run(run.iter().map(|(at, _)| *at));
            assert_eq!(again.join().unwrap(), Added::Nothing, "two threads are active");
            assert!(read.join().unwrap().is_some_and(|since| since.ns() > 0), "it waited");
        });
        assert_eq!(queue.wait_clear(Class::SyncRead, 3 << 10, 1, |_| unreachable!()), None);
        let rest: Vec<u64> = (0..2).flat_map(|_| queue.next_run()).map(|(at, _)| at >> 10).collect();
        assert_eq!(rest, [9, 4]);
        queue.end_run([9 << 10, 4 << 10].into_iter());
        assert!(queue.next_run().is_empty() && queue.next_run().is_empty());
        assert_eq!((queue.pending.lock().active, queue.unended.load(Ordering::SeqCst)), (0, 0));
        assert_eq!(add(1, 1), Added::Held);
    }

    #[test]
    fn writes_that_overlap_are_merged_while_they_wait() {
        let queue = Queue::default();
        let ended = Arc::new(Lock::new(Vec::new()));
        let add = |number: u8, at: u64, len: usize, txg: u64| {
            let ended = ended.clone();
            let done: Done = Box::new(move |_| ended.lock().push(number));
            queue.add(at, Bytes::from(vec![number; len]), txg, done)
        };
        assert_eq!(add(1, 100, 10, 7), Added::Held);
        // The same place with fewer bytes, one that joins two others, and one that covers others.
        let rest = [add(2, 100, 4, 8), add(3, 112, 4, 7), add(4, 108, 6, 7), add(5, 50, 10, 7), add(6, 48, 20, 7)];
        assert_eq!(rest, [Added::Nothing; 5]);
        assert_eq!(queue.unended.load(Ordering::SeqCst), 2);
        let waiting = || {
            let pending = queue.pending.lock();
            (pending.bytes, pending.runs)
        };
        assert_eq!(waiting(), (36, 2));
        assert_eq!(queue.push(), 2);
        let runs: Vec<(u64, Queued)> = (0..2).flat_map(|_| queue.next_run()).collect();
        assert_eq!(runs.iter().map(|(at, queued)| (*at, queued.txg)).collect::<Vec<_>>(), [(48, 7), (100, 8)]);
        assert_eq!(*runs[0].1.data, [6; 20]);
        assert_eq!(*runs[1].1.data, [2, 2, 2, 2, 1, 1, 1, 1, 4, 4, 4, 4, 4, 4, 3, 3]);
        queue.end_run(runs.iter().map(|(at, _)| *at));
        assert_eq!((waiting(), queue.unended.load(Ordering::SeqCst)), ((0, 0), 0));
        runs.into_iter().flat_map(|(_, queued)| queued.done).for_each(|done| done(None));
        let mut ended = ended.lock().clone();
        ended.sort_unstable();
        assert_eq!(ended, [1, 2, 3, 4, 5, 6], "each write learns its end");
    }

    #[test]
    fn few_writes_after_many_are_not_held_unless_the_caller_knows() {
        let queue = Queue::default();
        let add = |at: u64, len: usize| queue.add(at, Bytes::from(vec![1; len]), 7, none());
        assert_eq!([add(0, HELD_BYTES_MAX), add(1 << 30, 1)], [Added::Start; 2]);
        assert_eq!([0; 3].map(|_| queue.next_run().len()), [1, 1, 0]);
        assert_eq!(add(1 << 31, 1), Added::Held);
        assert!(queue.next_run().is_empty());
        // What waits when the pool is given up is never written.
        assert_eq!(queue.cancel().len(), 1);
        let pending = queue.pending.lock();
        assert!(pending.writes.is_empty() && pending.bytes == 0 && pending.runs == 0 && !pending.noted);
    }

    #[test]
    fn a_gap_is_filled_only_between_two_writes_that_wait() {
        let queue = Queue::default();
        let add = |place: u64| queue.add(place, Bytes::from(vec![1; 512]), 7, none());
        queue.allow_fill(512, 512);
        assert!(queue.pending.lock().gaps.is_empty(), "nothing waits");
        assert_eq!([0, 1024, 2048, 3584].map(add), [Added::Held, Added::Nothing, Added::Nothing, Added::Nothing]);
        queue.allow_fill(4608, 512);
        assert_eq!(queue.wait_clear(Class::SyncWrite, 4096, 4096, |_| unreachable!()), None);
        assert!(queue.pending.lock().gaps.is_empty(), "a write that is not held got the place");
        for gap in [512, 1536, 2560, 4096] {
            queue.allow_fill(gap, 512);
        }
        queue.allow_fill(1024, 512);
        assert_eq!(queue.pending.lock().gaps.len(), 4, "not where a write waits");
        // Another block got the place.
        assert_eq!(add(1536), Added::Nothing);
        assert_eq!(queue.pending.lock().gaps.keys().copied().collect::<Vec<_>>(), [512, 2560, 4096]);
        assert_eq!(queue.push(), 2);
        let run = queue.next_run();
        let places: Vec<_> = run.iter().map(|(at, queued)| (*at, queued.data[0], queued.done.len())).collect();
        assert_eq!(places, [(0, 1, 1), (512, 0, 0), (1024, 1, 1), (1536, 1, 1), (2048, 1, 1)]);
        assert_eq!(queue.next_run().len(), 1, "two sectors are missing before 3584");
        assert!(queue.pending.lock().overlaps(512, 1), "on the device");
        queue.end_run(run.iter().map(|(at, _)| *at));
        queue.end_run([3584].into_iter());
        let pending = queue.pending.lock();
        assert!(pending.gaps.is_empty() && pending.running.is_empty());
        assert_eq!(queue.unended.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn many_runs_and_long_ones_get_more_of_the_device() {
        let queue = Queue::default();
        let limit_after = |place: u64, len: usize| {
            let _ = queue.add(place, Bytes::from(vec![1; len]), 7, none());
            let pending = queue.pending.lock();
            (pending.runs, pending.limit())
        };
        let neighbours: Vec<_> = (0..64).map(|n| limit_after(n * 4096, 4096)).collect();
        assert_eq!(neighbours, [(1, 2); 64], "of one run");
        // Every second one, then those between.
        let apart: Vec<_> = (0..40).map(|n| limit_after((1 << 30) + n * 8192, 4096)).collect();
        assert_eq!((apart[13], apart[14], apart[39]), ((15, 2), (16, 3), (41, 4)));
        let between: Vec<_> = (0..40).map(|n| limit_after((1 << 30) + 4096 + n * 8192, 4096)).collect();
        assert_eq!((between[0], between[39]), ((40, 4), (2, 2)));
        assert_eq!(limit_after(1 << 40, 4 << 20), (3, 4), "two of the longest runs for each");
    }

    #[test]
    fn held_writes_start_when_they_are_many_or_read() {
        let queue = Queue::default();
        let add = |at: u64, len: usize| queue.add(at, Bytes::from(vec![1; len]), 7, none());
        assert_eq!(add(0, HELD_BYTES_MAX - 1), Added::Held);
        assert_eq!(add(1 << 30, 1), Added::Start);
        assert_eq!(queue.next_run().len(), 1);
        assert!(queue.next_run().is_empty(), "the rest is held again");
        let state = |pending: &Pending| (pending.active, pending.pushed);
        assert_eq!(state(&queue.pending.lock()), (0, false));
        let started = AtomicU32::new(0);
        let start = |threads| {
            started.store(threads, Ordering::SeqCst);
            let run = queue.next_run();
            assert_eq!(run.len(), 1);
            queue.end_run(run.iter().map(|(at, _)| *at));
        };
        assert!(queue.wait_clear(Class::SyncRead, 1 << 30, 1, start).is_some());
        assert_eq!(started.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_task_of_a_thread_decides_the_class() {
        assert_eq!((Class::of(false), Class::of(true)), (Class::SyncRead, Class::SyncWrite));
        {
            let _scrub = doing(Task::Scrub);
            assert_eq!(Class::of(false), Class::Scrub);
            let _sync = doing(Task::Background);
            assert_eq!((Class::of(false), Class::of(true)), (Class::AsyncRead, Class::AsyncWrite));
        }
        assert_eq!(Class::of(true), Class::SyncWrite);
    }
}
