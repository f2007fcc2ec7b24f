//! Takes snapshots by rule (`admin::schedule`): runs when a period of any label begins, and when a
//! rule may have changed.
//!
//! Invariants:
//!   * the clock is a parameter, and may be set: what is due depends only on the clock and the
//!     pools
//!   * a pool that cannot be written now is skipped, and caught up later

use crate::events::Happening;
use crate::service::Service;
use admin::OwnedPool;
use admin::schedule::{self, Done, Label, Round};
use api::EventKind;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait: clocks are set, and machines sleep.
const LONGEST: Duration = Duration::from_secs(30);
/// The same, until the pools are open.
const OPENING: Duration = Duration::from_secs(1);
/// User to whom events attribute the snapshots.
const BY: &str = "schedule";

/// State kept between rounds.
#[derive(Default)]
pub struct Schedules {
    done: HashMap<u64, Done>,
    /// Failures in the last round: each is reported once.
    reported: BTreeSet<String>,
}

/// Runs until [`crate::wake::Wake::end`]. `clock` returns seconds since 1970.
pub fn keep(service: &Arc<Service>, clock: &dyn Fn() -> u64) {
    let (mut schedules, mut looked, mut next) = (Schedules::default(), 0, 0);
    let mut woken = true;
    loop {
        let now = clock();
        let is_ready = service.owner.is_ready();
        // A clock that was set back triggers a round, too.
        if is_ready && (woken || now >= next || now < looked) {
            schedules.look(service, now);
            (looked, next) = (now, schedule::next(now));
        }
        let longest =
            if is_ready { LONGEST.min(Duration::from_secs(next.saturating_sub(clock()).max(1))) } else { OPENING };
        match service.signals.schedules.pause(longest) {
            Some(early) => woken = early || !is_ready,
            None => return,
        }
    }
}

impl Schedules {
    /// Does what is due at `now` in all pools.
    pub fn look(&mut self, service: &Arc<Service>, now: u64) {
        let Some(_running) = service.owner.begin() else { return };
        let pools = service.owner.house.list();
        self.done.retain(|guid, _| pools.iter().any(|pool| pool.guid() == *guid));
        let mut wrong = BTreeSet::new();
        for pool in &pools {
            self.look_at(service, pool, now, &mut wrong);
        }
        for why in wrong.difference(&self.reported) {
            service.events.post(Happening::warning(EventKind::Dataset, why.clone()).by(BY));
        }
        self.reported = wrong;
    }

    fn look_at(&mut self, service: &Arc<Service>, pool: &Arc<OwnedPool>, now: u64, wrong: &mut BTreeSet<String>) {
        let name = pool.name();
        let Some(writable) = pool.writable().filter(|_| pool.suspension().is_none()) else { return };
        let rounds = match schedule::run(writable, now, self.done.entry(pool.guid()).or_default()) {
            Ok(rounds) => rounds,
            Err(error) => {
                wrong.insert(format!("no scheduled snapshots were taken in {name}: {error}"));
                return;
            }
        };
        for (label, round) in &rounds {
            let whose = |of: &str| if of.is_empty() { name.clone() } else { of.to_owned() };
            let failed =
                round.failed.iter().map(|(of, why)| format!("{} snapshots of {}: {why}", label.name(), whose(of)));
            wrong.extend(failed);
            if let Some(summary) = summary(*label, round) {
                service.events.post(Happening::info(EventKind::Dataset, summary).about(&*name).by(BY));
            }
        }
        if rounds.iter().any(|(_, round)| !round.taken.is_empty() || !round.destroyed.is_empty()) {
            service.changed(&name);
        }
    }
}

/// Result of a round, in a sentence.
fn summary(label: Label, round: &Round) -> Option<String> {
    let count = |all: &[String], done: &str| match all {
        [] => None,
        [one] => Some(format!("{one} {done}")),
        more => Some(format!("{} {done}", more.len())),
    };
    let parts = [count(&round.taken, "taken"), count(&round.destroyed, "destroyed")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{} scheduled snapshots: {}", label.name(), parts.join(", ")))
}
