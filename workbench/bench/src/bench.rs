//! `weir bench`: see [`load::bench`], which gets access to the daemon's statistics here.

use anyhow::Result;
use clap::ArgMatches;
use cli::daemon_client::DaemonClient;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs `weir bench`, with the metrics of the daemon if one is running.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let ask = DaemonClient::find().ok().map(|daemon| {
        let ask = move || daemon.metrics_text().map_err(|e| format!("{e:#}"));
        Arc::new(ask) as ::load::bench::Ask
    });
    ::load::bench::run(matches, ask)
}
