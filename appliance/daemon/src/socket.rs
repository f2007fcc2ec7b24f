//! Unix sockets in the state folder's `run`: binding them, who may connect, and what a process that was killed leaves behind.
//!
//! Invariants:
//!   * a socket belongs to whoever has the lock beside it (`weir.lock` for `weir.sock`): one that is left behind is removed only
//!     by somebody who got that lock

use admin::durable;
use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Group whose members may look at the pools of a daemon that root runs.
const GROUP: &str = "weir";

/// How long a process that has the lock may take until it listens: it does nothing else between.
const BEGINS: Duration = Duration::from_secs(5);
const BEGINS_POLL: Duration = Duration::from_millis(10);

/// The folder of sockets.
pub fn folder(state: &Path) -> PathBuf {
    state.join("run")
}

/// The daemon's socket.
pub fn of_daemon(state: &Path) -> PathBuf {
    folder(state).join("weir.sock")
}

/// The socket of a process that has one pool.
pub fn of_pool(state: &Path, guid: u64) -> PathBuf {
    folder(state).join(format!("{guid}.sock"))
}

fn lock_path(socket: &Path) -> PathBuf {
    socket.with_extension("lock")
}

/// A socket that this process listens at. Dropping it removes it.
pub struct Listening {
    path: PathBuf,
    /// For [`Listening::listener`].
    listener: Option<UnixListener>,
    _lock: File,
}

/// Takes the lock of `socket` without waiting; `None`: somebody else has it.
fn lock(socket: &Path) -> Result<Option<File>> {
    let path = lock_path(socket);
    let file = durable::lock_file(&path).with_context(|| path.display().to_string())?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Listens at `socket`. Refused when another process does.
pub fn listen(socket: &Path) -> Result<Listening> {
    let folder = socket.parent().context("the socket path has no parent folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let Some(lock) = lock(socket)? else {
        bail!("{}: another process is serving this state folder", socket.display());
    };
    match fs::remove_file(socket) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).with_context(|| socket.display().to_string()),
        _ => {}
    }
    // Nobody may connect before the permissions are right: it is made under another name.
    let fresh = socket.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).with_context(|| format!("cannot listen on {}", socket.display()))?;
    let group = if rustix::process::geteuid().is_root() { group(GROUP) } else { None };
    if let Some(group) = group {
        chown(&fresh, None, Some(group)).with_context(|| socket.display().to_string())?;
    }
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(&fresh, Permissions::from_mode(mode)).with_context(|| socket.display().to_string())?;
    fs::rename(&fresh, socket).with_context(|| socket.display().to_string())?;
    Ok(Listening { path: socket.to_owned(), listener: Some(listener), _lock: lock })
}

impl Listening {
    /// The listener, once.
    pub fn listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }

    /// Takes the socket away; the lock stays.
    pub fn hide(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a process has the pool or the state folder of `socket`: it listens there, or is about to end and lets go of its pools.
pub fn is_owned(socket: &Path) -> bool {
    lock_path(socket).exists() && matches!(lock(socket), Ok(None))
}

/// Connects to the process behind `socket`; `None`: there is none. What one that was killed left is removed; one that is about to
/// take its place is waited for.
pub fn connect(socket: &Path) -> Result<Option<UnixStream>> {
    let deadline = Instant::now() + BEGINS;
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(Some(stream)),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
                if lock(socket)?.is_some() {
                    let _ = fs::remove_file(socket);
                    return Ok(None);
                }
                if Instant::now() >= deadline {
                    return Err(e)
                        .with_context(|| format!("{}: the process that owns it does not answer", socket.display()));
                }
                std::thread::sleep(BEGINS_POLL);
            }
            Err(e) => return Err(e).with_context(|| socket.display().to_string()),
        }
    }
}

/// Number of a group, from /etc/group.
fn group(name: &str) -> Option<u32> {
    let table = fs::read_to_string("/etc/group").ok()?;
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_listener_is_refused_and_what_a_dead_one_left_is_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = of_daemon(dir.path());
        assert!(connect(&socket).expect("nothing there").is_none());
        let mut first = listen(&socket).expect("it listens");
        assert!(listen(&socket).is_err());
        assert!(connect(&socket).expect("it connects").is_some());
        assert!(is_owned(&socket));
        assert_eq!(fs::metadata(&socket).expect("there").permissions().mode() & 0o007, 0);
        // Killed: the socket stays, nobody listens, the lock is gone.
        drop(first.listener());
        let fresh = socket.with_extension("kept");
        fs::rename(&socket, &fresh).expect("renamed");
        drop(first);
        fs::rename(&fresh, &socket).expect("renamed");
        assert!(!is_owned(&socket));
        assert!(connect(&socket).expect("it is left behind").is_none());
        assert!(!socket.exists());
    }
}
