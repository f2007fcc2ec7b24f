//! The commands, one file each: `command()` says its options, `run()` does it.

pub mod cat;
pub mod cp;
pub mod ls;
pub mod mount;
pub mod stat;
pub mod umount;

use anyhow::Result;
use clap::ArgMatches;
use std::process::ExitCode;

/// How a command ends when some of what it was asked failed.
pub const SOME_FAILED: u8 = 1;
/// How a command ends when it was called wrongly.
pub const USAGE: u8 = 2;

/// A command of `weir`.
pub struct Command {
    /// Its name, options and help.
    pub command: fn() -> clap::Command,
    /// Does it.
    pub run: fn(&ArgMatches) -> Result<ExitCode>,
}

/// All commands, as the help lists them.
pub const COMMANDS: &[Command] = &[
    Command { command: ls::command, run: ls::run },
    Command { command: stat::command, run: stat::run },
    Command { command: cat::command, run: cat::run },
    Command { command: cp::command, run: cp::run },
    Command { command: mount::command, run: mount::run },
    Command { command: umount::command, run: umount::run },
];

/// The whole program's command line.
pub fn command() -> clap::Command {
    clap::Command::new("weir")
        .about("OpenZFS pools in user space: open, read, copy, mount and check them without a kernel module")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(COMMANDS.iter().map(|c| (c.command)()))
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let matches = command().get_matches();
    let (name, matches) = matches.subcommand().expect("clap insists on a subcommand");
    let found = COMMANDS.iter().find(|c| (c.command)().get_name() == name);
    let run = found.expect("clap knows no others").run;
    match run(matches) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weir {name}: {error:#}");
            ExitCode::from(SOME_FAILED)
        }
    }
}
