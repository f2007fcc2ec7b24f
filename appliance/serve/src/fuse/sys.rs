//! What FUSE needs of the operating system beyond what safe libraries offer: unmounting, and waiting for signals.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Unmounts what is mounted at `dir`; `lazy` also when it is in use (it vanishes from the tree, and ends with its last user).
/// Without root rights, by way of fusermount3.
pub(super) fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazy { libc::MNT_DETACH } else { 0 };
    // SAFETY: `path` is a C string that lives across the call, which keeps no pointer to it; `flags` are valid together.
    if unsafe { libc::umount2(path.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Err(error);
    }
    let mut fusermount = Command::new("fusermount3");
    fusermount.arg("-u").args(lazy.then_some("-z")).arg("--").arg(dir).stdin(Stdio::null());
    let output = fusermount.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if said.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(io::Error::new(kind, said))
}

/// Leaves the terminal: a session of its own, input from nowhere, output and errors to `log`.
///
/// For a process that was started by the one that the user waits for, and is not the leader of a group.
pub fn leave_terminal(log: &File) -> io::Result<()> {
    rustix::process::setsid()?;
    let nothing = File::open("/dev/null")?;
    for (from, to) in [(&nothing, libc::STDIN_FILENO), (log, libc::STDOUT_FILENO), (log, libc::STDERR_FILENO)] {
        // SAFETY: both are open file descriptors: `from` is borrowed from a `File`, and the standard ones are never owned
        // by anything that would close them, so replacing what they refer to takes nothing from anybody.
        if unsafe { libc::dup2(from.as_raw_fd(), to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// SIGTERM, SIGINT and SIGHUP, taken from their default action: they end a server by unmounting, not by vanishing.
///
/// Call [`Signals::block`] before any thread starts, since threads inherit what is blocked.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    fn set() -> libc::sigset_t {
        // SAFETY: `sigset_t` is plain data, for which zeros are valid, and `sigemptyset` then initialises it; the signal
        // numbers are valid, so that `sigaddset` cannot fail.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            set
        }
    }

    /// Blocks the signals for this thread and those that it will start.
    pub fn block() -> io::Result<Self> {
        let set = Self::set();
        // SAFETY: `set` is initialised and outlives the call; the old mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(Self(())),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Calls `then` each time one of them comes, from a thread of its own that lives as long as the process.
    pub fn each(self, mut then: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
        std::thread::Builder::new().name("weir-signals".to_owned()).spawn(move || {
            let set = Self::set();
            loop {
                let mut signal = 0;
                // SAFETY: `set` is initialised, `signal` is writable, both live across the call.
                if unsafe { libc::sigwait(&set, &mut signal) } == 0 {
                    then(signal);
                }
            }
        })?;
        Ok(())
    }
}
