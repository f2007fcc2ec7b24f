//! The ten kinds of charts: their lines and axes.

use super::{Cell, Content, Data, Error, Figure, Heat, Line, Mark, Vertical, Wanted, derive};
use crate::format::Unit;
use crate::series::Series;

/// A kind of chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// User and system time of processors.
    Cpu,
    /// Disk throughput and, on the right axis, utilization.
    Disk,
    /// Wait and service times of disks, logarithmic.
    Service,
    /// Bytes received and sent by network devices.
    Net,
    /// Bytes read and written by pools, logarithmic.
    Pool,
    /// Operations per second, for one or several runs.
    Iops,
    /// Operations by latency, offset or size.
    Heat,
    /// A load that increases in steps, with the limiting resource of each.
    Steps,
    /// Cache hits and misses.
    Hits,
    /// Duration of each run.
    Times,
}

/// All kinds: name, kind, description.
pub const KINDS: [(&str, Kind, &str); 10] = [
    ("cpu", Kind::Cpu, "user and system"),
    (
        "disk",
        Kind::Disk,
        "bytes read and written by disks; %w and %b on the right; runs of 5 minutes and longer also averaged over 30 s",
    ),
    ("service", Kind::Service, "wait and service times of disks, logarithmic"),
    ("net", Kind::Net, "bytes received and sent by network devices"),
    ("pool", Kind::Pool, "bytes read and written by pools, logarithmic"),
    ("iops", Kind::Iops, "operations per second, of one run or of several in one chart"),
    ("heat", Kind::Heat, "operations by latency, offset or size (--heat)"),
    ("steps", Kind::Steps, "a load that increases in steps, with the limiting resource of each"),
    ("hits", Kind::Hits, "hits and misses of the cache"),
    ("times", Kind::Times, "duration of each run, as bars"),
];

/// Whether a name matches a pattern in which `*` matches anything. Names match as a whole, so
/// that sda does not match sdaa.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, rest)) => name
            .strip_prefix(front)
            .is_some_and(|name| (0..=name.len()).filter_map(|at| name.get(at..)).any(|tail| fits(rest, tail))),
    }
}

/// The lines of a chart of several runs. Names include the run or device where they would be
/// ambiguous.
struct Lines<'a> {
    runs: &'a [Data],
    wanted: &'a Wanted,
    lines: Vec<Line>,
}

impl Lines<'_> {
    /// Adds all series called `name`. `smooth`: also draws a moving average.
    fn add(&mut self, name: &str, shown: &str, is_right: bool, smooth: Option<f64>) -> &mut Self {
        for run in self.runs {
            for series in run.named(name) {
                let whose = series.whose();
                let chosen = |pattern: &String| {
                    whose.is_empty() || fits(pattern, &whose) || series.labels.values().any(|w| fits(pattern, w))
                };
                if self.wanted.device.as_ref().is_some_and(|p| !chosen(p)) {
                    continue;
                }
                self.push(run, &whose, shown, series, is_right, smooth);
            }
        }
        self
    }

    fn push(&mut self, run: &Data, whose: &str, shown: &str, series: Series, is_right: bool, smooth: Option<f64>) {
        let run = if self.runs.len() > 1 { run.name.as_str() } else { "" };
        let name: Vec<&str> = [run, whose, shown].into_iter().filter(|p| !p.is_empty()).collect();
        let smooth = self.wanted.smooth.or(smooth);
        self.lines.push(Line { name: name.join(" "), series, is_right, smooth });
    }

    /// Removes devices that were idle, unless all were.
    fn without_idle(&mut self) {
        let busy = |line: &Line| line.series.spans.iter().any(|s| s.value > 0.0);
        let whose = |line: &Line| (line.series.whose(), line.name.split(' ').next().map(str::to_owned));
        let alive: Vec<_> = self.lines.iter().filter(|l| busy(l)).map(whose).collect();
        if !alive.is_empty() && self.wanted.device.is_none() {
            self.lines.retain(|l| alive.contains(&whose(l)));
        }
    }
}

fn vertical(name: &str, unit: Unit, per_second: bool, log: bool) -> Vertical {
    Vertical { unit, per_second, name: name.to_owned(), log }
}

/// The throughput of a run in operations, and its source: the load generator, the devices of pools,
/// or disks.
fn operations(run: &Data) -> Option<(&'static str, Series)> {
    let both = |shown: &'static str, a: &str, b: &str| {
        let parts: Vec<Series> = run.named(a).into_iter().chain(run.named(b)).collect();
        Some((shown, derive::sum("operations", &[], &parts.iter().collect::<Vec<_>>())?))
    };
    (run.sum("load.operations").map(|s| ("operations", s)))
        .or_else(|| both("reads and writes", "load.reads", "load.writes"))
        .or_else(|| both("reads and writes of pools", "pool.reads", "pool.writes"))
        .or_else(|| both("reads and writes of disks", "disk.reads", "disk.writes"))
        .or_else(|| run.sum("disk.transfers").map(|s| ("transfers of disks", s)))
}

/// Builds the chart of the given runs.
pub fn figure(kind: Kind, runs: &[Data], wanted: &Wanted) -> Result<Figure, Error> {
    let nothing = |what: &str| {
        let (run, has) = runs.first().map_or_else(Default::default, |r| (r.name.clone(), r.has()));
        Error::Nothing { run, wanted: what.to_owned(), has }
    };
    let mut l = Lines { runs, wanted, lines: Vec::new() };
    let bytes = |name: &str, log: bool| vertical(name, Unit::Bytes, true, log);
    let (mut right, mut marks, mut notes): (Option<Vertical>, Vec<Mark>, Vec<String>) = Default::default();
    let (left, what) = match kind {
        Kind::Cpu => {
            l.add("cpu.user", "user", false, None).add("cpu.system", "system", false, None);
            (vertical("processors", Unit::Percent, false, false), "cpu.user, cpu.system")
        }
        Kind::Disk => {
            // Runs of less than five minutes are not smoothed.
            let smooth = runs.iter().any(|run| run.length() >= 300.0).then_some(30.0);
            l.add("disk.read_bytes", "read", false, None).add("disk.written_bytes", "written", false, None);
            l.add("disk.waiting_share", "%w", true, smooth).add("disk.busy", "%b", true, smooth);
            l.without_idle();
            right = Some(vertical("busy", Unit::Percent, false, false));
            (bytes("", false), "disk.read_bytes, disk.written_bytes")
        }
        Kind::Service => {
            l.add("disk.wait_each", "wsvc_t", false, None).add("disk.service_each", "asvc_t", false, None);
            l.add("disk.read_each", "read", false, None).add("disk.write_each", "write", false, None);
            l.without_idle();
            (vertical("service time", Unit::Seconds, false, true), "disk.service_each, disk.read_each")
        }
        Kind::Net => {
            l.add("net.received_bytes", "received", false, None).add("net.sent_bytes", "sent", false, None);
            l.without_idle();
            (bytes("", false), "net.received_bytes, net.sent_bytes")
        }
        Kind::Pool => {
            l.add("pool.read_bytes", "read", false, None).add("pool.written_bytes", "written", false, None);
            (bytes("", true), "pool.read_bytes, pool.written_bytes")
        }
        Kind::Iops | Kind::Steps => {
            for run in runs {
                if let Some((shown, series)) = operations(run) {
                    l.push(run, "", shown, series, false, None);
                }
            }
            if kind == Kind::Steps {
                marks = runs.first().map(steps).unwrap_or_default();
                notes.push("at each mark: what was busiest from there on; 90 % and more limits".to_owned());
            }
            (vertical("operations", Unit::Count, true, false), "load.operations, pool.reads, disk.reads")
        }
        Kind::Hits => {
            l.add("arc.misses", "misses", false, None).add("arc.hits", "hits", false, None);
            (vertical("reads of the cache", Unit::Count, true, false), "arc.hits, arc.misses")
        }
        Kind::Heat => return heat(runs, wanted, nothing),
        Kind::Times => {
            let bars = runs.iter().map(|run| (run.name.clone(), run.length())).collect();
            let axis = vertical("time", Unit::Seconds, false, false);
            return Ok(around(Content::Bars(bars), axis, "times", runs, wanted));
        }
    };
    if l.lines.is_empty() {
        return Err(nothing(what));
    }
    if let Some(name) = &wanted.right {
        l.lines.retain(|line| !line.is_right);
        l.add(name, name, true, None);
        let Some(series) = l.lines.iter().find(|line| line.is_right).map(|line| &line.series) else {
            return Err(nothing(name));
        };
        right = Some(vertical(name, series.unit, series.per_second, false));
    }
    if !l.lines.iter().any(|line| line.is_right) {
        right = None;
    }
    let content = if kind == Kind::Hits { Content::Stack(l.lines) } else { Content::Lines(l.lines) };
    let name = KINDS.iter().find(|(_, k, _)| *k == kind).map_or("", |(name, ..)| name);
    let mut figure = around(content, left, name, runs, wanted);
    figure.left.log = wanted.log.unwrap_or(figure.left.log) && kind != Kind::Hits;
    (figure.right, figure.marks) = (right, marks);
    figure.notes.splice(0..0, notes);
    Ok(figure)
}

/// Fills in title, time window and notes.
fn around(content: Content, left: Vertical, name: &str, runs: &[Data], wanted: &Wanted) -> Figure {
    let names: Vec<&str> = runs.iter().map(|r| r.name.as_str()).collect();
    let what = wanted.device.as_ref().map_or(name.to_owned(), |device| format!("{name} {device}"));
    let title = wanted.title.clone().unwrap_or_else(|| format!("{what} - {}", names.join(", ")));
    let length = runs.iter().map(Data::length).fold(0.0, f64::max).max(1e-3);
    let from = wanted.window.0.clamp(0.0, length);
    let to = wanted.window.1.map_or(length, |span| (from + span).min(length)).max(from + 1e-3);
    let clock = if let [run] = runs { run.clock } else { None };
    let mut notes: Vec<String> = Vec::new();
    for run in runs {
        let of = if runs.len() > 1 { format!("{}: ", run.name) } else { String::new() };
        notes.extend(run.notes.iter().map(|note| format!("{of}{note}")));
    }
    Figure { title, content, left, right: None, marks: Vec::new(), clock, window: (from, to), notes }
}

/// The start of each step, and the busiest resource in it.
fn steps(run: &Data) -> Vec<Mark> {
    let resources = [("cpu.idle", "CPU"), ("net.busy", "network"), ("disk.busy", "disk")];
    let busy: Vec<(String, Series)> = resources
        .iter()
        .flat_map(|(name, what)| run.named(name).into_iter().map(move |s| (*what, s)))
        .map(|(what, mut s)| {
            if what == "CPU" {
                s.spans.iter_mut().for_each(|s| s.value = 100.0 - s.value);
            }
            (format!("{what} {}", s.whose()).trim_end().to_owned(), s)
        })
        .collect();
    let ends = run.marks.iter().skip(1).map(|m| m.at).chain([run.length()]);
    let mark = |(mark, end): (&Mark, f64)| {
        let average = |(name, s): &(String, Series)| Some((s.window(mark.at, end).average()?, name.clone()));
        let most = busy.iter().filter_map(average).max_by(|a, b| a.0.total_cmp(&b.0));
        let limit = most.map_or(String::new(), |(share, name)| match share >= 90.0 {
            true => format!(": limited by {name}, {share:.0} %"),
            false => format!(": {name} {share:.0} %"),
        });
        Mark { at: mark.at, text: format!("{}{limit}", mark.text) }
    };
    run.marks.iter().zip(ends).map(mark).collect()
}

/// The `/metrics` histograms for a heat map; the first one present is used.
const LATENCIES: [&str; 5] = [
    "load.latency_bucket",
    "weir_nfs_call_time_seconds_bucket",
    "weir_fuse_operation_time_seconds_bucket",
    "weir_nbd_request_time_seconds_bucket",
    "weir_device_read_time_seconds_bucket",
];

fn heat(runs: &[Data], wanted: &Wanted, nothing: impl Fn(&str) -> Error) -> Result<Figure, Error> {
    let run = runs.first().ok_or_else(|| nothing("run"))?;
    let (name, unit) = match wanted.heat {
        Heat::Latency => ("latency", Unit::Seconds),
        Heat::Offset => ("offset", Unit::Bytes),
        Heat::Size => ("size", Unit::Bytes),
    };
    let mut from = String::new();
    let mut cells: Vec<Cell> = Vec::new();
    if wanted.heat == Heat::Latency {
        // The client's view of several repetitions is in a file for each.
        let has = |name: &&&str| run.recorded().any(|(_, run)| run.named(name).next().is_some());
        if let Some(name) = LATENCIES.iter().find(has) {
            from = (*name).to_owned();
            for (shift, run) in run.recorded() {
                let moved = |c: Cell| Cell { time: (c.time.0 + shift, c.time.1 + shift), ..c };
                cells.extend(derive::buckets(run, name).into_iter().map(moved));
            }
        }
        let buckets = run.texts().flat_map(|t| &t.latencies);
        cells.extend(buckets.map(|b| Cell { time: b.time, range: b.range, count: b.count }));
    }
    let log = wanted.log.unwrap_or(wanted.heat == Heat::Latency);
    let operations: Vec<(f64, f64)> = (run.texts().flat_map(|t| &t.operations))
        .map(|o| match wanted.heat {
            Heat::Latency => (o.at, o.seconds),
            Heat::Offset => (o.at, o.offset),
            Heat::Size => (o.at, o.bytes),
        })
        .filter(|(_, value)| !value.is_nan())
        .collect();
    cells.extend(grid(&operations, log));
    if cells.is_empty() {
        return Err(nothing(&format!("operations by {name}")));
    }
    let axis = vertical(name, unit, false, log);
    let mut figure = around(Content::Heat(cells), axis, &format!("heat {name}"), std::slice::from_ref(run), wanted);
    if !from.is_empty() {
        figure.notes.insert(0, format!("of {from}"));
    }
    Ok(figure)
}

/// Columns and rows of the grid that single operations are counted into.
const GRID: (usize, usize) = (120, 60);

fn grid(operations: &[(f64, f64)], log: bool) -> Vec<Cell> {
    let end = operations.iter().map(|(at, _)| *at).fold(0.0, f64::max).max(1e-3) * (1.0 + 1e-9);
    let most = operations.iter().map(|(_, v)| *v).fold(0.0, f64::max).max(1e-12) * (1.0 + 1e-9);
    let least = operations.iter().map(|(_, v)| *v).filter(|v| *v > 0.0).fold(most, f64::min);
    // Rows of equal height: logarithmic from the minimum, or linear from zero.
    let share = |value: f64| match log {
        true if most > least => (value.max(least) / least).ln() / (most / least).ln(),
        _ => value / most,
    };
    let value = |row: usize| {
        let share = row as f64 / GRID.1 as f64;
        if log && most > least { least * (most / least).powf(share) } else { most * share }
    };
    let mut counts: std::collections::BTreeMap<(usize, usize), f64> = Default::default();
    for (at, v) in operations {
        let column = (at / end * GRID.0 as f64) as usize;
        let row = ((share(*v) * GRID.1 as f64) as usize).min(GRID.1 - 1);
        *counts.entry((column, row)).or_default() += 1.0;
    }
    let time = |column: usize| end * column as f64 / GRID.0 as f64;
    let cell = |((column, row), count): ((usize, usize), f64)| Cell {
        time: (time(column), time(column + 1)),
        range: (value(row), value(row + 1)),
        count,
    };
    counts.into_iter().map(cell).collect()
}
