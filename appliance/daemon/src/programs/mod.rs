//! Programs and webhooks for pool events: the counterpart of OpenZFS's zed.
//!
//! ```text
//!   block::zevent::Queue ─┬─> run: programs of a directory, selected by their names, with limits on number and time
//!                        └─> hooks: a document by HTTP POST, to each URL in order
//! ```
//!
//! Invariants:
//!   * a program runs as this process's user, who must be the only one able to change it or its
//!     directory; no part of an event is read by a shell or passed as an argument
//!   * a slow program or webhook never delays a pool: it is killed, or misses events, and this is
//!     logged

mod environment;
mod hooks;
mod run;

use crate::config::EventsConfig;
use block::zevent::Queue;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which threads check whether they must stop.
const TURN: Duration = Duration::from_millis(200);

/// The threads that run programs and post documents.
pub struct Programs {
    ended: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Programs {
    /// Starts what `config` asks for, for all events from the first one on. `state` is passed to
    /// programs, so that they find this process's pools.
    pub fn start(config: &EventsConfig, queue: &Arc<Queue>, state: &Path) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let mut spawn = |name: &str, work: Box<dyn FnOnce() + Send>| match std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
        {
            Ok(thread) => threads.push(thread),
            Err(error) => tracing::error!(%error, "events are not delivered"),
        };
        if let Some(folder) = &config.programs {
            let runner = run::Runner::new(folder.clone(), config, state);
            let (queue, ended) = (queue.clone(), ended.clone());
            spawn("weir-programs", Box::new(move || runner.run(&queue, &ended)));
        }
        for url in &config.webhooks {
            let hook = hooks::Hook { url: url.clone(), classes: config.webhook_classes.clone() };
            let (queue, ended) = (queue.clone(), ended.clone());
            spawn("weir-hooks", Box::new(move || hook.run(&queue, &ended)));
        }
        Self { ended, threads: Mutex::new(threads) }
    }

    /// Stops the threads, and waits for them briefly.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Release);
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A thread in the middle of a request ends with the process.
            let deadline = std::time::Instant::now() + Duration::from_secs(1);
            while !thread.is_finished() && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
