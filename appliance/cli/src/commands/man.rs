//! `weir man`: man pages of all commands, from the same definitions as their help texts.

use crate::{handover, manual};
use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `weir man`.
pub fn command() -> Command {
    Command::new("man")
        .about("Write man pages of all commands into a folder")
        .long_about(
            "The pages weir.8, weir-zpool.8, weir-zfs.8, weir-beadm.8 and weir-bectl.8, and one for each of Weir's own \
             commands: weir-stat.1, weir-analytics-datasets.1 and so on. 'make install' installs them; 'man -l FILE' shows \
             one.",
        )
        .arg(
            Arg::new("folder")
                .value_name("FOLDER")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("Where to write the pages; it is created if missing"),
        )
}

/// Runs `weir man`. `program` is the command line of the whole program.
pub fn run(matches: &ArgMatches, program: Command) -> Result<ExitCode> {
    let folder = matches.get_one::<PathBuf>("folder").context("a folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    write(program, folder).with_context(|| folder.display().to_string())?;
    handover::write_man_pages(folder)?;
    Ok(ExitCode::SUCCESS)
}

fn write(program: Command, folder: &Path) -> std::io::Result<()> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    for (name, page) in manual::pages(&program) {
        std::fs::write(folder.join(name), page)?;
    }
    for command in program.get_subcommands().filter(|command| !manual::has_page(command.get_name())) {
        clap_mangen::generate_to(command.clone(), folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_command_has_a_page_with_the_contents_of_its_help() {
        let folder = tempfile::tempdir().expect("a folder");
        super::write(crate::commands::command(), folder.path()).expect("written");
        let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(page("weir-top.1").contains("Counts operations over NFS and through mounts"));
        assert!(page("weir-analytics-datasets-prune.1").contains("Delete data from before a time"));
        for command in crate::commands::COMMANDS {
            let name = (command.command)().get_name().to_owned();
            assert!(page(&format!("weir-{name}.1")).contains("SYNOPSIS"), "{name}");
        }
    }

    #[test]
    fn pages_of_zpool_and_zfs_have_every_verb_and_option() {
        let folder = tempfile::tempdir().expect("a folder");
        super::write(crate::commands::command(), folder.path()).expect("written");
        for (name, verbs) in [("zpool", crate::zpool::VERBS), ("zfs", crate::zfs::VERBS)] {
            let page = std::fs::read_to_string(folder.path().join(format!("weir-{name}.8"))).expect(name);
            let plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fI", "").replace("\\fR", "");
            for verb in verbs.iter().filter(|verb| verb.run.is_some()) {
                let begin = plain.find(&format!(".SS \"{} ", verb.name)).expect(verb.name);
                let part = &plain[begin..];
                let part = part[4..].find(".SS").map_or(part, |end| &part[..end]);
                for option in verb.options.iter().filter(|_| verb.alias_of.is_none()) {
                    assert!(part.contains(option.help), "{name} {}: {}", verb.name, option.forms());
                }
                assert!(verb.alias_of.is_some() || part.contains("Examples:"), "{name} {}", verb.name);
            }
        }
        assert!(!folder.path().join("weir.1").exists() && folder.path().join("weir.8").exists());
    }

    /// groff finds mistakes in the text of the pages.
    #[test]
    fn pages_are_accepted_by_groff() {
        let folder = tempfile::tempdir().expect("a folder");
        super::write(crate::commands::command(), folder.path()).expect("written");
        for entry in std::fs::read_dir(folder.path()).expect("there").filter_map(Result::ok) {
            let mut groff = std::process::Command::new("groff");
            // The pages of clap use the font of typewriters, which terminals do not have.
            groff.args(["-man", "-ww", "-Wfont", "-Kutf8", "-Tutf8", "-z"]).arg(entry.path());
            let Ok(output) = groff.output() else {
                println!("skipped: groff is not installed");
                return;
            };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{}: {said}", entry.path().display());
        }
    }
}
