//! Programs and webhooks that are told what happens to pools: what zed is to OpenZFS.
//!
//! ```text
//!   pool::zevent::Queue ─┬─> run: programs of a folder whose names say which events they want, so many at a time, each for so long
//!                        └─> hooks: a document by HTTP POST, to each address in order
//! ```
//!
//! Invariants:
//!   * a program is run by this process's user, who must be the only one able to change it or its folder; nothing of an event is
//!     read by a shell, or is an argument
//!   * nothing here holds up a pool: who is slow is ended, or misses events, and the log says so

mod environment;
mod hooks;
mod run;

use crate::config::EventsConfig;
use parking_lot::Mutex;
use pool::zevent::Queue;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often is looked whether it is to end.
const TURN: Duration = Duration::from_millis(200);

/// What runs programs and posts documents.
pub struct Programs {
    ended: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Programs {
    /// Starts what `config` wants, for all events from the first one on. `state`: where programs find this process's pools.
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

    /// Ends what runs, and waits for it a moment.
    pub fn stop(&self) {
        self.ended.store(true, Ordering::Release);
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // One that is in the middle of a request ends with the process.
            let deadline = std::time::Instant::now() + Duration::from_secs(1);
            while !thread.is_finished() && std::time::Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
