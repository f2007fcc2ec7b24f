//! `weir mount`: shows a dataset, and those beneath it, as directories of this machine.
//!
//! ```text
//!   weir mount ──starts──> weir mount --foreground --notify    (opens the pool, mounts)
//!       │  <──one byte on its standard output: it is up──  │
//!       └ ends                                             └ leaves the terminal, serves until it is unmounted
//! ```
//!
//! The second process has the terminal until it is up, so it asks for passphrases and says itself what goes wrong.

use super::USAGE;
use crate::figures::Figures;
use crate::source::{self, Opener};
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use parking_lot::Mutex;
use serve::fuse::{MountOptions, MountedTree, Signals, TreeUnmounter, leave_terminal, mount_tree};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

/// What a process killed by SIGINT ends with, as shells show it.
const INTERRUPTED: i32 = 130;

/// Options of `weir mount`.
pub fn command() -> clap::Command {
    clap::Command::new("mount")
        .about("Mount a dataset, with those beneath it")
        .long_about(
            "Mounts a dataset or a snapshot over FUSE. It is there when the command returns, and is served in the \
             background until it is unmounted (weir umount DIR, or umount -R DIR).\n\n\
             Files of an imported pool can be written; meanwhile no other command can change that pool. With -o ro, with \
             -d, of a pool that is imported read-only and of a snapshot they can only be read.\n\n\
             Datasets beneath are mounted in it: as root each for itself, so that find -xdev and df see them apart; else \
             all in one. As root, others may look in, within the files' permissions; who mounts for himself may read all. \
             Snapshots are under DIR/.zfs/snapshot, volumes as files under DIR/.zfs/volume.",
        )
        .arg(Arg::new("dataset").value_name("POOL/DATASET[@SNAPSHOT]").required(true))
        .arg(Arg::new("directory").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)))
        .arg(
            Arg::new("options")
                .short('o')
                .value_name("OPTION[,OPTION]...")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .help("ro, rw, allow_other, noallow_other, default_permissions, dev, suid, noexec, nowriteback (tell of a full pool at each write, not at close or fsync)"),
        )
        .arg(Arg::new("foreground").short('f').long("foreground").action(ArgAction::SetTrue).help("Stay, and log to standard error"))
        .arg(Arg::new("no-children").long("no-children").action(ArgAction::SetTrue).help("Only the dataset itself"))
        .arg(Arg::new("one-mount").long("one-mount").action(ArgAction::SetTrue).help("All datasets in one mount, also as root"))
        .arg(Arg::new("notify").long("notify").action(ArgAction::SetTrue).hide(true))
        .args(source::args())
}

/// Runs `weir mount`.
pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let options = match mount_options(matches) {
        Ok(options) => options,
        Err(e) => {
            eprintln!("weir mount: {e:#}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    if matches.get_flag("foreground") { serve(matches, &options) } else { start() }
}

fn mount_options(matches: &ArgMatches) -> Result<MountOptions> {
    // Small writes are many times as fast so, and what was synced is safe either way.
    let mut options = MountOptions { write_back: true, ..MountOptions::default() };
    for word in matches.get_many::<String>("options").into_iter().flatten() {
        match word.as_str() {
            "nodev" | "nosuid" | "exec" | "" => {}
            "ro" => options.read_only = true,
            "rw" => options.read_only = false,
            "writeback" => options.write_back = true,
            "nowriteback" => options.write_back = false,
            "allow_other" => options.allow_other = Some(true),
            "noallow_other" => options.allow_other = Some(false),
            "default_permissions" => options.enforce_permissions = Some(true),
            "dev" => options.devices = true,
            "suid" => options.setuid = true,
            "noexec" => options.no_exec = true,
            other => bail!("-o {other}: unknown option; see weir mount --help"),
        }
    }
    Ok(options)
}

/// Starts the serving process and waits until it is up, or has said why not.
fn start() -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot tell which program this is")?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(["--foreground", "--notify"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the process that serves")?;
    let mut byte = [0];
    let told = child.stdout.take().context("no pipe")?.read(&mut byte);
    if matches!(told, Ok(1)) {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    let code = status.code().and_then(|c| u8::try_from(c).ok()).filter(|&c| c != 0);
    if status.code().is_none() {
        eprintln!("weir mount: the process that serves ended: {status}");
    }
    Ok(ExitCode::from(code.unwrap_or(super::SOME_FAILED)))
}

fn serve(matches: &ArgMatches, options: &MountOptions) -> Result<ExitCode> {
    let mounted: Arc<Mutex<Option<TreeUnmounter>>> = Arc::default();
    // Before anything starts a thread.
    on_signal(mounted.clone())?;
    let _ = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).try_init();
    let dataset = matches.get_one::<String>("dataset").expect("clap insists on it");
    let dir = matches.get_one::<PathBuf>("directory").expect("clap insists on it");
    if !dir.is_dir() {
        bail!("{}: not a directory", dir.display());
    }
    let mut opener = Opener::new(matches);
    let only_read = options.read_only || dataset.contains('@');
    let pool = if only_read { None } else { opener.writable(dataset)? };
    let provider = match &pool {
        Some(pool) => opener.live_provider(pool, dataset)?,
        None => opener.provider(dataset)?,
    };
    let separate = rustix::process::geteuid().is_root() && !matches.get_flag("one-mount");
    let tree = mount_tree(provider, dir, options, !matches.get_flag("no-children"), separate)?;
    *mounted.lock() = Some(tree.unmounter());
    let places = || tree.places().map(Path::to_owned).collect();
    let figures = pool.as_ref().map(|pool| Figures::write_for(pool, dataset, places())).transpose()?;
    if matches.get_flag("notify") {
        tell_parent(&tree)?;
    }
    let served = tree.wait();
    drop(figures);
    if let Some(pool) = pool {
        pool.close()?;
    }
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Ended by a signal before it is up: just ends. After: unmounts, which ends it.
fn on_signal(mounted: Arc<Mutex<Option<TreeUnmounter>>>) -> Result<()> {
    let signals = Signals::block().context("cannot hold back signals")?;
    signals
        .each(move |_| match &*mounted.lock() {
            Some(tree) => {
                if let Err(error) = tree.unmount_now() {
                    tracing::error!(%error, "cannot unmount");
                }
            }
            None => std::process::exit(INTERRUPTED),
        })
        .context("cannot wait for signals")
}

/// From here on the log takes what would go to the terminal.
fn tell_parent(tree: &MountedTree) -> Result<()> {
    let log = match open_log(tree) {
        Ok(log) => log,
        // Errors of reading would be lost, but the files can be read.
        Err(e) => {
            eprintln!("weir mount: warning: no log will be written: {e:#}");
            File::options().write(true).open("/dev/null")?
        }
    };
    let mut out = io::stdout();
    // The parent may be gone by now: then nobody waits.
    let _ = out.write_all(b"+").and_then(|()| out.flush());
    leave_terminal(&log).context("cannot leave the terminal")
}

fn open_log(tree: &MountedTree) -> Result<File> {
    let dir = crate::state::folder()?.join("log");
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let place = tree.places().next().unwrap_or(Path::new("mount"));
    let name: String = place.to_string_lossy().chars().map(|c| if c == '/' { '-' } else { c }).collect();
    let path = dir.join(format!("mount{name}.log"));
    File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())
}
