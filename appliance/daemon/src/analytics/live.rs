//! Sends the values of each second to all live readers, as one text that they share.
//!
//! ```text
//!   engine ─ a second is over ─> one thread: a text for each statistic ─> a channel of few seconds ─> streams, a task each
//! ```
//!
//! Invariant: a slow reader misses seconds; nothing is buffered for it beyond the channel.

use super::to_api;
use crate::access::Sight;
use analytics::engine::{Answer, Engine};
use analytics::name::Field;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::{Receiver, Sender, channel};

/// Number of seconds that a reader may be behind.
const BEHIND: usize = 8;
/// Interval at which the thread checks whether it must stop.
const PATIENCE: Duration = Duration::from_millis(250);

/// One second of all watched statistics.
pub struct Second {
    /// Which second, since 1970.
    pub second: u64,
    texts: HashMap<String, Arc<str>>,
    /// Texts for readers who may not see file names, where they differ.
    hidden: HashMap<String, Arc<str>>,
}

impl Second {
    /// Builds the texts from answers with a step of one second.
    pub fn new(second: u64, answers: &[Answer]) -> Self {
        let text = |answer: &Answer| -> (String, Arc<str>) {
            let second = to_api::second(answer, second);
            let text = serde_json::to_string(&second).unwrap_or_default();
            (second.name, text.into())
        };
        let files = answers.iter().filter(|answer| answer.name.breakdown == Some(Field::File));
        let hidden = files.map(|answer| text(&Sight { files: false }.answer(answer.clone())));
        Self { second, hidden: hidden.collect(), texts: answers.iter().map(text).collect() }
    }

    /// The message with these statistics, as `LiveColumns`.
    pub fn message(&self, names: &[String], sight: Sight) -> String {
        let mut out = format!("{{\"second\":{},\"statistics\":[", self.second);
        for (n, name) in names.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            let hidden = self.hidden.get(name).filter(|_| !sight.files);
            match hidden.or_else(|| self.texts.get(name)) {
                Some(text) => out.push_str(text),
                None => {
                    let missing = serde_json::json!({"name": name, "column": null, "keys": {}});
                    out.push_str(&missing.to_string());
                }
            }
        }
        out.push_str("]}");
        out
    }
}

/// The stream of seconds.
pub struct Columns {
    to: Sender<Arc<Second>>,
    stop: Arc<AtomicBool>,
}

impl Columns {
    /// Starts the thread `weir-columns`. It ends with [`Self::stop`].
    pub fn start(engine: &Engine) -> io::Result<Self> {
        let (to, stop) = (channel(BEHIND).0, Arc::new(AtomicBool::new(false)));
        let (engine, sender, stopped) = (engine.clone(), to.clone(), stop.clone());
        std::thread::Builder::new().name("weir-columns".to_owned()).spawn(move || {
            let mut last = engine.wait(0, Duration::ZERO);
            while !stopped.load(Ordering::Relaxed) {
                let now = engine.wait(last, PATIENCE);
                // A machine that slept has a long gap, which is skipped.
                let first = (last + 1).max(now.saturating_sub(BEHIND as u64));
                for second in first..=now {
                    if sender.receiver_count() > 0 {
                        let _ = sender.send(Arc::new(Second::new(second, &engine.watched(second))));
                    }
                }
                last = last.max(now);
            }
        })?;
        Ok(Self { to, stop })
    }

    /// Asks the thread to stop, within a quarter of a second. Does not wait for it.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Subscribes to the stream from now on.
    pub fn listen(&self) -> Receiver<Arc<Second>> {
        self.to.subscribe()
    }
}
