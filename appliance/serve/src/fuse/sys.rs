//! System calls for FUSE that safe libraries do not offer: mounting, unmounting, and waiting for
//! signals.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// mount(2).
pub(super) fn mount(source: &str, dir: &Path, kind: &str, flags: libc::c_ulong, options: &str) -> io::Result<()> {
    let (source, dir) = (CString::new(source)?, CString::new(dir.as_os_str().as_bytes())?);
    let (kind, options) = (CString::new(kind)?, CString::new(options)?);
    // SAFETY: all four are C strings that live across the call, which keeps no pointer to them. The
    // options of a file system are a string, too.
    match unsafe { libc::mount(source.as_ptr(), dir.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Changes the flags of what is mounted at `dir`.
pub(super) fn remount(dir: &Path, flags: libc::c_ulong) -> io::Result<()> {
    mount("", dir, "", libc::MS_REMOUNT | flags, "")
}

/// Opens another connection to the same mount (`FUSE_DEV_IOC_CLONE`).
pub(super) fn clone_device(device: &File) -> io::Result<File> {
    const CLONE: libc::c_ulong = 0x8004_e500;
    let new = File::options().read(true).write(true).open("/dev/fuse")?;
    let source = device.as_raw_fd() as u32;
    // SAFETY: both files are open. The call reads the four bytes of `source`, which live across it.
    match unsafe { libc::ioctl(new.as_raw_fd(), CLONE, &source) } {
        0 => Ok(new),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Unmounts `dir`. With `lazy`, also if it is in use: the mount disappears from the tree and ends
/// with its last user. Uses fusermount3 without root privileges.
pub(super) fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazy { libc::MNT_DETACH } else { 0 };
    // SAFETY: `path` is a C string that lives across the call, which keeps no pointer to it;
    // `flags` are valid in combination.
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
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let kind = if message.contains("busy") { io::ErrorKind::ResourceBusy } else { io::ErrorKind::Other };
    Err(io::Error::new(kind, message))
}

/// Detaches from the terminal: starts a new session, with input from /dev/null and output and
/// errors to `log`.
///
/// For a background process, started by the process that the user waits for, that is not a process
/// group leader.
pub fn leave_terminal(log: &File) -> io::Result<()> {
    rustix::process::setsid()?;
    let nothing = File::open("/dev/null")?;
    for (from, to) in [(&nothing, libc::STDIN_FILENO), (log, libc::STDOUT_FILENO), (log, libc::STDERR_FILENO)] {
        // SAFETY: both are open file descriptors: `from` is borrowed from a `File`, and the
        // standard descriptors are never owned by anything that would close them, so replacing them
        // invalidates nothing.
        if unsafe { libc::dup2(from.as_raw_fd(), to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Handles SIGTERM, SIGINT and SIGHUP in place of their default action, so that a server unmounts
/// before it exits.
///
/// Call [`Signals::block`] before any thread starts, because threads inherit the signal mask.
#[derive(Debug)]
pub struct Signals(());

impl Signals {
    fn set() -> libc::sigset_t {
        // SAFETY: `sigset_t` is plain data for which zeros are valid, and `sigemptyset` then
        // initialises it. The signal numbers are valid, so `sigaddset` cannot fail.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(&mut set, signal);
            }
            set
        }
    }

    /// Blocks the signals for this thread and all threads that it starts.
    pub fn block() -> io::Result<Self> {
        let set = Self::set();
        // SAFETY: `set` is initialised and outlives the call. The old mask is not requested.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(Self(())),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Calls `then` for each signal, from a dedicated thread that lives as long as the process.
    pub fn each(self, mut then: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
        std::thread::Builder::new().name("weir-signals".to_owned()).spawn(move || {
            let set = Self::set();
            loop {
                let mut signal = 0;
                // SAFETY: `set` is initialised, `signal` is writable, and both live across the
                // call.
                if unsafe { libc::sigwait(&set, &mut signal) } == 0 {
                    then(signal);
                }
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    //! System calls for tests: mappings and ioctl(2).

    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    /// Memory aligned for O_DIRECT.
    #[repr(align(4096))]
    pub struct Aligned(pub [u8; 8192]);

    /// A page of a file, mapped shared.
    pub struct Mapped(*mut u8);

    const PAGE: usize = 4096;

    impl Mapped {
        pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
            assert!(at + len <= PAGE);
            // SAFETY: within the page, which stays mapped readable until drop and which nothing
            // else in this process accesses.
            (at..at + len).map(|i| unsafe { self.0.add(i).read_volatile() }).collect()
        }

        pub fn write(&mut self, at: usize, data: &[u8]) {
            assert!(at + data.len() <= PAGE);
            for (i, &byte) in data.iter().enumerate() {
                // SAFETY: as for reading. The page is mapped writable.
                unsafe { self.0.add(at + i).write_volatile(byte) }
            }
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            // SAFETY: mapped in `map_and_write` with this size, and no pointer to it remains.
            unsafe { libc::munmap(self.0.cast(), PAGE) };
        }
    }

    /// Maps the page at `offset` and writes `data` to its start.
    pub fn map_and_write(file: &File, offset: i64, data: &[u8]) -> io::Result<Mapped> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is given, so no existing mapping is replaced. The file is open.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), PAGE, protection, libc::MAP_SHARED, file.as_raw_fd(), offset) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mut mapped = Mapped(at.cast());
        mapped.write(0, data);
        Ok(mapped)
    }

    /// `FS_IOC_FSGETXATTR`: returns the project and whether it is inherited.
    pub fn get_project(file: &File) -> io::Result<(u32, bool)> {
        let mut words = [0_u32; 7];
        // SAFETY: the file is open, and the structure has the 28 bytes that the command writes.
        match unsafe { libc::ioctl(file.as_raw_fd(), 0x801c_581f, words.as_mut_ptr()) } {
            0 => Ok((words[3], words[0] & 0x200 != 0)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// `ZFS_IOC_GETDOSFLAGS`.
    pub fn dos_flags(file: &File) -> io::Result<u64> {
        let mut flags = 0_u64;
        // SAFETY: the file is open, and the command writes 8 bytes.
        match unsafe { libc::ioctl(file.as_raw_fd(), 0x8008_8301, &raw mut flags) } {
            0 => Ok(flags),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// `ZFS_IOC_SETDOSFLAGS`.
    pub fn set_dos_flags(file: &File, flags: u64) -> io::Result<()> {
        // SAFETY: the file is open, and the command reads 8 bytes.
        match unsafe { libc::ioctl(file.as_raw_fd(), 0x4008_8302, &raw const flags) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// `FS_IOC_FSSETXATTR`.
    pub fn set_project(file: &File, project: u32, inherit: bool) -> io::Result<()> {
        let words = [if inherit { 0x200 } else { 0 }, 0, 0, project, 0, 0, 0_u32];
        // SAFETY: the file is open, and the structure has the 28 bytes that the command reads.
        match unsafe { libc::ioctl(file.as_raw_fd(), 0x401c_5820, words.as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
