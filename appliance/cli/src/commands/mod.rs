//! The commands, one file each: `command()` defines the options, `run()` executes it.

pub mod analytics;
pub mod arcstat;
pub mod arcsummary;
pub mod cat;
pub mod completions;
pub mod config;
pub mod counters;
pub mod cp;
pub mod dist;
pub mod inject;
mod inject_parse;
pub mod inspect;
pub mod iostat;
pub mod ls;
pub mod man;
pub mod mount;
pub mod nbd;
pub mod nicstat;
pub mod schedule;
pub mod serve;
pub mod slower;
pub mod stat;
pub mod statistic;
pub mod stream;
pub mod top;
pub mod umount;
pub mod verify;
pub mod zilstat;

use crate::command_runner::CommandRunner;
use crate::exit_code::{SOME_FAILED, USAGE};
use crate::handover;
use crate::state_option::state_arg;
use anyhow::Result;
use clap::ArgMatches;
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

/// A command of `weir`.
pub struct Command {
    /// Defines name, options and help.
    pub command: fn() -> clap::Command,
    /// Runs the command. An error is printed, and the program then exits with `SOME_FAILED`.
    pub run: fn(&ArgMatches) -> Result<ExitCode>,
}

/// All commands, in the order of the help.
pub const COMMANDS: &[Command] = &[
    Command { command: ls::command, run: ls::run },
    Command { command: stat::command, run: stat::run },
    Command { command: cat::command, run: cat::run },
    Command { command: cp::command, run: cp::run },
    Command { command: stream::command, run: stream::run },
    Command { command: verify::command, run: verify::run },
    Command { command: inspect::command, run: inspect::run },
    Command { command: inject::command, run: inject::run },
    Command { command: mount::command, run: |matches| mount::run(matches, Arc::new(CommandRunner)) },
    Command { command: umount::command, run: umount::run },
    Command { command: nbd::command, run: |matches| nbd::run(matches, Arc::new(CommandRunner)) },
    Command { command: serve::command, run: |matches| serve::run(matches, Arc::new(CommandRunner)) },
    Command { command: schedule::command, run: schedule::run },
    Command { command: || handover::listed("load"), run: handover::run },
    Command { command: || handover::listed("bench"), run: handover::run },
    Command { command: || handover::listed("record"), run: handover::run },
    Command { command: || handover::listed("graph"), run: handover::run },
    Command { command: config::command, run: config::run },
    Command { command: completions::command, run: |matches| completions::run(matches, command()) },
    Command { command: man::command, run: |matches| man::run(matches, command()) },
    Command { command: top::command, run: top::run },
    Command { command: dist::command, run: dist::run },
    Command { command: slower::command, run: slower::run },
    Command { command: analytics::command, run: analytics::run },
    Command { command: arcstat::command, run: arcstat::run },
    Command { command: arcsummary::command, run: arcsummary::run },
    Command { command: iostat::command, run: iostat::run },
    Command { command: nicstat::command, run: nicstat::run },
    Command { command: zilstat::command, run: zilstat::run },
];

/// Commands of other systems, which have their own parser and help.
const FACES: [(&str, &str); 4] = [
    ("zpool", "The commands of zpool(8); see `weir zpool help`"),
    ("zfs", "The commands of zfs(8); see `weir zfs help`"),
    ("beadm", "Boot environments as in illumos; see `weir beadm help`"),
    ("bectl", "Boot environments as in FreeBSD; see `weir bectl help`"),
];

/// The command line of the whole program.
pub fn command() -> clap::Command {
    clap::Command::new("weir")
        .about("OpenZFS pools in user space: open, read, copy, mount and check them without a kernel module")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(state_arg())
        .subcommands(FACES.iter().map(|(name, about)| clap::Command::new(*name).about(*about)))
        .subcommands(COMMANDS.iter().map(|c| (c.command)()))
}

/// Parses the command line, without the program's name, and runs the command.
pub fn main(args: &[OsString]) -> ExitCode {
    run("weir", command(), COMMANDS, args)
}

/// Does the same for a program with this name, command line and commands.
pub fn run(program: &str, line: clap::Command, commands: &[Command], args: &[OsString]) -> ExitCode {
    let words = std::iter::once(OsString::from(program)).chain(args.iter().cloned());
    let matches = match line.try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(e) => {
            // If it cannot be printed, there is no place to report it.
            let _ = e.print();
            return ExitCode::from(match args.first() {
                _ if !e.use_stderr() => 0,
                // 2 has another meaning there.
                Some(verb) if verb == "verify" => verify::COULD_NOT_RUN,
                _ => USAGE,
            });
        }
    };
    let (name, matches) = matches.subcommand().expect("clap insists on a subcommand");
    let Some(found) = commands.iter().find(|c| (c.command)().get_name() == name) else {
        eprintln!("{program}: options other than --state must follow '{name}'");
        return ExitCode::from(USAGE);
    };
    match (found.run)(matches) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{program} {name}: {error:#}");
            ExitCode::from(SOME_FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_help(path: &str, command: &clap::Command, found: &mut Vec<String>) {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            if arg.get_help().is_none_or(|help| help.to_string().trim().is_empty()) {
                found.push(format!("{path} {}", arg.get_id()));
            }
        }
        if command.get_about().is_none() {
            found.push(path.to_owned());
        }
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            without_help(&format!("{path} {}", below.get_name()), below, found);
        }
    }

    #[test]
    fn every_command_and_every_argument_is_described() {
        let mut line = command();
        line.build();
        let mut found = Vec::new();
        without_help("weir", &line, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}
