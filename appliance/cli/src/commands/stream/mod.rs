//! `weir stream`: inspects saved send streams, without a pool.

mod dump;
mod input;
mod mount;
pub mod print;

use super::{cat, cp, ls};
use crate::source;
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches};
use input::file_arg;
use std::process::ExitCode;

/// Options of `weir stream`.
pub fn command() -> clap::Command {
    let flag =
        |id: &'static str, short, help: &'static str| Arg::new(id).short(short).action(ArgAction::SetTrue).help(help);
    clap::Command::new("stream")
        .about("Inspect saved send streams without receiving them")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            clap::Command::new("dump")
                .about("Print the records of a stream and check its checksums, as `zstream dump` does")
                .arg(file_arg())
                .arg(
                    Arg::new("verbose")
                        .short('v')
                        .action(ArgAction::Count)
                        .help("Print every record; twice, with its checksum"),
                )
                .arg(flag("unchecked", 'C', "Do not verify checksums"))
                .arg(flag("data", 'd', "Print every record with its checksum and what follows it")),
        )
        .subcommand(browsing(ls::command(), "List the files in a saved stream", "FILE[:/path]..."))
        .subcommand(browsing(cat::command(), "Write files in a saved stream to standard output", "FILE:/path..."))
        .subcommand(browsing(
            cp::command(),
            "Copy files, directories and volumes out of a saved stream",
            "FILE:/path... DESTINATION",
        ))
        .subcommand(mount::command())
        .subcommand(
            clap::Command::new("token")
                .about("Print the contents of a resume token (property receive_resume_token of a partially received dataset)")
                .arg(Arg::new("token").value_name("TOKEN").required(true).help("The value of the property receive_resume_token")),
        )
}

/// Turns a command for pools into one for streams: a full stream, with incremental ones that
/// continue it.
fn browsing(command: clap::Command, about: &'static str, operands: &'static str) -> clap::Command {
    let name = command.get_name().to_owned();
    let command = command
        .about(about)
        .long_about(None::<&str>)
        .override_usage(format!("weir stream {name} [OPTIONS] {operands}"));
    let command = command.args(source::stream_args()).after_help(
        "The whole stream is read first; an altered or truncated one is refused. It must be a file: not a pipe, \
         not compressed as a whole.",
    );
    command.mut_args(|arg| match arg.get_id().as_str() {
        "search" | "key-file" | "passphrase-file" | "keylocation" => arg.hide(true),
        "source" => arg.value_name("FILE[:/path]"),
        "paths" => arg.help("One or more FILE:/path to copy, then the destination"),
        _ => arg,
    })
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some(("dump", matches)) => dump::run(matches),
        Some(("token", matches)) => token(matches),
        Some(("ls", matches)) => ls::run(matches),
        Some(("cat", matches)) => cat::run(matches),
        Some(("cp", matches)) => cp::run(matches),
        Some(("mount", matches)) => mount::run(matches),
        _ => unreachable!("clap requires one of them"),
    }
}

fn token(matches: &ArgMatches) -> Result<ExitCode> {
    let token = matches.get_one::<String>("token").expect("clap requires it");
    let state =
        dataset::resume::parse(token).map_err(|e| anyhow::anyhow!("{}", e.to_string().trim_start_matches(": ")))?;
    for line in state.to_string().lines() {
        println!("     {line}");
    }
    Ok(ExitCode::SUCCESS)
}
