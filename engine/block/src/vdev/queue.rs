//! The queue of a leaf: how many operations of each class it gets at once.
//!
//! ```text
//!   operation ── class ──> Queue::enter (waits while the class has its maximum) ──> device ──> Slot dropped
//! ```
//! The class follows from the operation and from the [`Task`] of the thread: a request that
//! somebody waits for, the sync of a txg, read-ahead, a scrub. ZFS name: vdev_queue.
//!
//! Facts: `zfs_vdev_*_min_active`, `zfs_vdev_*_max_active`, `zfs_vdev_nia_credit`,
//! `zfs_vdev_nia_delay` (zfs(4)).
//!
//! Invariants:
//!   * a class never has more operations on the device than its maximum
//!   * scrub, removal, initialize and rebuild fall back to their minimum while requests that
//!     somebody waits for are on the device, and for some operations after that

use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// What a thread works on. Determines the class of its device operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Task {
    /// A request that somebody waits for.
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

/// Minimum and maximum of a class on the device, by class. OpenZFS's defaults but for synchronous
/// and asynchronous reads (10 and 3 there): its maximums suit disks with one head, and devices with
/// deep queues would idle. `zpool iostat -q` shows what is used.
const LIMITS: [(u32, u32); CLASSES] = [(10, 32), (10, 32), (1, 16), (2, 16), (1, 3), (1, 2), (1, 1), (1, 2), (1, 3)];

/// Operations of classes nobody waits for that run at once while somebody does wait for others.
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

    /// Whether somebody waits for it, or a txg does.
    fn is_interactive(self) -> bool {
        !matches!(self, Self::Scrub | Self::Removal | Self::Initialize | Self::Rebuild)
    }
}

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
    /// Number of operations that classes nobody waits for may have, while somebody does; otherwise
    /// how many they have completed since.
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

/// The operations of a leaf.
#[derive(Default)]
pub(super) struct Queue {
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

    /// Number of operations on the device.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    /// Depth of each class, by its number.
    pub fn depths(&self) -> [Depth; CLASSES] {
        self.state.lock().depths
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
    fn a_scrub_has_its_minimum_while_somebody_waits_for_a_read() {
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
