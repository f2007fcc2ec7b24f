//! The ioctl(2) commands of files: project IDs and flags, as used by `chattr -p`, `lsattr` and `zfs
//! project`, and the DOS flags of OpenZFS (`ZFS_IOC_GETDOSFLAGS`).
//!
//! Linux decodes the interfaces for projects and flags itself (`fileattr`), checks the caller, and
//! passes them on as it does for any file system. Commands that it does not know reach us
//! unchecked. Facts: `zpl_ioctl` in module/os/linux/zfs/zpl_file.c.

use super::ops::Ops;
use files::vfs::{Attr, Caller, FileKind, NodeId, SetAttr};
use ondisk::znode::Flags;
use rustix::io::Errno;

/// `FS_IOC_FSGETXATTR`: returns `struct fsxattr`.
const GET_EXTENDED: u32 = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`: sets `struct fsxattr`.
const SET_EXTENDED: u32 = 0x401c_5820;
/// `FS_IOC_GETFLAGS`: returns 4 bytes, although the command number encodes a size of 8.
const GET_FLAGS: u32 = 0x8008_6601;
/// `FS_IOC_SETFLAGS`: sets the 4 bytes of flags.
const SET_FLAGS: u32 = 0x4008_6602;
/// `ZFS_IOC_GETDOSFLAGS`: returns 8 bytes of flags.
const GET_DOS_FLAGS: u32 = 0x8008_8301;
/// `ZFS_IOC_SETDOSFLAGS`: sets the 8 bytes of flags.
const SET_DOS_FLAGS: u32 = 0x4008_8302;
/// `FS_XFLAG_PROJINHERIT`.
const EXTENDED_INHERIT: u32 = 0x200;
/// `FS_PROJINHERIT_FL`.
const FLAG_INHERIT: u32 = 0x2000_0000;
/// Size of `struct fsxattr`: xflags, extsize, nextents, projid, cowextsize, 8 bytes of padding.
const EXTENDED_BYTES: usize = 28;

fn word(data: &[u8], index: usize) -> Option<u32> {
    data.get(index * 4..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Whether the file can have a project of its own, and the flag that says that new files inherit
/// it. The flag of a regular file means nothing, but OpenZFS keeps it too.
fn is_plain(attr: &Attr) -> bool {
    matches!(attr.kind, FileKind::Regular | FileKind::Directory)
}

impl Ops {
    /// Runs a command and returns its output bytes.
    pub fn ioctl(&self, who: &Caller, node: NodeId, command: u32, data: &[u8]) -> Result<Vec<u8>, Errno> {
        let failed = |e| self.failed(node, &e);
        let inherits = || self.vfs.project_inherit(node).map_err(failed);
        match command {
            GET_EXTENDED => {
                let attr = self.vfs.attr(node).map_err(failed)?;
                let inherits = is_plain(&attr) && inherits()?;
                let mut out = vec![0; EXTENDED_BYTES];
                out[..4].copy_from_slice(&(if inherits { EXTENDED_INHERIT } else { 0 }).to_ne_bytes());
                out[12..16].copy_from_slice(&(attr.project as u32).to_ne_bytes());
                Ok(out)
            }
            SET_EXTENDED => {
                let (Some(flags), Some(project)) = (word(data, 0), word(data, 3)) else { return Err(Errno::INVAL) };
                if flags & !EXTENDED_INHERIT != 0 {
                    return Err(Errno::OPNOTSUPP);
                }
                self.set_project(who, node, Some(project), flags & EXTENDED_INHERIT != 0)
            }
            GET_FLAGS => {
                let attr = self.vfs.attr(node).map_err(failed)?;
                let inherits = is_plain(&attr) && inherits()?;
                Ok((if inherits { FLAG_INHERIT } else { 0 }).to_ne_bytes().to_vec())
            }
            SET_FLAGS => {
                let flags = word(data, 0).ok_or(Errno::INVAL)?;
                // Immutable, append-only and nodump files are not supported.
                if flags & !FLAG_INHERIT != 0 {
                    return Err(Errno::OPNOTSUPP);
                }
                self.set_project(who, node, None, flags & FLAG_INHERIT != 0)
            }
            GET_DOS_FLAGS => Ok(self.vfs.dos_flags(node).map_err(failed)?.bits().to_ne_bytes().to_vec()),
            SET_DOS_FLAGS => {
                let flags = data.first_chunk().copied().map(u64::from_ne_bytes).ok_or(Errno::INVAL)?;
                self.set_dos_flags(who, node, Flags::from_bits_retain(flags))
            }
            _ => Err(Errno::NOTTY),
        }
    }

    fn set_dos_flags(&self, who: &Caller, node: NodeId, flags: Flags) -> Result<Vec<u8>, Errno> {
        if !Flags::DOS.contains(flags) {
            return Err(Errno::OPNOTSUPP);
        }
        let failed = |e| self.failed(node, &e);
        let now = self.vfs.dos_flags(node).map_err(failed)?;
        if now.symmetric_difference(flags).intersects(Flags::IMMUTABLE | Flags::APPENDONLY) && !who.privileged {
            return Err(Errno::PERM);
        }
        if !who.privileged && self.vfs.attr(node).map_err(failed)?.uid != who.uid {
            return Err(Errno::ACCESS);
        }
        let (set_flags, clear_flags) = (flags.difference(now), now.difference(flags));
        self.set_attr(who, node, &SetAttr { set_flags, clear_flags, ..SetAttr::default() })?;
        Ok(Vec::new())
    }

    fn set_project(&self, who: &Caller, node: NodeId, project: Option<u32>, inherit: bool) -> Result<Vec<u8>, Errno> {
        let attr = self.vfs.attr(node).map_err(|e| self.failed(node, &e))?;
        if inherit && !is_plain(&attr) {
            return Err(Errno::OPNOTSUPP);
        }
        let set = SetAttr {
            project: project.map(u64::from).filter(|&p| p != attr.project),
            project_inherit: is_plain(&attr).then_some(inherit),
            ..SetAttr::default()
        };
        self.set_attr(who, node, &set)?;
        Ok(Vec::new())
    }
}
