//! Converts the consecutive reports of a tool to series: places each in time, and fills in what it
//! omits.

use super::text::Source;
use super::{Clock, Error, Imported};
use crate::format::Unit;
use crate::series::{Series, Span};
use std::collections::BTreeMap;

/// Identifies a number in a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub name: &'static str,
    pub whose: Vec<(&'static str, String)>,
    pub unit: Unit,
    pub per_second: bool,
}

impl Key {
    pub fn new(name: &'static str, unit: Unit, per_second: bool) -> Self {
        Self { name, whose: Vec::new(), unit, per_second }
    }

    pub fn of(mut self, label: &'static str, whose: &str) -> Self {
        self.whose.push((label, whose.to_owned()));
        self
    }
}

#[derive(Debug, Default)]
struct Report {
    at: Option<f64>,
    is_boot: bool,
    values: BTreeMap<Key, f64>,
}

/// The reports of a text.
#[derive(Debug, Default)]
pub(super) struct Reports {
    clock: Clock,
    all: Vec<Report>,
    /// The tool can omit idle devices: a device missing from a report was idle.
    hides_idle: bool,
    /// The first report covers the time since boot.
    begins_with_boot: bool,
}

impl Reports {
    /// An empty list of reports.
    pub fn new(begins_with_boot: bool, hides_idle: bool) -> Self {
        Self { begins_with_boot, hides_idle, ..Self::default() }
    }

    /// Starts a report. `at`: its time, if the first line has it.
    pub fn begin(&mut self, at: Option<(Clock, f64)>) {
        self.all.push(Report::default());
        if let Some((clock, at)) = at {
            self.at(clock, at);
        }
    }

    /// Sets the time of the report, if it follows the report's first line.
    pub fn at(&mut self, clock: Clock, at: f64) {
        self.clock = clock;
        if let Some(report) = self.all.last_mut() {
            report.at = Some(at);
        }
    }

    /// Marks the report as covering the time since boot.
    pub fn is_boot(&mut self) {
        if let Some(report) = self.all.last_mut() {
            report.is_boot = true;
        }
    }

    /// Adds a number to the report; NaN is ignored.
    pub fn put(&mut self, key: Key, value: f64) {
        if self.all.is_empty() {
            self.begin(None);
        }
        if let Some(report) = self.all.last_mut().filter(|_| !value.is_nan()) {
            report.values.insert(key, value);
        }
    }

    /// Whether the report already has this number.
    pub fn has(&self, key: &Key) -> bool {
        self.all.last().is_some_and(|r| r.values.contains_key(key))
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Time of the last report.
    pub fn last_at(&self) -> Option<f64> {
        self.all.last()?.at
    }

    /// All series, and notes on what was omitted or filled in.
    pub fn finish(mut self, source: &Source<'_>) -> Result<Imported, Error> {
        let mut notes = Vec::new();
        let is_marked = self.all.iter().any(|r| r.is_boot);
        let before = self.all.len();
        if is_marked {
            self.all.retain(|r| !r.is_boot);
        } else if self.begins_with_boot && !source.options.keep_first && !self.all.is_empty() {
            self.all.remove(0);
        }
        if self.all.len() < before {
            notes.push("left out: the first report, of what was since boot".to_owned());
        }
        if self.all.is_empty() {
            return Err(Error::Empty(source.name.clone()));
        }
        let (spans, interval) = self.place(source.options.interval);
        let start = match (spans.first(), self.all.first().and_then(|r| r.at)) {
            (Some((from, _)), Some(_)) => *from,
            _ => 0.0,
        };
        let clock = if self.all.iter().any(|r| r.at.is_some()) { self.clock } else { Clock::Counted };
        if clock == Clock::Counted {
            notes.push(format!("there are no times in it: reports are counted, {interval} s each"));
        }
        let keys: Vec<Key> = {
            let mut keys: Vec<Key> = self.all.iter().flat_map(|r| r.values.keys().cloned()).collect();
            keys.sort();
            keys.dedup();
            keys
        };
        let (mut made_up, mut series) = (0, Vec::new());
        for key in keys {
            let labels: Vec<(&str, &str)> = key.whose.iter().map(|(l, w)| (*l, w.as_str())).collect();
            let mut one = Series::new(key.name, &labels, key.unit, key.per_second);
            for (report, (from, to)) in self.all.iter().zip(&spans) {
                let value = match report.values.get(&key) {
                    Some(value) => *value,
                    None if self.hides_idle && !key.whose.is_empty() => {
                        made_up += 1;
                        0.0
                    }
                    None => continue,
                };
                one.spans.push(Span { from: from - start, to: to - start, value });
            }
            series.push(one);
        }
        if made_up > 0 {
            notes.push(format!("put in: {made_up} zeros of idle devices that were not told (-z)"));
        }
        Ok(Imported { series, clock, start, notes, ..Imported::default() })
    }

    /// Start and end of each report, and the interval.
    ///
    /// Times are whole seconds, reports are not. As long as the clock matches the number of
    /// reports, each is as long as the interval; where the clock jumps, there is a gap.
    fn place(&mut self, interval: Option<f64>) -> (Vec<(f64, f64)>, f64) {
        // Clocks without a date wrap at midnight.
        if self.clock == Clock::Day {
            let (mut days, mut before) = (0.0, f64::MIN);
            for at in self.all.iter_mut().filter_map(|r| r.at.as_mut()) {
                if *at + days < before - 43_200.0 {
                    days += 86_400.0;
                }
                *at += days;
                before = *at;
            }
        }
        let stamps: Vec<f64> = self.all.iter().filter_map(|r| r.at).collect();
        let mut steps: Vec<f64> = stamps.windows(2).map(|w| w[1] - w[0]).filter(|s| *s > 0.0).collect();
        steps.sort_by(f64::total_cmp);
        let usual = steps.get(steps.len() / 2).copied();
        // The median step, which a missing stamp does not change.
        let step = interval.or(usual).filter(|s| *s > 0.0).unwrap_or(1.0);
        // Stamps are whole seconds, the interval need not be: a report may be off by a second or
        // by half an interval.
        let slack = 1.0f64.max(step * 0.5) + 1e-6;
        let mut out = Vec::with_capacity(self.all.len());
        let mut run: Vec<Option<f64>> = Vec::new();
        let mut end: Option<f64> = None;
        for at in self.all.iter().map(|r| r.at).chain([None]) {
            let is_end = out.len() + run.len() == self.all.len();
            let jumps = match (at, end) {
                (Some(at), Some(end)) => (at - (end + step)).abs() > slack,
                _ => false,
            };
            if is_end || jumps {
                let from = out.last().map_or(f64::MIN, |(_, to): &(f64, f64)| *to);
                out.extend(lay(&run, step, interval.is_some(), from));
                run.clear();
            }
            if is_end {
                break;
            }
            run.push(at);
            end = at.or(end.map(|end| end + step));
        }
        (out, step)
    }
}

/// Places a run of reports without a gap one after the other, starting from the first that has a
/// time.
fn lay(run: &[Option<f64>], step: f64, is_given: bool, not_before: f64) -> Vec<(f64, f64)> {
    let known: Vec<(usize, f64)> = run.iter().enumerate().filter_map(|(n, at)| Some((n, (*at)?))).collect();
    let (mut step, mut begin) = (step, if not_before == f64::MIN { 0.0 } else { not_before });
    if let (Some((first, at)), Some((last, end))) = (known.first(), known.last()) {
        let reports = (last - first) as f64;
        let measured = if reports > 0.0 { (end - at) / reports } else { step };
        // A difference that the clock's whole seconds do not explain is a longer interval.
        if !is_given && (measured - step).abs() * reports > 1.0 + 1e-6 {
            step = measured;
        }
        begin = (at - (*first as f64 + 1.0) * step).max(not_before);
    }
    (0..run.len()).map(|n| (begin + n as f64 * step, begin + (n as f64 + 1.0) * step)).collect()
}
