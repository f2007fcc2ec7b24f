//! Progress of txgs: which one is on disk, which threads wait for one, and why there may be no
//! further one.
//!
//! Invariants:
//!   * threads that wait for a txg are woken when it is on disk, and when it cannot get there
//!   * nothing is synced after a failure; after a suspension, only once it has been resumed

use crate::status::Suspended;
use errors::{Error, Result};
use host::clock::Instant;
use host::sync::{Condvar, Mutex};
use std::time::Duration;

/// The syncing thread waits here for a reason to sync, and other threads for their txg.
pub(crate) struct Progress {
    state: Mutex<State>,
    /// Wakes the syncing thread.
    wake: Condvar,
    /// Wakes threads that wait for a txg.
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// The last txg on disk.
    synced: u64,
    /// The last txg for which a thread waits.
    wanted: u64,
    /// Sync soon, because there is much dirty data.
    is_pushed: bool,
    /// The syncing thread must end.
    must_stop: bool,
    /// The syncing thread has ended.
    is_stopped: bool,
    /// The syncing thread releases the pool when it ends: it was the last that had something of it.
    releases: bool,
    /// Why the pool cannot write any more.
    failed: Option<Error>,
    /// Why the pool cannot write for now, and whether because its heartbeats were late.
    suspended: Option<(Error, bool)>,
}

impl State {
    fn failure(&self) -> Option<&Error> {
        self.failed.as_ref().or(self.suspended.as_ref().map(|(error, _)| error))
    }
}

impl Progress {
    pub fn new(synced: u64) -> Self {
        Self { state: Mutex::new(State { synced, ..State::default() }), wake: Condvar::new(), done: Condvar::new() }
    }

    /// The last txg on disk.
    pub fn synced(&self) -> u64 {
        self.state.lock().synced
    }

    /// The syncing thread has ended.
    pub fn is_stopped(&self) -> bool {
        self.state.lock().is_stopped
    }

    /// Why the pool cannot write, for now or any more.
    pub fn failure(&self) -> Option<Error> {
        self.state.lock().failure().cloned()
    }

    pub fn is_suspended(&self) -> bool {
        self.state.lock().failure().is_some()
    }

    /// The same as [`Progress::failure`] for the pool's status.
    pub fn suspension(&self) -> Option<Suspended> {
        let state = self.state.lock();
        let why = state.failure()?.to_string();
        let until_reopened = state.failed.is_some();
        let is_multihost = !until_reopened && state.suspended.as_ref().is_some_and(|(_, is_multihost)| *is_multihost);
        Some(Suspended { why, until_reopened, is_multihost })
    }

    /// Has the open txg synced before its time.
    pub fn push(&self) {
        let mut state = self.state.lock();
        if !state.is_pushed {
            state.is_pushed = true;
            self.wake.notify_all();
        }
    }

    /// Returns when `txg` is on disk. Fails with the reason if the pool cannot write, and with
    /// `stopped` if the syncing thread has ended.
    pub fn wait(&self, txg: u64, stopped: impl FnOnce() -> Error) -> Result<()> {
        let mut state = self.state.lock();
        state.wanted = state.wanted.max(txg);
        self.wake.notify_all();
        while state.synced < txg {
            if let Some(error) = state.failure() {
                return Err(error.clone());
            }
            if state.is_stopped {
                return Err(stopped());
            }
            self.done.wait(&mut state);
        }
        Ok(())
    }

    /// For the syncing thread: waits for a reason to sync, at most for `interval`. Returns whether
    /// a thread waits for the txg; `None`: stop.
    pub fn next(&self, interval: Duration) -> Option<bool> {
        let deadline = Instant::now() + interval;
        let mut state = self.state.lock();
        loop {
            if state.wanted > state.synced {
                state.is_pushed = false;
                return Some(true);
            }
            if state.must_stop {
                return None;
            }
            if state.is_pushed || Instant::now() >= deadline {
                state.is_pushed = false;
                return Some(false);
            }
            self.wake.wait_until(&mut state, deadline);
        }
    }

    /// `txg` is on disk.
    pub fn set_synced(&self, txg: u64) {
        let mut state = self.state.lock();
        let State { synced, ref failed, .. } = *state;
        assert!(failed.is_none(), "txg {txg} was synced after the pool had failed");
        assert!(txg > synced, "txg {txg} was synced after txg {synced}");
        state.synced = txg;
        drop(state);
        self.done.notify_all();
    }

    /// The pool cannot write any more. Calls `report` before a thread finds out.
    pub fn fail(&self, error: Error, report: impl FnOnce()) {
        let mut state = self.state.lock();
        report();
        state.failed = Some(error);
        drop(state);
        self.done.notify_all();
    }

    /// Suspends the pool until `is_resumed` returns true or it is closed. Calls `report` before a
    /// thread finds out, unless the pool is resumed or suspended already. `is_multihost`: because
    /// its heartbeats were late. Returns whether to retry.
    pub fn suspend(
        &self,
        error: &Error,
        is_multihost: bool,
        is_resumed: impl Fn() -> bool,
        report: impl FnOnce(),
    ) -> bool {
        let mut state = self.state.lock();
        if state.must_stop || is_resumed() {
            return !state.must_stop;
        }
        if state.suspended.is_none() {
            report();
            state.suspended = Some((error.clone(), is_multihost));
            self.done.notify_all();
        }
        while !is_resumed() && !state.must_stop {
            self.done.wait(&mut state);
        }
        !state.must_stop
    }

    /// Suspends the pool because its heartbeats were late, unless it is suspended already. Calls
    /// `report` before a thread finds out. Does not wait: the writes of the syncing thread will.
    pub fn suspend_late(&self, error: &Error, report: impl FnOnce()) {
        let mut state = self.state.lock();
        if state.failure().is_none() && !state.must_stop {
            report();
            state.suspended = Some((error.clone(), true));
            self.done.notify_all();
        }
    }

    /// Ends a suspension, if there is one: `prepare` makes it visible to the `is_resumed` of
    /// [`Progress::suspend`].
    pub fn resume(&self, prepare: impl FnOnce()) {
        let mut state = self.state.lock();
        if state.suspended.take().is_some() {
            prepare();
            self.done.notify_all();
        }
    }

    /// Has waiting threads look again.
    pub fn notify_waiting(&self) {
        self.done.notify_all();
    }

    /// Has the syncing thread end.
    pub fn stop(&self) {
        self.state.lock().must_stop = true;
        self.wake.notify_all();
        self.done.notify_all();
    }

    /// The calling syncing thread ends after its txg, and then releases the pool.
    pub fn stop_and_release(&self) {
        let mut state = self.state.lock();
        (state.must_stop, state.releases) = (true, true);
        drop(state);
        // A thread that waits for a suspended pool to be resumed.
        self.done.notify_all();
    }

    /// The syncing thread has ended, after a panic if there is an error. Returns whether it
    /// releases the pool. The caller wakes waiting threads with [`Progress::notify_waiting`].
    pub fn end(&self, panicked: Option<Error>) -> bool {
        let mut state = self.state.lock();
        state.is_stopped = true;
        if state.failed.is_none() {
            state.failed = panicked;
        }
        state.releases
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "txg 7 was synced after txg 7")]
    fn a_txg_that_is_synced_twice_panics() {
        let progress = Progress::new(6);
        progress.set_synced(7);
        progress.set_synced(7);
    }

    #[test]
    #[should_panic(expected = "txg 7 was synced after the pool had failed")]
    fn a_txg_that_is_synced_after_a_failure_panics() {
        let progress = Progress::new(6);
        progress.fail(Error::invalid("tank", "full"), || ());
        progress.set_synced(7);
    }
}
