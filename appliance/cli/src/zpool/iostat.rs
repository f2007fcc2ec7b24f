//! `zpool iostat`: what pools and their devices read and write, in OpenZFS's layout.
//!
//! The first report is the average since the pool was opened, each later one the average of an
//! interval. Operations are counted at the leaves: a mirror, a raidz and the pool show the sum of
//! theirs, copies and parity included. The columns of the queues are those of `block::vdev::queue`:
//! `-q` shows what is in them at the moment of the report, `-l`, `-w` and `-r` what passed them.
//! Operations that did not wait are in the first row of `-w`.
//!
//! A pool that no process has open is idle: all its numbers are zero.

use super::iostat_counts::{CLASSES, Counts, Measured, measure};
use super::pools;
use super::script_columns::{self, ScriptColumns};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag};
use crate::number::{ctime, nice_number, now};
use crate::shared_options::{EXACT, FOLLOW, GUIDS, PATHS, SCRIPTED, SCRIPTS, STAMP};
use crate::verb::{Call, Verb, for_anyone};
use admin::vdev_names::{NameOptions, find, vdev_name, width};
use host::pace::Pace;
use observe::Spread;
use pool::status::{PoolStatus, VdevClass, VdevStatus};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// The row of `zpool iostat`.
pub static VERB: Verb = for_anyone("iostat", "Show I/O statistics of pools and devices", run)
    .usage(&[
        "[-T d|u] [-ghHLlnpPqvy] [-c [script1[,script2]...] | -lq | -rw] [[pool ...]|[pool vdev ...]|[vdev ...]] [[-n] interval [count]]",
    ])
    .options(&[
        GUIDS,
        FOLLOW,
        PATHS,
        flag('v', "Show each device too."),
        flag('n', "Print the headings once only."),
        flag('y', "Skip the first report, the average since the pool was opened."),
        EXACT,
        SCRIPTED,
        flag('l', "Add columns of average latencies."),
        flag('q', "Add columns of the operations in the queues of devices."),
        flag('w', "Print histograms of latencies."),
        flag('r', "Print histograms of the sizes of operations, single (ind) and joined (agg)."),
        STAMP,
        SCRIPTS,
    ])
    .operands(&[ArgKind::Pool])
    .examples(&[("zpool iostat -v tank 5", "Print what a pool and its devices read and write, every 5 seconds.")]);

/// The rows between two headings on a terminal.
const SCREEN: u64 = 20;
/// How often to check whether the caller is still connected.
const LOOK: Duration = Duration::from_millis(100);

/// A group of columns: its heading, and the headings of its columns.
type Group = (&'static str, &'static [&'static str]);

const DEFAULT: &[Group] =
    &[("capacity", &["alloc", "free"]), ("operations", &["read", "write"]), ("bandwidth", &["read", "write"])];
const LATENCY: &[Group] = &[
    ("total_wait", &["read", "write"]),
    ("disk_wait", &["read", "write"]),
    ("syncq_wait", &["read", "write"]),
    ("asyncq_wait", &["read", "write"]),
    ("scrub", &["wait"]),
    ("trim", &["wait"]),
    ("rebuild", &["wait"]),
];
const QUEUES: &[Group] = &[
    ("syncq_read", &["pend", "activ"]),
    ("syncq_write", &["pend", "activ"]),
    ("asyncq_read", &["pend", "activ"]),
    ("asyncq_write", &["pend", "activ"]),
    ("scrubq_read", &["pend", "activ"]),
    ("trimq_write", &["pend", "activ"]),
    ("rebuildq_write", &["pend", "activ"]),
];
/// The last three columns have no group heading.
const LATENCIES: &[Group] = &[
    ("total_wait", &["read", "write"]),
    ("disk_wait", &["read", "write"]),
    ("syncq_wait", &["read", "write"]),
    ("asyncq_wait", &["read", "write"]),
    ("", &["scrub"]),
    ("", &["trim"]),
    ("", &["rebuild"]),
];
const SIZES: &[Group] = &[
    ("sync_read", &["ind", "agg"]),
    ("sync_write", &["ind", "agg"]),
    ("async_read", &["ind", "agg"]),
    ("async_write", &["ind", "agg"]),
    ("scrub", &["ind", "agg"]),
    ("trim", &["ind", "agg"]),
    ("rebuild", &["ind", "agg"]),
];
const _: () = assert!(SIZES.len() == CLASSES.len() && QUEUES.len() == CLASSES.len());

/// A histogram in place of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Histogram {
    /// Durations, `-w`.
    Latency,
    /// Sizes, `-r`.
    Size,
}

impl Histogram {
    fn groups(self) -> &'static [Group] {
        match self {
            Self::Latency => LATENCIES,
            Self::Size => SIZES,
        }
    }

    /// The powers of two that have a row: up to 2^37 ns, and from 512 bytes to 16 MiB. The first
    /// and the last row also have what is beyond them.
    fn powers(self) -> RangeInclusive<u32> {
        match self {
            Self::Latency => 0..=36,
            Self::Size => 9..=24,
        }
    }

    /// The columns, in the order of [`Histogram::groups`].
    fn columns(self, of: &Measured) -> Vec<&Spread> {
        match self {
            Self::Latency => of.times(),
            Self::Size => of.sizes(),
        }
    }

    /// The number of each row: the longest duration, or the smallest size.
    fn value(self, power: u32) -> u64 {
        match self {
            Self::Latency => (1 << (power + 1)) - 1,
            Self::Size => 1 << power,
        }
    }

    fn label(self, power: u32) -> String {
        match self {
            Self::Latency => nice_time(self.value(power)),
            Self::Size => nice_number(self.value(power)),
        }
    }

    /// The counts of the rows of a column.
    fn rows(self, of: &Spread) -> Vec<u64> {
        let (first, last) = self.powers().into_inner();
        let mut rows = vec![0; (last - first + 1) as usize];
        for (largest, count) in &of.classes {
            // No bucket spans a power of two.
            let power = largest.checked_ilog2().unwrap_or(0).clamp(first, last);
            rows[(power - first) as usize] += count;
        }
        rows
    }
}

#[derive(Debug, Default)]
struct Shown {
    scripted: bool,
    literal: bool,
    verbose: bool,
    latency: bool,
    queues: bool,
    histogram: Option<Histogram>,
    names: NameOptions,
    /// Only these devices; empty: all.
    devices: Vec<u64>,
    scripts: ScriptColumns,
}

/// The state of a pool at one moment.
struct Sample {
    status: PoolStatus,
    at: Instant,
    /// When the pool was opened; `None`: no process has it open.
    opened: Option<Instant>,
    /// Measurements of devices, by path.
    measured: HashMap<String, Measured>,
}

/// `zpool iostat`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if let Some(outcome) = script_columns::check(cx, "iostat", parsed) {
        return outcome;
    }
    if (parsed.has('r') || parsed.has('w')) && (parsed.has('l') || parsed.has('q') || parsed.has('c')) {
        return Err(Failure::usage("[-r|-w] isn't allowed with [-c|-l|-q]"));
    }
    if parsed.has('r') && parsed.has('w') {
        return Err(Failure::usage("Only one of [-r|-w] can be passed at a time"));
    }
    let stamp = Stamp::parse(parsed)?;
    let (operands, interval, count) = pace(parsed);
    if parsed.has('y') && interval.is_none() {
        return Err(Failure::usage("-y only makes sense with an interval"));
    }
    let (names, devices) = split(cx, &operands)?;
    let mut shown = Shown {
        scripted: parsed.has('H'),
        literal: parsed.has('p'),
        verbose: parsed.has('v') || parsed.has('c') || !devices.is_empty(),
        latency: parsed.has('l'),
        queues: parsed.has('q'),
        histogram: match (parsed.has('w'), parsed.has('r')) {
            (true, _) => Some(Histogram::Latency),
            (_, true) => Some(Histogram::Size),
            _ => None,
        },
        names: NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') },
        devices: Vec::new(),
        scripts: ScriptColumns::default(),
    };
    let mut before: Vec<Sample> = Vec::new();
    let mut pace = Pace::new(interval, count);
    let once = parsed.has('n') || !cx.client.output_is_terminal();
    let mut skip = parsed.has('y');
    let mut iteration = 0;
    loop {
        let samples = samples(cx, &names)?;
        if samples.is_empty() {
            cx.complain("no pools available");
            if interval.is_none() {
                return Ok(1);
            }
        }
        shown.devices = (devices.iter())
            .filter_map(|name| samples.iter().find_map(|s| find(&s.status, name).map(|v| v.guid)))
            .collect();
        if !skip && !samples.is_empty() {
            let statuses: Vec<&PoolStatus> = samples.iter().map(|sample| &sample.status).collect();
            shown.scripts = ScriptColumns::of(cx.client, parsed, &statuses, &shown.devices)?.unwrap_or_default();
            stamp.print(cx);
            if before.len() != samples.len() && !before.is_empty() {
                iteration = 0;
            }
            let heading = iteration == 0 || shown.verbose || (!once && iteration % SCREEN == 0);
            cx.print(&report(&samples, &before, &shown, heading));
            iteration += 1;
        }
        // OpenZFS does not count the report that -y suppresses.
        let more = skip || pace.made();
        skip = false;
        before = samples;
        let _ = cx.out.flush();
        if !more || !wait(cx, &mut pace) {
            return Ok(0);
        }
    }
}

/// `-T`: the timestamp before each report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stamp {
    None,
    Seconds,
    Date,
}

impl Stamp {
    pub(super) fn parse(parsed: &Parsed) -> Result<Self, Failure> {
        match parsed.last('T') {
            None => Ok(Self::None),
            Some("u") => Ok(Self::Seconds),
            Some("d") => Ok(Self::Date),
            Some(other) => Err(Failure::usage(format!("invalid argument '{other}' for option -T: expected u or d"))),
        }
    }

    pub(super) fn print(self, cx: &mut Context<'_>) {
        match self {
            Self::None => {}
            Self::Seconds => cx.print(&format!("{}\n", now())),
            Self::Date => cx.print(&format!("{}\n", ctime(now()))),
        }
    }
}

/// Waits until the next report is due. `false`: there is no caller left to print it for.
pub(super) fn wait(cx: &Context<'_>, pace: &mut Pace) -> bool {
    let due = pace.due();
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if cx.client.is_gone() || cx.owner.as_ref().is_some_and(|owner| !owner.is_ready()) {
            return false;
        }
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// Splits off the interval and the count at the end of the operands. As in OpenZFS, a last operand
/// that is a number is never a pool name.
pub(super) fn pace(parsed: &Parsed) -> (Vec<String>, Option<Duration>, Option<u64>) {
    let mut operands = parsed.operands.clone();
    let number = |text: Option<&String>| text?.parse::<f64>().ok().filter(|n| *n > 0.0 && *n < 1e9);
    let Some(last) = number(operands.last()) else { return (operands, None, None) };
    operands.pop();
    match number(operands.last()) {
        Some(interval) => {
            operands.pop();
            (operands, Some(Duration::from_secs_f64(interval)), Some(last.max(1.0) as u64))
        }
        None => (operands, Some(Duration::from_secs_f64(last)), None),
    }
}

/// Splits the operands into pools and devices: only pools, only devices, or one pool and devices of
/// it.
fn split(cx: &mut Context<'_>, operands: &[String]) -> Result<(Vec<String>, Vec<String>), Failure> {
    let known = cx.state.pools().map_err(|e| Failure::failed(format!("{e:#}")))?;
    let is_pool = |name: &String| known.iter().any(|p| p.name == *name);
    let [first, rest @ ..] = operands else { return Ok((Vec::new(), Vec::new())) };
    if operands.iter().all(is_pool) {
        return Ok((operands.to_vec(), Vec::new()));
    }
    let (pools, devices) = if is_pool(first) { (vec![first.clone()], rest) } else { (Vec::new(), operands) };
    let samples = samples(cx, &pools)?;
    let unknown: Vec<&String> =
        devices.iter().filter(|d| !samples.iter().any(|s| find(&s.status, d).is_some())).collect();
    match (unknown.first(), pools.first()) {
        (None, _) => Ok((pools, devices.to_vec())),
        (Some(_), None) => Err(Failure::failed("Unable to parse pools/vdevs list.\n")),
        (Some(bad), Some(pool)) => Err(Failure::usage(format!(
            "Expected either a list of pools, or list of vdevs in \"{pool}\", but got:\n\t{bad}"
        ))),
    }
}

fn samples(cx: &mut Context<'_>, names: &[String]) -> Result<Vec<Sample>, Failure> {
    let (records, code) = pools::records(cx, names)?;
    if code != 0 {
        return Err(Failure::Code(code));
    }
    let mut out = Vec::new();
    for record in records {
        let failed = |e: anyhow::Error| Failure::failed(format!("cannot open '{}': {e:#}", record.name));
        let owned = pools::owned(cx, &record).map_err(failed)?;
        let pool = pools::open(cx, &record)?;
        let mut status = pool.status().map_err(|e| failed(e.into()))?;
        status.name.clone_from(&record.name);
        status.caches.iter_mut().for_each(admin::view::set_cache_space);
        let measured = if owned.is_some() { measure(&pool) } else { HashMap::new() };
        out.push(Sample { status, at: Instant::now(), opened: owned.map(|o| o.opened()), measured });
    }
    Ok(out)
}

/// The operations of a device and all devices below it.
fn counts(vdev: &VdevStatus, sample: &Sample) -> Counts {
    if sample.opened.is_none() {
        return Counts::default();
    }
    if vdev.is_leaf() {
        let measured = vdev.path.as_ref().and_then(|path| sample.measured.get(path));
        return Counts {
            read_ops: vdev.read_ops,
            write_ops: vdev.write_ops,
            read_bytes: vdev.read_bytes,
            write_bytes: vdev.write_bytes,
            measured: measured.cloned().unwrap_or_default(),
        };
    }
    let mut all = Counts::default();
    vdev.children.iter().for_each(|child| all.add(&counts(child, sample)));
    all
}

struct Writer<'a> {
    shown: &'a Shown,
    name_width: usize,
    out: String,
}

fn report(samples: &[Sample], before: &[Sample], shown: &Shown, heading: bool) -> String {
    let name_width = |s: &Sample| {
        let devices = if shown.verbose { width(&s.status.root, 0, shown.names) } else { 0 };
        s.status.name.len().max(devices)
    };
    let name_width = samples.iter().map(name_width).max().unwrap_or(0).max(10);
    let mut writer = Writer { shown, name_width, out: String::new() };
    if heading && !shown.scripted && shown.histogram.is_none() {
        writer.heading(None);
    }
    for sample in samples {
        let old = before.iter().find(|old| old.status.guid == sample.status.guid);
        let name = sample.status.name.clone();
        writer.device(&sample.status.root, &name, sample, old, 0);
        if shown.verbose && shown.devices.is_empty() && shown.histogram.is_none() && !shown.scripted {
            writer.separator();
        }
    }
    let many = samples.len() > 1 && !shown.verbose;
    if (many || !shown.devices.is_empty()) && !shown.scripted && shown.histogram.is_none() {
        writer.separator();
    }
    writer.out
}

impl Writer<'_> {
    fn groups(&self) -> Vec<(Group, usize)> {
        let wide = |n: usize| if self.shown.literal { n } else { 5 };
        let mut all = Vec::new();
        if let Some(histogram) = self.shown.histogram {
            let width = self.histogram_width(histogram);
            return histogram.groups().iter().map(|g| (*g, width)).collect();
        }
        all.extend(DEFAULT.iter().map(|g| (*g, wide(15))));
        if self.shown.latency {
            all.extend(LATENCY.iter().map(|g| (*g, wide(10))));
        }
        if self.shown.queues {
            all.extend(QUEUES.iter().map(|g| (*g, wide(6))));
        }
        all
    }

    /// The width of a column of a histogram.
    fn histogram_width(&self, histogram: Histogram) -> usize {
        match histogram {
            _ if !self.shown.literal => 5,
            Histogram::Latency => 10,
            Histogram::Size => 6,
        }
    }

    fn title(&self) -> &'static str {
        match (self.shown.histogram, self.shown.devices.is_empty()) {
            (Some(Histogram::Latency), _) => "latency",
            (Some(Histogram::Size), _) => "req_size",
            (_, true) => "pool",
            (_, false) => "vdev",
        }
    }

    /// Prints two heading lines and a separator. A group heading is centred above its columns as in
    /// OpenZFS.
    fn heading(&mut self, device: Option<&str>) {
        let groups = self.groups();
        let name_width = self.name_width.max(device.map_or(0, str::len));
        let mut above = format!("{:<name_width$}", device.unwrap_or_default());
        let mut below = format!("{:<name_width$}", self.title());
        for ((name, columns), width) in &groups {
            let count = columns.len();
            if !name.is_empty() {
                let all = width * count + 2 * (count - 1);
                let start = (all / count).saturating_sub(name.len() / count);
                above.push_str(&format!("  {:start$}{name}{:2$}", "", "", all.saturating_sub(start + name.len())));
            }
            for column in *columns {
                below.push_str(&format!("  {column:>width$}"));
            }
        }
        let scripts = self.shown.scripts.headings();
        self.out.push_str(&format!("{above}\n{below}{scripts}\n"));
        self.separator();
    }

    fn separator(&mut self) {
        self.out.push_str(&"-".repeat(self.name_width));
        for ((_, columns), width) in self.groups() {
            for _ in columns {
                self.out.push_str(&format!("  {}", "-".repeat(width)));
            }
        }
        self.out.push_str(&self.shown.scripts.dashes());
        self.out.push('\n');
    }

    fn device(&mut self, vdev: &VdevStatus, name: &str, sample: &Sample, old: Option<&Sample>, depth: usize) {
        if vdev.kind == "hole" || vdev.kind == "indirect" {
            return;
        }
        let wanted = self.shown.devices.is_empty() || self.shown.devices.contains(&vdev.guid);
        if wanted {
            let depth = if self.shown.devices.is_empty() { depth } else { 0 };
            self.line(vdev, name, sample, old, depth);
        }
        if !self.shown.verbose {
            return;
        }
        let below = |class: VdevClass| vdev.children.iter().filter(move |c| c.class == class && c.kind != "hole");
        let top = vdev.kind == "root";
        for child in vdev.children.iter().filter(|c| !top || c.class == VdevClass::Normal) {
            self.device(child, &vdev_name(child, self.shown.names), sample, old, depth + 2);
        }
        if !top {
            return;
        }
        for (class, title) in [(VdevClass::Dedup, "dedup"), (VdevClass::Special, "special"), (VdevClass::Log, "logs")] {
            let found: Vec<&VdevStatus> = below(class).collect();
            self.class(&found, title, sample, old);
        }
        let caches: Vec<&VdevStatus> = sample.status.caches.iter().collect();
        self.class(&caches, "cache", sample, old);
    }

    fn class(&mut self, devices: &[&VdevStatus], title: &str, sample: &Sample, old: Option<&Sample>) {
        if !devices.is_empty()
            && !self.shown.scripted
            && self.shown.devices.is_empty()
            && self.shown.histogram.is_none()
        {
            self.out.push_str(&format!("{title:<0$}", self.name_width));
            for ((_, columns), width) in self.groups() {
                columns.iter().for_each(|_| self.out.push_str(&format!("  {:>width$}", "-")));
            }
            self.out.push('\n');
        }
        for device in devices {
            self.device(device, &vdev_name(device, self.shown.names), sample, old, 2);
        }
    }

    fn line(&mut self, vdev: &VdevStatus, name: &str, sample: &Sample, old: Option<&Sample>, depth: usize) {
        let was = old.and_then(|old| {
            let all = old.status.all_vdevs();
            all.into_iter().find(|v| v.guid == vdev.guid && v.kind == vdev.kind).map(|v| counts(v, old))
        });
        let now = counts(vdev, sample);
        let grown = match &was {
            Some(was) => now.since(was),
            None => now,
        };
        let since = old.map(|old| old.at).or(sample.opened).unwrap_or(sample.at);
        let seconds = (sample.at - since).as_secs_f64();
        let scale = if seconds > 0.0 { 1.0 / seconds } else { 1.0 };
        if let Some(histogram) = self.shown.histogram {
            // The first report shows totals, later ones rates per second.
            return self.histogram(histogram, name, &grown, if old.is_some() { scale } else { 1.0 });
        }
        let mut cells = Vec::new();
        if vdev.space_bytes == 0 {
            let none = if self.shown.literal { "0" } else { "-" };
            cells.extend([none.to_owned(), none.to_owned()]);
        } else {
            let free = vdev.space_bytes.saturating_sub(vdev.alloc_bytes);
            cells.extend([vdev.alloc_bytes, free].map(|n| self.number(n)));
        }
        let rates = [grown.read_ops, grown.write_ops, grown.read_bytes, grown.write_bytes];
        cells.extend(rates.map(|n| self.number((n as f64 * scale) as u64)));
        if self.shown.latency {
            cells.extend(grown.measured.times().into_iter().map(|time| self.time(time)));
        }
        if self.shown.queues {
            let depths = grown.measured.classes.iter().flat_map(|of| [of.pending, of.active]);
            cells.extend(depths.map(|n| self.number(n)));
        }
        if self.shown.scripted {
            self.out.push_str(name);
            cells.iter().for_each(|cell| self.out.push_str(&format!("\t{cell}")));
        } else {
            self.out.push_str(&format!("{:<1$}", format!("{:depth$}{name}", ""), self.name_width));
            let widths = self.groups().into_iter().flat_map(|((_, columns), width)| columns.iter().map(move |_| width));
            for (cell, width) in cells.iter().zip(widths.collect::<Vec<_>>()) {
                self.out.push_str(&format!("  {cell:>width$}"));
            }
        }
        self.out.push_str(&self.shown.scripts.values(&sample.status.name, vdev));
        self.out.push('\n');
    }

    fn number(&self, n: u64) -> String {
        if self.shown.literal { n.to_string() } else { nice_number(n) }
    }

    /// The average; `-` without samples.
    fn time(&self, of: &Spread) -> String {
        match of.sum.checked_div(of.count) {
            None | Some(0) => "-".to_owned(),
            Some(ns) if self.shown.literal => ns.to_string(),
            Some(ns) => nice_time(ns),
        }
    }

    fn histogram(&mut self, histogram: Histogram, name: &str, grown: &Counts, scale: f64) {
        if self.shown.scripted {
            self.out.push_str(&format!("{name}\n"));
        } else {
            // OpenZFS ends the line with the name before the heading begins.
            self.out.push('\n');
            self.heading(Some(name));
        }
        let columns: Vec<Vec<u64>> =
            histogram.columns(&grown.measured).into_iter().map(|of| histogram.rows(of)).collect();
        let width = self.histogram_width(histogram);
        for (row, power) in histogram.powers().enumerate() {
            let cells = columns.iter().map(|column| self.number((column[row] as f64 * scale) as u64));
            let line = match self.shown.scripted {
                true => cells.fold(histogram.value(power).to_string(), |line, cell| format!("{line}\t{cell}")),
                false => {
                    let start = format!("{:<1$}", histogram.label(power), self.name_width);
                    cells.fold(start, |line, cell| format!("{line}  {cell:>width$}"))
                }
            };
            self.out.push_str(&format!("{line}\n"));
        }
        if !self.shown.scripted {
            let all: usize = self.groups().iter().map(|((_, columns), width)| columns.len() * (width + 2)).sum();
            self.out.push_str(&format!("{}\n", "-".repeat(self.name_width + all)));
        }
    }
}

/// Nanoseconds as OpenZFS shortens them: whole numbers of `ns`, `us`, `ms` and `s`.
pub(super) fn nice_time(ns: u64) -> String {
    let units = [(1, "ns"), (1000, "us"), (1_000_000, "ms"), (1_000_000_000, "s")];
    let (unit, name) = units.iter().rev().find(|(unit, _)| ns >= *unit).unwrap_or(&units[0]);
    format!("{}{name}", ns / unit)
}

#[cfg(test)]
#[path = "iostat_tests.rs"]
mod tests;
