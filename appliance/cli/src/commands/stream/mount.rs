//! `weir stream mount`: mounts the files of a saved stream read-only.

use crate::commands::mount::{mount_options, notify_parent, start};
use crate::exit_code::USAGE;
use crate::source::{self, Opener};
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use files::vfs::FileKind;
use parking_lot::Mutex;
use serve::fuse::{self, MountOptions, Signals, Unmounter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Exit code of a process killed by SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;

/// Options of `weir stream mount`.
pub fn command() -> clap::Command {
    clap::Command::new("mount")
        .about("Mount the files in a saved stream, read-only")
        .arg(Arg::new("source").value_name("FILE").required(true).help("The saved stream: a full one"))
        .arg(Arg::new("directory").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help("Where to mount it"))
        .arg(
            Arg::new("options")
                .short('o')
                .value_name("OPTION[,OPTION]...")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .help("allow_other, noallow_other, default_permissions, dev, suid, noexec, uring, nouring, as of weir mount"),
        )
        .arg(Arg::new("foreground").short('f').long("foreground").action(ArgAction::SetTrue).help("Stay in the foreground and log to standard error"))
        .arg(Arg::new("notify").long("notify").action(ArgAction::SetTrue).hide(true))
        .args(source::args())
        .args(source::stream_args())
        .mut_args(|arg| match arg.get_id().as_str() {
            "search" | "key-file" | "passphrase-file" | "keylocation" => arg.hide(true),
            _ => arg,
        })
        .after_help(
            "The whole stream is read first; an altered or truncated one is refused. It must be a file: not a pipe, \
             not compressed as a whole; and it stays in use until DIR is unmounted (weir umount DIR).",
        )
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let options = match mount_options(matches) {
        Ok(options) => MountOptions { read_only: true, write_back: false, ..options },
        Err(e) => {
            eprintln!("weir stream mount: {e:#}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    if matches.get_flag("foreground") { serve(matches, &options) } else { start() }
}

fn serve(matches: &ArgMatches, options: &MountOptions) -> Result<ExitCode> {
    let mounted: Arc<Mutex<Option<Unmounter>>> = Arc::default();
    // Before any thread is started.
    let signals = Signals::block().context("cannot block signals")?;
    let seen = mounted.clone();
    signals
        .each(move |_| match &*seen.lock() {
            Some(unmounter) => drop(unmounter.unmount_now()),
            None => std::process::exit(INTERRUPTED),
        })
        .context("cannot wait for signals")?;
    let _ = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).try_init();
    let stream = matches.get_one::<String>("source").expect("clap insists on it");
    let dir = matches.get_one::<PathBuf>("directory").expect("clap insists on it");
    if !dir.is_dir() {
        bail!("{}: not a directory", dir.display());
    }
    let vfs = Opener::new(matches).open(stream)?;
    if vfs.attr(vfs.root())?.kind != FileKind::Directory {
        bail!("{stream}: contains a volume, which is one file: copy it with weir stream cp");
    }
    // Name in the output of `mount` and `df`, as for a dataset.
    let options = MountOptions { name: stream.clone(), ..options.clone() };
    let handle = fuse::mount(vfs, dir, &options).with_context(|| format!("cannot mount on {}", dir.display()))?;
    *mounted.lock() = Some(handle.unmounter());
    if matches.get_flag("notify") {
        notify_parent(handle.dir())?;
    }
    handle.wait()?;
    Ok(ExitCode::SUCCESS)
}
