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
//!   * a failed delivery is retried after increasing pauses, with at most [`store::ATTEMPTS`]
//!     attempts; each receiver gets the notices of one alert in order
//!   * a receiver that does not answer delays no other alert, and no request to the server

mod builtin;
mod contents;
mod deliver;
mod evaluation;
mod rules;
mod send;
mod store;

pub use rules::Refused;

use crate::config::AlertsConfig;
use crate::events::Events;
use analytics::engine::Engine;
use anyhow::{Context as _, Result};
use api::{Alert, AlertRule};
use contents::{Stored, StoredAlert};
use parking_lot::Mutex;
use rules::Ready;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use store::Store;

/// Limit for the number of alerts.
const ALERTS: usize = 200;

/// The alerts of this process.
pub struct Alerts {
    store: Arc<Store>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Alerts {
    /// Opens the alerts of the state directory and starts to evaluate them.
    pub fn open(state: &Path, engine: Engine, events: Arc<Events>, config: &AlertsConfig) -> Result<Self> {
        let store = Arc::new(Store::open(state, engine, events, config)?);
        let spawn = |name: &str, run: fn(&Arc<Store>)| {
            let store = store.clone();
            std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&store)).context("alerts")
        };
        let threads = vec![spawn("weir-alerts", |store| store.watch())?, spawn("weir-notices", deliver::deliver)?];
        Ok(Self { store, threads: Mutex::new(threads) })
    }

    pub fn list(&self) -> Vec<Alert> {
        let kept = self.store.kept.lock();
        kept.alerts.iter().map(|(id, alert)| self.shown(&kept, *id, alert)).collect()
    }

    pub fn get(&self, id: u32) -> Option<Alert> {
        let kept = self.store.kept.lock();
        kept.alerts.get(&id).map(|alert| self.shown(&kept, id, alert))
    }

    pub fn create(&self, rule: AlertRule, owner: &str) -> Result<Alert, Refused> {
        let ready = self.ready(&rule)?;
        let id = self.store.change(|kept| {
            if kept.alerts.values().filter(|alert| alert.builtin.is_none()).count() >= ALERTS {
                return Err(Refused::Rule(format!("there are already {ALERTS} alerts, the maximum")));
            }
            kept.last_alert += 1;
            kept.alerts.insert(kept.last_alert, StoredAlert::new(rule, owner));
            Ok(kept.last_alert)
        })?;
        self.count(&ready)?;
        self.get(id).ok_or(Refused::Missing)
    }

    /// Replaces the rule of an alert. If the condition changes, its evaluation starts again, and it
    /// no longer fires.
    pub fn replace(&self, id: u32, rule: AlertRule, owner: &str) -> Result<Alert, Refused> {
        let ready = self.ready(&rule)?;
        self.store.change(|kept| {
            let alert = kept.alerts.get_mut(&id).ok_or(Refused::Missing)?;
            let watches = |rule: &AlertRule| (rule.statistic.clone(), rule.reduction, rule.side);
            if alert.builtin.is_some() && watches(&alert.rule) != watches(&rule) {
                return Err(Refused::BuiltIn(
                    "the statistic of a built-in alert cannot be changed: create another alert",
                ));
            }
            let builtin = alert.builtin.take();
            *alert = match is_same_condition(&alert.rule, &rule) {
                true => StoredAlert { rule, owner: owner.to_owned(), builtin, ..alert.clone() },
                false => StoredAlert { builtin, ..StoredAlert::new(rule, owner) },
            };
            Ok(())
        })?;
        self.count(&ready)?;
        self.get(id).ok_or(Refused::Missing)
    }

    /// Removes an alert and its undelivered notices.
    pub fn delete(&self, id: u32) -> Result<(), Refused> {
        self.store.change(|kept| {
            let alert = kept.alerts.remove(&id).ok_or(Refused::Missing)?;
            if alert.builtin.is_some() {
                return Err(Refused::BuiltIn("a built-in alert cannot be deleted: suspend it"));
            }
            kept.notices.retain(|_, w| w.notice.alert != id);
            Ok(())
        })
    }

    fn ready(&self, rule: &AlertRule) -> Result<Ready, Refused> {
        Ready::new(rule, &self.store.config)
    }

    fn shown(&self, kept: &Stored, id: u32, alert: &StoredAlert) -> Alert {
        Alert {
            id,
            rule: alert.rule.clone(),
            owner: alert.owner.clone(),
            builtin: alert.builtin.as_deref().and_then(builtin::kind),
            unit: self.ready(&alert.rule).map(|ready| ready.unit()).unwrap_or_default(),
            firing_since: alert.watch.firing,
            last_value: alert.watch.last,
            waiting: kept.notices.values().filter(|w| w.notice.alert == id).count() as u64,
            last_error: alert.last_error.clone(),
        }
    }

    fn count(&self, ready: &Ready) -> Result<(), Refused> {
        self.store.engine.count(&ready.name, false).map(|_| ()).map_err(|e| Refused::Failed(e.to_string()))
    }

    /// Stops evaluation and delivery. The next process retries undelivered notices.
    pub fn stop(&self) {
        self.store.stop();
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

/// Whether two rules fire and clear at the same times.
fn is_same_condition(a: &AlertRule, b: &AlertRule) -> bool {
    let others =
        |rule: &AlertRule| AlertRule { title: String::new(), silent_until: None, actions: Vec::new(), ..rule.clone() };
    others(a) == others(b)
}
