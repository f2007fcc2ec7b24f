//! Threads for work that waits for devices.
//!
//! ```text
//!   caller ── all([job, job, job]) ──> idle thread, or a new one ── result ──> caller
//!        └── runs the last job itself
//! ```
//!
//! The threads do not limit how much runs at once: a job that finds no idle thread gets a new one,
//! and beyond [`THREADS_MAX`] the caller runs it. So a job never waits for another job to end, and
//! jobs may call [`all`] themselves.
//!
//! On a simulated machine each job gets a new thread, because idle threads belong to the process.

use crate::machine::Machine;
use crate::sync::{Condvar, Mutex};
use crate::threads;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Maximum number of threads of the process that wait for devices.
const THREADS_MAX: usize = 1024;
/// Stack of a thread, in bytes: it only calls devices.
const STACK_BYTES: usize = 512 << 10;
/// A thread without work ends after this time.
const IDLE: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

struct Workers {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// Jobs for threads that were idle when the job came; never more than `idle`.
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
}

static WORKERS: Workers =
    Workers { state: Mutex::new(State { jobs: VecDeque::new(), idle: 0, threads: 0 }), wake: Condvar::new() };

impl Workers {
    /// Starts `job` on another thread. Returns it if there can be no further thread.
    fn start(&'static self, job: Job) -> Result<(), Job> {
        if Machine::simulated().is_some() {
            return spawn(job, |job| job());
        }
        let mut state = self.state.lock();
        if state.idle > state.jobs.len() {
            state.jobs.push_back(job);
            drop(state);
            self.wake.notify_one();
            return Ok(());
        }
        if state.threads >= THREADS_MAX {
            return Err(job);
        }
        state.threads += 1;
        drop(state);
        spawn(job, |job| self.work(Some(job))).inspect_err(|_| self.state.lock().threads -= 1)
    }

    fn work(&self, first: Option<Job>) {
        let mut next = first;
        loop {
            if let Some(job) = next.take() {
                job();
            }
            let mut state = self.state.lock();
            state.idle += 1;
            while state.jobs.is_empty() {
                if self.wake.wait_for(&mut state, IDLE).timed_out() && state.jobs.is_empty() {
                    state.idle -= 1;
                    state.threads -= 1;
                    return;
                }
            }
            state.idle -= 1;
            next = state.jobs.pop_front();
        }
    }
}

/// Starts a thread that does `work` with `job`. Returns the job if the thread cannot start.
fn spawn(job: Job, work: impl FnOnce(Job) + Send + 'static) -> Result<(), Job> {
    // The job is handed over in a cell, so that it is not lost if the thread cannot start.
    let cell = Arc::new(Mutex::new(Some(job)));
    let theirs = cell.clone();
    let spawned = threads::spawn_by(std::thread::Builder::new().stack_size(STACK_BYTES), "device", move || {
        let job = theirs.lock().take();
        work(job.expect("only a thread that does not start leaves the job"));
    });
    match spawned {
        Ok(_) => Ok(()),
        Err(_) => Err(cell.lock().take().expect("the thread did not start")),
    }
}

/// Starts `job` on a thread that has nothing else to do. Returns false, and drops it, if there can
/// be no further thread.
pub fn start(job: impl FnOnce() + Send + 'static) -> bool {
    let job = move || {
        // The panic was reported when it happened; the thread continues.
        let _ = catch_unwind(AssertUnwindSafe(job));
    };
    WORKERS.start(Box::new(job)).is_ok()
}

/// Results of jobs, and how many are still missing.
struct Results<T> {
    done: Mutex<(Vec<Option<std::thread::Result<T>>>, usize)>,
    last: Condvar,
}

/// Runs all `jobs` at the same time, the last one on the calling thread. Returns their results in
/// the same order. If a job panics, so does the caller, after all jobs have ended.
pub fn all<T, F>(mut jobs: Vec<F>) -> Vec<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let Some(own) = jobs.pop() else { return Vec::new() };
    if jobs.is_empty() {
        return vec![own()];
    }
    let count = jobs.len();
    let results =
        Arc::new(Results { done: Mutex::new(((0..count).map(|_| None).collect(), count)), last: Condvar::new() });
    for (number, job) in jobs.into_iter().enumerate() {
        let results = results.clone();
        let job: Job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(job));
            let mut done = results.done.lock();
            done.0[number] = Some(result);
            done.1 -= 1;
            if done.1 == 0 {
                results.last.notify_one();
            }
        });
        if let Err(job) = WORKERS.start(job) {
            job();
        }
    }
    let own = catch_unwind(AssertUnwindSafe(own));
    let mut done = results.done.lock();
    while done.1 > 0 {
        results.last.wait(&mut done);
    }
    let all = std::mem::take(&mut done.0).into_iter().flatten().chain([own]);
    all.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

/// Maximum of threads that [`each`] starts.
const EACH_MAX: usize = 64;

/// Calls `work` with 0 to `count - 1`, in parallel on as many threads as can start, at most
/// [`EACH_MAX`]. Returns the results in order. For rare work, such as labels: unlike [`all`], it
/// may borrow, and starts threads every time. A panic of `work` is one of the caller.
pub fn each<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if count < 2 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    let run = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let result = work(number);
            results.lock()[number] = Some(result);
        }
    };
    threads::scope(|scope| {
        for _ in 1..count.min(EACH_MAX) {
            // If no thread can start, the others do its share.
            let _ = scope.try_spawn(run);
        }
        run();
    });
    results
        .into_inner()
        .into_iter()
        .map(|result| result.expect("each number was taken, and no thread panicked"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn jobs_run_at_the_same_time_and_results_keep_their_order() {
        let begun = Instant::now();
        let job = |n: u64| {
            move || {
                std::thread::sleep(Duration::from_millis(50));
                n
            }
        };
        assert_eq!(all((0..40).map(job).collect()), (0..40).collect::<Vec<_>>());
        assert!(begun.elapsed() < Duration::from_millis(1000), "{:?}", begun.elapsed());
    }

    #[test]
    fn jobs_may_start_jobs_beyond_the_number_of_threads() {
        let inner =
            |n: usize| move || all((0..30).map(|m| move || n * m).collect::<Vec<_>>()).into_iter().sum::<usize>();
        let sums = all((0..200).map(inner).collect());
        assert_eq!(sums, (0..200).map(|n| n * 29 * 30 / 2).collect::<Vec<_>>());
    }

    #[test]
    fn each_borrows_and_keeps_the_order() {
        let words = ["a", "b", "c"];
        assert_eq!(each(200, |n| words[n % 3].repeat(n))[199], "b".repeat(199));
        assert!(each(0, |_| 1).is_empty());
    }

    #[test]
    fn a_panic_of_a_job_reaches_the_caller_after_all_have_ended() {
        let ended = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let job = |n: usize| {
            let ended = ended.clone();
            move || {
                if n == 1 {
                    panic!("job {n}");
                }
                std::thread::sleep(Duration::from_millis(20));
                ended.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        };
        let result = catch_unwind(AssertUnwindSafe(|| all((0..4).map(job).collect())));
        assert!(result.is_err());
        assert_eq!(ended.load(std::sync::atomic::Ordering::SeqCst), 3);
    }
}
