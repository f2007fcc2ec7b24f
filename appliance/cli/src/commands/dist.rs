//! `weir dist`: the distribution of a statistic, as bars in the terminal, and its percentiles.

use super::statistic::{breakdown, cells, now, recorded, shown, span, span_args};
use crate::daemon_client::DaemonClient;
use crate::report::{self, Column, Form, Kind, Report, Stamp, Value, args, column, decimal, moment, pace_args};
use anyhow::{Result, bail};
use api::{CellKey, StatisticData};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::io::Write;
use std::process::ExitCode;

const COLUMNS: &[Column] = &[
    column("from", Kind::Text, 8, "Start of the range."),
    column("to", Kind::Text, 8, "End of the range (exclusive); - if the last range has none."),
    column("count", Kind::Number(0), 10, "Operations in the range."),
    column("percent", Kind::Number(2), 7, "Share of all operations."),
    column("so_far%", Kind::Number(2), 7, "Share of all operations in this range or a lower one."),
];

/// Default time span in seconds.
const DEFAULT_SECONDS: u64 = 60;
/// Length of the longest bar, in characters.
const BAR: usize = 40;
/// Percentiles that are printed.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// Options of `weir dist`.
pub fn command() -> Command {
    Command::new("dist")
        .about("Show the distribution and percentiles of latencies, sizes or offsets")
        .long_about(
            "NAME is a statistic broken down by a number, such as nfs3.ops[latency] or nfs3.ops[op=write][size]; without a \
             breakdown, by latency. Shows the last minute, the range of --from and --to, or each INTERVAL from now on.",
        )
        .arg(Arg::new("name").value_name("NAME").required(true).help("The statistic"))
        .arg(Arg::new("all").short('a').long("all").action(ArgAction::SetTrue).help("Show each range as counted, not merged into powers of two or half decades"))
        .args(span_args())
        .args(args())
        .args(pace_args())
}

/// A range of values, and the number of operations in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    from: u64,
    to: Option<u64>,
    count: u64,
}

fn ranges(data: &StatisticData) -> Vec<Range> {
    let mut found: Vec<Range> = Vec::new();
    for (key, count) in data.columns.iter().flat_map(cells) {
        if let Some(CellKey::Range { from, to }) = data.keys.get(&key.to_string()) {
            match found.iter_mut().find(|r| r.from == *from) {
                Some(range) => range.count += count,
                None => found.push(Range { from: *from, to: *to, count }),
            }
        }
    }
    found.sort_by_key(|r| r.from);
    found
}

/// Starts of coarser ranges: 1, 2, 5, 10 … for times, powers of two for bytes. They cut no finer
/// range.
fn edges(field: &str) -> Vec<u64> {
    match field {
        "size" | "offset" => std::iter::once(0).chain((9..60).map(|n| 1 << n)).collect(),
        "utilization" => (0..=10).map(|n| n * 10).collect(),
        _ => std::iter::once(0).chain((3..12).flat_map(|n| [1, 2, 5].map(|m| m * 10u64.pow(n)))).collect(),
    }
}

fn folded(all: &[Range], field: &str) -> Vec<Range> {
    let edges = edges(field);
    let mut out: Vec<Range> = Vec::new();
    for range in all {
        let at = edges.partition_point(|edge| *edge <= range.from).saturating_sub(1);
        let (from, to) = (edges.get(at).copied().unwrap_or(0), edges.get(at + 1).copied());
        match out.last_mut().filter(|last| last.from == from) {
            Some(last) => last.count += range.count,
            None => out.push(Range { from, to, count: range.count }),
        }
    }
    let filled = out.first().zip(out.last()).map(|(first, last)| (first.from, last.from));
    let Some((first, last)) = filled else { return out };
    // Empty ranges in between are shown: a gap is informative.
    let all = edges.iter().enumerate().filter(|(_, edge)| (first..=last).contains(*edge));
    let count = |from: u64| out.iter().find(|r| r.from == from).map_or(0, |r| r.count);
    all.map(|(at, from)| Range { from: *from, to: edges.get(at + 1).copied(), count: count(*from) }).collect()
}

/// The end of the range in which this percentage is reached, but at most the largest value seen.
fn percentile(all: &[Range], percent: f64, max: Option<u64>) -> Option<u64> {
    let total: u64 = all.iter().map(|r| r.count).sum();
    let rank = ((percent / 100.0 * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    let reached = all.iter().find(|range| {
        seen += range.count;
        seen >= rank
    })?;
    let most = max.unwrap_or(u64::MAX);
    Some(reached.to.map_or(most, |to| to.min(most)))
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    report::quiet(show(matches)).map(|()| ExitCode::SUCCESS)
}

fn show(matches: &ArgMatches) -> Result<()> {
    let Some((options, out)) = report::begin(matches, COLUMNS)? else { return Ok(()) };
    let name = matches.get_one::<String>("name").map_or("", String::as_str);
    let name = if breakdown(name).is_some() { name.to_owned() } else { format!("{name}[latency]") };
    let daemon = DaemonClient::find()?;
    let every = options.interval.map_or(0, |i| i.as_secs());
    if options.interval.is_some_and(|i| i.subsec_nanos() != 0 || i.as_secs() == 0) {
        bail!("invalid interval: statistics are kept per second, expected whole seconds");
    }
    let all = matches.get_flag("all");
    let mut report = Report::new(out, COLUMNS, &options)?;
    if options.interval.is_none() {
        let (from, to) = span(matches, DEFAULT_SECONDS)?;
        let data = daemon.query(&name, from, to, to - from)?;
        if data.columns.is_empty() {
            bail!("{name} was not recorded at that time");
        }
        return print(&mut report, &data, &name, (from, to), all);
    }
    let (mut from, mut left) = (now().as_secs(), options.count);
    while left != Some(0) {
        let to = from + every;
        let data = recorded(&daemon, &name, from, to)?;
        print(&mut report, &data, &name, (from, to), all)?;
        left = left.map(|n| n - 1);
        from = to.max(now().as_secs().saturating_sub(10 * every));
    }
    Ok(())
}

fn print<W: Write>(
    report: &mut Report<W>,
    data: &StatisticData,
    name: &str,
    (from, to): (u64, u64),
    all: bool,
) -> Result<()> {
    let field = breakdown(name).unwrap_or_default().to_owned();
    if data.keys.values().any(|key| matches!(key, CellKey::Name(_))) {
        bail!("{name} is broken down by names, not by numbers: use 'weir stat {name}'");
    }
    let exact = ranges(data);
    let total: u64 = exact.iter().map(|r| r.count).sum();
    let shown_ranges = if all { exact.clone() } else { folded(&exact, &field) };
    let max = data.columns.iter().filter(|c| c.total > 0).filter_map(|c| c.max).max();
    let sum: f64 = data.columns.iter().map(|c| c.average.unwrap_or(0.0) * c.total as f64).sum();
    let (form, time) = (report.options().form, report.options().time);
    if form == Form::Table {
        let out = report.out();
        writeln!(out, "{}, {} to {}", data.title, moment(from, time), moment(to, time))?;
        writeln!(out, "{:>9} {:>9} {:>12} {:>7} {:>8}", "from", "to", "count", "percent", "so_far%")?;
    }
    let most = shown_ranges.iter().map(|r| r.count).max().unwrap_or(0).max(1);
    let mut so_far = 0;
    for range in &shown_ranges {
        so_far += range.count;
        let percent = |n: u64| 100.0 * n as f64 / total.max(1) as f64;
        let end = range.to.map(|to| shown(&field, to));
        if form == Form::Table {
            // Any operation shows, however small its share.
            let bar = (range.count as f64 / most as f64 * BAR as f64).ceil() as usize;
            writeln!(
                report.out(),
                "{:>9} {:>9} {:>12} {:>7} {:>8} {}",
                shown(&field, range.from),
                end.as_deref().unwrap_or("-"),
                range.count,
                decimal(percent(range.count), 2),
                decimal(percent(so_far), 2),
                "#".repeat(bar)
            )?;
            continue;
        }
        let number = |n: u64| if form == Form::Json { Value::from(n) } else { Value::Text(n.to_string()) };
        let cells = [
            number(range.from),
            range.to.map_or(Value::Absent, number),
            range.count.into(),
            percent(range.count).into(),
            percent(so_far).into(),
        ];
        report.row(Stamp { at: to, boot: false }, &cells)?;
    }
    if form == Form::Table {
        let parts = PERCENTILES.iter().filter_map(|p| Some((p, percentile(&exact, *p, max)?)));
        let parts: Vec<String> = match total {
            0 => vec!["nothing happened".to_owned()],
            _ => parts
                .map(|(p, n)| {
                    if *p == 100.0 { format!("max {}", shown(&field, n)) } else { format!("p{p} {}", shown(&field, n)) }
                })
                .chain([format!("average {}", shown(&field, (sum / total as f64).round() as u64))])
                .collect(),
        };
        writeln!(report.out(), "{total} in all; {}\n", parts.join(", "))?;
    }
    Ok(report.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64, count: u64) -> Range {
        Range { from, to: Some(to), count }
    }

    #[test]
    fn ranges_are_folded_without_losing_any() {
        let exact = [range(1_000, 1_100, 3), range(1_900, 2_000, 4), range(2_000, 2_100, 1), range(50_000, 51_000, 2)];
        let folded = folded(&exact, "latency");
        let expected = [
            range(1_000, 2_000, 7),
            range(2_000, 5_000, 1),
            range(5_000, 10_000, 0),
            range(10_000, 20_000, 0),
            range(20_000, 50_000, 0),
            range(50_000, 100_000, 2),
        ];
        assert_eq!(folded, expected);
        assert!(super::folded(&[], "latency").is_empty());
    }

    #[test]
    fn percentiles_do_not_exceed_the_maximum() {
        let exact = [range(1_000, 1_100, 98), range(2_000, 2_100, 2)];
        let at = |p| percentile(&exact, p, Some(2_042));
        assert_eq!([at(50.0), at(98.0), at(98.1), at(100.0)], [Some(1_100), Some(1_100), Some(2_042), Some(2_042)]);
        assert_eq!(percentile(&[], 50.0, None), None);
    }
}
