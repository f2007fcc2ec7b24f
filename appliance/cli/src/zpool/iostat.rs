//! `zpool iostat`: what pools and their devices read and write, in OpenZFS's layout.
//!
//! The first report is the average since the pool was opened, each later one the average of an
//! interval. Operations are counted at the leaves: a mirror, a raidz and the pool show the sum of
//! theirs, copies and parity included. The columns of the queues show `-`: `block::vdev::queue`
//! does not report its depths yet, and measures no times.
//!
//! A pool that no process has open is idle: all its numbers are zero.

use super::pools;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options as Getopt, Parsed};
use crate::number::{ctime, nice_number, now};
use admin::vdev_names::{NameOptions, find, vdev_name, width};
use observe::{Registry, Spread, Value};
use pool::status::{PoolStatus, VdevClass, VdevStatus};
use record::pace::Pace;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const OPTIONS: Getopt = Getopt { short: "gLPvnypHlqwrT:c:", long: &[] };

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
const HISTOGRAM: &[Group] = &[
    ("total_wait", &["read", "write"]),
    ("disk_wait", &["read", "write"]),
    ("syncq_wait", &["read", "write"]),
    ("asyncq_wait", &["read", "write"]),
    ("", &["scrub"]),
    ("", &["trim"]),
    ("", &["rebuild"]),
];
/// The rows of a histogram: up to 2^37 ns.
const ROWS: u32 = 37;

#[derive(Debug, Clone, Default)]
struct Shown {
    scripted: bool,
    literal: bool,
    verbose: bool,
    latency: bool,
    queues: bool,
    histogram: bool,
    names: NameOptions,
    /// Only these devices; empty: all.
    devices: Vec<u64>,
}

/// The operations of a device so far.
#[derive(Debug, Clone, Default)]
struct Counts {
    read_ops: u64,
    write_ops: u64,
    read_bytes: u64,
    write_bytes: u64,
    read_time: Spread,
    write_time: Spread,
}

/// The state of a pool at one moment.
struct Sample {
    status: PoolStatus,
    at: Instant,
    /// When the pool was opened; `None`: no process has it open.
    opened: Option<Instant>,
    /// The durations of reads and writes, by device path.
    times: HashMap<String, (Spread, Spread)>,
}

/// `zpool iostat`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if parsed.has('c') {
        return Err(Failure::failed("unsupported: 'zpool iostat -c' is not in this version of weir"));
    }
    if (parsed.has('r') || parsed.has('w')) && (parsed.has('l') || parsed.has('q')) {
        return Err(Failure::usage("[-r|-w] isn't allowed with [-c|-l|-q]"));
    }
    if parsed.has('r') && parsed.has('w') {
        return Err(Failure::usage("Only one of [-r|-w] can be passed at a time"));
    }
    if parsed.has('r') {
        return Err(Failure::failed(
            "unsupported: 'zpool iostat -r'. Analytics has the sizes of requests: weir dist 'io.ops[disk=PATH][op=read][size]'",
        ));
    }
    let stamp = Stamp::parse(&parsed)?;
    let (operands, interval, count) = pace(&parsed);
    if parsed.has('y') && interval.is_none() {
        return Err(Failure::usage("-y only makes sense with an interval"));
    }
    let (names, devices) = split(cx, &operands)?;
    let mut shown = Shown {
        scripted: parsed.has('H'),
        literal: parsed.has('p'),
        verbose: parsed.has('v') || !devices.is_empty(),
        latency: parsed.has('l'),
        queues: parsed.has('q'),
        histogram: parsed.has('w'),
        names: NameOptions { guid: parsed.has('g'), follow: parsed.has('L'), path: parsed.has('P') },
        devices: Vec::new(),
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
        let mut times = HashMap::new();
        if owned.is_some() {
            let registry = Registry::new();
            registry.add(&[], &(pool.store().clone() as Arc<dyn observe::Source>));
            for family in registry.collect() {
                for series in family.series {
                    let device =
                        series.labels.iter().find(|(label, _)| *label == "device").map(|(_, path)| path.clone());
                    let (Some(device), Value::Spread(spread)) = (device, series.value) else { continue };
                    let of: &mut (Spread, Spread) = times.entry(device).or_default();
                    match family.info.name {
                        "device_read_time" => of.0 = spread,
                        "device_write_time" => of.1 = spread,
                        _ => {}
                    }
                }
            }
        }
        out.push(Sample { status, at: Instant::now(), opened: owned.map(|o| o.opened()), times });
    }
    Ok(out)
}

/// The operations of a device and all devices below it.
fn counts(vdev: &VdevStatus, sample: &Sample) -> Counts {
    if sample.opened.is_none() {
        return Counts::default();
    }
    if vdev.is_leaf() {
        let times = vdev.path.as_ref().and_then(|path| sample.times.get(path)).cloned().unwrap_or_default();
        return Counts {
            read_ops: vdev.read_ops,
            write_ops: vdev.write_ops,
            read_bytes: vdev.read_bytes,
            write_bytes: vdev.write_bytes,
            read_time: times.0,
            write_time: times.1,
        };
    }
    let mut all = Counts::default();
    for child in vdev.children.iter().map(|child| counts(child, sample)) {
        all.read_ops += child.read_ops;
        all.read_bytes += child.read_bytes;
        merge(&mut all.read_time, &child.read_time);
        merge(&mut all.write_time, &child.write_time);
        all.write_ops += child.write_ops;
        all.write_bytes += child.write_bytes;
    }
    all
}

/// Adds the durations of another device.
fn merge(all: &mut Spread, other: &Spread) {
    all.count += other.count;
    all.sum = all.sum.wrapping_add(other.sum);
    let mut classes: std::collections::BTreeMap<u64, u64> = all.classes.iter().copied().collect();
    for (last, count) in &other.classes {
        *classes.entry(*last).or_default() += count;
    }
    all.classes = classes.into_iter().collect();
}

impl Counts {
    fn since(self, before: &Self) -> Self {
        Self {
            read_ops: self.read_ops.saturating_sub(before.read_ops),
            write_ops: self.write_ops.saturating_sub(before.write_ops),
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            write_bytes: self.write_bytes.saturating_sub(before.write_bytes),
            read_time: self.read_time.since(&before.read_time),
            write_time: self.write_time.since(&before.write_time),
        }
    }
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
    if heading && !shown.scripted && !shown.histogram {
        writer.heading(None);
    }
    for sample in samples {
        let old = before.iter().find(|old| old.status.guid == sample.status.guid);
        let name = sample.status.name.clone();
        writer.device(&sample.status.root, &name, sample, old, 0);
        if shown.verbose && shown.devices.is_empty() && !shown.histogram && !shown.scripted {
            writer.separator();
        }
    }
    let many = samples.len() > 1 && !shown.verbose;
    if (many || !shown.devices.is_empty()) && !shown.scripted && !shown.histogram {
        writer.separator();
    }
    writer.out
}

impl Writer<'_> {
    fn groups(&self) -> Vec<(Group, usize)> {
        let wide = |n: usize| if self.shown.literal { n } else { 5 };
        let mut all = Vec::new();
        if self.shown.histogram {
            all.extend(HISTOGRAM.iter().map(|g| (*g, wide(10))));
            return all;
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

    fn title(&self) -> &'static str {
        match (self.shown.histogram, self.shown.devices.is_empty()) {
            (true, _) => "latency",
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
        self.out.push_str(&format!("{above}\n{below}\n"));
        self.separator();
    }

    fn separator(&mut self) {
        self.out.push_str(&"-".repeat(self.name_width));
        for ((_, columns), width) in self.groups() {
            for _ in columns {
                self.out.push_str(&format!("  {}", "-".repeat(width)));
            }
        }
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
        if !devices.is_empty() && !self.shown.scripted && self.shown.devices.is_empty() && !self.shown.histogram {
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
        if self.shown.histogram {
            // The first report shows totals, later ones rates per second.
            return self.histogram(name, &grown, if old.is_some() { scale } else { 1.0 });
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
            let (read, write) = (self.time(&grown.read_time), self.time(&grown.write_time));
            cells.extend([read.clone(), write.clone(), read, write]);
            cells.extend((4..11).map(|_| "-".to_owned()));
        }
        if self.shown.queues {
            cells.extend((0..14).map(|_| "-".to_owned()));
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

    fn histogram(&mut self, name: &str, grown: &Counts, scale: f64) {
        if self.shown.scripted {
            self.out.push_str(&format!("{name}\n"));
        } else {
            // OpenZFS ends the line with the name before the heading begins.
            self.out.push('\n');
            self.heading(Some(name));
        }
        let rows = |of: &Spread| {
            let mut rows = [0u64; ROWS as usize];
            for (last, count) in &of.classes {
                // No bucket spans a power of two.
                let row = last.checked_ilog2().unwrap_or(0).min(ROWS - 1);
                if let Some(cell) = rows.get_mut(row as usize) {
                    *cell += count;
                }
            }
            rows
        };
        let (reads, writes) = (rows(&grown.read_time), rows(&grown.write_time));
        let width = if self.shown.literal { 10 } else { 5 };
        for (row, (read, write)) in (0..).zip(reads.iter().zip(&writes)) {
            let end = (1u64 << (row + 1)) - 1;
            let cells = [read, write, read, write].map(|n| self.number((*n as f64 * scale) as u64));
            let all = cells.into_iter().chain((4..11).map(|_| "-".to_owned()));
            if self.shown.scripted {
                self.out.push_str(&end.to_string());
                all.for_each(|cell| self.out.push_str(&format!("\t{cell}")));
            } else {
                self.out.push_str(&format!("{:<1$}", nice_time(end), self.name_width));
                all.for_each(|cell| self.out.push_str(&format!("  {cell:>width$}")));
            }
            self.out.push('\n');
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
mod tests {
    use super::*;
    use crate::zpool::samples::{rz, tank};

    fn sample(view: admin::view::PoolView, work: &[(&str, u64, u64)]) -> Sample {
        let now = Instant::now();
        let mut status = view.status;
        let view_tops: Vec<(u64, u64)> = status.root.children.iter().map(|c| (c.alloc_bytes, c.space_bytes)).collect();
        let mut times = HashMap::new();
        fn leaves<'a>(v: &'a mut VdevStatus, out: &mut Vec<&'a mut VdevStatus>) {
            if v.children.is_empty() {
                out.push(v);
            } else {
                v.children.iter_mut().for_each(|c| leaves(c, out));
            }
        }
        // As in the engine: the pool's space is the sum of its top-level devices.
        let tops = || view_tops.iter();
        status.root.alloc_bytes = tops().map(|t| t.0).sum();
        status.root.space_bytes = tops().map(|t| t.1).sum();
        let mut all = Vec::new();
        leaves(&mut status.root, &mut all);
        for leaf in all {
            let Some((path, reads, writes)) = work.iter().find(|w| leaf.path.as_deref() == Some(w.0)) else { continue };
            (leaf.read_ops, leaf.read_bytes) = (*reads, reads * 4096);
            (leaf.write_ops, leaf.write_bytes) = (*writes, writes * 8192);
            let spread = |n: u64| Spread { count: n, sum: n * 1_500_000, classes: vec![(1_507_327, n)] };
            times.insert((*path).to_owned(), (spread(*reads), spread(*writes)));
        }
        Sample { status, at: now, opened: Some(now - Duration::from_secs(10)), times }
    }

    #[test]
    fn pools_are_laid_out_as_openzfs_does() {
        let tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
        let expected = "              capacity     operations     bandwidth 
pool        alloc   free   read  write   read  write
----------  -----  -----  -----  -----  -----  -----
tank         140K   112M     12     10    48K    80K
";
        let one = std::slice::from_ref(&tank);
        assert_eq!(report(one, &[], &Shown::default(), true), expected);
        let scripted = Shown { scripted: true, literal: true, ..Shown::default() };
        assert_eq!(report(one, &[], &scripted, true), "tank\t143872\t117296640\t12\t10\t49152\t81920\n");
    }

    #[test]
    fn devices_and_their_waits_are_laid_out_as_openzfs_does() {
        let tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
        let shown = Shown { verbose: true, latency: true, ..Shown::default() };
        let expected = "              capacity     operations     bandwidth    total_wait     disk_wait    syncq_wait    asyncq_wait  scrub   trim  rebuild
pool        alloc   free   read  write   read  write   read  write   read  write   read  write   read  write   wait   wait   wait
----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----
tank         140K   112M     12     10    48K    80K    1ms    1ms    1ms    1ms      -      -      -      -      -      -      -
  mirror-0   140K   112M     12     10    48K    80K    1ms    1ms    1ms    1ms      -      -      -      -      -      -      -
    /tmp/v/a      -      -     10      5    40K    40K    1ms    1ms    1ms    1ms      -      -      -      -      -      -      -
    /tmp/v/b      -      -      2      5     8K    40K    1ms    1ms    1ms    1ms      -      -      -      -      -      -      -
----------  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----  -----
";
        let text = report(std::slice::from_ref(&tank), &[], &shown, true);
        // The name column is as wide as the longest name.
        let narrow: Vec<String> = text.lines().map(|l| l.replace("--  -----  -", "  -----  -")).collect();
        assert_eq!(narrow.len(), expected.lines().count(), "{text}");
        let words = |text: &str| {
            text.lines().map(|l| l.split_whitespace().map(str::to_owned).collect()).collect::<Vec<Vec<String>>>()
        };
        let rows = |all: Vec<Vec<String>>| all.into_iter().filter(|l| !l[0].starts_with('-')).collect::<Vec<_>>();
        assert_eq!(rows(words(&text)), rows(words(expected)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].len(), lines[3].len(), "rows end where headings do");
    }

    #[test]
    fn classes_have_a_line_of_their_own_and_intervals_show_what_is_new() {
        let shown = Shown { verbose: true, ..Shown::default() };
        let mut later = sample(rz(), &[("/tmp/v/c", 300, 0), ("/tmp/v/f", 0, 20)]);
        let mut first = sample(rz(), &[("/tmp/v/c", 100, 0), ("/tmp/v/f", 0, 20)]);
        later.at = first.at + Duration::from_secs(2);
        first.opened = None;
        let text = report(&[later], &[first], &shown, false);
        let find = |name: &str| {
            text.lines()
                .find(|l| l.trim_start().starts_with(name))
                .map(|l| l.split_whitespace().skip(3).map(str::to_owned).collect::<Vec<_>>())
                .expect(name)
        };
        assert_eq!(find("logs"), ["-", "-", "-", "-"]);
        assert_eq!(find("cache"), ["-", "-", "-", "-"]);
        // The first sample is of a pool that no process had open: everything in the second is new.
        assert_eq!(find("/tmp/v/c"), ["150", "0", "600K", "0"]);
        assert_eq!(find("/tmp/v/f"), ["0", "10", "0", "80K"]);
    }

    #[test]
    fn histograms_have_a_row_for_each_power_of_two() {
        let tank = sample(tank(), &[("/tmp/v/a", 100, 50), ("/tmp/v/b", 20, 50)]);
        let shown = Shown { histogram: true, ..Shown::default() };
        let text = report(std::slice::from_ref(&tank), &[], &shown, true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "tank         total_wait     disk_wait    syncq_wait    asyncq_wait");
        assert_eq!(
            lines[2],
            "latency      read  write   read  write   read  write   read  write  scrub   trim  rebuild"
        );
        assert_eq!(lines.len(), 1 + 3 + 37 + 1);
        assert_eq!(lines[4], "1ns             0      0      0      0      -      -      -      -      -      -      -");
        assert_eq!(
            lines[24],
            "2ms           120    100    120    100      -      -      -      -      -      -      -"
        );
        assert_eq!(
            lines[40],
            "137s            0      0      0      0      -      -      -      -      -      -      -"
        );
    }

    #[test]
    fn numbers_at_the_end_are_interval_and_count() {
        let parsed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            pace(&OPTIONS.parse(&words).expect("good"))
        };
        let tank = || vec!["tank".to_owned()];
        assert_eq!(parsed(&["tank"]), (tank(), None, None));
        assert_eq!(parsed(&["tank", "0.5"]), (tank(), Some(Duration::from_millis(500)), None));
        assert_eq!(parsed(&["tank", "1", "3"]), (tank(), Some(Duration::from_secs(1)), Some(3)));
        assert_eq!(
            [nice_time(0), nice_time(1023), nice_time(1_500_000), nice_time(137 << 30)],
            ["0ns", "1us", "1ms", "147s"]
        );
    }
}
