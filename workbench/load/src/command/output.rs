//! Options for output, and the output itself: progress, the result, the results of clients.

use crate::clients::{self, await_go};
use crate::drive::{Control, Report};
use crate::watch::Second;
use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Exit code if some operations failed.
pub(super) const SOME_FAILED: u8 = 1;

/// Adds the output options that all kinds of load have.
pub(super) fn with_output(command: Command) -> Command {
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
        .arg(flag("await-go", "Report when ready, and start when a word arrives on standard input").hide(true))
}

/// Output options of a run.
pub(super) struct Output<'a> {
    pub matches: &'a ArgMatches,
}

impl Output<'_> {
    pub fn flag(&self, name: &str) -> bool {
        self.matches.get_flag(name)
    }

    /// Runs a load and prints its progress.
    pub fn watched(&self, run: impl FnOnce(Control<'_>) -> Result<Report>) -> Result<Report> {
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
    pub fn finish(&self, name: &str, report: &Report) -> Result<ExitCode> {
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
pub(super) fn print_clients(all: &[clients::One]) {
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
