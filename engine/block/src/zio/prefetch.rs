//! Reads ahead of need, on threads of its own.
//!
//! ```text
//!   offer ──> queue (bounded) ──> thread: reads the block into the cache
//! ```
//! With devices that answer at once, a thread for each processor is enough: the work is
//! decompression. With devices that take their time, the number of threads is the number of blocks
//! on their way.

use crate::vdev::{Task, doing};
use host::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

type Job = Box<dyn FnOnce() + Send>;

/// Maximum of queued jobs. Beyond that, prefetches are dropped, because demand reads already keep
/// the devices busy. Guessed.
const QUEUE_MAX: usize = 256;
/// Blocks that are read ahead from slow devices at once: with 128 KiB, the longest distance that
/// one reader is kept ahead (8 MiB).
const SLOW_THREADS_MAX: usize = 64;

/// Threads that start with the first job and end with the last, and a bounded queue.
#[derive(Default)]
pub struct Prefetcher(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
}

impl Prefetcher {
    /// Queues `job`, or drops it if the queue is full. `is_slow`: its read will wait for devices.
    pub fn offer(&self, is_slow: bool, job: Job) {
        let threads_max = if is_slow { SLOW_THREADS_MAX } else { host::processors().clamp(2, 8) };
        let mut state = self.0.lock();
        if state.jobs.len() >= QUEUE_MAX {
            return;
        }
        state.jobs.push_back(job);
        if state.threads >= threads_max {
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = self.0.clone();
        if !host::work::start(move || run(&shared)) {
            let mut state = self.0.lock();
            state.threads -= 1;
            // Demand reads do the work.
            let left = if state.threads == 0 { std::mem::take(&mut state.jobs) } else { VecDeque::new() };
            drop(state);
            // Outside of the lock: a job may hold the last reference to the store.
            drop(left);
        }
    }
}

/// Runs jobs until there are none.
fn run(shared: &Mutex<State>) {
    let _doing = doing(Task::Background);
    loop {
        let job = {
            let mut state = shared.lock();
            match state.jobs.pop_front() {
                Some(job) => job,
                None => {
                    state.threads -= 1;
                    return;
                }
            }
        };
        job();
    }
}
