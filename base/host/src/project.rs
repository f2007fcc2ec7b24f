//! The project of a file, and whether new files below it inherit the project: what `chattr -p`,
//! `lsattr -p` and `zfs project` use.
//!
//! Facts: `struct fsxattr`, `FS_IOC_FSGETXATTR`, `FS_IOC_FSSETXATTR` in include/uapi/linux/fs.h of
//! Linux.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `FS_XFLAG_PROJINHERIT`.
const INHERIT: u32 = 0x200;
/// `FS_IOC_FSGETXATTR`.
const GET: libc::c_ulong = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`.
const SET: libc::c_ulong = 0x401c_5820;

/// `struct fsxattr`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileProject {
    flags: u32,
    extent_bytes: u32,
    extents: u32,
    /// The project.
    pub id: u32,
    cow_extent_bytes: u32,
    reserved: [u8; 8],
}

const _: () = assert!(size_of::<FileProject>() == 28);

impl FileProject {
    /// Reads the project of an open file. Fails if its file system has no projects, or it is
    /// neither a regular file nor a directory.
    #[allow(unsafe_code)]
    pub fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        let mut found = Self::default();
        // SAFETY: `file` is open for the duration of the call, and the kernel writes at most the
        // size of `found`, which the command number encodes, and any bytes are valid for it.
        match unsafe { libc::ioctl(file.as_raw_fd(), GET, &raw mut found) } {
            0 => Ok(found),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the project, the flag, and everything else that was read with them.
    #[allow(unsafe_code)]
    pub fn set(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: `file` is open for the duration of the call, and the kernel only reads `self`,
        // whose size the command number encodes.
        match unsafe { libc::ioctl(file.as_raw_fd(), SET, std::ptr::from_ref(self)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether new files in this directory inherit its project and this flag.
    pub fn inherits(&self) -> bool {
        self.flags & INHERIT != 0
    }

    pub fn set_inherits(&mut self, inherits: bool) {
        self.flags = self.flags & !INHERIT | if inherits { INHERIT } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_changed_alone() {
        let mut project = FileProject { flags: 0x8000_0001, id: 7, ..FileProject::default() };
        assert!(!project.inherits());
        project.set_inherits(true);
        assert!(project.inherits() && project.flags == 0x8000_0201);
        project.set_inherits(false);
        assert_eq!(project, FileProject { flags: 0x8000_0001, id: 7, ..FileProject::default() });
    }
}
