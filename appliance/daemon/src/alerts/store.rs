//! The alerts and the notices that are not delivered yet: in memory, and in `alerts.json` of the
//! state directory.

use super::contents::Stored;
use super::rules::Refused;
use crate::config::AlertsConfig;
use crate::events::Events;
use analytics::engine::Engine;
use anyhow::{Context as _, Result};
use parking_lot::{Condvar, Mutex};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Attempts to deliver a notice.
pub const ATTEMPTS: u32 = 6;
/// Interval at which a thread checks whether it must stop.
pub const TURN: Duration = Duration::from_secs(1);

/// The alerts, with what their threads need.
pub struct Store {
    path: PathBuf,
    pub events: Arc<Events>,
    pub engine: Engine,
    pub config: AlertsConfig,
    pub kept: Mutex<Stored>,
    pub changed: Condvar,
    stop: AtomicBool,
}

impl Store {
    /// Reads the alerts of a state directory.
    pub fn open(state: &Path, engine: Engine, events: Arc<Events>, config: &AlertsConfig) -> Result<Self> {
        let path = state.join("alerts.json");
        let mut kept: Stored = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?,
            Err(e) if e.kind() == ErrorKind::NotFound => Stored::default(),
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        };
        // They are stored with the next change.
        super::builtin::add(&mut kept);
        let (config, stop) = (config.clone(), AtomicBool::new(false));
        let changed = Condvar::new();
        Ok(Self { path, events, engine, config, kept: Mutex::new(kept), changed, stop })
    }

    /// Changes the stored state: on disk first.
    pub fn change<T>(&self, change: impl FnOnce(&mut Stored) -> Result<T, Refused>) -> Result<T, Refused> {
        let mut kept = self.kept.lock();
        let mut changed = kept.clone();
        let done = change(&mut changed)?;
        crate::secret_file::replace(&self.path, &changed)
            .map_err(|e| Refused::Failed(format!("{}: {e}", self.path.display())))?;
        *kept = changed;
        self.changed.notify_all();
        Ok(done)
    }

    /// Changes the stored state even if it cannot be written, because the event has happened.
    pub fn note<T>(&self, change: impl FnOnce(&mut Stored) -> T) -> T {
        let mut kept = self.kept.lock();
        let done = change(&mut kept);
        if let Err(error) = crate::secret_file::replace(&self.path, &*kept) {
            tracing::warn!(%error, file = %self.path.display(), "cannot save alerts");
        }
        self.changed.notify_all();
        done
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Makes the threads end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}
