//! The threads that deliver events: one for all programs, one for each webhook.

use super::hooks::Hook;
use super::run::Runner;
use crate::config::EventsConfig;
use block::zevent::Queue;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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
            let runner = Runner::new(folder.clone(), config, state);
            let (queue, ended) = (queue.clone(), ended.clone());
            spawn("weir-programs", Box::new(move || runner.run(&queue, &ended)));
        }
        for url in &config.webhooks {
            let hook = Hook { url: url.clone(), classes: config.webhook_classes.clone() };
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
