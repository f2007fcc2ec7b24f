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
//! Asynchronous writes that wait are joined with writes that are adjacent on the device:
//!
//! ```text
//!   write of a column ── Queue::join ──> pending, by offset ── run of neighbours, up to 1 MiB ──> one write
//! ```
//! The thread whose turn it is writes for all threads of the run. So few large writes are on the
//! device even if it takes them one at a time, like a disk or a file.
//!
//! Invariants:
//!   * a class never has more operations on the device than its maximum
//!   * scrub, removal, initialize and rebuild fall back to their minimum while clients'
//!     requests or a txg are on the device, and for some operations after that

use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// Number of classes.
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

    /// Whether a client or a txg waits for it.
    fn is_interactive(self) -> bool {
        !matches!(self, Self::Scrub | Self::Removal | Self::Initialize | Self::Rebuild)
    }
}

/// Longest run of writes that are joined, in bytes: as OpenZFS (`zfs_vdev_aggregation_limit`).
const RUN_BYTES_MAX: usize = 1 << 20;
/// One more asynchronous write than the minimum may be on the device for this many waiting writes.
/// The others wait for neighbours. Guessed.
const PENDING_FOR_ONE: usize = 16;
/// Maximum of asynchronous writes on the device (`zfs_vdev_async_write_max_active`).
const JOINED_MAX: u32 = 10;

/// Number of operations of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Waiting for the device to have room.
    pub pending: u32,
    /// On the device.
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

/// Result of a write, which another thread may perform.
type Outcome = Arc<Mutex<Option<io::Result<()>>>>;

/// Asynchronous writes that wait.
#[derive(Default)]
struct Pending {
    /// By offset on the device.
    writes: BTreeMap<u64, (Vec<u8>, Outcome)>,
    /// End of the last run: the next one begins behind it, if there is one.
    last: u64,
    active: u32,
}

impl Pending {
    fn may_start(&self) -> bool {
        let more = u32::try_from(self.writes.len() / PENDING_FOR_ONE).unwrap_or(u32::MAX);
        self.active < LIMITS[Class::AsyncWrite as usize].0.saturating_add(more).min(JOINED_MAX)
    }

    /// Takes the next run of neighbours.
    fn take_run(&mut self) -> Vec<(u64, Vec<u8>, Outcome)> {
        let behind = self.writes.range(self.last..).next().or_else(|| self.writes.iter().next());
        let Some(mut at) = behind.map(|(offset, _)| *offset) else { return Vec::new() };
        let mut run: Vec<(u64, Vec<u8>, Outcome)> = Vec::new();
        let mut bytes = 0;
        while let Some((data, _)) = self.writes.get(&at)
            && (run.is_empty() || bytes + data.len() <= RUN_BYTES_MAX)
        {
            let (data, outcome) = self.writes.remove(&at).expect("`get` found it");
            bytes += data.len();
            run.push((at, data, outcome));
            at = at.saturating_add(run.last().map_or(0, |(_, data, _)| data.len() as u64));
        }
        self.last = at;
        run
    }
}

/// The operations of a leaf.
#[derive(Default)]
pub(super) struct Queue {
    pending: Mutex<Pending>,
    /// A write has ended, or a run has started.
    turn: Condvar,
    state: Mutex<State>,
    /// One for each class.
    room: [Condvar; CLASSES],
    /// Operations on the device, of all classes.
    active: AtomicU32,
}

impl Queue {
    /// Waits until the device may have another operation of `class`.
    pub fn enter(&self, class: Class) -> Slot<'_> {
        let mut state = self.state.lock();
        if !state.may_start(class) {
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
        Slot { queue: self, class }
    }

    /// Performs an asynchronous write with `write`, joined with neighbours that wait too. `write`
    /// may be called for other threads' writes, and another thread may perform this one.
    pub fn join(&self, offset: u64, data: Vec<u8>, write: &dyn Fn(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let own = Outcome::default();
        let mut pending = self.pending.lock();
        if pending.writes.contains_key(&offset) {
            // Two writes to one place have no order, and callers avoid them.
            drop(pending);
            return write(offset, &data);
        }
        pending.writes.insert(offset, (data, own.clone()));
        loop {
            if let Some(result) = own.lock().take() {
                return result;
            }
            let run = if pending.may_start() { pending.take_run() } else { Vec::new() };
            if run.is_empty() {
                self.turn.wait(&mut pending);
                continue;
            }
            pending.active += 1;
            drop(pending);
            self.turn.notify_all();
            write_run(run, write);
            pending = self.pending.lock();
            pending.active -= 1;
            self.turn.notify_all();
        }
    }

    /// Number of operations on the device.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// Depth of each class, by its number.
    #[cfg(test)]
    fn depths(&self) -> [Depth; CLASSES] {
        self.state.lock().depths
    }
}

/// Writes a run of neighbours at once. If that fails, one by one, so that each has its own result.
fn write_run(run: Vec<(u64, Vec<u8>, Outcome)>, write: &dyn Fn(u64, &[u8]) -> io::Result<()>) {
    if let [(offset, ..), _, ..] = run.as_slice() {
        let joined: Vec<u8> = run.iter().flat_map(|(_, data, _)| data).copied().collect();
        if write(*offset, &joined).is_ok() {
            run.iter().for_each(|(.., outcome)| *outcome.lock() = Some(Ok(())));
            return;
        }
    }
    for (offset, data, outcome) in run {
        let result = write(offset, &data);
        *outcome.lock() = Some(result);
    }
}

/// An operation on the device; it has ended when this is dropped.
pub(super) struct Slot<'q> {
    queue: &'q Queue,
    class: Class,
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
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    #[test]
    fn a_class_never_has_more_than_its_maximum_on_the_device() {
        for class in Class::ALL {
            let queue = Queue::default();
            let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for _ in 0..48 {
                    scope.spawn(|| {
                        let slot = queue.enter(class);
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
    fn a_scrub_has_its_minimum_beside_a_read() {
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
        assert_eq!(most(&mut state), 1, "beside a read");
        state.end(Class::SyncRead);
        assert_eq!(most(&mut state), 1, "just after it");
        (0..DELAY).for_each(|_| {
            state.start(Class::Scrub);
            state.end(Class::Scrub);
        });
        assert_eq!(most(&mut state), 3, "later");
    }

    #[test]
    fn neighbours_are_written_at_once_and_each_write_has_its_own_result() {
        let queue = Queue::default();
        let device = Mutex::new((vec![0u8; 64 << 10], 0));
        let bad = 40 << 10;
        let write = |offset: u64, data: &[u8]| {
            std::thread::sleep(Duration::from_millis(5));
            let mut device = device.lock();
            device.1 += 1;
            let range = offset as usize..offset as usize + data.len();
            if range.contains(&bad) {
                return Err(io::Error::other("bad"));
            }
            device.0[range].copy_from_slice(data);
            Ok(())
        };
        let failed: Vec<u64> = std::thread::scope(|scope| {
            let start = |n: u64| {
                let (queue, write) = (&queue, &write);
                scope.spawn(move || queue.join(n << 10, vec![n as u8 + 1; 1 << 10], write).is_err().then_some(n))
            };
            let running: Vec<_> = (0..64).map(start).collect();
            running.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(failed, [40]);
        let device = device.into_inner();
        assert!((0..64).filter(|n| *n != 40).all(|n| device.0[n << 10..][..1 << 10] == [n as u8 + 1; 1 << 10]));
        assert!(device.1 < 64, "{} writes", device.1);
        assert!(queue.pending.lock().writes.is_empty());
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
