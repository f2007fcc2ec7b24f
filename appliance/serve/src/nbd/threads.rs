//! Threads for requests that may wait.

use crate::net::waiting::Waiting;
use std::sync::Arc;

const STACK_BYTES: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// See the module documentation.
pub(super) struct Threads(Waiting<Job>);

impl Threads {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self(Waiting::new(max)))
    }

    /// Queues `job`, and starts a thread if too few are idle and the maximum permits. If there is
    /// no thread and none can be started, runs a queued job here.
    pub fn give(self: &Arc<Self>, job: Job) {
        if !self.0.give(job) {
            return;
        }
        let this = self.clone();
        let work = move || {
            while let Some(job) = this.0.take() {
                job();
            }
        };
        let started = std::thread::Builder::new().name("nbd".to_owned()).stack_size(STACK_BYTES).spawn(work);
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start a further thread");
            // If no thread exists, this thread runs the job.
            if let Some(job) = self.0.not_started() {
                job();
            }
        }
    }
}
