//! `weir iostat`: the devices of the daemon's pools, in the columns of `iostat -xn`.

use super::counters::{OfDaemon, show, with_args};
use crate::report::{self, Column, Kind, Value, column};
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use observe::scrape::Metrics;
use std::process::ExitCode;

const NO_QUEUE: &str =
    "- : Weir does not queue requests before a device; time in the kernel's queue is part of asvc_t.";

const COLUMNS: &[Column] = &[
    column("r/s", Kind::Number(1), 7, "Reads per second."),
    column("w/s", Kind::Number(1), 7, "Writes per second."),
    column("kr/s", Kind::Kibi(1), 9, "KiB read per second."),
    column("kw/s", Kind::Kibi(1), 9, "KiB written per second."),
    column("wait", Kind::Number(1), 5, NO_QUEUE),
    column("actv", Kind::Number(1), 5, "Average number of reads, writes and flushes in progress."),
    column("wsvc_t", Kind::Number(1), 6, NO_QUEUE),
    column("asvc_t", Kind::Number(1), 6, "Average time of a read or write, in milliseconds."),
    column("%w", Kind::Number(0), 3, NO_QUEUE),
    column(
        "%b",
        Kind::Number(0),
        3,
        "Share of the time with an operation in progress, if never two concurrently; at most 100.",
    ),
    column("device", Kind::Text, 8, "The device, after its pool."),
];

/// Options of `weir iostat`.
pub fn command() -> Command {
    let flag = |id: &'static str, short: char| Arg::new(id).short(short).action(ArgAction::SetTrue).hide(true);
    with_args(
        Command::new("iostat")
            .about("Show I/O statistics of the devices of pools, like iostat -xn")
            .long_about(
                "A row for each device of the running daemon's pools; the first report is the average since the daemon started. \
                 Idle devices have rows with zeros, unless -z hides them on a terminal. -x and -n are accepted and have no effect.",
            )
            .arg(flag("extended", 'x'))
            .arg(flag("descriptive", 'n')),
    )
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    report::quiet(show(matches, COLUMNS, |_| {
        OfDaemon::new(|_: &_, before: Option<&Metrics>, now: &Metrics| Ok(rows(before, now)))
    }))
    .map(|()| ExitCode::SUCCESS)
}

fn rows(before: Option<&Metrics>, now: &Metrics) -> Vec<Vec<Value>> {
    let seconds = now.seconds(before);
    let mut out = Vec::new();
    for (labels, _) in now.all("weir_device_read_bytes_total") {
        let (Some(pool), Some(device)) = (labels.get("pool"), labels.get("device")) else { continue };
        let of = [("pool", pool.as_str()), ("device", device.as_str())];
        let grown = |name: &str| now.grown(before, name, &of).unwrap_or(0.0);
        let (reads, writes) =
            (grown("weir_device_read_time_seconds_count"), grown("weir_device_write_time_seconds_count"));
        let busy = grown("weir_device_read_time_seconds_sum") + grown("weir_device_write_time_seconds_sum");
        let active = (busy + grown("weir_device_flush_time_seconds_sum")) / seconds;
        let each = if reads + writes > 0.0 { 1000.0 * busy / (reads + writes) } else { 0.0 };
        out.push(vec![
            (reads / seconds).into(),
            (writes / seconds).into(),
            (grown("weir_device_read_bytes_total") / seconds).into(),
            (grown("weir_device_written_bytes_total") / seconds).into(),
            Value::Absent,
            active.into(),
            Value::Absent,
            each.into(),
            Value::Absent,
            (100.0 * active).min(100.0).into(),
            format!("{pool} {device}").into(),
        ]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn devices_are_printed_with_their_times() {
        let metrics = |at: u64, n: u64| {
            let series =
                |name: &str, value: f64| format!("weir_device_{name}{{pool=\"tank\",device=\"/dev/sdb\"}} {value}\n");
            let text: String = [
                series("read_bytes_total", (n * 4096) as f64),
                series("written_bytes_total", 0.0),
                series("read_time_seconds_count", n as f64),
                series("read_time_seconds_sum", n as f64 * 0.005),
                series("write_time_seconds_count", 0.0),
                series("write_time_seconds_sum", 0.0),
                series("flush_time_seconds_sum", 0.0),
            ]
            .concat();
            Metrics::parse(&text, Duration::from_secs(at))
        };
        let (first, second) = (metrics(100, 50), metrics(110, 250));
        let rows = rows(Some(&first), &second);
        let expected: Vec<Value> = vec![
            20.0.into(),
            0.0.into(),
            81_920.0.into(),
            0.0.into(),
            Value::Absent,
            0.1.into(),
            Value::Absent,
            5.0.into(),
            Value::Absent,
            10.0.into(),
            "tank /dev/sdb".into(),
        ];
        assert_eq!(rows, [expected]);
        let idle = super::rows(Some(&second), &metrics(111, 250));
        assert_eq!((idle.len(), &idle[0][0], &idle[0][7]), (1, &Value::Number(0.0), &Value::Number(0.0)));
    }
}
