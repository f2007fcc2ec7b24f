//! `weir completions`: prints a script that completes command lines in a shell.

use crate::completions;
use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command};
use std::io::Write;
use std::process::ExitCode;

/// Options of `weir completions`.
pub fn command() -> Command {
    Command::new("completions")
        .about("Print completions for a shell")
        .long_about(
            "Completes commands, options, properties, and the names of pools and datasets of weir, zpool, zfs, beadm and \
             bectl. For bash: weir completions bash > /etc/bash_completion.d/weir; for zsh, a file _weir in a folder of \
             $fpath; for fish, weir.fish in ~/.config/fish/completions. 'make install' installs all of them.",
        )
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(completions::SHELLS)
                .help("The shell that reads the script"),
        )
}

/// Runs `weir completions`. `program` is the command line of the whole program.
pub fn run(matches: &ArgMatches, program: Command) -> Result<ExitCode> {
    let shell = matches.get_one::<String>("shell").context("a shell")?;
    let script = completions::script(shell, program).context("an unknown shell")?;
    std::io::stdout().write_all(script.as_bytes()).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}
