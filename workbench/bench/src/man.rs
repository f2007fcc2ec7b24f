//! `weir-bench man`: the man pages of this program's commands. `weir man` runs it too.

use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use cli::handover;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `weir-bench man`.
pub fn command() -> Command {
    Command::new("man")
        .about("Write man pages of these commands into a folder")
        .long_about(
            "One page for each command: weir-load.1, weir-load-randread.1 and so on. 'weir man' writes them too.",
        )
        .arg(Arg::new("folder").value_name("FOLDER").required(true).value_parser(value_parser!(PathBuf)))
}

/// Runs `weir-bench man`. `program` is the command line of the whole program.
pub fn run(matches: &ArgMatches, program: Command) -> Result<ExitCode> {
    let folder = matches.get_one::<PathBuf>("folder").context("a folder")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    write(program, folder).with_context(|| folder.display().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the pages of the commands that `weir` hands over. `weir` writes those of their parent
/// commands itself.
fn write(program: Command, folder: &Path) -> std::io::Result<()> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    for (words, _) in handover::COMMANDS {
        let found = words.iter().try_fold(&program, |command, word| command.find_subcommand(word));
        if let Some(command) = found {
            clap_mangen::generate_to(command.clone(), folder)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_under_its_full_name() {
        let folder = tempfile::tempdir().expect("a folder");
        write(crate::command(handover::CALLER), folder.path()).expect("written");
        let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(page("weir-load.1").contains("weir load"));
        assert!(page("weir-load-randread.1").contains("weir load randread"));
        assert!(page("weir-bench-compare.1").contains("factor"));
        assert!(page("weir-analytics-overhead.1").contains("rounds"));
        assert!(!folder.path().join("weir.1").exists() && !folder.path().join("weir-analytics.1").exists());
    }
}
