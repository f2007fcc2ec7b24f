//! `weir bench`: see the crate `load`. Here is who asks the daemon for its figures.

use crate::asked::Daemon;
use anyhow::Result;
use clap::ArgMatches;
use std::process::ExitCode;
use std::sync::Arc;

pub use ::load::bench::command;

/// Does what it is asked.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let ask = Daemon::find().ok().map(|daemon| {
        let ask = move || daemon.metrics_text().map_err(|e| format!("{e:#}"));
        Arc::new(ask) as ::load::bench::Ask
    });
    ::load::bench::run(matches, ask)
}
