//! `weir bench`: runs a load, records the machine and the server, and judges the result, in one
//! directory.
//!
//! ```text
//! command::kinds (what) ─> measure: N times ─┬─ record (machine, /metrics) ─> record*.weirrec
//!                                            ├─ clients' view ─> load-*.weirrec, load-*.csv,
//!                                            │                   report-*.json
//!                                            └─ counters before and after ─> facts.json
//!                                                 ─> judge ─> verdict.json, report.html
//! ```
//!
//! A result that the judge refuses is not printed; with `--force` it is, with UNVERIFIED on each
//! line and picture.

mod counters;
mod facts;
mod measure;
mod page;
mod server;
mod setup;
mod work;

pub use counters::Ask;

use crate::command::kinds;
use crate::draw::duration;
use crate::run::{Arrivals, Plan};
use anyhow::{Context, Result, bail, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use judge::limits::Search;
use judge::{Claim, Facts, Judgement, Verdict, stamped};
use setup::Setup;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use work::{SECONDS, Work};

/// Exit code if a result was refused.
const REFUSED: u8 = 1;

fn directory(help: &'static str) -> Arg {
    Arg::new("dir").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help(help)
}

fn force() -> Arg {
    Arg::new("force")
        .long("force")
        .action(ArgAction::SetTrue)
        .help("Print a refused result too, with UNVERIFIED on each line and picture")
}

fn measuring(command: Command) -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    command
        .arg(
            option("warm", "TIME", "Duration of the warm-up, which is not measured")
                .default_value("0")
                .value_parser(duration),
        )
        .arg(
            option("claim", "WHAT", "Limit that the result claims to measure; a result with another limit is refused")
                .value_parser(["cache", "disk"]),
        )
        .arg(
            option(
                "link",
                "BITS",
                "Speed of a link on the path that this machine cannot determine, in bits per second, such as 1G",
            )
            .value_parser(bits),
        )
        .arg(option(
            "weir",
            "PROGRAM",
            "Program to query about the pool [default: weir in the directory of this program, or in $PATH]",
        ))
}

/// Command line of `weir bench`.
pub fn command() -> Command {
    let run = Command::new("run")
        .about("Run a load, record and judge it; store everything in a directory")
        .arg(directory("Directory for the results; must be empty or not exist"))
        .arg(
            Arg::new("repeats")
                .long("repeats")
                .value_name("N")
                .default_value("3")
                .value_parser(value_parser!(usize))
                .help("Number of repetitions"),
        )
        .arg(force());
    let limits = Command::new("limits")
        .about("Search for the highest rate at which latencies stay within a limit")
        .arg(
            Arg::new("latency")
                .long("latency")
                .value_name("TIME")
                .required(true)
                .value_parser(duration)
                .help("The latency limit, such as 10ms"),
        )
        .arg(
            Arg::new("percentile")
                .long("percentile")
                .value_name("P")
                .default_value("99")
                .value_parser(value_parser!(f64))
                .help("Percentage of operations that must stay within the limit"),
        )
        .arg(
            Arg::new("first")
                .long("first")
                .value_name("RATE")
                .default_value("100")
                .value_parser(value_parser!(f64))
                .help("The rate to try first, in operations per second"),
        )
        .subcommand_required(true)
        .subcommands(kinds::commands());
    Command::new("bench")
        .about("Run benchmarks and judge whether their results are valid; compare results; search limits")
        .long_about(
            "A run stores all measurements in one directory and is judged by twelve checks: limits of links and disks, counts of clients and \
             server, caches, the limiting resource, warm-up, stable writes, the system's description, compressible data, steady state. \
             Each is PASS, WARN or REFUSE, with its arithmetic; a refused result is not printed. See docs/operating/bench.md.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(measuring(run).subcommand_required(true).subcommands(work::commands()))
        .subcommand(Command::new("judge").about("Judge a run again").arg(directory("Directory of the run")).arg(force()))
        .subcommand(
            Command::new("compare")
                .about("Compare two runs; refused if they differ in more than the declared factors")
                .arg(directory("Directory of the first run"))
                .arg(Arg::new("other").value_name("OTHER").required(true).value_parser(value_parser!(PathBuf)).help("Directory of the second run"))
                .arg(Arg::new("factor").long("factor").value_name("NAME").action(ArgAction::Append).help("Intended difference, such as recordsize"))
                .arg(force()),
        )
        .subcommand(limits)
}

/// `1G`, `100M`, `1000000`: bits per second, in powers of 1000 as usual for links.
fn bits(text: &str) -> std::result::Result<f64, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let number = digits.parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
    number.map(|n| n * factor).ok_or_else(|| format!("'{text}' is not a number of bits per second, such as 1G"))
}

/// Runs `weir bench`. `ask` fetches the metrics of a daemon; `None`: none is running.
pub fn run(matches: &ArgMatches, ask: Option<Ask>) -> Result<ExitCode> {
    let path = |matches: &ArgMatches, name: &str| matches.get_one::<PathBuf>(name).cloned().unwrap_or_default();
    match matches.subcommand() {
        Some(("run", matches)) => run_one(matches, ask),
        Some(("judge", matches)) => {
            let folder = path(matches, "dir");
            let facts = load(&folder)?;
            let judgement = judge::judge(&facts);
            page::write(&folder, &facts, &judgement, matches.get_flag("force"))?;
            Ok(print_result(&facts, &judgement, matches.get_flag("force")))
        }
        Some(("compare", matches)) => {
            let factors: Vec<String> = matches.get_many::<String>("factor").into_iter().flatten().cloned().collect();
            compare(&path(matches, "dir"), &path(matches, "other"), &factors, matches.get_flag("force"))
        }
        Some(("limits", matches)) => limits(matches),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn load(folder: &Path) -> Result<Facts> {
    let path = folder.join("facts.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// Prints the verdict and, if it may be published, the result.
fn print_result(facts: &Facts, judgement: &Judgement, force: bool) -> ExitCode {
    print!("{}", judgement.text());
    match (judgement.verdict, force) {
        (Verdict::Refuse, false) => {
            let reasons = judgement.findings.iter().filter(|f| f.verdict == Verdict::Refuse).map(|f| f.reason.as_str());
            println!("no result: {}", reasons.collect::<Vec<_>>().join("; "));
            return ExitCode::from(REFUSED);
        }
        (Verdict::Refuse, true) => print!("{}", stamped(&facts.text())),
        _ => print!("{}", facts.text()),
    }
    ExitCode::SUCCESS
}

/// The plan of a load, and its name.
fn planned(matches: &ArgMatches) -> Result<(String, Plan)> {
    let (name, matches) = matches.subcommand().context("the kind of load is missing")?;
    let mut plan = kinds::plan(name, matches)?;
    ensure!(plan.ramp.is_zero(), "--ramp is not available here: use --warm for the warm-up");
    plan.time.get_or_insert(SECONDS);
    Ok((name.to_owned(), plan))
}

fn run_one(matches: &ArgMatches, ask: Option<Ask>) -> Result<ExitCode> {
    let (name, work, ramp) = Work::of(matches)?;
    let folder = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default();
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    ensure!(
        std::fs::read_dir(&folder)?.next().is_none(),
        "{} is not empty: a run requires a directory of its own",
        folder.display()
    );
    let claim = match matches.get_one::<String>("claim").map(String::as_str) {
        Some("cache") => Some(Claim::Cache),
        Some(_) => Some(Claim::Disk),
        None => None,
    };
    let setup = Setup {
        name,
        work: work.or_for(SECONDS),
        folder: folder.clone(),
        warm: matches.get_one::<Duration>("warm").copied().filter(|t| !t.is_zero()).unwrap_or(ramp),
        repeats: matches.get_one::<usize>("repeats").copied().unwrap_or(3).max(1),
        claim,
        link_bytes: matches.get_one::<f64>("link").map(|bits| bits / 8.0),
        weir: matches.get_one::<String>("weir").map_or_else(setup::weir, PathBuf::from),
        ask,
    };
    let facts = setup.measure()?;
    let judgement = judge::judge(&facts);
    page::write(&folder, &facts, &judgement, matches.get_flag("force"))?;
    Ok(print_result(&facts, &judgement, matches.get_flag("force")))
}

fn compare(a: &Path, b: &Path, factors: &[String], force: bool) -> Result<ExitCode> {
    let (first, second) = (load(a)?, load(b)?);
    let mut compared = judge::compare::compare(&first, &second, factors);
    for (folder, facts) in [(a, &first), (b, &second)] {
        if judge::judge(facts).verdict == Verdict::Refuse {
            compared.refused.push(format!("{} itself is refused", folder.display()));
        }
    }
    for reason in &compared.refused {
        println!("REFUSE {reason}");
    }
    if compared.refused.is_empty() {
        println!("{}", compared.text);
        return Ok(ExitCode::SUCCESS);
    }
    if force {
        print!("{}", stamped(&compared.text));
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(REFUSED))
}

fn limits(matches: &ArgMatches) -> Result<ExitCode> {
    let (name, plan) = planned(matches)?;
    if plan.arrivals != Arrivals::Closed {
        bail!("--rate is not allowed: limits searches for the rate");
    }
    let bound = matches.get_one::<Duration>("latency").copied().unwrap_or_default();
    let percent = matches.get_one::<f64>("percentile").copied().unwrap_or(99.0);
    let mut search = Search::new(matches.get_one::<f64>("first").copied().unwrap_or(100.0), 0.03);
    println!("      rate       done   kept     p{percent} ms");
    while let Some(rate) = search.next_rate() {
        let plan = Plan { arrivals: Arrivals::Poisson(rate), ..plan.clone() };
        let report = plan.run(&std::sync::atomic::AtomicBool::new(false))?;
        let (kept, latency) = (report.kept().unwrap_or(0.0), report.latency.percentile(percent));
        let is_good = kept >= 0.99 && report.failed == 0 && u128::from(latency) <= bound.as_nanos();
        println!(
            "{rate:>10.0} {:>10.0} {:>5.1}% {:>10.3}{}",
            report.rate(),
            kept * 100.0,
            latency as f64 / 1e6,
            if is_good { "" } else { "  too high" }
        );
        search.record(rate, is_good);
    }
    let found = search.found();
    if found == 0.0 {
        println!("no rate keeps {percent} % of operations within {:.3} ms", bound.as_secs_f64() * 1e3);
        return Ok(ExitCode::from(REFUSED));
    }
    println!(
        "{name}: {found:.0} operations a second, with {percent} % of them within {:.3} ms",
        bound.as_secs_f64() * 1e3
    );
    println!(
        "  for each thread ({}): {:.0} a second; open loop, Poisson; 'weir bench run … --rate {found:.0}' judges it",
        plan.threads,
        found / plan.threads as f64
    );
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
