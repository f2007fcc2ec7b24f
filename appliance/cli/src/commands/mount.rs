//! `weir mount`: mounts a dataset and its descendants as directories of this machine.
//!
//! ```text
//!   weir mount ──starts──> weir mount --foreground --notify    (opens the pool, mounts)
//!       │  <──one byte on its standard output: it is up──  │
//!       └ ends                                             └ leaves the terminal, serves until it is unmounted
//! ```
//!
//! The second process keeps the terminal until the mount is up, so it asks for passphrases and
//! reports errors itself.

use crate::exit_code::{SOME_FAILED, USAGE};
use crate::figures::Figures;
use crate::source::{self, Opener};
use admin::house::Scope;
use admin::{House, OwnedPool};
use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use daemon::mounts::Shape;
use daemon::{Commands, Control, Mounts, Owner};
use parking_lot::Mutex;
use serve::fuse::{MountOptions, Signals, leave_terminal};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Exit code of a process killed by SIGINT, as shells report it.
const INTERRUPTED: i32 = 130;
/// Time limit for running commands to end, once nothing is mounted any more.
const COMMANDS_END: Duration = Duration::from_secs(60);

/// Options of `weir mount`.
pub fn command() -> clap::Command {
    clap::Command::new("mount")
        .about("Mount a dataset and its descendants")
        .long_about(
            "Mounts a dataset or a snapshot with FUSE. The mount is ready when the command returns, and is served in the \
             background until it is unmounted (weir umount DIR, or umount -R DIR).\n\n\
             An imported pool is mounted read-write; meanwhile zpool and zfs commands for that pool run in the serving \
             process. With -o ro or -d, and for a read-only pool or a snapshot, the mount is read-only.\n\n\
             Descendants are mounted below it: for root as separate mounts, so that find -xdev and df tell them apart; for \
             other users in one mount. If root mounts, other users have access according to the files' permissions; any \
             other user who mounts can read everything. Snapshots are under DIR/.zfs/snapshot, volumes as files under \
             DIR/.zfs/volume.",
        )
        .arg(Arg::new("dataset").value_name("POOL/DATASET[@SNAPSHOT]").required(true).help("The dataset or snapshot to mount"))
        .arg(Arg::new("directory").value_name("DIR").required(true).value_parser(value_parser!(PathBuf)).help("Where to mount it"))
        .arg(
            Arg::new("options")
                .short('o')
                .value_name("OPTION[,OPTION]...")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .help("ro, rw, allow_other, noallow_other, default_permissions, dev, suid, noexec, noatime, nowriteback (report a full pool at each write, not at close or fsync), uring (use io_uring where Linux supports it: faster, but read docs/operating/speed.md first), nouring (through /dev/fuse: the default)"),
        )
        .arg(Arg::new("foreground").short('f').long("foreground").action(ArgAction::SetTrue).help("Stay in the foreground and log to standard error"))
        .arg(Arg::new("no-children").long("no-children").action(ArgAction::SetTrue).help("Only the dataset itself"))
        .arg(Arg::new("one-mount").long("one-mount").action(ArgAction::SetTrue).help("One mount for all datasets, also as root"))
        .arg(Arg::new("notify").long("notify").action(ArgAction::SetTrue).hide(true))
        .args(source::args())
}

/// Runs `weir mount`. If it opens the pool for writing, it runs `commands` for other processes.
pub fn run(matches: &ArgMatches, commands: Arc<dyn Commands>) -> Result<ExitCode> {
    let options = match mount_options(matches) {
        Ok(options) => options,
        Err(e) => {
            eprintln!("weir mount: {e:#}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    if let Some(code) = by_daemon(matches)? {
        return Ok(ExitCode::from(code));
    }
    if matches.get_flag("foreground") { serve(matches, &options, commands) } else { start() }
}

/// Lets the daemon mount it, if a daemon has the pool imported.
fn by_daemon(matches: &ArgMatches) -> Result<Option<u8>> {
    let given = |id: &str| matches.contains_id(id) && matches.value_source(id).is_some();
    if given("search") || matches.get_flag("notify") {
        return Ok(None);
    }
    let args: Vec<String> = std::env::args().collect();
    let verb = args.iter().position(|a| a == "mount").unwrap_or(0);
    crate::forward::to_daemon(&admin::state::State::of_process()?, "weir", &args[verb..])
}

/// Options of the mount.
pub fn mount_options(matches: &ArgMatches) -> Result<MountOptions> {
    // Small writes are many times as fast with write-back, and synced data is safe either way.
    let mut options = MountOptions { write_back: true, ..MountOptions::default() };
    for word in matches.get_many::<String>("options").into_iter().flatten() {
        match word.as_str() {
            "nodev" | "nosuid" | "exec" | "atime" | "" => {}
            "noatime" => options.no_atime.store(true, Ordering::Relaxed),
            "ro" => options.read_only = true,
            "rw" => options.read_only = false,
            "writeback" => options.write_back = true,
            "nowriteback" => options.write_back = false,
            "uring" => options.uring = true,
            "nouring" => options.uring = false,
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

/// Starts the serving process and waits until the mount is up, or an error was printed.
pub fn start() -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(["--foreground", "--notify"])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the serving process")?;
    let mut byte = [0];
    let received = child.stdout.take().context("no pipe")?.read(&mut byte);
    if matches!(received, Ok(1)) {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait()?;
    let code = status.code().and_then(|c| u8::try_from(c).ok()).filter(|&c| c != 0);
    if status.code().is_none() {
        eprintln!("weir mount: the process that serves ended: {status}");
    }
    Ok(ExitCode::from(code.unwrap_or(SOME_FAILED)))
}

fn serve(matches: &ArgMatches, options: &MountOptions, commands: Arc<dyn Commands>) -> Result<ExitCode> {
    let mounted: Arc<Mutex<Option<Mounts>>> = Arc::default();
    // Before any thread is started.
    on_signal(mounted.clone())?;
    let _ = tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).try_init();
    let dataset = matches.get_one::<String>("dataset").expect("clap insists on it");
    let dir = matches.get_one::<PathBuf>("directory").expect("clap insists on it");
    if !dir.is_dir() {
        bail!("{}: not a directory", dir.display());
    }
    let mut opener = Opener::new(matches);
    let only_read = options.read_only || dataset.contains('@');
    let owned = if only_read { None } else { own(&mut opener, dataset, commands)? };
    let provider = match &owned {
        Some((_, pool)) => opener.live_provider(pool.writable().context("it is open for writing")?, dataset)?,
        None => opener.provider(dataset)?,
    };
    let mounts = owned.as_ref().map_or_else(|| Mounts::new(true), |(owner, _)| owner.mounts.clone());
    let guid = owned.as_ref().map_or(0, |(_, pool)| pool.guid());
    let places = mounts.mount_tree(guid, provider, dir, options, shape(matches))?;
    *mounted.lock() = Some(mounts.clone());
    let mut figures = None;
    if let Some((_, pool)) = &owned {
        let writable = pool.writable().context("it is open for writing")?;
        figures = Some(Figures::write_for(writable, dataset, places.clone())?);
    }
    let control = owned.as_ref().and_then(|(owner, pool)| control(owner, pool));
    if matches.get_flag("notify") {
        notify_parent(places.first().map_or(dir, |place| place))?;
    }
    let served = mounts.wait();
    drop(figures);
    if let Some((owner, _)) = owned {
        // A command that unmounted it may continue, for example to export the pool.
        owner.stop(COMMANDS_END);
        // The lock shows other processes that the pool is not closed yet.
        let _owned = control.and_then(Control::stop);
        if let Some((_, error)) = owner.house.close_all().into_iter().next() {
            return Err(error);
        }
    }
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Which datasets of a tree are mounted, and how.
pub fn shape(matches: &ArgMatches) -> Shape {
    let separate = rustix::process::geteuid().is_root() && !matches.get_flag("one-mount");
    Shape { children: !matches.get_flag("no-children"), separate }
}

/// Opens the pool of a dataset for writing, owned by this process; `None`: it can only be read.
fn own(
    opener: &mut Opener,
    dataset: &str,
    commands: Arc<dyn Commands>,
) -> Result<Option<(Arc<Owner>, Arc<OwnedPool>)>> {
    let Some((record, pool)) = opener.writable(dataset)? else { return Ok(None) };
    let house = House::new(admin::state::State::of_process()?, Scope::One(record.guid), None);
    let pool = house.adopt(record, pool);
    let owner = Owner::new(house, Mounts::new(true), commands);
    owner.ready();
    Ok(Some((owner, pool)))
}

/// Opens a control socket, so that commands reach the pool. Without it they report that the pool is
/// in use, as if by another program.
fn control(owner: &Arc<Owner>, pool: &OwnedPool) -> Option<Control> {
    let path = daemon::socket::of_pool(owner.house.state().folder(), pool.guid());
    match Control::start(owner.clone(), &path) {
        Ok(control) => Some(control),
        Err(error) => {
            tracing::warn!(error = %format!("{error:#}"), "commands cannot reach this pool");
            None
        }
    }
}

/// A signal before the mount is up ends the process; afterwards it unmounts, which ends the
/// process.
fn on_signal(mounted: Arc<Mutex<Option<Mounts>>>) -> Result<()> {
    let signals = Signals::block().context("cannot block signals")?;
    signals
        .each(move |_| match &*mounted.lock() {
            Some(mounts) => mounts.unmount_all(),
            None => std::process::exit(INTERRUPTED),
        })
        .context("cannot wait for signals")
}

/// Reports to the parent that the mount is up. From here on, output goes to the log.
pub fn notify_parent(place: &Path) -> Result<()> {
    let log = match open_log(place) {
        Ok(log) => log,
        // Read errors would not be logged, but the files can be read.
        Err(e) => {
            eprintln!("weir mount: warning: no log will be written: {e:#}");
            File::options().write(true).open("/dev/null")?
        }
    };
    let mut out = io::stdout();
    // The parent may have ended: then no process is waiting.
    let _ = out.write_all(b"+").and_then(|()| out.flush());
    leave_terminal(&log).context("cannot detach from the terminal")
}

fn open_log(place: &Path) -> Result<File> {
    let dir = admin::state::folder()?.join("log");
    host::durable::make_private(&dir).with_context(|| dir.display().to_string())?;
    let name: String = place.to_string_lossy().chars().map(|c| if c == '/' { '-' } else { c }).collect();
    let path = dir.join(format!("mount{name}.log"));
    File::options()
        .create(true)
        .append(true)
        .mode(host::durable::PRIVATE)
        .open(&path)
        .with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_go_through_dev_fuse_unless_io_uring_is_requested() {
        let uring = |args: &[&str]| {
            let all = ["mount"].iter().chain(args).chain(&["tank", "/mnt"]);
            let matches = command().try_get_matches_from(all).expect("arguments");
            mount_options(&matches).expect("options").uring
        };
        assert!(!uring(&[]));
        assert!(!uring(&["-o", "ro,nowriteback"]));
        assert!(uring(&["-o", "ro,uring"]));
        assert!(!uring(&["-o", "uring", "-o", "nouring"]));
    }
}
