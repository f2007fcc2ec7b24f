//! `weir umount`: unmounts a dataset and those mounted below it.

use crate::exit_code::SOME_FAILED;
use crate::mount_process;
use admin::verbs::pool_of;
use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `weir umount`.
pub fn command() -> clap::Command {
    clap::Command::new("umount")
        .about("Unmount a dataset and those mounted below it")
        .arg(
            Arg::new("directory")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The mount point"),
        )
        .arg(
            Arg::new("lazy")
                .short('l')
                .long("lazy")
                .action(ArgAction::SetTrue)
                .help("Even if in use; the mount disappears with its last user (lazy unmount)"),
        )
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let dir = matches.get_one::<PathBuf>("directory").expect("clap insists on it");
    let pools = pools_below(dir);
    let count = serve::fuse::unmount_below(dir, matches.get_flag("lazy")).with_context(|| dir.display().to_string())?;
    if count == 0 {
        eprintln!("weir umount: {}: not a mount of Weir", dir.display());
        return Ok(ExitCode::from(SOME_FAILED));
    }
    if !matches.get_flag("lazy") {
        let state = admin::state::State::of_process()?;
        let imported = state.pools()?;
        imported.iter().filter(|r| pools.contains(&r.name)).for_each(|r| mount_process::wait_for(&state, r));
    }
    Ok(ExitCode::SUCCESS)
}

/// Pools with a mount at or below `dir`.
fn pools_below(dir: &Path) -> Vec<String> {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let below = crate::mount_table::mounted().into_iter().filter(|(_, place)| Path::new(place).starts_with(&dir));
    let mut pools: Vec<String> = below.map(|(dataset, _)| pool_of(&dataset).to_owned()).collect();
    pools.sort();
    pools.dedup();
    pools
}
