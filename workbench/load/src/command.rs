//! `weir load`: command line and output.

pub(crate) mod kinds;
pub(crate) mod others;
mod output;

use anyhow::Result;
use clap::{ArgMatches, Command};
use std::process::ExitCode;

/// Command line of `weir load`.
pub fn command() -> Command {
    Command::new("load")
        .about("Generate load on files, NFS servers and volumes: random, sequential, metadata, mixed; or from vdbench and fio files, or by user profile")
        .long_about(
            "Generates load and reports what its clients measured; see the server's view with 'weir stat', 'weir top' or the page. A \
             TARGET is a file (with meta: a directory), nfs://HOST[:PORT]/PATH[?nfsport=N&mountport=N&uid=N&gid=N], which needs no \
             kernel client, nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH. With --rate the load is open: latencies \
             count from when an operation was due, so a server that stalls does not appear faster because it receives fewer requests.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(kinds::commands())
        .subcommands(others::commands())
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some((name, matches)) if kinds::is_one(name) => kinds::run(name, matches),
        Some((name, matches)) => others::run(name, matches),
        None => Ok(ExitCode::SUCCESS),
    }
}
