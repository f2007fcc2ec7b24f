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

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some((name, matches)) if kinds::is_one(name) => kinds::run(name, matches),
        Some((name, matches)) => others::run(name, matches),
        None => Ok(ExitCode::SUCCESS),
    }
}
