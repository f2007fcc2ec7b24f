//! Locks and condition variables, which wait on the machine of the calling thread.
//!
//! They are those of `parking_lot`, and lock without asking for the machine. Only a thread that has
//! to wait asks. On a simulated machine it lets other threads run until the lock is free, so that
//! no thread of such a machine ever waits in the operating system.

use crate::clock::Instant;
use crate::machine::Machine;
use std::fmt;
use std::time::Duration;

pub use parking_lot::{MappedRwLockReadGuard, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// A lock with one owner.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

/// A lock with many readers or one writer.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

/// Calls `try_lock` until it succeeds, `lock` on the real machine.
#[cold]
fn contend<G>(try_lock: impl Fn() -> Option<G>, lock: impl FnOnce() -> G) -> G {
    let Some(machine) = Machine::simulated() else { return lock() };
    let mut guard = None;
    machine.threads.contend(&mut || {
        guard = try_lock();
        guard.is_some()
    });
    guard.expect("the lock was taken")
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.try_lock().unwrap_or_else(|| contend(|| self.0.try_lock(), || self.0.lock()))
    }

    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    pub fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.try_read().unwrap_or_else(|| contend(|| self.0.try_read(), || self.0.read()))
    }

    /// The same for a thread that may be a reader already: it never waits for a waiting writer.
    #[inline]
    pub fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
        self.0
            .try_read_recursive()
            .unwrap_or_else(|| contend(|| self.0.try_read_recursive(), || self.0.read_recursive()))
    }

    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.try_write().unwrap_or_else(|| contend(|| self.0.try_write(), || self.0.write()))
    }

    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read()
    }

    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Releases the lock while `work` runs, and takes it again.
pub fn unlocked<T: ?Sized, U>(guard: &mut MutexGuard<'_, T>, work: impl FnOnce() -> U) -> U {
    let Some(machine) = Machine::simulated() else { return MutexGuard::unlocked(guard, work) };
    let mutex = MutexGuard::mutex(guard);
    MutexGuard::unlocked(guard, || {
        let result = work();
        // No other thread runs between this and the lock.
        if mutex.is_locked() {
            machine.threads.contend(&mut || !mutex.is_locked());
        }
        result
    })
}

/// A parking_lot condition variable or, on a simulated machine, a key that its threads wait for.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

/// Whether a wait ended because its time was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    /// What threads of a simulated machine wait for.
    fn key(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub fn notify_one(&self) {
        match Machine::simulated() {
            None => drop(self.0.notify_one()),
            Some(machine) => machine.threads.wake(self.key(), false),
        }
    }

    pub fn notify_all(&self) {
        match Machine::simulated() {
            None => drop(self.0.notify_all()),
            Some(machine) => machine.threads.wake(self.key(), true),
        }
    }

    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        match Machine::simulated() {
            None => self.0.wait(guard),
            Some(machine) => drop(unlocked(guard, || machine.threads.wait(self.key(), None))),
        }
    }

    /// Waits at most for `longest`.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, longest: Duration) -> WaitTimeoutResult {
        WaitTimeoutResult(match Machine::simulated() {
            None => self.0.wait_for(guard, longest).timed_out(),
            Some(machine) => !unlocked(guard, || machine.threads.wait(self.key(), Some(longest))),
        })
    }

    /// Waits at most until `end`.
    pub fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> WaitTimeoutResult {
        self.wait_for(guard, end.duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contended_lock_is_taken_when_it_is_free() {
        let (count, readers) = (Mutex::new(0u32), RwLock::new(0u32));
        crate::threads::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *count.lock() += 1;
                        *readers.write() += 1;
                        assert!(*readers.read() > 0);
                    }
                });
            }
        });
        assert_eq!((count.into_inner(), readers.into_inner()), (40_000, 40_000));
    }

    #[test]
    fn a_wait_ends_when_it_is_notified_or_its_time_is_over() {
        let (is_done, changed) = (Mutex::new(false), Condvar::new());
        let mut guard = is_done.lock();
        assert!(changed.wait_for(&mut guard, Duration::from_millis(1)).timed_out());
        let begun = Instant::now();
        assert!(changed.wait_until(&mut guard, begun + Duration::from_millis(5)).timed_out());
        assert!(begun.elapsed() >= Duration::from_millis(5));
        crate::threads::scope(|scope| {
            scope.spawn(|| {
                *is_done.lock() = true;
                changed.notify_all();
            });
            while !*guard {
                changed.wait(&mut guard);
            }
        });
        unlocked(&mut guard, || assert!(!is_done.is_locked()));
        assert!(is_done.is_locked());
    }
}
