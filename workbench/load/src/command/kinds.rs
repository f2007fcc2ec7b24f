//! `randread`, `randwrite`, `seqread`, `seqwrite`, `meta`, `mix`, and stepped versions of these.

use super::output::{Output, with_output};
use crate::draw::duration;
use crate::number::size_argument as size;
use crate::pattern::Kind;
use crate::run::{Arrivals, Plan, Steps};
use crate::target::Target;
use crate::watch::Second;
use anyhow::{Result, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::process::ExitCode;
use std::time::Duration;

const KINDS: [(&str, &str); 6] = [
    ("randread", "Read at random offsets, aligned to the size of an operation"),
    ("randwrite", "Write at random offsets, aligned to the size of an operation"),
    ("seqread", "Read sequentially, repeatedly; each thread starts at another offset"),
    ("seqwrite", "Write sequentially, repeatedly; each thread starts at another offset"),
    ("meta", "Create, look up and remove small files in a directory"),
    ("mix", "Read and write at random offsets"),
];

pub(crate) fn is_one(name: &str) -> bool {
    KINDS.iter().any(|(kind, _)| *kind == name)
}

pub(crate) fn commands() -> Vec<Command> {
    KINDS.iter().map(|(name, about)| one(name, about)).collect()
}

fn one(name: &'static str, about: &'static str) -> Command {
    let option = |name: &'static str, value: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).default_value(default).help(help)
    };
    let optional = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let command = Command::new(name)
        .about(about)
        .arg(
            Arg::new("target")
                .value_name("TARGET")
                .required(true)
                .action(ArgAction::Append)
                .help("Targets; threads are assigned to them round-robin"),
        )
        .arg(
            option("size", "SIZE", "8K", "Size of an operation; random offsets are multiples of it").value_parser(size),
        )
        .arg(
            option("threads", "N", "1", "Number of threads, each with its own connection")
                .value_parser(value_parser!(usize)),
        )
        .arg(
            option(
                "depth",
                "N",
                "1",
                "Operations in flight per thread; for local files, the number of threads is multiplied by it",
            )
            .value_parser(value_parser!(usize)),
        )
        .arg(optional("rate", "N", "Operations per second, all threads together").value_parser(value_parser!(f64)))
        .arg(flag("poisson", "Start operations independently (Poisson), not at equal intervals").requires("rate"))
        .arg(
            optional("seconds", "N", "Duration in seconds [default: until interrupted]")
                .value_parser(value_parser!(f64)),
        )
        .arg(optional("ops", "N", "Stop after this many operations of each thread").value_parser(value_parser!(u64)))
        .arg(option("ramp", "N", "0", "Seconds at the start that are not counted").value_parser(value_parser!(f64)))
        .arg(optional("file-size", "SIZE", "First extend a shorter file to this size").value_parser(size))
        .arg(
            optional("span", "SIZE", "Access only this many bytes from the start of a file [default: all]")
                .value_parser(size),
        )
        .arg(flag("sync", "Writes are on stable storage when they are acknowledged"))
        .arg(
            option("fsync", "N", "0", "Number of writes after which a sync is requested; 0: never")
                .value_parser(value_parser!(u64)),
        )
        .arg(flag("direct", "Use direct I/O for files, bypassing the memory of this machine (O_DIRECT)"))
        .arg(
            option("compressible", "PERCENT", "0", "Percentage of zero bytes in written data")
                .value_parser(value_parser!(u8).range(0..=100)),
        )
        .arg(
            option("seed", "N", "1", "Seed: the same seed gives the same operations").value_parser(value_parser!(u64)),
        );
    let command = if name == "mix" {
        command
            .arg(option("reads", "PERCENT", "70", "Percentage of reads").value_parser(value_parser!(u8).range(0..=100)))
    } else {
        command
    };
    with_output(command)
}

fn seconds(matches: &ArgMatches, name: &str) -> Result<Option<Duration>> {
    let time = matches.get_one::<f64>(name).map(|s| Duration::try_from_secs_f64(*s));
    time.transpose().map_err(|error| anyhow::anyhow!("--{name}: {error}"))
}

/// The plan that arguments specify.
pub(crate) fn plan(name: &str, matches: &ArgMatches) -> Result<Plan> {
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let kind = match name {
        "randread" => Kind::RandRead,
        "randwrite" => Kind::RandWrite,
        "seqread" => Kind::SeqRead,
        "seqwrite" => Kind::SeqWrite,
        "meta" => Kind::Meta,
        _ => Kind::Mix(matches.get_one("reads").copied().unwrap_or(70)),
    };
    let arrivals = match matches.get_one::<f64>("rate") {
        None => Arrivals::Closed,
        Some(rate) if matches.get_flag("poisson") => Arrivals::Poisson(*rate),
        Some(rate) => Arrivals::Even(*rate),
    };
    let targets = matches.get_many::<String>("target").into_iter().flatten();
    let ramp = seconds(matches, "ramp")?.unwrap_or_default();
    Ok(Plan {
        kind,
        targets: targets.map(|t| t.parse::<Target>()).collect::<Result<_>>()?,
        size: number("size").unwrap_or(8192),
        threads: matches.get_one("threads").copied().unwrap_or(1),
        depth: matches.get_one("depth").copied().unwrap_or(1),
        arrivals,
        // The warm-up comes before the requested time.
        time: seconds(matches, "seconds")?.map(|t| t + ramp),
        file_size: number("file-size").unwrap_or(0),
        span: number("span"),
        sync: matches.get_flag("sync"),
        zeros: matches.get_one("compressible").copied().unwrap_or(0),
        seed: number("seed").unwrap_or(1),
        direct: matches.get_flag("direct"),
        fsync: number("fsync").unwrap_or(0),
        ramp,
        steps: None,
        ops: number("ops"),
    })
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Result<ExitCode> {
    let plan = plan(name, matches)?;
    let output = Output { matches };
    let report = output.watched(|control| plan.run_with(control))?;
    output.finish(name, &report)
}

/// Options of `step`, before the kind.
pub(super) fn step_command() -> Command {
    let option = |name: &'static str, value: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).default_value(default).help(help)
    };
    Command::new("step")
        .about("Increase the load one thread at a time, and report each step")
        .long_about("With --rate, the rate applies to the last step; each thread has its share of it.")
        .arg(option("from", "N", "1", "Number of threads in the first step").value_parser(value_parser!(usize)))
        .arg(option("to", "N", "10", "Number of threads in the last step").value_parser(value_parser!(usize)))
        .arg(option("every", "TIME", "60s", "Duration of a step").value_parser(duration))
        .subcommand_required(true)
        .subcommands(commands())
}

/// The steps of a load: number of threads, and the seconds that belong to the step entirely.
fn steps_of(series: &[Second], from: usize, to: usize, every: Duration) -> Vec<(usize, Vec<&Second>)> {
    let every = every.as_secs_f64();
    let step = |n: usize| {
        let (begin, end) = (every * (n - from) as f64, every * (n - from + 1) as f64);
        // A second that extends over the boundary belongs to no step.
        let inside = |s: &&Second| s.at - s.took >= begin - 0.01 && s.at <= end + 0.01;
        (n, series.iter().filter(inside).collect())
    };
    (from..=to).map(step).collect()
}

pub(super) fn step(matches: &ArgMatches) -> Result<ExitCode> {
    let count = |name: &str| matches.get_one::<usize>(name).copied().unwrap_or(1);
    let (from, to) = (count("from"), count("to"));
    let every = matches.get_one::<Duration>("every").copied().unwrap_or(Duration::from_secs(60));
    ensure!(from >= 1 && from <= to, "from {from} to {to} threads gives no steps");
    ensure!(every >= Duration::from_secs(1), "a step must last at least a second");
    let Some((name, matches)) = matches.subcommand() else { return Ok(ExitCode::SUCCESS) };
    let mut plan = plan(name, matches)?;
    plan.threads = to;
    plan.steps = Some(Steps { from, every });
    plan.time = Some(every * u32::try_from(to - from + 1)? + plan.ramp);
    let output = Output { matches };
    let report = output.watched(|control| plan.run_with(control))?;
    if !output.flag("json") && !output.flag("await-go") {
        println!("threads      ops/s      MiB/s     p50 ms     p99 ms     max ms");
        for (threads, seconds) in steps_of(&report.series, from, to, every) {
            let took: f64 = seconds.iter().map(|s| s.took).sum();
            let ops: u64 = seconds.iter().map(|s| s.ops).sum();
            let bytes: u64 = seconds.iter().map(|s| s.read.bytes + s.write.bytes).sum();
            let latency = crate::report::summed(seconds.iter().map(|s| &s.latency));
            let ms = |p| latency.percentile(p) as f64 / 1e6;
            println!(
                "{threads:>7} {:>10.0} {:>10.1} {:>10.3} {:>10.3} {:>10.3}",
                ops as f64 / took.max(1e-9),
                bytes as f64 / took.max(1e-9) / f64::from(1 << 20),
                ms(50.0),
                ms(99.0),
                ms(100.0)
            );
        }
    }
    output.finish(name, &report)
}
