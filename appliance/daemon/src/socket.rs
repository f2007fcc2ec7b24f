//! Unix sockets in `run` of the state directory: binding, permissions, and leftovers of killed
//! processes.
//!
//! Invariants:
//!   * a socket belongs to the process that holds the lock next to it (`weir.lock` for
//!     `weir.sock`): a stale socket is removed only by a process that holds that lock

use anyhow::{Context as _, Result, bail};
use host::durable;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Group whose members may read the state of pools, if the daemon runs as root.
const GROUP: &str = "weir";

/// Time limit between taking the lock and listening: a process does nothing else in between.
const BEGINS: Duration = Duration::from_secs(5);
const BEGINS_POLL: Duration = Duration::from_millis(10);

/// Directory of the sockets.
pub fn folder(state: &Path) -> PathBuf {
    state.join("run")
}

/// Path of the socket of `weir serve`.
pub fn of_daemon(state: &Path) -> PathBuf {
    folder(state).join("weir.sock")
}

/// Path of the socket of a process with one pool.
pub fn of_pool(state: &Path, guid: u64) -> PathBuf {
    folder(state).join(format!("{guid}.sock"))
}

fn lock_path(socket: &Path) -> PathBuf {
    socket.with_extension("lock")
}

/// A socket on which this process listens. It is removed on drop.
pub struct Listening {
    path: PathBuf,
    /// `None` after [`Listening::listener`] returned it.
    listener: Option<UnixListener>,
    _lock: File,
}

/// Takes the lock of `socket` without waiting; `None`: another process has it.
fn lock(socket: &Path) -> Result<Option<File>> {
    let path = lock_path(socket);
    let file = durable::lock_file(&path).with_context(|| path.display().to_string())?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e).with_context(|| path.display().to_string()),
    }
}

/// Listens on `socket`. Refused if another process does.
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
    // It is created under another name, so that nothing can connect before the permissions are set.
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
    /// Returns the listener, once.
    pub fn listener(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }

    /// Removes the socket and keeps the lock.
    pub fn hide(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a process has the pool or state directory of `socket`: it listens there, or is stopping
/// and closing its pools.
pub fn is_owned(socket: &Path) -> bool {
    lock_path(socket).exists() && matches!(lock(socket), Ok(None))
}

/// Connects to the process behind `socket`; `None`: there is none. Removes the socket of a killed
/// process, and waits for a process that is about to listen.
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
    fn a_second_listener_is_refused_and_a_stale_socket_is_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let socket = of_daemon(dir.path());
        assert!(connect(&socket).expect("nothing there").is_none());
        let mut first = listen(&socket).expect("it listens");
        assert!(listen(&socket).is_err());
        assert!(connect(&socket).expect("it connects").is_some());
        assert!(is_owned(&socket));
        assert_eq!(fs::metadata(&socket).expect("there").permissions().mode() & 0o007, 0);
        // As after a kill: the socket remains, no process listens, and the lock is free.
        drop(first.listener());
        let fresh = socket.with_extension("kept");
        fs::rename(&socket, &fresh).expect("renamed");
        drop(first);
        fs::rename(&fresh, &socket).expect("renamed");
        assert!(!is_owned(&socket));
        assert!(connect(&socket).expect("it is stale").is_none());
        assert!(!socket.exists());
    }
}
