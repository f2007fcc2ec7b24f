//! Evaluates the alerts each second, and reports those that begin or end to fire.

use super::contents::Waiting;
use super::rules::{Ready, Refused};
use super::store::{Store, TURN};
use crate::access::{Sight, now};
use crate::events::Happening;
use analytics::alert::Change;
use analytics::catalogue;
use analytics::name::Name;
use api::{AlertNotice, AlertRule, AlertState, EventKind};

/// Limit for waiting notices.
const NOTICES: usize = 1000;
/// Seconds that are evaluated later after a pause. Longer gaps, such as a sleeping machine, are
/// skipped.
const BEHIND: u64 = 60;

impl Store {
    /// The thread that evaluates each second.
    pub fn watch(&self) {
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
            let silent = rule.is_silent(now());
            let (mut changes, mut hidden) = (Vec::new(), false);
            let notice = |change, second, value| notice(id, &rule, &ready, &answer.title, change, second, value);
            for second in from..=last {
                let Some(column) = answer.columns.get(&second) else {
                    alert.watch.skip();
                    continue;
                };
                let value = ready.threshold.reduction.of(column, answer.shown, answer.scheme);
                match alert.watch.see(second, value, &ready.threshold) {
                    Some(Change::Fired) if silent => (alert.unreported, hidden) = (true, true),
                    // Receivers do not know that it fired.
                    Some(Change::Cleared) if alert.unreported => (alert.unreported, hidden) = (false, true),
                    Some(change) => changes.push(notice(change, second, value)),
                    None => {}
                }
            }
            if alert.unreported && !silent {
                alert.unreported = false;
                changes.push(notice(Change::Fired, last, alert.watch.last));
            }
            drop(kept);
            if hidden {
                self.note(|_| ());
            }
            changes.into_iter().for_each(|notice| self.notify(&rule, notice));
        }
    }

    /// Reports a notice to the events, the log and all receivers.
    fn notify(&self, rule: &AlertRule, notice: AlertNotice) {
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
        self.events.post(happening.about(rule.title.as_str()).without_files(hidden));
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
            self.events.post(Happening::error(EventKind::Alert, message).about(rule.title.as_str()));
        }
    }
}

fn notice(
    id: u32,
    rule: &AlertRule,
    ready: &Ready,
    title: &str,
    change: Change,
    second: u64,
    value: Option<f64>,
) -> AlertNotice {
    let state = if change == Change::Fired { AlertState::Firing } else { AlertState::Cleared };
    let unit = ready.unit();
    let seconds = |n: u32| if n == 1 { "1 second".to_owned() } else { format!("{n} seconds") };
    let found = value.map_or_else(|| "there was nothing".to_owned(), |v| format!("now {v} {unit}"));
    let side = if ready.threshold.above { "above" } else { "below" };
    let host = host::name();
    let what = format!("{} of {title}", ready.reduction_words());
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
