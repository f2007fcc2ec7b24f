//! `weir load`: command line and output.

pub(crate) mod kinds;
pub(crate) mod others;

use crate::clients::{self, await_go};
use crate::drive::{Control, Report};
use crate::watch::Second;
use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Exit code if some operations failed.
const SOME_FAILED: u8 = 1;

/// Command line of `weir load`.
pub fn command() -> Command {
    Command::new("load")
        .about("Load files, NFS servers and volumes: at random, in sequence, metadata, mixes, as vdbench, fio or a known kind of user does")
        .long_about(
            "Generates load, and says what its clients saw; look at what it does where it arrives ('weir stat', 'weir top', the page). A \
             TARGET is a file (with meta: a directory), nfs://HOST[:PORT]/PATH[?nfsport=N&mountport=N&uid=N&gid=N], which needs no \
             kernel client, nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH. With --rate the load is open: latencies \
             count from when an operation should have begun, so a server that stalls is not found faster by being asked less.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(kinds::commands())
        .subcommands(others::commands())
}

/// Runs `weir load`.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some((name, matches)) if kinds::is_one(name) => kinds::run(name, matches),
        Some((name, matches)) => others::run(name, matches),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Parses a size argument.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    crate::number::size(text).ok_or_else(|| format!("'{text}' is not a size, such as 4096, 8K or 1.5G"))
}

/// Adds the output options that all kinds of load have.
fn with_output(command: Command) -> Command {
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    command
        .arg(
            Arg::new("json")
                .short('j')
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the clients' results as JSON"),
        )
        .arg(flag("each", "Print a line each second"))
        .arg(
            Arg::new("csv")
                .long("csv")
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("Write each second's numbers to a file"),
        )
        .arg(flag("await-go", "Report when ready, and start on a word on standard input").hide(true))
}

/// Output options of a run.
struct Output<'a> {
    matches: &'a ArgMatches,
}

impl Output<'_> {
    fn flag(&self, name: &str) -> bool {
        self.matches.get_flag(name)
    }

    /// Runs a load and prints its progress.
    fn watched(&self, run: impl FnOnce(Control<'_>) -> Result<Report>) -> Result<Report> {
        // Ctrl-C ends the process: the server's metrics are recorded there.
        let stop = AtomicBool::new(false);
        let (each, awaits) = (self.flag("each"), self.flag("await-go"));
        let mut line = |second: &Second| {
            eprintln!(
                "{:>7.1} s  {:>3} threads  {:>9.0} ops/s  {:>9.1} MiB/s  p50 {:>8.3} ms  p99 {:>8.3} ms",
                second.at,
                second.threads,
                second.ops as f64 / second.took,
                (second.read.bytes + second.write.bytes) as f64 / second.took / f64::from(1 << 20),
                second.latency.percentile(50.0) as f64 / 1e6,
                second.latency.percentile(99.0) as f64 / 1e6,
            );
        };
        let ready: &dyn Fn() -> Result<()> = &await_go;
        run(Control { stop: &stop, ready: awaits.then_some(ready), each: if each { Some(&mut line) } else { None } })
    }

    /// Prints and writes the result.
    fn finish(&self, name: &str, report: &Report) -> Result<ExitCode> {
        if let Some(path) = self.matches.get_one::<PathBuf>("csv") {
            std::fs::write(path, crate::report::csv(&report.series)).with_context(|| path.display().to_string())?;
        }
        if self.flag("json") || self.flag("await-go") {
            println!("{}", report.json(name));
        } else {
            print!("{}", report.text(name));
        }
        Ok(if report.failed > 0 { ExitCode::from(SOME_FAILED) } else { ExitCode::SUCCESS })
    }
}

/// Prints the results of the clients, individually and in total.
fn tell_clients(all: &[clients::One]) {
    for one in all {
        println!(
            "{:<24} {:>10.0} ops/s {:>9.1} MiB/s  p99 {:>8.3} ms  began {} us after the first",
            one.host,
            one.report.rate(),
            one.report.bytes as f64 / one.report.seconds / f64::from(1 << 20),
            one.report.latency.percentile(99.0) as f64 / 1e6,
            one.began_late_us,
        );
    }
    for one in clients::outliers(all) {
        println!("{}: less than 0.7 of the median client: its machine or its link is measured, too", one.host);
    }
}
