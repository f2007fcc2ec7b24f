//! Threads for operations that may take long, so that the serving threads do not wait: fsync, and
//! whatever waits for the kernel.
//!
//! There are as many threads as there are such operations at a time, up to a limit. They end with
//! the server.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Above this limit, jobs wait. Guessed: concurrent syncs share one log write, so more threads mean
/// more sharing.
const THREADS_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    ended: bool,
}

/// The threads. Dropping this lets them finish the queued jobs.
pub(super) struct Slow(Arc<(Mutex<Queue>, Condvar)>);

impl Slow {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Runs `job` soon on another thread. If no thread can be started, an existing one runs it
    /// later, or this one if there is none.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let (lock, changed) = &*self.0;
        let mut queue = lock.lock();
        queue.jobs.push_back(Box::new(job));
        if queue.idle >= queue.jobs.len() || queue.threads >= THREADS_MAX {
            changed.notify_one();
            return;
        }
        let shared = self.0.clone();
        match std::thread::Builder::new().name("weir-slow".to_owned()).spawn(move || work(&shared)) {
            Ok(_) => queue.threads += 1,
            Err(error) if queue.threads == 0 => {
                tracing::warn!(%error, "cannot start a thread");
                if let Some(job) = queue.jobs.pop_back() {
                    drop(queue);
                    job();
                }
            }
            // The existing threads will run the job.
            Err(error) => tracing::warn!(%error, "cannot start a thread"),
        }
    }
}

fn work(shared: &(Mutex<Queue>, Condvar)) {
    let (lock, changed) = shared;
    let mut queue = lock.lock();
    loop {
        match queue.jobs.pop_front() {
            Some(job) => {
                drop(queue);
                job();
                queue = lock.lock();
            }
            None if queue.ended => return,
            None => {
                queue.idle += 1;
                changed.wait(&mut queue);
                queue.idle -= 1;
            }
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.0.lock().ended = true;
        self.0.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_that_wait_for_each_other_run_at_the_same_time() {
        let slow = Slow::new();
        let barrier = Arc::new(Barrier::new(5));
        let (sender, done) = channel();
        for round in 0..3 {
            for _ in 0..4 {
                let (barrier, sender) = (barrier.clone(), sender.clone());
                slow.run(move || {
                    barrier.wait();
                    sender.send(round).expect("the test waits");
                });
            }
            barrier.wait();
            assert_eq!(done.iter().take(4).sum::<i32>(), 4 * round);
        }
    }
}
