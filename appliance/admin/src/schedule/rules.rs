//! Determines the schedule rules of each dataset.

use super::label::Label;
use dataset::property::{self, Source};
use dataset::{Dataset, Datasets, Entry, ListOptions, View};
use errors::Error;
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of snapshots kept per label. Guessed: more is a typing error.
const KEEP_MAX: u32 = 100_000;

/// The property that disables all rules of a dataset, as it disables zfs-auto-snapshot.
const REFUSAL: &str = "com.sun:auto-snapshot";

/// A rule that applies to a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Number of snapshots to keep; 0 to take none.
    pub keep: u32,
    /// Applies only to the dataset where it is set.
    pub only: bool,
    /// Dataset where it is set.
    pub from: String,
}

/// A dataset and its rules.
#[derive(Debug, Clone)]
pub struct Ruled {
    /// The file system or volume.
    pub head: Dataset,
    rules: [Option<Rule>; 5],
    refused: [bool; 5],
}

/// A rule with an invalid value. It takes no snapshots, and hides an inherited rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Dataset where it is set.
    pub dataset: String,
    pub label: Label,
    pub value: String,
}

impl Wrong {
    /// Description of a valid value.
    pub fn expected(&self) -> &'static str {
        "expected the number of snapshots to keep, 0 to 100000, optionally followed by ',only' to exclude descendants"
    }
}

impl Ruled {
    /// Number of snapshots of `label` to keep; 0 if none are taken.
    pub fn keep(&self, label: Label) -> u32 {
        match self.rule(label) {
            Some(rule) if !self.is_refused(label) => rule.keep,
            _ => 0,
        }
    }

    /// The rule for `label`, even if disabled.
    pub fn rule(&self, label: Label) -> Option<&Rule> {
        self.rules[label as usize].as_ref()
    }

    /// Whether `com.sun:auto-snapshot=false` disables the rule.
    pub fn is_refused(&self, label: Label) -> bool {
        self.refused[label as usize]
    }
}

fn parse(value: &str) -> Option<(u32, bool)> {
    let (keep, only) = match value.split_once(',') {
        Some((keep, "only")) => (keep, true),
        Some(_) => return None,
        None => (value, false),
    };
    let keep = match keep {
        "none" | "off" => 0,
        _ if keep.bytes().all(|b| b.is_ascii_digit()) => keep.parse().ok().filter(|keep| *keep <= KEEP_MAX)?,
        _ => return None,
    };
    Some((keep, only))
}

type Values = [Option<(String, Arc<str>)>; 5];

/// The rule values for `head`: those set locally, and otherwise those of `above`.
fn values(head: &Dataset, above: Option<&Values>) -> Result<Values, Error> {
    let mut all: Values = above.cloned().unwrap_or_default();
    let entry = Entry::Dataset(head.clone());
    let own: Arc<str> = head.name().into();
    for label in Label::ALL {
        let found = property::get(&entry, label.property(), &View::default())?;
        if let Some(local) = found.filter(|found| found.source == Source::Local) {
            all[label as usize] = Some((local.value.raw, own.clone()));
        }
    }
    Ok(all)
}

fn is_false(head: &Dataset, property: &str) -> Result<bool, Error> {
    let found = property::get(&Entry::Dataset(head.clone()), property, &View::default())?;
    Ok(found.is_some_and(|found| found.value.raw.eq_ignore_ascii_case("false")))
}

/// Whether a receive into the dataset was interrupted.
fn is_inconsistent(head: &Dataset) -> Result<bool, Error> {
    let found = property::get(&Entry::Dataset(head.clone()), "inconsistent", &View::default())?;
    Ok(found.is_some_and(|found| found.value.raw != "0"))
}

fn ruled(head: &Dataset, values: &Values, wrong: &mut Vec<Wrong>) -> Result<Option<Ruled>, Error> {
    let mut ruled = Ruled { head: head.clone(), rules: Default::default(), refused: [false; 5] };
    for label in Label::ALL {
        let Some((value, from)) = &values[label as usize] else { continue };
        match parse(value) {
            Some((_, true)) if **from != *head.name() => {}
            Some((keep, only)) => ruled.rules[label as usize] = Some(Rule { keep, only, from: from.to_string() }),
            None if **from == *head.name() => {
                wrong.push(Wrong { dataset: head.name().to_owned(), label, value: value.clone() });
            }
            None => {}
        }
    }
    if ruled.rules.iter().all(Option::is_none) {
        return Ok(None);
    }
    let refused = is_false(head, REFUSAL)?;
    for label in Label::ALL {
        ruled.refused[label as usize] = refused || is_false(head, &label.refusal())?;
    }
    Ok(Some(ruled))
}

/// Returns the datasets that have rules, each after its parent, and the invalid rules.
pub fn rules(datasets: &Arc<Datasets>) -> Result<(Vec<Ruled>, Vec<Wrong>), Error> {
    let listing = datasets.list(&[], &ListOptions::heads())?;
    for error in &listing.errors {
        tracing::warn!(%error, "a dataset is skipped by scheduled snapshots");
    }
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    let mut above: HashMap<String, Values> = HashMap::new();
    for entry in &listing.entries {
        let Some(head) = entry.dataset() else { continue };
        let parent = head.name().rsplit_once('/').and_then(|(parent, _)| above.get(parent));
        let values = values(head, parent)?;
        let found = ruled(head, &values, &mut wrong)?;
        if values.iter().any(Option::is_some) {
            above.insert(head.name().to_owned(), values);
        }
        // A partially received dataset has no consistent state to keep.
        if let Some(found) = found
            && !is_inconsistent(head)?
        {
            all.push(found);
        }
    }
    Ok((all, wrong))
}

/// The rules of one dataset; `None` if it has none.
pub fn rules_of(datasets: &Arc<Datasets>, name: &str) -> Result<Option<Ruled>, Error> {
    let mut above = None;
    let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
    let mut last = None;
    for end in ends {
        let head = datasets.dataset(&name[..end])?;
        above = Some(values(&head, above.as_ref())?);
        last = Some(head);
    }
    match (last, above) {
        (Some(head), Some(values)) => ruled(&head, &values, &mut Vec::new()),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_number_of_snapshots_and_maybe_only() {
        for (value, expected) in [
            ("24", Some((24, false))),
            ("24,only", Some((24, true))),
            ("0", Some((0, false))),
            ("none", Some((0, false))),
            ("off", Some((0, false))),
            ("100000", Some((100_000, false))),
            ("100001", None),
            ("", None),
            ("+3", None),
            ("24,", None),
            ("24, only", None),
            ("many", None),
        ] {
            assert_eq!(parse(value), expected, "{value:?}");
        }
    }
}
