//! Snapshots by rule: user properties of datasets say how often one is taken and how many are kept.
//!
//! ```text
//!   weir:snapshot-hourly=24        on tank/home          every hour one of tank/home and of all below it; of each the newest 24 are kept
//!   weir:snapshot-daily=31,only    on tank               of tank alone, not of what is below
//!   weir:snapshot-hourly=0         on tank/home/scratch  none here, whatever is set above
//! ```
//! Rules are properties so that they go where the pool goes, are inherited, renamed and destroyed with their datasets, and can be set by
//! whatever sets properties. What a stream brought does not count: a copy that takes snapshots of its own cannot be sent to any more.
//! `com.sun:auto-snapshot=false`, and the same for a label, keep it away as they keep zfs-auto-snapshot away.
//!
//! Invariants:
//!   * nothing is known but what the pool says and the time: whoever opens the pool goes on
//!   * a label has one snapshot in each of its periods; however many were missed, one is made up for
//!   * only what this took is destroyed: the snapshot says so itself, in a property of its own. Never what is held or cloned

mod label;
mod rules;

pub use label::Label;
pub use rules::{Rule, Ruled, Wrong, rules, rules_of};

use crate::write::WritablePool;
use dataset::property::{self, Source};
use dataset::write::{self, Failures};
use dataset::{Dataset, Entry, Error, View};
use std::collections::HashMap;

/// The property by which a snapshot says which rule took it.
pub const MARK: &str = "weir:schedule";

/// Periods that were done in this process: what somebody destroys soon after it was taken is not taken again.
#[derive(Debug, Default)]
pub struct Done(HashMap<(u64, Label), u64>);

/// What was done for one label.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Round {
    /// Snapshots taken.
    pub taken: Vec<String>,
    /// Snapshots destroyed, as there were enough newer ones.
    pub destroyed: Vec<String>,
    /// What could not be, and why. An empty name stands for all.
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
    /// It.
    pub snapshot: Dataset,
    /// When, as its name tells: seconds since 1970.
    pub taken: u64,
}

/// The snapshots of `head` that the rule for `label` took, the oldest first.
pub fn own(head: &Dataset, label: Label) -> Result<Vec<Own>, Error> {
    let mut found = Vec::new();
    for (name, _) in head.snapshot_names()?.iter() {
        let Some(taken) = label.time_of(name) else { continue };
        let snapshot = head.snapshot(name)?;
        let mark = property::get(&Entry::Dataset(snapshot.clone()), MARK, &View::default())?;
        // What a stream brought was taken by somebody else.
        if mark.is_some_and(|mark| mark.source == Source::Local && mark.value.raw == label.name()) {
            found.push(Own { snapshot, taken });
        }
    }
    found.sort_by_key(|own| own.snapshot.phys().creation_txg);
    Ok(found)
}

/// Names of the snapshots that are due at `now`. Periods whose snapshot is there already are done.
fn due(all: &[Ruled], label: Label, now: u64, done: &mut Done) -> Result<Vec<(u64, String)>, Error> {
    let mut names = Vec::new();
    let period = label.period(now);
    for ruled in all {
        let key = (ruled.head.id(), label);
        if ruled.keep(label) == 0 || done.0.get(&key) == Some(&period.start) {
            continue;
        }
        // One from the future, when the clock stood wrong, keeps none away.
        if own(&ruled.head, label)?.iter().any(|own| period.contains(&own.taken)) {
            done.0.insert(key, period.start);
            continue;
        }
        names.push((ruled.head.id(), format!("{}@{}", ruled.head.name(), label.name_at(now))));
    }
    Ok(names)
}

/// Names of the snapshots of which there are enough newer ones.
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

/// Does to all of `names` at once what can be; those that cannot are told, and left out.
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
            // It was none of them: nothing can be.
            names.clear();
        }
    }
    names
}

/// Takes what is due at `now` (seconds since 1970) in the pool, and destroys what has been kept long enough. All snapshots of one label
/// are taken at one moment. What cannot be done keeps nothing else from being done.
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

/// When the rules of `datasets` are to be looked at next after `now`: at the next beginning of any label's period.
pub fn next(now: u64) -> u64 {
    Label::ALL.iter().map(|label| label.period(now).end).min().unwrap_or(now)
}
