//! A run as text in the formats of vmstat, iostat, nicstat and zpool iostat, for people and scripts
//! that know those.
//!
//! As in the original tools, the first report is the average since boot (omitted for pools); times
//! are UTC. Every device has a row in every report.

use crate::format::{ColumnId, Run};
use crate::show::moment;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// File names and their texts; those for which the run has no data are omitted.
pub fn all(run: &Run) -> Vec<(&'static str, String)> {
    let table = Table::new(run);
    [
        ("vmstat.txt", vmstat(&table)),
        ("iostat.txt", iostat(&table)),
        ("nicstat.txt", nicstat(&table)),
        ("zpool-iostat.txt", zpool(&table)),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
    .collect()
}

/// The run by column names: totals are differences from the previous row, and in the first row
/// since boot.
struct Table<'a> {
    run: &'a Run,
    /// By name and labels: the value of each row.
    columns: BTreeMap<&'a str, BTreeMap<String, Vec<f64>>>,
}

impl<'a> Table<'a> {
    fn new(run: &'a Run) -> Self {
        let mut columns: BTreeMap<&str, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for (id, column) in (0u32..).map(ColumnId).zip(&run.columns) {
            let whose = column.labels.values().map(String::as_str).collect::<Vec<_>>().join(" ");
            columns.entry(&column.name).or_default().insert(whose, run.values(id));
        }
        Self { run, columns }
    }

    fn level(&self, name: &str, whose: &str, row: usize) -> Option<f64> {
        self.columns.get(name)?.get(whose)?.get(row).copied().filter(|v| !v.is_nan())
    }

    /// Growth of a total per second; in the first row, since boot.
    fn rate(&self, name: &str, whose: &str, row: usize) -> Option<f64> {
        Some(self.grown(name, whose, row)? / self.seconds(row)?)
    }

    fn grown(&self, name: &str, whose: &str, row: usize) -> Option<f64> {
        let now = self.level(name, whose, row)?;
        let before = match row.checked_sub(1) {
            Some(before) => self.level(name, whose, before).unwrap_or(0.0),
            None => 0.0,
        };
        Some(if now < before { now } else { now - before })
    }

    fn seconds(&self, row: usize) -> Option<f64> {
        let rows = &self.run.rows;
        match row.checked_sub(1) {
            Some(before) => {
                Some((rows.get(row)?.mono_ns - rows.get(before)?.mono_ns) as f64 / 1e9).filter(|s| *s > 0.0)
            }
            None => self.level("machine.uptime", "", row),
        }
    }

    fn devices(&self, name: &str) -> Vec<&str> {
        self.columns.get(name).into_iter().flat_map(|of| of.keys()).map(String::as_str).collect()
    }

    fn utc_s(&self, row: usize) -> i64 {
        self.run.rows.get(row).map_or(0, |r| r.utc_ns.div_euclid(1_000_000_000))
    }
}

fn vmstat(t: &Table<'_>) -> Option<String> {
    t.level("memory.free", "", 0)?;
    let mut out = String::from(
        "procs -----------memory---------- ---swap-- -----io---- -system-- -------cpu------- -----timestamp-----\n \
         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st gu                 UTC\n",
    );
    for row in 0..t.run.rows.len() {
        let kib = |name: &str| t.level(name, "", row).unwrap_or(0.0) / 1024.0;
        let rate = |name: &str, by: f64| t.rate(name, "", row).unwrap_or(0.0) / by;
        let mode = |modes: &[&str]| -> f64 { modes.iter().filter_map(|m| t.grown("cpu.time", m, row)).sum() };
        let all = mode(&["user", "nice", "system", "idle", "wait", "interrupt", "softirq", "steal"]);
        let share = |modes: &[&str]| if all > 0.0 { 100.0 * mode(modes) / all } else { 0.0 };
        let at = moment(t.run.rows.get(row)?.utc_ns);
        let _ = writeln!(
            out,
            "{:2.0} {:2.0} {:6.0} {:6.0} {:6.0} {:6.0} {:4.0} {:4.0} {:5.0} {:5.0} {:4.0} {:4.0} {:2.0} {:2.0} {:2.0} {:2.0} {:2.0}  0 {} {}",
            t.level("process.runnable", "", row).unwrap_or(0.0),
            t.level("process.blocked", "", row).unwrap_or(0.0),
            kib("swap.total") - kib("swap.free"),
            kib("memory.free"),
            kib("memory.buffers"),
            kib("memory.cached"),
            rate("swap.in_bytes", 1024.0),
            rate("swap.out_bytes", 1024.0),
            rate("paging.in_bytes", 1024.0),
            rate("paging.out_bytes", 1024.0),
            rate("cpu.interrupts", 1.0),
            rate("cpu.context_switches", 1.0),
            share(&["user", "nice"]),
            share(&["system", "interrupt", "softirq"]),
            share(&["idle"]),
            share(&["wait"]),
            share(&["steal"]),
            at.get(..10)?,
            at.get(11..19)?,
        );
    }
    Some(out)
}

fn iostat(t: &Table<'_>) -> Option<String> {
    let devices = t.devices("disk.reads");
    if devices.is_empty() {
        return None;
    }
    let width = devices.iter().map(|d| d.len()).max().unwrap_or(0).max(13);
    let mut out = String::new();
    for row in 0..t.run.rows.len() {
        let at = moment(t.run.rows.get(row)?.utc_ns);
        let _ = writeln!(
            out,
            "{}+0000\n{:<width$}     r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz  aqu-sz  %util",
            at.get(..19)?,
            "Device"
        );
        for device in &devices {
            let rate = |name: &str| t.rate(name, device, row).unwrap_or(0.0);
            let each = |sum: f64, n: f64| if n > 0.0 { sum / n } else { 0.0 };
            let (reads, writes) = (rate("disk.reads"), rate("disk.writes"));
            let (read, wrote) = (rate("disk.read_bytes") / 1024.0, rate("disk.written_bytes") / 1024.0);
            let (rm, wm) = (rate("disk.reads_merged"), rate("disk.writes_merged"));
            let _ = writeln!(
                out,
                "{device:<width$} {reads:7.2} {read:9.2} {rm:8.2} {:6.2} {:7.2} {:8.2} {writes:7.2} {wrote:9.2} {wm:8.2} {:6.2} {:7.2} {:8.2} {:7.2} {:6.2}",
                100.0 * each(rm, rm + reads),
                1000.0 * each(rate("disk.read_time"), reads),
                each(read, reads),
                100.0 * each(wm, wm + writes),
                1000.0 * each(rate("disk.write_time"), writes),
                each(wrote, writes),
                rate("disk.queue_time"),
                (100.0 * rate("disk.busy_time")).min(100.0),
            );
        }
        out.push('\n');
    }
    Some(out)
}

/// The format of `nicstat -p`: seconds since 1970, then values separated by colons.
fn nicstat(t: &Table<'_>) -> Option<String> {
    let devices = t.devices("net.received_bytes");
    let mut out = String::new();
    for row in 0..t.run.rows.len() {
        for device in &devices {
            let rate = |name: &str| t.rate(name, device, row).unwrap_or(0.0);
            let (read, wrote) = (rate("net.received_bytes"), rate("net.sent_bytes"));
            let busy = t.level("net.speed_bytes", device, row).map_or(0.0, |speed| 100.0 * read.max(wrote) / speed);
            let _ = writeln!(
                out,
                "{}:{device}:{:.3}:{:.3}:{:.3}:{:.3}:{:.2}:{:.2}",
                t.utc_s(row),
                read / 1024.0,
                wrote / 1024.0,
                rate("net.received_packets"),
                rate("net.sent_packets"),
                busy.min(100.0),
                rate("net.receive_drops") + rate("net.send_drops"),
            );
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The format of `zpool iostat -y -T u -p`: activity of each pool's devices.
fn zpool(t: &Table<'_>) -> Option<String> {
    let columns = [
        "weir_device_read_time_seconds_count",
        "weir_device_write_time_seconds_count",
        "weir_device_read_bytes_total",
        "weir_device_written_bytes_total",
    ]
    .map(|name| by_pool(t.run, name));
    let pools: BTreeSet<&String> = columns.iter().flat_map(BTreeMap::keys).collect();
    if pools.is_empty() {
        return None;
    }
    let mut out = String::new();
    for row in 1..t.run.rows.len() {
        let _ = writeln!(
            out,
            "{}\n              capacity     operations     bandwidth \npool        alloc   free   read  write   read  write\n----------  -----  -----  -----  -----  -----  -----",
            t.utc_s(row)
        );
        for pool in &pools {
            let cells = columns.iter().map(|of| of.get(*pool).and_then(|rates| rates.get(row)).copied().unwrap_or(0.0));
            let cells: Vec<String> = cells.map(|rate| format!("{rate:5.0}")).collect();
            let _ = writeln!(out, "{pool:<10}  {:>5}  {:>5}  {}", "-", "-", cells.join("  "));
        }
        out.push_str("----------  -----  -----  -----  -----  -----  -----\n");
    }
    Some(out)
}

/// For each pool, the activity of its devices per second in each row.
fn by_pool(run: &Run, name: &str) -> BTreeMap<String, Vec<f64>> {
    let mut out: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (id, column) in run.named(name) {
        let (Some(pool), values) = (column.labels.get("pool"), run.values(id)) else { continue };
        let rates = out.entry(pool.clone()).or_insert_with(|| vec![0.0; values.len()]);
        for (row, pair) in (1..).zip(values.windows(2)) {
            let (Some(rate), [before, now]) = (rates.get_mut(row), pair) else { continue };
            let seconds =
                run.rows.get(row).zip(run.rows.get(row - 1)).map(|(b, a)| (b.mono_ns - a.mono_ns) as f64 / 1e9);
            if let Some(seconds) = seconds.filter(|s| *s > 0.0 && now >= before) {
                *rate += (now - before) / seconds;
            }
        }
    }
    out
}
