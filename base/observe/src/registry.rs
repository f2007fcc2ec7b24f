//! The registry of metric sources, and the definition of a metric.

use crate::{Counter, Gauge, Histogram, Spread};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Unit of a metric. Text formats append it to the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A plain count.
    Number,
    Bytes,
    /// Nanoseconds; displayed and exported as seconds.
    Nanoseconds,
}

/// Name and meaning of a metric. Defined once, next to the code that counts.
#[derive(Debug, PartialEq, Eq)]
pub struct Info {
    /// For example `device_reads`: lower case, from the general to the specific, without unit.
    pub name: &'static str,
    pub unit: Unit,
    /// One sentence for users.
    pub help: &'static str,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows: a [`Counter`].
    Count,
    /// Goes up and down: a [`Gauge`].
    Level,
    /// A distribution: a [`Histogram`].
    Spread,
}

/// Label names and values that distinguish the series of a family.
pub type Labels = Vec<(&'static str, String)>;

/// Value of one series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Value of a counter.
    Count(u64),
    /// Value of a gauge.
    Level(u64),
    /// Contents of a histogram.
    Spread(Spread),
}

impl Value {
    /// The type of this value.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Count(_) => Kind::Count,
            Self::Level(_) => Kind::Level,
            Self::Spread(_) => Kind::Spread,
        }
    }
}

/// A value and the labels that distinguish it within its family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// For example `pool` = `tank`; the labels of the source come first.
    pub labels: Labels,
    pub value: Value,
}

/// All series of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// Definition of the metric.
    pub info: &'static Info,
    pub kind: Kind,
    pub series: Vec<Series>,
}

/// A component that reports metrics.
pub trait Source: Send + Sync {
    /// Reports all metrics of this source. Called occasionally, on the thread that exports them;
    /// must not block for long.
    fn collect(&self, out: &mut Collector<'_>);
}

/// Receives the metrics that a [`Source`] reports.
pub struct Collector<'a> {
    families: &'a mut BTreeMap<&'static str, Family>,
    labels: &'a [(&'static str, String)],
}

impl Collector<'_> {
    /// Adds a value. `labels` distinguish it from other values of the same metric in this source.
    ///
    /// # Panics
    /// If the name is already defined with another [`Info`] or [`Kind`]: a metric is defined once.
    pub fn put(&mut self, info: &'static Info, labels: &[(&'static str, &str)], value: Value) {
        let kind = value.kind();
        let fresh = || Family { info, kind, series: Vec::new() };
        let family = self.families.entry(info.name).or_insert_with(fresh);
        assert!(*family.info == *info && family.kind == kind, "{} is defined twice", info.name);
        let own = labels.iter().map(|(name, value)| (*name, (*value).to_owned()));
        family.series.push(Series { labels: self.labels.iter().cloned().chain(own).collect(), value });
    }

    /// Adds the value of a counter.
    pub fn counter(&mut self, info: &'static Info, labels: &[(&'static str, &str)], counter: &Counter) {
        self.put(info, labels, Value::Count(counter.get()));
    }

    /// Adds the value of a gauge.
    pub fn gauge(&mut self, info: &'static Info, labels: &[(&'static str, &str)], gauge: &Gauge) {
        self.put(info, labels, Value::Level(gauge.get()));
    }

    /// Adds the contents of a histogram.
    pub fn histogram(&mut self, info: &'static Info, labels: &[(&'static str, &str)], histogram: &Histogram) {
        self.put(info, labels, Value::Spread(histogram.spread()));
    }

    /// Collects another source with additional labels.
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

/// The metric sources of a process.
#[derive(Default)]
pub struct Registry {
    entries: Mutex<Vec<Entry>>,
}

impl Registry {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Registers `source` with these labels. The registry holds a weak reference: the source is
    /// listed as long as another owner keeps it alive.
    pub fn add(&self, labels: &[(&'static str, &str)], source: &Arc<dyn Source>) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let mut entries = self.entries.lock();
        entries.retain(|e| e.source.strong_count() > 0);
        entries.push(Entry { labels, source: Arc::downgrade(source) });
    }

    /// The current values of all metrics, sorted by name.
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
    static LEVEL: Info = Info { name: "level", unit: Unit::Bytes, help: "Current level." };

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
    fn metrics_of_a_part_have_the_labels_of_the_whole() {
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
