//! Explains a set of operations: which clients, files and other values they have more of than the
//! rest.
//!
//! The user selects a rectangle on a heat map. The operations in it are compared with all others of
//! the same statistic. For each value of each field: its share of the selection, its share of the
//! rest, and by how much the selection exceeds the share predicted by the rest. Fields are ranked
//! by their best value.
//!
//! If only a time was selected, not a part of the vertical axis, values that decreased are
//! significant, too: a client behind a bad cable has no slow operations, it has fewer. This is
//! determined by rates, because the shares of others rise when one falls.
//!
//! Invariant: within a field, the counts of all values add up to the number of operations, both
//! inside and outside.

use crate::catalogue;
use crate::name::{BadName, Field, Name, Predicate, Wanted};
use crate::tally::{Describe, Tally};
use observe::event::Event;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// One value of a field.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Value {
    pub value: String,
    /// Count in the selection.
    pub inside: u64,
    /// Count in the rest.
    pub outside: u64,
    /// Significance: 0 if as frequent as elsewhere, 1 if in all of the selection and nowhere else;
    /// up to one half for a value that nearly vanished during a selected time.
    pub score: f64,
}

/// A field with its values, the most significant first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked {
    pub field: Field,
    /// Score of its best value.
    pub score: f64,
    /// The most significant values.
    pub values: Vec<Value>,
    /// Number of values that are not listed.
    pub more: usize,
}

/// Average times of operations in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Times {
    /// From request to reply.
    pub latency: f64,
    /// Time in the queue, part of the latency.
    pub queue_wait: f64,
    /// Time waiting for the intent log.
    pub log_wait: f64,
    /// Time waiting to enter a transaction group.
    pub txg_wait: f64,
    /// Time waiting for devices.
    pub disk_wait: f64,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Number of selected operations.
    pub inside: u64,
    /// Number of operations they were compared with.
    pub outside: u64,
    /// Fields, the most significant first; if two are about equal, clients rank before operations.
    pub fields: Vec<Ranked>,
    /// Average times of the selected operations.
    pub times_inside: Times,
    /// Average times of the other operations.
    pub times_outside: Times,
}

/// Weight of fields that describe the kind of operation, relative to those that identify its
/// origin. Guessed from injected faults: such fields led by up to 11 % where a client was the
/// cause, and by more than half where they were the cause.
const KIND_WEIGHT: f64 = 0.8;
/// Maximum number of values listed for a field.
const LISTED: usize = 20;

/// Counts operations inside and outside a selection, and compares the counts.
pub struct Explainer {
    fields: Vec<Field>,
    tallies: Vec<[Tally; 2]>,
    selected: Vec<Predicate>,
    span: (u64, u64),
    base: Tally,
    counts: [u64; 2],
    times: [Times; 2],
    /// Completion times of the first and the last operation, of the selection and of the rest.
    ended: [Option<(u64, u64)>; 2],
}

impl Explainer {
    /// For a rectangle: the operations of `name`, whose breakdown is the vertical axis, that ended
    /// in `span` (nanoseconds since 1970, end exclusive) and whose number is in `rows`.
    pub fn new(name: &Name, span: (u64, u64), rows: Option<(u64, u64)>) -> Result<Self, BadName> {
        let statistic = catalogue::find(name)?;
        let raw = Name { breakdown: None, ..name.clone() };
        let by = |field: Field| Name { breakdown: Some(field), ..raw.clone() };
        let none = || BadName { name: name.to_string(), at: 0, wrong: "its operations are not recorded".to_owned() };
        let of = |name: &Name| Tally::new(name)?.ok_or_else(none);
        let fixed = |field: &Field| raw.predicates.iter().any(|p| p.field == *field);
        let fields: Vec<_> = statistic.fields.iter().copied().filter(|f| f.scheme().is_none() && !fixed(f)).collect();
        let tallies = fields.iter().map(|f| Ok([of(&by(*f))?, of(&by(*f))?])).collect::<Result<_, _>>()?;
        let row = name.breakdown.zip(rows);
        let selected =
            row.map(|(field, (from, to))| Predicate { field, wanted: Wanted::Between(from, to) }).into_iter().collect();
        Ok(Self {
            fields,
            tallies,
            selected,
            span,
            base: of(&raw)?,
            counts: [0; 2],
            times: [Times::default(); 2],
            ended: [None; 2],
        })
    }

    /// Adds an operation to the selection or the rest. Ignores it if it does not match the
    /// statistic.
    pub fn add(&mut self, event: &Event, names: &dyn Describe) {
        if !self.base.takes(event, names) {
            return;
        }
        let inside = self.span.0 <= event.done
            && event.done < self.span.1
            && self.selected.iter().all(|p| crate::tally::is_in_range(event, p));
        let side = usize::from(!inside);
        for tally in &mut self.tallies {
            if let Some(tally) = tally.get_mut(side) {
                tally.add(event, names);
            }
        }
        let (Some(count), Some(times)) = (self.counts.get_mut(side), self.times.get_mut(side)) else { return };
        *count += 1;
        if let Some(ended) = self.ended.get_mut(side) {
            let (first, last) = ended.unwrap_or((event.done, event.done));
            *ended = Some((first.min(event.done), last.max(event.done)));
        }
        times.latency += event.latency as f64;
        times.queue_wait += f64::from(event.note.queue_wait) * 1000.0;
        times.log_wait += f64::from(event.note.log_wait) * 1000.0;
        times.txg_wait += f64::from(event.note.txg_wait) * 1000.0;
        times.disk_wait += f64::from(event.note.disk_wait) * 1000.0;
    }

    /// Computes the result. `text` maps a word of `names` to its text.
    pub fn finish(mut self, names: &dyn Describe, text: impl Fn(u32) -> String) -> Explanation {
        let [inside, outside] = self.counts;
        let mut fields = Vec::new();
        let lasted = self.ended.map(|e| e.map_or(0.0, |(first, last)| (last - first) as f64));
        let times_alone = self.selected.is_empty();
        for (field, tallies) in self.fields.iter().zip(&mut self.tallies) {
            let mut counts: FxHashMap<u32, [u64; 2]> = FxHashMap::default();
            let mut totals = [0u64; 2];
            for (side, tally) in tallies.iter_mut().enumerate() {
                for (word, n) in tally.close(names).cells {
                    if let (Some(count), Some(total)) =
                        (counts.entry(word).or_default().get_mut(side), totals.get_mut(side))
                    {
                        *count += n;
                        *total += n;
                    }
                }
            }
            let mut values: Vec<Value> = counts
                .into_iter()
                .map(|(word, [inside, outside])| {
                    let rose = score(inside, totals[0], outside, totals[1]);
                    let fell = if times_alone { fall(inside, lasted[0], outside, lasted[1]) } else { 0.0 };
                    // Increases are stronger evidence than decreases: setting up a test ends, too.
                    let score = rose.max(fell / 2.0);
                    Value { value: text(word), inside, outside, score }
                })
                .collect();
            values
                .sort_by(|a, b| b.score.total_cmp(&a.score).then(b.inside.cmp(&a.inside)).then(a.value.cmp(&b.value)));
            let more = values.len().saturating_sub(LISTED);
            values.truncate(LISTED);
            let score = values.first().map_or(0.0, |v| v.score);
            fields.push(Ranked { field: *field, score, values, more });
        }
        fields.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        let mean = |times: Times, count: u64| {
            let count = count.max(1) as f64;
            Times {
                latency: times.latency / count,
                queue_wait: times.queue_wait / count,
                log_wait: times.log_wait / count,
                txg_wait: times.txg_wait / count,
                disk_wait: times.disk_wait / count,
            }
        };
        let [times_inside, times_outside] = self.times;
        Explanation {
            inside,
            outside,
            fields,
            times_inside: mean(times_inside, inside),
            times_outside: mean(times_outside, outside),
        }
    }
}

/// The rank of a field. The kind of operations follows from the client: one that suddenly reads a
/// file increases the share of reads, and of hits. Such fields are therefore weaker evidence than a
/// client, a file or a disk with nearly the same score.
fn rank(field: &Ranked) -> f64 {
    let is_kind = matches!(field.field, Field::Op | Field::HitMiss);
    if is_kind { field.score * KIND_WEIGHT } else { field.score }
}

/// The excess of a value's share, minus what chance explains: both shares are moved one standard
/// error towards each other, so that two of three operations do not outrank nine hundred of a
/// thousand.
fn score(inside: u64, all_inside: u64, outside: u64, all_outside: u64) -> f64 {
    if all_inside == 0 {
        return 0.0;
    }
    let share = |n: u64, of: u64| if of == 0 { 0.0 } else { n as f64 / of as f64 };
    let (p, q) = (share(inside, all_inside), share(outside, all_outside));
    let error = |share: f64, of: u64| (share * (1.0 - share) / of.max(1) as f64).sqrt() + 1.0 / (of as f64 + 2.0);
    let excess = p - error(p, all_inside) - q - error(q, all_outside).min(0.5);
    excess.clamp(0.0, 1.0)
}

/// The relative decrease of a value's rate, minus what chance explains; 0 if it vanished
/// completely, which needs no explanation.
fn fall(inside: u64, lasted_inside: f64, outside: u64, lasted_outside: f64) -> f64 {
    if inside == 0 || lasted_inside <= 0.0 || lasted_outside <= 0.0 {
        return 0.0;
    }
    // Counts are moved two standard errors towards each other: fluctuating rates must not look like
    // a fault.
    let most = inside as f64 + 2.0 * (inside as f64).sqrt() + 2.0;
    let least = outside as f64 - 2.0 * (outside as f64).sqrt() - 2.0;
    if least <= 0.0 {
        return 0.0;
    }
    (1.0 - most / lasted_inside / (least / lasted_outside)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::tests::{Plain, events};
    use observe::event::Note;
    use proptest::prelude::*;

    fn explain(name: &str, span: (u64, u64), rows: Option<(u64, u64)>, events: &[Event]) -> Explanation {
        let names = Plain::default();
        let mut explainer = Explainer::new(&name.parse().expect("a name"), span, rows).expect("known");
        events.iter().for_each(|e| explainer.add(e, &names));
        explainer.finish(&names, |word| names.0.name(word).map(|n| n.to_string()).unwrap_or_default())
    }

    #[test]
    fn clients_rank_before_operations() {
        // All clients write and read a little; then one client reads a lot.
        let operation = |n: u64, op: u8, client: u32| {
            let note = Note { place: 1, object: u64::from(client), ..Note::default() };
            Event { done: n, latency: 1000, op, client, note, ..Event::default() }
        };
        let before = (0..1000).map(|n| operation(n, if n % 3 == 0 { 6 } else { 7 }, (n % 10) as u32 + 1));
        let after = (1000..2000).map(|n| operation(n, 6, if n % 100 < 73 { 7 } else { (n % 10) as u32 + 1 }));
        let all: Vec<Event> = before.chain(after).collect();
        let found = explain("nfs3.ops", (1000, 2000), None, &all);
        let score = |field| found.fields.iter().find(|f| f.field == field).map_or(0.0, |f| f.score);
        assert!(score(Field::Op) > score(Field::Client), "{found:?}");
        assert!(matches!(found.fields[0].field, Field::Client | Field::File), "{found:?}");
    }

    #[test]
    fn the_one_client_that_is_slow_is_named_first() {
        let mut all = Vec::new();
        for n in 0..10_000u64 {
            let client = (n % 10) as u32 + 1;
            let latency = if client == 7 || n % 500 == 0 { 9_000_000 } else { 80_000 + n % 100 * 100 };
            let note = Note { place: 1, object: n % 37, ..Note::default() };
            all.push(Event { done: n, latency, op: 6 + (n % 2) as u8, client, note, ..Event::default() });
        }
        let found = explain("nfs3.ops[latency]", (0, 10_000), Some((5_000_000, 20_000_000)), &all);
        assert_eq!((found.inside, found.outside), (1000 + 20, 9000 - 20));
        let first = found.fields.first().expect("fields");
        assert_eq!(
            (first.field, first.values[0].value.as_str(), first.values[0].inside),
            (Field::Client, "10.0.0.7", 1000)
        );
        assert!(first.score > 0.9, "{first:?}");
        // Client 7 has even numbers only, so its operation is always the same. It ranks lower.
        assert!(found.fields[1].score < first.score);
        assert!(found.times_inside.latency > 5e6 && found.times_outside.latency < 1e5);
    }

    #[test]
    fn the_one_client_that_does_less_than_before_is_named_where_only_a_time_is_selected() {
        let mut all = Vec::new();
        for ms in 0..20_000u64 {
            for client in 1..=10 {
                // 40 per second each; the fourth client 22 from the tenth second on.
                let period = if client == 4 && ms >= 10_000 { 45 } else { 25 };
                if ms % period == 0 {
                    all.push(Event { done: ms * 1_000_000, latency: 100_000, op: 6, client, ..Event::default() });
                }
            }
        }
        let second = 1_000_000_000;
        let found = explain("nfs3.ops[client]", (10 * second, 20 * second), None, &all);
        let first = found.fields.first().expect("fields");
        assert_eq!((first.field, first.values[0].value.as_str()), (Field::Client, "10.0.0.4"), "{first:?}");
        assert!(first.score > 0.1 && first.values[1].score < 0.02, "{first:?}");
        // Decreases do not count if a part of the vertical axis is selected.
        let found = explain("nfs3.ops[latency]", (10 * second, 20 * second), Some((0, 1 << 40)), &all);
        assert!(found.fields.iter().all(|f| f.score < 0.05), "{found:?}");
    }

    #[test]
    fn where_all_are_alike_nothing_is_special() {
        let all: Vec<_> = (0..4000u64)
            .map(|n| Event {
                done: n,
                latency: n % 7 * 1000,
                op: (n % 3) as u8,
                client: (n % 5) as u32,
                ..Event::default()
            })
            .collect();
        let found = explain("nfs3.ops[latency]", (0, 4000), Some((3000, 7000)), &all);
        assert!(found.fields.iter().all(|f| f.score < 0.05), "{found:?}");
        let few = explain("nfs3.ops[latency]", (0, 3), None, &all);
        assert!(few.fields.iter().all(|f| f.score < 0.7), "three operations prove little: {few:?}");
    }

    proptest! {
        #[test]
        fn counts_add_up_inside_and_outside(events in events(200), rows in (0u64..1 << 30, 0u64..1 << 40)) {
            let span = (1_700_000_000_000_000_000, 1_700_000_005_000_000_000);
            let found = explain("nfs3.ops[latency]", span, Some((rows.0, rows.0 + rows.1)), &events);
            for field in found.fields.iter().filter(|f| f.more == 0) {
                prop_assert_eq!(field.values.iter().map(|v| v.inside).sum::<u64>(), found.inside);
                prop_assert_eq!(field.values.iter().map(|v| v.outside).sum::<u64>(), found.outside);
            }
        }
    }
}
