//! Locks whose waits and wake-ups a test can order in every possible way, and atomic values
//! ([`atomic`]) whose accesses it can.
//!
//! ```text
//!   module under test ── cfg(not(test)) ──> host::sync
//!                     └─ cfg(test) ───────> Mutex, Condvar of this file ─┬─ outside of `explore`: parking_lot
//!                                                                        └─ inside: shuttle
//! ```
//! `shuttle` runs the threads of a test one at a time, and at each lock, access, wait and
//! notification chooses the thread that continues. A wake-up that is missed is a deadlock, which it
//! reports with the schedule that led there.
//!
//! Invariants:
//!   * a lock or condition variable belongs to the kind of run in which it was created
//!   * a wait with a time limit never times out inside [`explore`]: a wake-up that only the limit
//!     hides is found too

pub mod atomic;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::cell::Cell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

thread_local! {
    /// Whether this thread is inside [`explore`]. All threads of an explored test run on it.
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
}

/// Threads that are preempted at most this often by the second half of the schedules. Guessed: most
/// errors need one or two.
const PREEMPTIONS_MAX: usize = 3;
/// Stack of an explored thread: code that is compiled without optimization needs much.
const STACK_BYTES: usize = 1 << 20;

pub use shuttle::thread::{spawn, yield_now};

/// Runs `test` under `schedules` random schedules. The threads of the test must be started with
/// [`spawn`], and its locks must be those of this module.
///
/// # Panics
///
/// If the test panics or deadlocks under one of them. The message contains the schedule.
pub fn explore(schedules: usize, test: impl Fn() + Send + Sync + Clone + 'static) {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            EXPLORING.set(false);
        }
    }
    EXPLORING.set(true);
    let _ended = Ended;
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    let random = RandomScheduler::new(schedules.div_ceil(2));
    shuttle::Runner::new(random, config.clone()).run(test.clone());
    if schedules > 1 {
        let preempting = PctScheduler::new(PREEMPTIONS_MAX, schedules / 2);
        shuttle::Runner::new(preempting, config).run(test);
    }
}

/// Whether the calling thread is inside [`explore`].
pub fn is_exploring() -> bool {
    EXPLORING.get()
}

/// Starts a thread that is not joined: of the operating system, or an explored one inside
/// [`explore`].
///
/// # Errors
///
/// If the system cannot start a thread.
pub fn start(thread: std::thread::Builder, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    match EXPLORING.get() {
        true => drop(spawn(run)),
        false => drop(thread.spawn(run)?),
    }
    Ok(())
}

enum Lock<T> {
    Real(parking_lot::Mutex<T>),
    Explored(shuttle::sync::Mutex<T>),
}

/// As `parking_lot::Mutex`.
pub struct Mutex<T>(Lock<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(match EXPLORING.get() {
            true => Lock::Explored(shuttle::sync::Mutex::new(value)),
            false => Lock::Real(parking_lot::Mutex::new(value)),
        })
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match &self.0 {
            Lock::Real(lock) => lock.try_lock().map(MutexGuard::Real),
            Lock::Explored(lock) => {
                let guard = match lock.try_lock() {
                    Ok(guard) => guard,
                    Err(TryLockError::Poisoned(error)) => error.into_inner(),
                    Err(TryLockError::WouldBlock) => return None,
                };
                Some(MutexGuard::Explored { lock, guard: Some(guard) })
            }
        }
    }

    pub fn get_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Lock::Real(lock) => lock.get_mut(),
            Lock::Explored(lock) => lock.get_mut().unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        match &self.0 {
            Lock::Real(lock) => MutexGuard::Real(lock.lock()),
            Lock::Explored(lock) => MutexGuard::Explored { lock, guard: Some(lock_explored(lock)) },
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

fn lock_explored<T>(lock: &shuttle::sync::Mutex<T>) -> shuttle::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As `parking_lot::MutexGuard`.
pub enum MutexGuard<'a, T> {
    Real(parking_lot::MutexGuard<'a, T>),
    Explored {
        lock: &'a shuttle::sync::Mutex<T>,
        /// `None` only while the lock is released for a while.
        guard: Option<shuttle::sync::MutexGuard<'a, T>>,
    },
}

/// Runs `work` without the lock, as `host::sync::unlocked`.
pub fn unlocked<T, R>(held: &mut MutexGuard<'_, T>, work: impl FnOnce() -> R) -> R {
    match held {
        MutexGuard::Real(guard) => parking_lot::MutexGuard::unlocked(guard, work),
        MutexGuard::Explored { lock, guard } => {
            drop(guard.take());
            let result = work();
            *guard = Some(lock_explored(lock));
            result
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Real(guard) => guard,
            Self::Explored { guard, .. } => guard.as_deref().expect("the lock is held"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Self::Real(guard) => guard,
            Self::Explored { guard, .. } => guard.as_deref_mut().expect("the lock is held"),
        }
    }
}

/// As `parking_lot::WaitTimeoutResult`.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// As `parking_lot::Condvar`.
pub struct Condvar {
    real: parking_lot::Condvar,
    explored: Option<shuttle::sync::Condvar>,
}

impl Condvar {
    pub fn new() -> Self {
        Self { real: parking_lot::Condvar::new(), explored: EXPLORING.get().then(shuttle::sync::Condvar::new) }
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match (guard, &self.explored) {
            (MutexGuard::Real(guard), None) => self.real.wait(guard),
            (MutexGuard::Explored { guard, .. }, Some(condvar)) => {
                let held = guard.take().expect("the lock is held");
                *guard = Some(condvar.wait(held).unwrap_or_else(PoisonError::into_inner));
            }
            _ => panic!("a lock of an explored test meets a condition variable of another one"),
        }
    }

    /// Waits at most `longest`; without limit inside [`explore`].
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, longest: Duration) -> WaitTimeoutResult {
        match guard {
            MutexGuard::Real(guard) => WaitTimeoutResult(self.real.wait_for(guard, longest).timed_out()),
            MutexGuard::Explored { .. } => {
                self.wait(guard);
                WaitTimeoutResult(false)
            }
        }
    }

    pub fn notify_one(&self) {
        match &self.explored {
            Some(condvar) => condvar.notify_one(),
            None => drop(self.real.notify_one()),
        }
    }

    pub fn notify_all(&self) {
        match &self.explored {
            Some(condvar) => condvar.notify_all(),
            None => drop(self.real.notify_all()),
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;
    use std::sync::Arc;

    #[test]
    fn a_wake_up_that_is_sometimes_missed_is_found() {
        let result = catch_unwind(|| {
            explore(100, || {
                let shared = Arc::new((Mutex::new(false), Condvar::new()));
                let other = shared.clone();
                let thread = spawn(move || {
                    *other.0.lock() = true;
                    other.1.notify_all();
                });
                // Looks, releases the lock, and waits without looking again.
                if !*shared.0.lock() {
                    let mut guard = shared.0.lock();
                    shared.1.wait(&mut guard);
                }
                thread.join().unwrap();
            });
        });
        assert!(result.is_err());
    }

    #[test]
    fn a_wait_in_a_loop_ends_under_every_schedule() {
        explore(100, || {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let shared = shared.clone();
                    spawn(move || {
                        *shared.0.lock() += 1;
                        shared.1.notify_one();
                    })
                })
                .collect();
            let mut count = shared.0.lock();
            while *count < 3 {
                shared.1.wait_for(&mut count, Duration::from_millis(1));
            }
            drop(count);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
