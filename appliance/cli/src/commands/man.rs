//! `weir man`: man pages of all commands, from the same definitions as their help texts.

use crate::handover;
use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `weir man`.
pub fn command() -> Command {
    Command::new("man")
        .about("Write man pages of all commands into a folder")
        .long_about(
            "One page for each command: weir.1, weir-stat.1, weir-analytics-datasets.1 and so on. Packages put them into \
             /usr/share/man/man1; 'man -l FILE' shows one.",
        )
        .arg(Arg::new("folder").value_name("FOLDER").required(true).value_parser(value_parser!(PathBuf)))
}

/// Runs `weir man`. `program` is the command line of the whole program.
pub fn run(matches: &ArgMatches, program: Command) -> Result<ExitCode> {
    let folder = matches.get_one::<PathBuf>("folder").context("a folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    clap_mangen::generate_to(program, folder).with_context(|| folder.display().to_string())?;
    handover::write_man_pages(folder)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_command_has_a_page_with_the_contents_of_its_help() {
        let folder = tempfile::tempdir().expect("a folder");
        clap_mangen::generate_to(crate::commands::command(), &folder).expect("written");
        let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(page("weir-top.1").contains("Counts operations over NFS and through mounts"));
        assert!(page("weir-analytics-datasets-prune.1").contains("Delete data from before a time"));
        for command in crate::commands::COMMANDS {
            let name = (command.command)().get_name().to_owned();
            assert!(page(&format!("weir-{name}.1")).contains("SYNOPSIS"), "{name}");
        }
    }
}
