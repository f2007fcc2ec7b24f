//! `weir umount`: unmounts a dataset and those mounted beneath it.

use super::SOME_FAILED;
use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `weir umount`.
pub fn command() -> clap::Command {
    clap::Command::new("umount")
        .about("Unmount a dataset and those mounted beneath it")
        .arg(Arg::new("directory").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)))
        .arg(
            Arg::new("lazy")
                .short('l')
                .long("lazy")
                .action(ArgAction::SetTrue)
                .help("Even when in use: it ends with its last user"),
        )
}

/// Runs `weir umount`.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let dir = matches.get_one::<PathBuf>("directory").expect("clap insists on it");
    let count = serve::fuse::unmount_below(dir, matches.get_flag("lazy")).with_context(|| dir.display().to_string())?;
    if count == 0 {
        eprintln!("weir umount: {}: nothing of Weir's is mounted here", dir.display());
        return Ok(ExitCode::from(SOME_FAILED));
    }
    Ok(ExitCode::SUCCESS)
}
