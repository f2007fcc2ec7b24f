//! Commands of `weir` that another program runs: `weir-bench` generates load, records and draws.
//!
//! `weir` replaces itself with that program and keeps arguments, environment and exit code. The
//! program gets `weir` as its name, so that help and errors read as if it were a part of it.

use crate::exit_code::SOME_FAILED;
use anyhow::{Result, bail};
use clap::{ArgMatches, Command};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{self, ExitCode};

/// Name of the program, which is looked up next to `weir` and in `PATH`.
pub const PROGRAM: &str = "weir-bench";
/// The name that it gets when `weir` runs it.
pub const CALLER: &str = "weir";

/// The commands, and how the help describes them. A test of the program compares the descriptions
/// with its own.
pub const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["load"],
        "Generate load on files, NFS servers and volumes: random, sequential, metadata, mixed; or from vdbench and fio files, or by user profile",
    ),
    (&["bench"], "Run benchmarks and judge whether their results are valid; compare results; search limits"),
    (&["record"], "Record statistics of the machine and of Weir into one file per run"),
    (
        &["graph"],
        "Draw charts of recorded runs, and of the output of vmstat, iostat, nicstat, zpool iostat, arcstat, fio and vdbench",
    ),
    (&["analytics", "overhead"], "Measure the overhead of counting: off, with the defaults, and with everything on"),
];

/// The command as it appears in the help of `weir`.
pub(crate) fn listed(name: &str) -> Command {
    let found = COMMANDS.iter().find(|(words, _)| words.last() == Some(&name));
    let (_, about) = found.expect("a command of the table");
    Command::new(name.to_owned()).about(*about).long_about(format!(
        "{about}.\n\nA command of the program {PROGRAM}, which must be installed next to weir or in $PATH."
    ))
}

/// Reached only if options precede the command: otherwise [`hand_over`] has replaced this program.
pub(crate) fn run(_: &ArgMatches) -> Result<ExitCode> {
    bail!("options of weir, except one --state, must follow the command")
}

/// Whether the other program has this command, or is asked for help about it.
pub fn is_handed_over(args: &[OsString]) -> bool {
    // `weir help load`, `weir analytics help overhead`.
    let words = args.iter().enumerate().filter(|(at, word)| *at > 1 || **word != "help").map(|(_, word)| word);
    let first: Vec<&OsString> = words.take(2).collect();
    COMMANDS
        .iter()
        .any(|(names, _)| first.len() >= names.len() && names.iter().zip(&first).all(|(name, word)| **word == *name))
}

/// The program next to this one; otherwise its name, which is looked up in `$PATH`.
fn program() -> PathBuf {
    let sibling = std::env::current_exe().ok().map(|this| this.with_file_name(PROGRAM));
    sibling.filter(|path| path.is_file()).unwrap_or_else(|| PROGRAM.into())
}

/// Replaces this program. Returns only if that fails. `args`: all arguments of this program.
pub fn hand_over(args: &[OsString]) -> ExitCode {
    let error = process::Command::new(program()).arg0(CALLER).args(args).exec();
    let is_name = |word: &&OsString| COMMANDS.iter().any(|(names, _)| **word == names[0]);
    let command = args.iter().find(is_name).map(|word| word.to_string_lossy()).unwrap_or_default();
    if error.kind() == ErrorKind::NotFound {
        let this = std::env::current_exe().map_or_else(|_| CALLER.to_owned(), |path| path.display().to_string());
        eprintln!(
            "{CALLER} {command}: the program {PROGRAM} is not installed; expected it next to {this} or in a folder of $PATH"
        );
    } else {
        eprintln!("{CALLER} {command}: cannot run {}: {error}", program().display());
    }
    ExitCode::from(SOME_FAILED)
}

/// Lets the program write the man pages of its commands, if it is installed.
pub(crate) fn write_man_pages(folder: &std::path::Path) -> Result<()> {
    match process::Command::new(program()).arg0(CALLER).arg("man").arg(folder).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("{PROGRAM} man: {status}"),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => bail!("cannot run {}: {error}", program().display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_help_are_handed_over() {
        let handed_over = |line: &str| is_handed_over(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in [
            "load",
            "load randread x",
            "graph --help",
            "help bench run",
            "help record",
            "analytics overhead nfs://a/b",
            "help analytics overhead",
            "analytics help overhead",
        ] {
            assert!(handed_over(line), "{line}");
        }
        for line in
            ["help", "analytics", "analytics datasets overhead", "help analytics", "serve load", "overhead", "ls help"]
        {
            assert!(!handed_over(line), "{line}");
        }
        assert!(!is_handed_over(&[]));
    }
}
