//! Alerts: thresholds on statistics, and notices when they are exceeded and when they are clear
//! again.
//!
//! ```text
//!   analytics: a second is over ─> watch (thread) ─ fired, cleared ─┬─> events, log
//!                                                                   └─> notices ─> deliver (thread) ─> send: a thread each
//! ```
//!
//! Invariants:
//!   * alerts, their state, and undelivered notices are stored in `alerts.json` of the state
//!     directory
//!   * a failed delivery is retried after increasing pauses, with at most [`ATTEMPTS`] attempts;
//!     each receiver gets the notices of one alert in order
//!   * a receiver that does not answer delays no other alert, and no request to the server

mod deliver;
mod rules;
mod send;

use crate::access::{Sight, now};
use crate::config::AlertsConfig;
use crate::events::{Events, Happening};
use analytics::alert::{Change, Watch};
use analytics::catalogue;
use analytics::engine::{Answer, Engine};
use analytics::name::Name;
use anyhow::{Context as _, Result};
use api::{Alert, AlertAction, AlertNotice, AlertRule, AlertState, EventKind};
use parking_lot::{Condvar, Mutex};
use rules::Ready;
pub use rules::Refused;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Limit for the number of alerts.
const ALERTS: usize = 200;
/// Limit for waiting notices.
const NOTICES: usize = 1000;
/// Attempts to deliver a notice.
const ATTEMPTS: u32 = 6;
/// Seconds that are evaluated later after a pause. Longer gaps, such as a sleeping machine, are
/// skipped.
const BEHIND: u64 = 60;
/// Interval at which a thread checks whether it must stop.
const TURN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Kept {
    alerts: BTreeMap<u32, KeptAlert>,
    last_alert: u32,
    notices: BTreeMap<u64, Waiting>,
    last_notice: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KeptAlert {
    rule: AlertRule,
    owner: String,
    watch: Watch,
    #[serde(default)]
    last_error: Option<String>,
}

/// A notice for one receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Waiting {
    action: AlertAction,
    notice: AlertNotice,
    attempts: u32,
    /// Earliest time of delivery: seconds since 1970.
    due: u64,
    #[serde(skip)]
    under_way: bool,
}

struct Inner {
    path: PathBuf,
    events: Arc<Events>,
    engine: Engine,
    config: AlertsConfig,
    kept: Mutex<Kept>,
    changed: Condvar,
    stop: AtomicBool,
}

/// The alerts of this process.
pub struct Alerts {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Alerts {
    /// Opens the alerts of the state directory and starts to evaluate them.
    pub fn open(state: &Path, engine: Engine, events: Arc<Events>, config: &AlertsConfig) -> Result<Self> {
        let path = state.join("alerts.json");
        let kept: Kept = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?,
            Err(e) if e.kind() == ErrorKind::NotFound => Kept::default(),
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        };
        let (config, stop) = (config.clone(), AtomicBool::new(false));
        let changed = Condvar::new();
        let inner = Arc::new(Inner { path, events, engine, config, kept: Mutex::new(kept), changed, stop });
        let spawn = |name: &str, run: fn(&Arc<Inner>)| {
            let inner = inner.clone();
            std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&inner)).context("alerts")
        };
        let threads = vec![spawn("weir-alerts", Inner::watch)?, spawn("weir-notices", deliver::deliver)?];
        Ok(Self { inner, threads: Mutex::new(threads) })
    }

    pub fn list(&self) -> Vec<Alert> {
        let kept = self.inner.kept.lock();
        kept.alerts.iter().map(|(id, alert)| shown(&kept, *id, alert)).collect()
    }

    pub fn get(&self, id: u32) -> Option<Alert> {
        let kept = self.inner.kept.lock();
        kept.alerts.get(&id).map(|alert| shown(&kept, id, alert))
    }

    pub fn create(&self, rule: AlertRule, owner: &str) -> Result<Alert, Refused> {
        let ready = self.ready(&rule)?;
        let id = self.inner.change(|kept| {
            if kept.alerts.len() >= ALERTS {
                return Err(Refused::Rule(format!("there are already {ALERTS} alerts, the maximum")));
            }
            kept.last_alert += 1;
            let (watch, last_error) = Default::default();
            kept.alerts.insert(kept.last_alert, KeptAlert { rule, owner: owner.to_owned(), watch, last_error });
            Ok(kept.last_alert)
        })?;
        self.count(&ready)?;
        self.get(id).ok_or(Refused::Missing)
    }

    /// Replaces the rule of an alert. Its evaluation starts again, and it no longer fires.
    pub fn replace(&self, id: u32, rule: AlertRule, owner: &str) -> Result<Alert, Refused> {
        let ready = self.ready(&rule)?;
        self.inner.change(|kept| {
            let alert = kept.alerts.get_mut(&id).ok_or(Refused::Missing)?;
            let (watch, last_error) = Default::default();
            *alert = KeptAlert { rule, owner: owner.to_owned(), watch, last_error };
            Ok(())
        })?;
        self.count(&ready)?;
        self.get(id).ok_or(Refused::Missing)
    }

    /// Removes an alert and its undelivered notices.
    pub fn delete(&self, id: u32) -> Result<(), Refused> {
        self.inner.change(|kept| {
            kept.alerts.remove(&id).ok_or(Refused::Missing)?;
            kept.notices.retain(|_, w| w.notice.alert != id);
            Ok(())
        })
    }

    fn ready(&self, rule: &AlertRule) -> Result<Ready, Refused> {
        Ready::new(rule, &self.inner.config)
    }

    fn count(&self, ready: &Ready) -> Result<(), Refused> {
        self.inner.engine.count(&ready.name, false).map(|_| ()).map_err(|e| Refused::Failed(e.to_string()))
    }

    /// Stops evaluation and delivery. The next process retries undelivered notices.
    pub fn stop(&self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        self.inner.changed.notify_all();
        for thread in self.threads.lock().drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        self.stop();
    }
}

fn shown(kept: &Kept, id: u32, alert: &KeptAlert) -> Alert {
    Alert {
        id,
        rule: alert.rule.clone(),
        owner: alert.owner.clone(),
        firing_since: alert.watch.firing,
        last_value: alert.watch.last,
        waiting: kept.notices.values().filter(|w| w.notice.alert == id).count() as u64,
        last_error: alert.last_error.clone(),
    }
}

impl Inner {
    /// Changes the stored state: on disk first.
    fn change<T>(&self, change: impl FnOnce(&mut Kept) -> Result<T, Refused>) -> Result<T, Refused> {
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
    fn note<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        let mut kept = self.kept.lock();
        let done = change(&mut kept);
        if let Err(error) = crate::secret_file::replace(&self.path, &*kept) {
            tracing::warn!(%error, file = %self.path.display(), "cannot save alerts");
        }
        self.changed.notify_all();
        done
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The thread that evaluates each second.
    fn watch(self: &Arc<Self>) {
        for alert in self.kept.lock().alerts.values() {
            let counted = Ready::new(&alert.rule, &self.config)
                .and_then(|ready| self.engine.count(&ready.name, false).map_err(|e| Refused::Failed(e.to_string())));
            if let Err(error) = counted {
                tracing::warn!(alert = alert.rule.title, %error, "cannot evaluate an alert");
            }
        }
        let mut seen = now().saturating_sub(1);
        while !self.is_stopped() {
            let last = self.engine.wait(seen, TURN);
            if last <= seen {
                continue;
            }
            let from = (seen + 1).max(last.saturating_sub(BEHIND));
            self.look(from, last);
            seen = last;
        }
    }

    /// Evaluates all active alerts for the seconds `from` to `last`.
    fn look(&self, from: u64, last: u64) {
        let rules: Vec<(u32, AlertRule)> = {
            let kept = self.kept.lock();
            let watched = kept.alerts.iter().filter(|(_, a)| !a.rule.suspended);
            watched.map(|(id, a)| (*id, a.rule.clone())).collect()
        };
        for (id, rule) in rules {
            let Ok(ready) = Ready::new(&rule, &self.config) else { continue };
            let Ok(answer) = self.engine.query(&ready.name, from, last + 1, 1) else { continue };
            let mut kept = self.kept.lock();
            let Some(alert) = kept.alerts.get_mut(&id).filter(|a| a.rule == rule) else { continue };
            let mut changes = Vec::new();
            for second in from..=last {
                let Some(column) = answer.columns.get(&second) else {
                    alert.watch.skip();
                    continue;
                };
                let value = ready.threshold.reduction.of(column, answer.shown, answer.scheme);
                if let Some(change) = alert.watch.see(second, value, &ready.threshold) {
                    changes.push(notice(id, &rule, &ready, &answer, change, second, value));
                }
            }
            drop(kept);
            changes.into_iter().for_each(|notice| self.tell(&rule, notice));
        }
    }

    /// Reports a notice to the events, the log and all receivers.
    fn tell(&self, rule: &AlertRule, notice: AlertNotice) {
        let happening = match notice.state {
            AlertState::Firing => {
                tracing::warn!(alert = notice.alert, "{}", notice.message);
                Happening::warning(EventKind::Alert, notice.message.as_str())
            }
            AlertState::Cleared => {
                tracing::info!(alert = notice.alert, "{}", notice.message);
                Happening::info(EventKind::Alert, notice.message.as_str())
            }
        };
        // The title of a statistic contains the file names in it.
        let hidden = Sight { files: false }.name(&rule.statistic);
        let hidden = hidden
            .zip(rule.statistic.parse::<Name>().ok())
            .map(|((_, title), name)| notice.message.replace(&catalogue::title(&name), &title));
        self.events.tell(happening.about(rule.title.as_str()).without_files(hidden));
        let left_out = self.note(|kept| {
            let room = NOTICES.saturating_sub(kept.notices.len());
            for action in rule.actions.iter().take(room) {
                kept.last_notice += 1;
                let (action, notice) = (action.clone(), notice.clone());
                let waiting = Waiting { action, notice, attempts: 0, due: 0, under_way: false };
                kept.notices.insert(kept.last_notice, waiting);
            }
            rule.actions.len().saturating_sub(room)
        });
        if left_out > 0 {
            let message = format!("{NOTICES} notifications are pending: {left_out} of this alert are dropped");
            self.events.tell(Happening::error(EventKind::Alert, message).about(rule.title.as_str()));
        }
    }
}

fn notice(
    id: u32,
    rule: &AlertRule,
    ready: &Ready,
    answer: &Answer,
    change: Change,
    second: u64,
    value: Option<f64>,
) -> AlertNotice {
    let state = if change == Change::Fired { AlertState::Firing } else { AlertState::Cleared };
    let unit = ready.unit(answer);
    let seconds = |n: u32| if n == 1 { "1 second".to_owned() } else { format!("{n} seconds") };
    let found = value.map_or_else(|| "there was nothing".to_owned(), |v| format!("now {v} {unit}"));
    let side = if ready.threshold.above { "above" } else { "below" };
    let host = host::name();
    let what = format!("{} of {}", ready.reduction_words(), answer.title);
    let message = match state {
        AlertState::Firing => format!(
            "{host}: {}: {what} has been {side} {} {unit} for {} ({found})",
            rule.title,
            rule.limit,
            seconds(rule.for_seconds)
        ),
        AlertState::Cleared => format!(
            "{host}: {}: {what} has no longer been {side} {} {unit} for {} ({found})",
            rule.title,
            rule.limit,
            seconds(rule.clear_seconds)
        ),
    };
    AlertNotice {
        alert: id,
        title: rule.title.clone(),
        state,
        second,
        statistic: rule.statistic.clone(),
        value,
        limit: rule.limit,
        unit,
        host,
        message,
    }
}
