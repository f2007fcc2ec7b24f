//! The thread that delivers notices.

use super::contents::{Stored, Waiting};
use super::send::send;
use super::store::{ATTEMPTS, Store, TURN};
use crate::access::now;
use crate::events::Happening;
use api::EventKind;
use std::sync::Arc;

/// Limit for notices being delivered at the same time.
const AT_ONCE: usize = 8;
/// Pauses before a retry, in seconds.
const PAUSES: [u64; ATTEMPTS as usize - 1] = [2, 10, 60, 300, 900];

/// Delivers notices that are due, until the process stops.
pub(super) fn deliver(store: &Arc<Store>) {
    while !store.is_stopped() {
        let mut kept = store.kept.lock();
        let due = next(&kept, now());
        let Some(waiting) = due.and_then(|id| kept.notices.get_mut(&id)) else {
            store.changed.wait_for(&mut kept, TURN);
            continue;
        };
        waiting.under_way = true;
        let (id, action, notice) = (due.unwrap_or_default(), waiting.action.clone(), waiting.notice.clone());
        drop(kept);
        let at = store.clone();
        let work = move || {
            let result = send(&action, &notice, &at.config);
            done(&at, id, result);
        };
        if let Err(error) = std::thread::Builder::new().name("weir-notice".to_owned()).spawn(work) {
            done(store, id, Err(error.to_string()));
        }
    }
}

/// The next notice to deliver: it is due, and no earlier one waits for the same receiver.
fn next(kept: &Stored, now: u64) -> Option<u64> {
    if kept.notices.values().filter(|w| w.under_way).count() >= AT_ONCE {
        return None;
    }
    let is_first = |id: u64| {
        let one = kept.notices.get(&id);
        let same = |w: &&Waiting| one.is_some_and(|o| o.notice.alert == w.notice.alert && o.action == w.action);
        !kept.notices.range(..id).any(|(_, w)| same(&w))
    };
    let due = kept.notices.iter().filter(|(_, w)| !w.under_way && w.due <= now);
    due.map(|(id, _)| *id).find(|id| is_first(*id))
}

/// Records the result of an attempt.
fn done(store: &Store, id: u64, result: Result<(), String>) {
    let given_up = store.note(|kept| {
        let waiting = kept.notices.get_mut(&id)?;
        waiting.under_way = false;
        let alert = waiting.notice.alert;
        let Err(error) = result else {
            kept.notices.remove(&id);
            return None;
        };
        waiting.attempts += 1;
        match PAUSES.get(waiting.attempts as usize - 1) {
            Some(pause) => waiting.due = now() + pause,
            None => drop(kept.notices.remove(&id)),
        }
        let is_over = !kept.notices.contains_key(&id);
        let alert = kept.alerts.get_mut(&alert)?;
        alert.last_error = Some(error.clone());
        is_over.then(|| (alert.rule.title.clone(), error))
    });
    if let Some((title, error)) = given_up {
        tracing::warn!(alert = title, error, "cannot deliver a notification");
        let message = format!("cannot deliver a notification, after {ATTEMPTS} attempts: {error}");
        store.events.post(Happening::error(EventKind::Alert, message).about(title));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{AlertAction, AlertNotice, AlertState};

    fn waiting(alert: u32, action: AlertAction, due: u64) -> Waiting {
        let text = String::new;
        let notice = AlertNotice {
            alert,
            title: text(),
            state: AlertState::Firing,
            second: 0,
            statistic: text(),
            value: None,
            limit: 0.0,
            unit: text(),
            host: text(),
            message: text(),
        };
        Waiting { action, notice, attempts: 0, due, under_way: false }
    }

    #[test]
    fn notices_of_one_receiver_keep_their_order_and_hold_up_no_other() {
        let hook = |url: &str| AlertAction::Webhook { url: url.to_owned() };
        let mut kept = Stored::default();
        kept.notices.insert(1, waiting(1, hook("a"), 50));
        kept.notices.insert(2, waiting(1, hook("a"), 0));
        kept.notices.insert(3, waiting(1, hook("b"), 0));
        kept.notices.insert(4, waiting(2, hook("a"), 0));
        assert_eq!(next(&kept, 10), Some(3));
        kept.notices.get_mut(&3).expect("there").under_way = true;
        assert_eq!(next(&kept, 10), Some(4));
        kept.notices.get_mut(&4).expect("there").under_way = true;
        assert_eq!(next(&kept, 10), None);
        assert_eq!(next(&kept, 50), Some(1));
        kept.notices.remove(&1);
        assert_eq!(next(&kept, 10), Some(2));
    }

    #[test]
    fn deliveries_in_progress_are_limited() {
        let mut kept = Stored::default();
        for id in 0..20 {
            let mut one = waiting(id, AlertAction::Syslog, 0);
            one.under_way = id < AT_ONCE as u32;
            kept.notices.insert(id.into(), one);
        }
        assert_eq!(next(&kept, 10), None);
        kept.notices.remove(&0);
        assert_eq!(next(&kept, 10), Some(AT_ONCE as u64));
    }
}
