//! The machine that a thread runs on: its clock, its threads and its randomness.
//!
//! ```text
//!   Machine::enter ──> this thread ── threads::spawn, threads::scope, work ──> their threads: the same machine
//!                          └── clock, random, sync, threads ask the machine; without one, the operating system
//! ```
//! A machine is handed from each thread to the threads that it starts, and not from one structure
//! to the next, because locks need it too: a thread that waits for a lock must let the others run.
//! Threads that entered none run on the real machine, which costs them the look at a flag of the
//! thread.
//!
//! A machine is only ever a simulated one. It determines which thread runs, and when, so that the
//! same seed gives the same run: `testing/sim` has one.
//!
//! Invariants:
//!   * on a simulated machine one thread runs at a time. It runs until it waits, sleeps or ends, in
//!     a function of [`Threads`]

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

/// The clock of a machine.
pub trait Clock: Send + Sync {
    /// Time since the machine was started. Never decreases.
    fn monotonic(&self) -> Duration;
    /// Time since 1970-01-01 00:00 UTC.
    fn wall(&self) -> Duration;
}

/// The randomness of a machine.
pub trait Random: Send + Sync {
    /// Fills `out` with random bytes.
    fn fill(&self, out: &mut [u8]);
}

/// The threads of a machine. All but [`Threads::begin`] are called by the thread that runs.
pub trait Threads: Send + Sync {
    /// Number of processors to divide work among.
    fn processors(&self) -> usize;
    /// A thread is about to be started. Returns its number.
    fn announce(&self, name: &str) -> u64;
    /// The first call of thread `number`: returns when it is its turn.
    fn begin(&self, number: u64);
    /// Thread `number` has ended, or could not be started.
    fn end(&self, number: u64);
    /// Whether thread `number` has ended.
    fn has_ended(&self, number: u64) -> bool;
    /// Returns when thread `number` has ended.
    fn join(&self, number: u64);
    /// Returns when another thread wakes `key`, or after `longest`. Returns whether it was woken.
    fn wait(&self, key: usize, longest: Option<Duration>) -> bool;
    /// Wakes one of the threads that wait for `key`, or `all`.
    fn wake(&self, key: usize, all: bool);
    /// Suspends the calling thread for `duration` of this machine's time.
    fn sleep(&self, duration: Duration);
    /// The calling thread needs a lock that another thread holds. Lets other threads run until
    /// `try_lock` returns true.
    fn contend(&self, try_lock: &mut dyn FnMut() -> bool);
}

/// A simulated machine. Threads of the real machine have none.
#[derive(Clone)]
pub struct Machine {
    pub clock: Arc<dyn Clock>,
    pub threads: Arc<dyn Threads>,
    pub random: Arc<dyn Random>,
}

thread_local! {
    /// Whether [`CURRENT`] has a machine. Separate, since it is read often.
    static IS_SIMULATED: Cell<bool> = const { Cell::new(false) };
    static CURRENT: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

/// The thread returns to its previous machine when this is dropped.
pub struct Entered(Option<Machine>);

impl Machine {
    /// The calling thread, and the threads that it starts, run on this machine until the result is
    /// dropped.
    pub fn enter(&self) -> Entered {
        IS_SIMULATED.set(true);
        Entered(CURRENT.replace(Some(self.clone())))
    }

    /// The simulated machine of the calling thread; `None` on the real one.
    #[inline]
    pub(crate) fn simulated() -> Option<Self> {
        if IS_SIMULATED.get() { CURRENT.with_borrow(Clone::clone) } else { None }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        IS_SIMULATED.set(self.0.is_some());
        CURRENT.set(self.0.take());
    }
}
