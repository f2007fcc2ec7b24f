//! Who has figures, and what they are called.

use crate::{Counter, Gauge, Histogram, Spread};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// In what something is counted. Text formats put it behind the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Number,
    /// Bytes.
    Bytes,
    /// Nanoseconds; shown to people and in text formats as seconds.
    Nanoseconds,
}

/// What a figure is called and means: one definition, beside what it counts.
#[derive(Debug, PartialEq, Eq)]
pub struct Info {
    /// Such as `device_reads`: lower case, words from the general to the special, no unit.
    pub name: &'static str,
    /// In what it is counted.
    pub unit: Unit,
    /// A sentence for people.
    pub help: &'static str,
}

/// How a figure behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows: a [`Counter`].
    Count,
    /// It goes up and down: a [`Gauge`].
    Level,
    /// A [`Histogram`].
    Spread,
}

/// What tells values apart: names with values.
pub type Labels = Vec<(&'static str, String)>;

/// A figure's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// What happened so far.
    Count(u64),
    /// Where it stands.
    Level(u64),
    /// How it is spread.
    Spread(Spread),
}

impl Value {
    /// Of which kind it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Count(_) => Kind::Count,
            Self::Level(_) => Kind::Level,
            Self::Spread(_) => Kind::Spread,
        }
    }
}

/// A value and what tells it from the others of its family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Such as `pool` and `tank`; those of the source's place first.
    pub labels: Labels,
    /// The value.
    pub value: Value,
}

/// All values of one figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// What it is.
    pub info: &'static Info,
    /// How it behaves.
    pub kind: Kind,
    /// Its values.
    pub series: Vec<Series>,
}

/// Something that has figures.
pub trait Source: Send + Sync {
    /// Tells all of them. Called now and then, by whoever shows them: it must not wait long for anybody.
    fn collect(&self, out: &mut Collector<'_>);
}

/// Takes what a [`Source`] tells.
pub struct Collector<'a> {
    families: &'a mut BTreeMap<&'static str, Family>,
    labels: &'a [(&'static str, String)],
}

impl Collector<'_> {
    /// Takes a value. `labels` tell it from others of the same name that this source has.
    ///
    /// # Panics
    /// If the name stands for something else already: figures are defined once.
    pub fn put(&mut self, info: &'static Info, labels: &[(&'static str, &str)], value: Value) {
        let kind = value.kind();
        let fresh = || Family { info, kind, series: Vec::new() };
        let family = self.families.entry(info.name).or_insert_with(fresh);
        assert!(*family.info == *info && family.kind == kind, "{} is defined twice", info.name);
        let own = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
        family.series.push(Series { labels: self.labels.iter().cloned().chain(own).collect(), value });
    }

    /// Takes what a counter has.
    pub fn counter(&mut self, info: &'static Info, labels: &[(&'static str, &str)], counter: &Counter) {
        self.put(info, labels, Value::Count(counter.get()));
    }

    /// Takes where a gauge stands.
    pub fn gauge(&mut self, info: &'static Info, labels: &[(&'static str, &str)], gauge: &Gauge) {
        self.put(info, labels, Value::Level(gauge.get()));
    }

    /// Takes what a histogram has.
    pub fn histogram(&mut self, info: &'static Info, labels: &[(&'static str, &str)], histogram: &Histogram) {
        self.put(info, labels, Value::Spread(histogram.spread()));
    }

    /// Lets another source tell its own, with more labels.
    pub fn within(&mut self, labels: &[(&'static str, &str)], source: &dyn Source) {
        let more = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let all: Labels = self.labels.iter().cloned().chain(more).collect();
        source.collect(&mut Collector { families: self.families, labels: &all });
    }
}

struct Entry {
    labels: Labels,
    source: Weak<dyn Source>,
}

/// The figures of a process.
#[derive(Default)]
pub struct Registry {
    entries: Mutex<Vec<Entry>>,
}

impl Registry {
    /// An empty one.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lists what `source` has, with these labels, as long as somebody else keeps it.
    pub fn add(&self, labels: &[(&'static str, &str)], source: &Arc<dyn Source>) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let mut entries = self.entries.lock();
        entries.retain(|e| e.source.strong_count() > 0);
        entries.push(Entry { labels, source: Arc::downgrade(source) });
    }

    /// All figures now, by name.
    pub fn collect(&self) -> Vec<Family> {
        let sources: Vec<(Labels, Arc<dyn Source>)> = {
            let entries = self.entries.lock();
            entries.iter().filter_map(|e| Some((e.labels.clone(), e.source.upgrade()?))).collect()
        };
        let mut families = BTreeMap::new();
        for (labels, source) in &sources {
            source.collect(&mut Collector { families: &mut families, labels });
        }
        families.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static DROPS: Info = Info { name: "drops", unit: Unit::Number, help: "Drops that fell." };
    static LEVEL: Info = Info { name: "level", unit: Unit::Bytes, help: "How high it stands." };

    #[derive(Default)]
    struct Well {
        drops: Counter,
        level: Gauge,
    }

    impl Source for Well {
        fn collect(&self, out: &mut Collector<'_>) {
            out.counter(&DROPS, &[("side", "left")], &self.drops);
            out.gauge(&LEVEL, &[], &self.level);
        }
    }

    #[test]
    fn figures_are_listed_as_long_as_their_owner_lives() {
        let registry = Registry::new();
        let (a, b) = (Arc::new(Well::default()), Arc::new(Well::default()));
        registry.add(&[("pool", "a")], &(a.clone() as Arc<dyn Source>));
        registry.add(&[("pool", "b")], &(b.clone() as Arc<dyn Source>));
        a.drops.add(3);
        b.level.set(9);
        let families = registry.collect();
        assert_eq!(
            families.iter().map(|f| (f.info.name, f.series.len())).collect::<Vec<_>>(),
            [("drops", 2), ("level", 2)]
        );
        let labels = |pool: &str| vec![("pool", pool.to_owned()), ("side", "left".to_owned())];
        assert_eq!(families[0].series[0], Series { labels: labels("a"), value: Value::Count(3) });
        assert_eq!(families[1].series[1].value, Value::Level(9));
        drop(a);
        assert_eq!(registry.collect()[0].series, [Series { labels: labels("b"), value: Value::Count(0) }]);
    }

    #[test]
    fn a_part_tells_its_figures_with_the_labels_of_the_whole() {
        struct Town(Well);
        impl Source for Town {
            fn collect(&self, out: &mut Collector<'_>) {
                out.within(&[("well", "old")], &self.0);
            }
        }
        let (registry, town) = (Registry::new(), Arc::new(Town(Well::default())) as Arc<dyn Source>);
        registry.add(&[("town", "x")], &town);
        let labels: Vec<&str> = registry.collect()[1].series[0].labels.iter().map(|(name, _)| *name).collect();
        assert_eq!(labels, ["town", "well"]);
    }
}
