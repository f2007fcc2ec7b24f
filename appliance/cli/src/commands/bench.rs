//! `weir bench`: see the crate `load`. Here it gets access to the daemon's statistics.

use crate::daemon_client::DaemonClient;
use anyhow::Result;
use clap::ArgMatches;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs `weir bench`.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let ask = DaemonClient::find().ok().map(|daemon| {
        let ask = move || daemon.metrics_text().map_err(|e| format!("{e:#}"));
        Arc::new(ask) as ::load::bench::Ask
    });
    ::load::bench::run(matches, ask)
}
