//! Prefetch threads.

use crossbeam_channel::{Sender, bounded};
use parking_lot::Mutex;
use std::thread::JoinHandle;

type Job = Box<dyn FnOnce() + Send>;

/// Maximum of queued jobs. Beyond that, prefetches are dropped, because demand reads already keep
/// the devices busy. Guessed.
const QUEUE_MAX: usize = 256;

struct Running {
    jobs: Sender<Job>,
    _threads: Vec<JoinHandle<()>>,
}

/// A few threads with a bounded queue, started by the first job.
pub struct Prefetcher {
    threads_max: usize,
    running: Mutex<Option<Running>>,
}

impl Prefetcher {
    /// A pool of at most `threads_max` threads.
    pub fn new(threads_max: usize) -> Self {
        Self { threads_max, running: Mutex::new(None) }
    }

    /// Queues `job`, or drops it if the queue is full.
    pub fn offer(&self, job: Job) {
        let mut running = self.running.lock();
        let running = running.get_or_insert_with(|| {
            let (sender, receiver) = bounded::<Job>(QUEUE_MAX);
            let threads: Vec<_> = (0..self.threads_max)
                .filter_map(|_| {
                    let receiver = receiver.clone();
                    let run = move || receiver.iter().for_each(|job| job());
                    std::thread::Builder::new().name("prefetch".into()).spawn(run).ok()
                })
                .collect();
            Running { jobs: sender, _threads: threads }
        });
        // Full queue: see QUEUE_MAX. Disconnected: no thread could be started, so demand reads do
        // the work.
        let _ = running.jobs.try_send(job);
    }
}

impl Drop for Prefetcher {
    fn drop(&mut self) {
        // The last job may hold the last reference to the store that owns this. Then this runs on a
        // prefetch thread, which must not join itself. The threads end by themselves once the
        // sender is gone.
        drop(self.running.lock().take());
    }
}
