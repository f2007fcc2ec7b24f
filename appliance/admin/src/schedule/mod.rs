//! Scheduled snapshots: user properties of datasets define how often they are taken and how many
//! are kept.
//!
//! ```text
//!   weir:snapshot-hourly=24        on tank/home          hourly, of tank/home and everything
//!                                                        below; the newest 24 of each are kept
//!   weir:snapshot-daily=31,only    on tank               of tank only, without descendants
//!   weir:snapshot-hourly=0         on tank/home/scratch  none here, whatever is set above
//! ```
//! Rules are properties, so they move with the pool, are inherited, renamed and destroyed with
//! their datasets, and can be set by any tool that sets properties. Received values do not count: a
//! copy that takes its own snapshots could no longer receive increments.
//! `com.sun:auto-snapshot=false`, also per label, disables rules as it disables zfs-auto-snapshot.
//!
//! Invariants:
//!   * the only inputs are the pool and the time, so any process that opens the pool continues the
//!     schedule
//!   * a label has one snapshot in each of its periods; if several were missed, only one is made up
//!     for
//!   * only snapshots taken by a rule are destroyed, as recorded in a property of the snapshot;
//!     never those that are held or cloned

mod label;
mod rules;

pub use label::Label;
pub use rules::{Rule, Ruled, Wrong, rules, rules_of};

use crate::write::WritablePool;
use dataset::property::{self, Source};
use dataset::write::{self, Failures};
use dataset::{Dataset, Entry, View};
use errors::Error;
use std::collections::HashMap;

/// The property of a snapshot that records the rule that took it.
pub const MARK: &str = "weir:schedule";

/// Periods done in this process, so that a snapshot that a user destroys is not taken again.
#[derive(Debug, Default)]
pub struct Done(HashMap<(u64, Label), u64>);

/// Result for one label.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Round {
    /// Names of the snapshots taken.
    pub taken: Vec<String>,
    /// Names of the snapshots destroyed because there were enough newer ones.
    pub destroyed: Vec<String>,
    /// Failures: name and reason. An empty name means all.
    pub failed: Vec<(String, String)>,
}

impl Round {
    /// Whether there was nothing to do.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.destroyed.is_empty() && self.failed.is_empty()
    }
}

/// A snapshot that a rule took.
#[derive(Debug, Clone)]
pub struct Own {
    pub snapshot: Dataset,
    /// Time according to its name: seconds since 1970.
    pub taken: u64,
}

/// The snapshots of `head` that the rule for `label` took, oldest first.
pub fn own(head: &Dataset, label: Label) -> Result<Vec<Own>, Error> {
    let mut found = Vec::new();
    for (name, _) in head.snapshot_names()?.iter() {
        let Some(taken) = label.time_of(name) else { continue };
        let snapshot = head.snapshot(name)?;
        let mark = property::get(&Entry::Dataset(snapshot.clone()), MARK, &View::default())?;
        // A received snapshot was taken elsewhere.
        if mark.is_some_and(|mark| mark.source == Source::Local && mark.value.raw == label.name()) {
            found.push(Own { snapshot, taken });
        }
    }
    found.sort_by_key(|own| own.snapshot.phys().creation_txg);
    Ok(found)
}

/// Names of the snapshots that are due at `now`. A period with an existing snapshot is marked as
/// done.
fn due(all: &[Ruled], label: Label, now: u64, done: &mut Done) -> Result<Vec<(u64, String)>, Error> {
    let mut names = Vec::new();
    let period = label.period(now);
    for ruled in all {
        let key = (ruled.head.id(), label);
        if ruled.keep(label) == 0 || done.0.get(&key) == Some(&period.start) {
            continue;
        }
        // A snapshot from the future, taken with a wrong clock, does not prevent new ones.
        if own(&ruled.head, label)?.iter().any(|own| period.contains(&own.taken)) {
            done.0.insert(key, period.start);
            continue;
        }
        names.push((ruled.head.id(), format!("{}@{}", ruled.head.name(), label.name_at(now))));
    }
    Ok(names)
}

/// Names of the snapshots with enough newer ones.
fn outdated(all: &[Ruled], label: Label) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for ruled in all {
        let keep = ruled.keep(label) as usize;
        if keep == 0 {
            continue;
        }
        let own = own(&ruled.head, label)?;
        for old in &own[..own.len().saturating_sub(keep)] {
            let snapshot = &old.snapshot;
            if snapshot.hold_count()? == 0 && snapshot.phys().num_children <= 1 {
                names.push(snapshot.name().to_owned());
            }
        }
    }
    Ok(names)
}

/// Runs an operation on all of `names` at once. Names that fail are recorded in `failed` and left
/// out of the next try.
fn each(
    mut names: Vec<String>,
    failed: &mut Vec<(String, String)>,
    run: impl Fn(&[String]) -> Result<(), Failures>,
) -> Vec<String> {
    while !names.is_empty() {
        let Err(failures) = run(&names) else { break };
        let before = names.len();
        for (name, error) in failures {
            names.retain(|n| *n != name);
            failed.push((name, error.to_string()));
        }
        if names.len() == before {
            // No single name is at fault, so none can succeed.
            names.clear();
        }
    }
    names
}

/// Takes the snapshots due at `now` (seconds since 1970) in the pool, and destroys those beyond
/// their rule's number. All snapshots of one label are taken atomically. A failure does not affect
/// the others.
pub fn run(pool: &WritablePool, now: u64, done: &mut Done) -> Result<Vec<(Label, Round)>, Error> {
    let mut rounds: Vec<(Label, Round)> = Vec::new();
    let (all, wrong) = rules(&pool.live.synced()?)?;
    for wrong in wrong {
        let why = format!("{}={}: {}", wrong.label.property(), wrong.value, wrong.expected());
        rounds.push((wrong.label, Round { failed: vec![(wrong.dataset, why)], ..Round::default() }));
    }
    if all.is_empty() {
        return Ok(rounds);
    }
    for label in Label::ALL {
        let mut round = Round::default();
        let names = due(&all, label, now, done)?;
        let properties = [(MARK.to_owned(), label.name().to_owned())];
        let take = |names: &[String]| write::snapshot(&pool.live, names, &properties);
        round.taken = each(names.iter().map(|(_, name)| name.clone()).collect(), &mut round.failed, take);
        for (id, name) in &names {
            if round.taken.contains(name) {
                done.0.insert((*id, label), label.period(now).start);
            }
        }
        rounds.push((label, round));
    }
    let (all, _) = rules(&pool.live.synced()?)?;
    for (label, round) in &mut rounds {
        let destroy = |names: &[String]| write::destroy_snapshots(&pool.live, names, false);
        round.destroyed = each(outdated(&all, *label)?, &mut round.failed, destroy);
    }
    rounds.retain(|(_, round)| !round.is_empty());
    Ok(rounds)
}

/// Time of the next run after `now`: the start of the next period of any label.
pub fn next(now: u64) -> u64 {
    Label::ALL.iter().map(|label| label.period(now).end).min().unwrap_or(now)
}
