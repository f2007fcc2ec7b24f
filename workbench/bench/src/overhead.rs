//! `weir analytics overhead`: measures what Analytics costs on this machine: off, with the default
//! statistics, and with everything on.
//!
//! One daemon and one load; the three modes take turns in each round, so that other activity of the
//! machine disturbs all of them alike. The previous settings of the daemon are restored, even if
//! the measurement ends early.

use anyhow::{Context as _, Result, bail, ensure};
use api::{ChangeCounted, ChangeSettings, CountStatistic, Counted, CountedList, SettingList};
use clap::{Arg, ArgMatches, Command, value_parser};
use cli::commands::statistic::now;
use cli::daemon_client::DaemonClient;
use cli::report::{self, Column, Form, Kind, Options, Report, Stamp, Value, args, column, explained};
use load::{Plan, Target};
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const COLUMNS: &[Column] = &[
    column(
        "mode",
        Kind::Text,
        8,
        "off: nothing is recorded; default: the default statistics; all: every breakdown of NFS, heat maps of latency, size and offset.",
    ),
    column("ops/s", Kind::Number(0), 9, "Operations per second: the median of all rounds."),
    column("least", Kind::Number(0), 9, "The slowest round."),
    column("most", Kind::Number(0), 9, "The fastest round."),
    column(
        "loss%",
        Kind::Number(2),
        7,
        "Loss in operations per second compared with mode off: the median of all rounds.",
    ),
    column("cpu_ns", Kind::Number(0), 8, "Processor time of the daemon per operation, in nanoseconds: the median."),
    column("more_ns", Kind::Number(0), 8, "Increase compared with mode off: the median of all rounds."),
    column(
        "spread",
        Kind::Number(0),
        8,
        "Spread of these differences (largest minus smallest): smaller effects may be noise.",
    ),
    column("thread_ns", Kind::Number(1), 9, "Part of cpu_ns spent in the counting thread; - : not visible from here."),
];

/// Every breakdown of NFS by name, and the heat maps of values that every operation has.
const ALL: &[&str] = &["op", "client", "file", "share", "user", "latency", "size", "offset"];
const MODES: [&str; 3] = ["off", "default", "all"];
const KEY: &str = "analytics.enabled";
/// Time that is not measured after a change of mode: buffers fill, columns close.
const SETTLE: Duration = Duration::from_millis(500);

/// Options of `weir analytics overhead`.
fn command() -> Command {
    let number = |id: &'static str, default: &'static str, help: &'static str| {
        Arg::new(id)
            .long(id)
            .value_name("N")
            .default_value(default)
            .value_parser(value_parser!(u64).range(1..=1000))
            .help(help)
    };
    Command::new("overhead")
        .about("Measure the overhead of counting: off, with the defaults, and with everything on")
        .long_about(
            "Reads 4 KiB at a time, at random, from a file of the running daemon over NFS version 3, as fast as possible: from \
             memory, so that the overhead is large in comparison. Meanwhile Analytics is off, on, and on with everything, in turn; \
             while it is off, nothing is recorded. TARGET is nfs://HOST[:PORT]/PATH[?nfsport=N&mountport=N], as for 'weir load'; \
             the file is created if it does not exist.",
        )
        .arg(Arg::new("target").value_name("TARGET").required(true).help("The file"))
        .arg(number("rounds", "5", "Rounds"))
        .arg(number("seconds", "4", "Duration of each mode in each round, in seconds"))
        .arg(number("threads", "2", "Connections"))
        .arg(number("depth", "16", "Calls in flight per connection"))
        .args(args())
}

/// Results of one mode in one round.
#[derive(Debug, Clone, Copy)]
struct Measured {
    rate: f64,
    cpu_ns: f64,
    thread_ns: Option<f64>,
}

/// Restores the daemon's settings when it is dropped.
struct Restore<'a> {
    daemon: &'a DaemonClient,
    made: Vec<Counted>,
    suspended: Vec<Counted>,
    was_on: bool,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        let mut failed = switch(self.daemon, self.was_on).err();
        for of in &self.made {
            failed = failed.or(self.daemon.bytes("DELETE", &format!("/v1/analytics/datasets/{}", of.id), None).err());
        }
        for of in &self.suspended {
            failed = failed.or(suspend(self.daemon, of, true).err());
        }
        if let Some(error) = failed {
            eprintln!("weir analytics: cannot restore the previous settings of the daemon: {error:#}");
        }
    }
}

fn switch(daemon: &DaemonClient, on: bool) -> Result<()> {
    let mut change = ChangeSettings::default();
    change.set.insert(KEY.to_owned(), Some(on.to_string()));
    daemon.bytes("PATCH", "/v1/settings", Some(&serde_json::to_vec(&change)?))?;
    Ok(())
}

fn suspend(daemon: &DaemonClient, of: &Counted, suspended: bool) -> Result<()> {
    daemon.send::<Counted>("PATCH", &format!("/v1/analytics/datasets/{}", of.id), &ChangeCounted { suspended })?;
    Ok(())
}

/// Processor time in nanoseconds of the analytics thread of the daemon with this process id.
fn thread_ns(pid: Option<u32>) -> Option<f64> {
    let folder = std::fs::read_dir(format!("/proc/{}/task", pid?)).ok()?;
    let mut tasks = folder.filter_map(|entry| Some(entry.ok()?.path()));
    let task = tasks.find(|t| std::fs::read_to_string(t.join("comm")).is_ok_and(|c| c.trim() == "weir-analytics"))?;
    let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// The part of `weir analytics` that is in this program.
pub fn analytics() -> Command {
    Command::new("analytics")
        .about("Measure the overhead of Analytics; the rest of 'weir analytics' is in weir")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(command())
}

/// Runs `weir analytics overhead`.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let shown = matches.subcommand().map_or(Ok(()), |(_, matches)| show(matches));
    report::quiet(shown).map(|()| ExitCode::SUCCESS)
}

fn show(matches: &ArgMatches) -> Result<()> {
    let options = Options::of(matches)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    if explained(&mut out, COLUMNS, &options)? {
        return Ok(out.flush()?);
    }
    let number = |id: &str| matches.get_one::<u64>(id).copied().unwrap_or(1);
    let target: Target = matches.get_one::<String>("target").context("a target")?.parse()?;
    ensure!(matches!(target, Target::Nfs(_)), "expected a file by NFS: nfs://HOST[:PORT]/PATH");
    let time = Duration::from_secs(number("seconds"));
    let plan = Plan {
        kind: load::Kind::RandRead,
        targets: vec![target],
        size: 4096,
        threads: usize::try_from(number("threads"))?,
        depth: usize::try_from(number("depth"))?,
        time: Some(time),
        file_size: 16 << 20,
        ..Plan::default()
    };
    let daemon = DaemonClient::find()?;
    let pid = daemon.pid()?;
    let found = measure(&daemon, &plan, number("rounds"), pid, options.form == Form::Table && options.terminal)?;
    let mut report = Report::untimed(out, COLUMNS, &options)?;
    let stamp = Stamp { at: now().as_secs(), boot: false };
    for row in rows(&found) {
        report.row(stamp, &row)?;
    }
    Ok(report.flush()?)
}

fn measure(
    daemon: &DaemonClient,
    plan: &Plan,
    rounds: u64,
    pid: Option<u32>,
    prints_rounds: bool,
) -> Result<[Vec<Measured>; 3]> {
    let settings: SettingList = daemon.get("/v1/settings")?;
    let was_on = settings.items.iter().find(|s| s.name == KEY).map(|s| s.value == "true");
    let was_on = was_on.with_context(|| format!("the daemon has no setting {KEY}"))?;
    let mut restore = Restore { daemon, made: Vec::new(), suspended: Vec::new(), was_on };
    let before = daemon.get::<CountedList>("/v1/analytics/datasets")?.items;
    let mut extra = Vec::new();
    for field in ALL {
        let name = format!("nfs3.ops[{field}]");
        match before.iter().find(|d| d.name == name) {
            // It is in the default set, or was added by a user: it stays in the modes default and
            // all.
            Some(there) if !there.suspended => {}
            Some(there) => {
                restore.suspended.push(there.clone());
                extra.push(there.clone());
            }
            None => {
                let made: Counted =
                    daemon.send("POST", "/v1/analytics/datasets", &CountStatistic { name, archived: true })?;
                restore.made.push(made.clone());
                extra.push(made);
            }
        }
    }
    // Fills the file and the cache.
    run_for(plan, SETTLE)?;
    let mut found: [Vec<Measured>; 3] = Default::default();
    for round in 0..rounds {
        for turn in 0..MODES.len() {
            // Each mode comes first as often as last.
            let mode = (turn + usize::try_from(round)?) % MODES.len();
            switch(daemon, mode > 0)?;
            for of in &extra {
                suspend(daemon, of, mode < 2)?;
            }
            run_for(plan, SETTLE)?;
            let (first, thread) = (daemon.metrics()?, thread_ns(pid));
            let done = plan.run(&AtomicBool::new(false))?;
            if let Some(why) = done.first_failure {
                bail!("{} operations failed; the first: {why}", done.failed);
            }
            let cpu = daemon.metrics()?.grown(Some(&first), "weir_process_cpu_seconds_total", &[]);
            let ops = done.ops.max(1) as f64;
            let measured = Measured {
                rate: done.ops as f64 / done.seconds,
                cpu_ns: cpu.context("the daemon does not report its processor time")? * 1e9 / ops,
                thread_ns: thread_ns(pid).zip(thread).map(|(now, before)| (now - before) / ops),
            };
            if prints_rounds {
                let (rate, ns) = (measured.rate, measured.cpu_ns);
                eprintln!("round {} {:<8} {rate:>9.0} ops/s {ns:>8.0} ns", round + 1, MODES[mode]);
            }
            found[mode].push(measured);
        }
    }
    Ok(found)
}

fn run_for(plan: &Plan, time: Duration) -> Result<()> {
    let done = Plan { time: Some(time), ..plan.clone() }.run(&AtomicBool::new(false))?;
    match done.first_failure {
        Some(why) => bail!("{} operations failed; the first: {why}", done.failed),
        None => Ok(()),
    }
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    let middle = all.get(all.len() / 2)?;
    Some(if all.len() % 2 == 1 { *middle } else { (middle + all.get(all.len() / 2 - 1)?) / 2.0 })
}

fn rows(found: &[Vec<Measured>; 3]) -> Vec<Vec<Value>> {
    let row = |(mode, all): (&str, &Vec<Measured>)| {
        let rates: Vec<f64> = all.iter().map(|m| m.rate).collect();
        let pairs = || all.iter().zip(&found[0]);
        let more: Vec<f64> = pairs().map(|(this, off)| this.cpu_ns - off.cpu_ns).collect();
        let loss = pairs().map(|(this, off)| 100.0 * (off.rate - this.rate) / off.rate.max(1.0)).collect();
        let (least, most) =
            (more.iter().copied().fold(f64::MAX, f64::min), more.iter().copied().fold(f64::MIN, f64::max));
        vec![
            mode.into(),
            median(rates.clone()).into(),
            rates.iter().copied().reduce(f64::min).into(),
            rates.iter().copied().reduce(f64::max).into(),
            median(loss).into(),
            median(all.iter().map(|m| m.cpu_ns).collect()).into(),
            median(more.clone()).into(),
            (!more.is_empty()).then_some(most - least).into(),
            all.iter().map(|m| m.thread_ns).collect::<Option<Vec<f64>>>().and_then(median).into(),
        ]
    };
    MODES.into_iter().zip(found).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_compared_round_by_round() {
        let of = |rate: f64, cpu_ns: f64, thread_ns: Option<f64>| Measured { rate, cpu_ns, thread_ns };
        let found = [
            vec![of(100.0, 5000.0, Some(0.0)), of(50.0, 9000.0, Some(0.0)), of(100.0, 5000.0, Some(0.0))],
            vec![of(99.0, 5040.0, Some(30.0)), of(49.0, 9050.0, Some(31.0)), of(99.0, 5060.0, Some(32.0))],
            vec![of(98.0, 5100.0, None), of(49.0, 9100.0, Some(1.0)), of(98.0, 5090.0, Some(1.0))],
        ];
        let rows = rows(&found);
        assert_eq!(rows[1][0], "default".into());
        let numbers = |row: &[Value]| {
            row[1..].iter().map(|v| if let Value::Number(n) = v { *n } else { -1.0 }).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&rows[1]), [99.0, 49.0, 99.0, 1.0, 5060.0, 50.0, 20.0, 31.0]);
        assert_eq!(numbers(&rows[2]), [98.0, 49.0, 98.0, 2.0, 5100.0, 100.0, 10.0, -1.0]);
        assert_eq!(numbers(&rows[0])[5..7], [0.0, 0.0]);
    }
}
