//! `weir top`: the busiest clients, files, datasets, users, types of operation, or disks.

use super::statistic::{cells, key_text, now, quoted, recorded};
use crate::daemon_client::DaemonClient;
use crate::report::{self, Column, Form, Kind, Report, Stamp, Value, args, column, height, pace_args};
use anyhow::{Result, bail};
use api::StatisticList;
use clap::{Arg, ArgMatches, Command, value_parser};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

/// Rows if the height of the terminal is unknown, or there is none.
const ROWS: usize = 20;

const COLUMNS: &[Column] = &[
    column("ops/s", Kind::Number(1), 10, "Operations completed per second."),
    column("data", Kind::ByteRate, 10, "Bytes read and written."),
    column("avg_ms", Kind::Number(3), 9, "Average latency of the operations, in milliseconds."),
    column("max_ms", Kind::Number(3), 9, "The longest latency, in milliseconds."),
    column("share%", Kind::Number(1), 6, "Share of all operations of the interval."),
    column("key", Kind::Text, 4, "The client, file, dataset, user, type of operation, or disk."),
];

/// Values of `--by`, and the fields of statistics for them.
const BY: &[(&str, &str)] =
    &[("client", "client"), ("file", "file"), ("dataset", "share"), ("user", "user"), ("op", "op"), ("disk", "disk")];

/// Options of `weir top`.
pub fn command() -> Command {
    Command::new("top")
        .about("Show the busiest clients, files, datasets, users, types of operation or disks")
        .long_about(
            "Counts operations over NFS and through mounts; --by disk shows those of devices. On a terminal the table is \
             redrawn for each interval of a second, or of INTERVAL seconds; otherwise, and with COUNT, tables follow one another.",
        )
        .arg(
            Arg::new("by")
                .long("by")
                .value_name("WHAT")
                .default_value("client")
                .value_parser(BY.iter().map(|b| b.0).collect::<Vec<_>>())
                .help("What to group by"),
        )
        .arg(
            Arg::new("rows")
                .short('n')
                .long("rows")
                .value_name("ROWS")
                .value_parser(value_parser!(u64).range(1..=10_000))
                .help("Number of rows to show [default: what fits on the terminal, else 20]"),
        )
        .args(args())
        .args(pace_args())
}

/// One row before it is printed.
#[derive(Debug, Default)]
struct Busy {
    ops: u64,
    bytes: u64,
    /// Statistics in which the key occurs.
    stats: Vec<String>,
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    report::quiet(show(matches)).map(|()| ExitCode::SUCCESS)
}

fn show(matches: &ArgMatches) -> Result<()> {
    let Some((options, out)) = report::begin(matches, COLUMNS)? else { return Ok(()) };
    let by = matches.get_one::<String>("by").map_or("client", String::as_str);
    let field = BY.iter().find(|b| b.0 == by).map_or(by, |b| b.1);
    let every = options.interval.map_or(1, |i| i.as_secs());
    if every == 0 || options.interval.is_some_and(|i| i.subsec_nanos() != 0) {
        bail!("invalid interval: statistics are kept per second, expected whole seconds");
    }
    let daemon = DaemonClient::find()?;
    let stats = statistics(&daemon.get("/v1/analytics/statistics")?, field);
    let live = options.terminal && options.form == Form::Table && options.count.is_none();
    let rows = matches.get_one::<u64>("rows").map_or_else(
        || if live { height().map_or(ROWS, |h| h.saturating_sub(2)) } else { ROWS },
        |n| usize::try_from(*n).unwrap_or(ROWS),
    );
    // Without an interval there is one report, unless the output is live on a terminal.
    let mut left = match (options.interval, live) {
        (None, false) => Some(1),
        _ => options.count,
    };
    let mut report = Report::new(out, COLUMNS, &options)?;
    // The second that has just ended is shown at once.
    let mut from = now().as_secs().saturating_sub(every + 1);
    while left != Some(0) {
        let to = from + every;
        let found = gather(&daemon, &stats, field, from, to)?;
        if live {
            // Clears the screen and moves the cursor to its corner.
            write!(report.out(), "\x1b[H\x1b[2J")?;
            report.again();
        }
        print(&daemon, &mut report, field, (from, to), found, rows)?;
        left = left.map(|n| n - 1);
        from = to.max(now().as_secs().saturating_sub(10 * every));
    }
    Ok(())
}

/// The statistics of operations with this field: of protocols, or of devices.
fn statistics(all: &StatisticList, field: &str) -> Vec<String> {
    let category = if field == "disk" { "Disk" } else { "Protocol" };
    let fits = |s: &&api::Statistic| {
        s.category == category && s.unit == "ops" && !s.level && s.fields.iter().any(|f| f.name == field)
    };
    all.items.iter().filter(fits).map(|s| s.name.clone()).collect()
}

fn gather(daemon: &DaemonClient, stats: &[String], field: &str, from: u64, to: u64) -> Result<BTreeMap<String, Busy>> {
    let mut found: BTreeMap<String, Busy> = BTreeMap::new();
    for stat in stats {
        // The plain count is always recorded; if it is zero, no breakdown is needed.
        let raw = recorded(daemon, stat, from, to)?;
        if raw.columns.iter().all(|c| c.total == 0) {
            continue;
        }
        let bytes = format!("{}.bytes", stat.split('.').next().unwrap_or_default());
        for (name, is_ops) in [(stat, true), (&bytes, false)] {
            let data = daemon.query(&format!("{name}[{field}]"), from, to, to - from)?;
            for (key, n) in data.columns.iter().flat_map(cells) {
                let text = data.keys.get(&key.to_string()).map_or_else(|| "<unknown>".into(), |k| key_text(k, field));
                let busy = found.entry(text).or_default();
                if is_ops {
                    busy.ops += n;
                    busy.stats.push(stat.clone());
                } else {
                    busy.bytes += n;
                }
            }
        }
    }
    Ok(found)
}

fn print<W: Write>(
    daemon: &DaemonClient,
    report: &mut Report<W>,
    field: &str,
    (from, to): (u64, u64),
    found: BTreeMap<String, Busy>,
    rows: usize,
) -> Result<()> {
    let seconds = (to - from) as f64;
    let all: u64 = found.values().map(|b| b.ops).sum();
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by(|a, b| b.1.ops.cmp(&a.1.ops).then_with(|| a.0.cmp(&b.0)));
    let stamp = Stamp { at: to, boot: false };
    if found.is_empty() && report.options().form == Form::Table {
        let idle = [0u64.into(), 0u64.into(), Value::Absent, Value::Absent, 0u64.into(), "(nobody)".into()];
        report.row(stamp, &idle)?;
    }
    for (key, busy) in found.into_iter().take(rows) {
        let (mut total, mut sum, mut max) = (0, 0.0, None);
        // A key without a name cannot be selected by name.
        for stat in busy.stats.iter().filter(|_| !key.starts_with('<')) {
            let name = format!("{stat}[{field}={}][latency]", quoted(&key));
            let data = daemon.query(&name, from, to, to - from)?;
            for column in &data.columns {
                total += column.total;
                sum += column.average.unwrap_or(0.0) * column.total as f64;
                max = max.max(column.max.filter(|_| column.total > 0));
            }
        }
        report.row(
            stamp,
            &[
                (busy.ops as f64 / seconds).into(),
                (busy.bytes as f64 / seconds).into(),
                (total > 0).then(|| sum / total as f64 / 1e6).into(),
                max.map(|ns| ns as f64 / 1e6).into(),
                (100.0 * busy.ops as f64 / all.max(1) as f64).into(),
                key.into(),
            ],
        )?;
    }
    Ok(report.flush()?)
}
