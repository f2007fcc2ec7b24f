//! Statistics that are sampled once per second from metrics of other components.

use crate::column::Column;
use crate::name::{Field, Name, Predicate, Wanted};
use crate::scheme::Scheme;
use crate::tally::{Describe, UNKNOWN};
use rustc_hash::FxHashMap;

/// A label of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// A name, such as that of a device.
    Text(String),
    /// A number, for heat maps.
    Number(u64),
}

/// One metric in one second: its growth, or its level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Name of the statistic, for example `cpu.utilization`.
    pub stat: &'static str,
    /// Labels that distinguish it within its statistic. The values of all samples add up to the raw
    /// statistic.
    pub labels: Vec<(Field, Label)>,
    pub value: u64,
}

impl Sample {
    /// A sample with text labels only.
    pub fn new(stat: &'static str, labels: &[(Field, &str)], value: u64) -> Self {
        let labels = labels.iter().map(|(field, text)| (*field, Label::Text((*text).to_owned()))).collect();
        Self { stat, labels, value }
    }
}

/// A source of samples, called once at the end of each second.
pub trait Sampler: Send {
    /// Adds samples to `out`.
    fn sample(&mut self, out: &mut Vec<Sample>);
}

/// Aggregates the samples of one statistic.
pub struct SampledTally {
    stat: String,
    predicates: Vec<Predicate>,
    breakdown: Option<Field>,
    scheme: Option<Scheme>,
    seen: bool,
    total: u64,
    sum: u64,
    max: u64,
    cells: FxHashMap<u32, u64>,
}

impl SampledTally {
    /// A tally for a statistic of the catalogue.
    pub fn new(name: &Name) -> Self {
        Self {
            stat: name.raw(),
            predicates: name.predicates.clone(),
            breakdown: name.breakdown,
            scheme: name.breakdown.and_then(Field::scheme),
            seen: false,
            total: 0,
            sum: 0,
            max: 0,
            cells: FxHashMap::default(),
        }
    }

    /// The scheme of its heat map.
    pub fn scheme(&self) -> Option<Scheme> {
        self.scheme
    }

    /// Adds a sample if it belongs to this statistic and matches the predicates.
    pub fn add(&mut self, sample: &Sample, names: &dyn Describe) {
        if sample.stat != self.stat {
            return;
        }
        self.seen = true;
        let label = |field: Field| sample.labels.iter().find(|(f, _)| *f == field).map(|(_, label)| label);
        let passes = self.predicates.iter().all(|p| match (&p.wanted, label(p.field)) {
            (Wanted::Is(wanted), Some(Label::Text(text))) => wanted == text,
            (Wanted::Between(from, to), Some(Label::Number(n))) => from <= n && (n < to || *to == u64::MAX),
            _ => false,
        });
        if !passes || sample.value == 0 {
            return;
        }
        self.total += sample.value;
        let Some(field) = self.breakdown else { return };
        let key = match (self.scheme, label(field)) {
            (Some(scheme), Some(Label::Number(n))) => {
                self.sum = self.sum.wrapping_add(n.wrapping_mul(sample.value));
                self.max = self.max.max(*n);
                scheme.class(*n)
            }
            (None, Some(Label::Text(text))) => names.word(text),
            _ => names.word(UNKNOWN),
        };
        *self.cells.entry(key).or_default() += sample.value;
    }

    /// Returns the column of one second and resets the tally; `None` if there were no samples.
    pub fn close(&mut self) -> Option<Column> {
        let mut cells: Vec<_> = self.cells.drain().collect();
        cells.sort_unstable();
        let column = Column {
            total: std::mem::take(&mut self.total),
            sum: std::mem::take(&mut self.sum),
            max: std::mem::take(&mut self.max),
            seconds: 1,
            cells,
        };
        std::mem::take(&mut self.seen).then_some(column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::tests::Plain;

    #[test]
    fn disks_are_counted_by_how_busy_they_are_and_the_busy_ones_named() {
        let names = Plain::default();
        let disk = |name: &str, busy: u64| Sample {
            stat: "io.disks",
            labels: vec![(Field::Disk, Label::Text(name.to_owned())), (Field::Utilization, Label::Number(busy))],
            value: 1,
        };
        let samples = [disk("a", 100), disk("b", 3), disk("c", 97), disk("d", 3), Sample::new("arc.size", &[], 9)];
        let count = |name: &str| {
            let mut tally = SampledTally::new(&name.parse().expect("a name"));
            samples.iter().for_each(|s| tally.add(s, &names));
            tally.close()
        };
        let map = count("io.disks[utilization]").expect("counted");
        assert_eq!((map.total, map.cells, map.sum, map.max), (4, vec![(3, 2), (97, 1), (100, 1)], 203, 100));
        let busy = count("io.disks[utilization=95][disk]").expect("counted");
        assert_eq!((busy.total, busy.cells), (2, vec![(names.word("a"), 1), (names.word("c"), 1)]));
        assert_eq!(count("arc.size").expect("counted").total, 9);
        assert_eq!(count("cpu.utilization"), None, "not reported, which is not zero");
    }
}
