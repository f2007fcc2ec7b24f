//! `weir umount`: unmounts a dataset and those mounted beneath it.

use super::SOME_FAILED;
use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest time that is waited for what was written to reach the disks.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// How often is looked. Guessed: not noticed by people, and cheap.
const SYNC_POLL: Duration = Duration::from_millis(20);

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
    let pools = pools_below(dir);
    let count = serve::fuse::unmount_below(dir, matches.get_flag("lazy")).with_context(|| dir.display().to_string())?;
    if count == 0 {
        eprintln!("weir umount: {}: nothing of Weir's is mounted here", dir.display());
        return Ok(ExitCode::from(SOME_FAILED));
    }
    if !matches.get_flag("lazy") {
        pools.iter().for_each(|pool| wait_for(pool));
    }
    Ok(ExitCode::SUCCESS)
}

/// Pools of which something is mounted at or below `dir`.
fn pools_below(dir: &Path) -> Vec<String> {
    let dir = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let below = crate::zfs::mount::mounted().into_iter().filter(|(_, place)| Path::new(place).starts_with(&dir));
    let mut pools: Vec<String> =
        below.map(|(dataset, _)| dataset.split(['/', '@']).next().unwrap_or_default().to_owned()).collect();
    pools.sort();
    pools.dedup();
    pools
}

/// Waits until the process that had the pool mounted has brought everything to disk and let go of it, so that the next command
/// finds it free. Not if something of it is mounted still.
fn wait_for(pool: &str) {
    let is_mounted = |(d, _): &(String, String)| d.split(['/', '@']).next() == Some(pool);
    if crate::zfs::mount::mounted().iter().any(is_mounted) {
        return;
    }
    let record = crate::state::State::of_process().and_then(|state| state.pool(pool)).ok().flatten();
    let Some(found) = record.and_then(|r| admin::import::find(&crate::zpool::pools::request(&r)).ok()) else { return };
    let deadline = Instant::now() + SYNC_MAX;
    let is_locked = || found.devices.iter().any(|d| admin::write::lock_owner(Path::new(d.device.name())).is_some());
    while is_locked() && Instant::now() < deadline {
        std::thread::sleep(SYNC_POLL);
    }
}
