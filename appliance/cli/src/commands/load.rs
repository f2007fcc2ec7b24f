//! `weir load`: operations on files and NFS servers, as fast as they go or at a rate.

use crate::source;
use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use load::{Arrivals, Kind, Plan, Report, Target};
use serde_json::json;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options of `weir load`.
pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str, default: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).default_value(default).help(help)
    };
    Command::new("load")
        .about("Load files or an NFS server: random, sequential, metadata or mixed operations, at a rate or as fast as they go")
        .long_about(
            "Generates load; look at what it does where it arrives ('weir stat', 'weir top', the page). A TARGET is a file \
             (with meta: a directory) or nfs://HOST[:PORT]/PATH[?nfsport=N&mountport=N&uid=N&gid=N], which needs no kernel \
             client. With --rate the load is open: latencies count from when an operation should have begun, so a server that \
             stalls is not found faster by being asked less.",
        )
        .arg(
            Arg::new("kind")
                .value_name("KIND")
                .required(true)
                .value_parser(["randread", "randwrite", "seqread", "seqwrite", "meta", "mix"])
                .help("What operations; meta creates, looks up and removes files in a directory"),
        )
        .arg(Arg::new("target").value_name("TARGET").required(true).action(ArgAction::Append).help("On what: threads take them in turn"))
        .arg(option("size", "SIZE", "8K", "Bytes of an operation; random ones are aligned to it").value_parser(source::size))
        .arg(option("threads", "N", "1", "Threads, each with a connection of its own").value_parser(value_parser!(usize)))
        .arg(option("depth", "N", "1", "Operations that each thread has under way").value_parser(value_parser!(usize)))
        .arg(Arg::new("rate").long("rate").value_name("N").value_parser(value_parser!(f64)).help("Operations a second, of all threads together"))
        .arg(Arg::new("poisson").long("poisson").action(ArgAction::SetTrue).requires("rate").help("They begin independent of each other, not at equal distances"))
        .arg(Arg::new("seconds").long("seconds").value_name("N").value_parser(value_parser!(f64)).help("For how long [default: until it is ended]"))
        .arg(Arg::new("file-size").long("file-size").value_name("SIZE").value_parser(source::size).help("A file that is shorter is filled up to this first"))
        .arg(Arg::new("span").long("span").value_name("SIZE").value_parser(source::size).help("Touch so much of the front of a file [default: all]"))
        .arg(option("reads", "PERCENT", "70", "Of mix: how many of a hundred operations read").value_parser(value_parser!(u8).range(0..=100)))
        .arg(Arg::new("sync").long("sync").action(ArgAction::SetTrue).help("Writes are on stable storage when they are answered"))
        .arg(option("compressible", "PERCENT", "0", "How many of a hundred bytes that are written are zeros").value_parser(value_parser!(u8).range(0..=100)))
        .arg(option("seed", "N", "1", "The same seed does the same operations").value_parser(value_parser!(u64)))
        .arg(Arg::new("json").short('j').long("json").action(ArgAction::SetTrue).help("Print what the clients saw as JSON"))
}

/// Loads.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let kind = match matches.get_one::<String>("kind").map(String::as_str) {
        Some("randread") => Kind::RandRead,
        Some("randwrite") => Kind::RandWrite,
        Some("seqread") => Kind::SeqRead,
        Some("seqwrite") => Kind::SeqWrite,
        Some("meta") => Kind::Meta,
        _ => Kind::Mix(matches.get_one("reads").copied().unwrap_or(70)),
    };
    let arrivals = match matches.get_one::<f64>("rate") {
        None => Arrivals::Closed,
        Some(rate) if matches.get_flag("poisson") => Arrivals::Poisson(*rate),
        Some(rate) => Arrivals::Even(*rate),
    };
    let time = match matches.get_one::<f64>("seconds").map(|s| Duration::try_from_secs_f64(*s)).transpose() {
        Ok(time) => time,
        Err(error) => bail!("--seconds: {error}"),
    };
    let targets = matches.get_many::<String>("target").into_iter().flatten();
    let plan = Plan {
        kind,
        targets: targets.map(|t| t.parse::<Target>()).collect::<Result<_>>()?,
        size: number("size").unwrap_or(8192),
        threads: matches.get_one("threads").copied().unwrap_or(1),
        depth: matches.get_one("depth").copied().unwrap_or(1),
        arrivals,
        time,
        file_size: number("file-size").unwrap_or(0),
        span: number("span"),
        sync: matches.get_flag("sync"),
        zeros: matches.get_one("compressible").copied().unwrap_or(0),
        seed: number("seed").unwrap_or(1),
    };
    // Ctrl-C ends the process: what the server has is measured there.
    let report = plan.run(&AtomicBool::new(false))?;
    if matches.get_flag("json") {
        println!("{}", as_json(&plan, &report));
    } else {
        print!("{}", as_text(&plan, &report));
    }
    Ok(if report.failed > 0 { ExitCode::from(super::SOME_FAILED) } else { ExitCode::SUCCESS })
}

/// Parts of the latency's spread that are shown.
const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 100.0];

fn as_json(plan: &Plan, report: &Report) -> serde_json::Value {
    let percentile = |p: f64| (format!("p{p}"), json!(report.latency.percentile(p)));
    json!({
        "kind": plan.kind.name(),
        "seconds": report.seconds,
        "ops": report.ops,
        "bytes": report.bytes,
        "failed": report.failed,
        "first_failure": report.first_failure,
        "ops_per_second": report.ops as f64 / report.seconds,
        "requested_ops_per_second": report.requested,
        "latency_ns": PERCENTILES.into_iter().map(percentile).collect::<serde_json::Map<_, _>>(),
    })
}

fn as_text(plan: &Plan, report: &Report) -> String {
    let rate = report.ops as f64 / report.seconds;
    let ms = |p: f64| report.latency.percentile(p) as f64 / 1e6;
    let mut text = format!(
        "{}: {} operations of {} bytes in {:.1} s, {rate:.0} a second, {:.1} MiB/s\n",
        plan.kind.name(),
        report.ops,
        if plan.kind == Kind::Meta { 0 } else { plan.size },
        report.seconds,
        report.bytes as f64 / report.seconds / f64::from(1 << 20),
    );
    if let Some(wanted) = report.requested {
        let short = if rate < wanted * 0.99 { ": the rate was not kept" } else { "" };
        text += &format!("asked for {wanted} a second, {:.1} % of it done{short}\n", 100.0 * rate / wanted);
    }
    let [half, p99, p999, all] = PERCENTILES.map(ms);
    text += &format!("half within {half:.3} ms, 99 % {p99:.3} ms, 99.9 % {p999:.3} ms, all {all:.3} ms\n");
    if let Some(failure) = &report.first_failure {
        text += &format!("{} failed; the first: {failure}\n", report.failed);
    }
    text
}
