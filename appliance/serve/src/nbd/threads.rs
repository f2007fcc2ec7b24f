//! Threads for requests that may wait: as many as wait at once, up to a limit. Idle threads exit.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long an idle thread waits for work.
const IDLE: Duration = Duration::from_secs(10);
const STACK_BYTES: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

/// See the module documentation.
pub(super) struct Threads {
    max: usize,
    state: Mutex<State>,
    work: Condvar,
}

impl Threads {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: max.max(1), state: Mutex::default(), work: Condvar::new() })
    }

    /// Queues `job`.
    pub fn give(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        if state.idle >= state.jobs.len() {
            self.work.notify_one();
            return;
        }
        if state.threads == self.max {
            return;
        }
        state.threads += 1;
        drop(state);
        let this = self.clone();
        let started =
            std::thread::Builder::new().name("nbd".to_owned()).stack_size(STACK_BYTES).spawn(move || this.work());
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start a further thread");
            let mut state = self.state.lock();
            state.threads -= 1;
            // If no thread exists, this thread runs the job.
            let alone = if state.threads == 0 { state.jobs.pop_back() } else { None };
            drop(state);
            if let Some(job) = alone {
                job();
            }
        }
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let is_late = self.work.wait_for(&mut state, IDLE).timed_out();
            state.idle -= 1;
            if is_late && state.jobs.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}
