//! `weir-bench`: generates load, records, judges, draws charts.
//!
//! `weir load …`, `weir bench …`, `weir record …`, `weir graph …` and `weir analytics overhead …`
//! are commands of this program: `weir` runs it with the same arguments, and with its own name,
//! which help and errors then show. A machine that only generates load needs no other program.

mod bench;
mod graph;
mod man;
mod overhead;
mod record;

use cli::commands::Command;
use cli::{commands, handover, state_option};
use std::ffi::OsString;
use std::process::ExitCode;

/// The commands, in the order of the help.
const COMMANDS: &[Command] = &[
    Command { command: ::load::command::command, run: ::load::command::run },
    Command { command: ::load::bench::command, run: bench::run },
    Command { command: record::command, run: record::run },
    Command { command: graph::command, run: graph::run },
    Command { command: overhead::analytics, run: overhead::run },
    Command { command: man::command, run: |matches| man::run(matches, command(handover::CALLER)) },
];

/// The command line of the whole program, under the name by which it was called.
fn command(name: &'static str) -> clap::Command {
    clap::Command::new(name)
        .about("Measure OpenZFS pools: generate load, record, judge, draw charts")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(state_option::state_arg())
        .subcommands(COMMANDS.iter().map(|c| (c.command)()))
}

fn main() -> ExitCode {
    host::memory::tune();
    let args: Vec<OsString> = std::env::args_os().collect();
    let name =
        if args.first().is_some_and(|name| name == handover::CALLER) { handover::CALLER } else { handover::PROGRAM };
    match state_option::choose_state(args.get(1..).unwrap_or_default()) {
        Ok(rest) => commands::run(name, command(name), COMMANDS, rest),
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `weir help` lists these commands, but does not contain them.
    #[test]
    fn weir_describes_each_command_as_it_describes_itself() {
        let ours = command(handover::CALLER);
        for (words, about) in handover::COMMANDS {
            let found = words.iter().try_fold(&ours, |command, word| command.find_subcommand(word));
            let found = found.unwrap_or_else(|| panic!("{words:?} is not a command"));
            assert_eq!(found.get_about().map(ToString::to_string).as_deref(), Some(*about), "{words:?}");
        }
        command(handover::PROGRAM).debug_assert();
    }
}
