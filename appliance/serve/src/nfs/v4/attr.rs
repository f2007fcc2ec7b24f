//! Attributes of NFSv4: encoding and decoding of `fattr4`.
//!
//! Below: [`Vfs`]. Above: GETATTR, READDIR and VERIFY read attributes; SETATTR, CREATE and OPEN set
//! them.

use super::bitmap::*;
use super::names;
use super::status::{Result, Status};
use crate::nfs::kind_number;
use crate::nfs::xdr::{self, Reader, Writer};
use files::vfs::{Attr, SetAttr, SetTime, StatFs, Time, Vfs};
use ondisk::acl::{Ace, Who as AceWho};

/// Maximum size of a READ or WRITE.
pub(crate) const IO_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of entries in an ACL; the same as OpenZFS.
const ACES_MAX: usize = 1024;
/// `ACL4_SUPPORT_ALLOW_ACL | ACL4_SUPPORT_DENY_ACL`.
const ACL_SUPPORT: u32 = 3;
/// `FH4_PERSISTENT`.
const PERSISTENT: u32 = 0;
/// `NFS4_CHANGE_TYPE_IS_TIME_METADATA`: the change attribute is derived from the change time.
const CHANGE_IS_TIME: u32 = 3;

/// The object whose attributes are encoded.
pub(crate) struct Subject<'a> {
    pub minor: u32,
    pub attr: &'a Attr,
    pub change: u64,
    pub handle: &'a [u8],
    pub fsid: (u64, u64),
    /// `mounted_on_fileid`: for the root of a file system a number that no file has, otherwise the
    /// file's own.
    pub mounted_on: u64,
    /// `None` for a pseudo directory.
    pub vfs: Option<&'a dyn Vfs>,
    pub lease_seconds: u32,
}

/// Writes `fattr4` with the supported attributes in `wanted`.
pub(crate) fn write(w: &mut Writer, wanted: Bitmap, subject: &Subject<'_>) -> Result<()> {
    let returned = wanted.and(supported(subject.minor)).minus(ONLY_SET);
    returned.write(w);
    let length = w.mark();
    w.u32(0);
    let start = w.mark();
    let mut space = None;
    for number in returned.numbers() {
        write_one(w, number, subject, &mut space)?;
    }
    w.patch(length, w.since(start) as u32);
    Ok(())
}

/// Writes `fattr4` without attributes, except for `rdattr_error` if it was requested.
pub(crate) fn write_error(w: &mut Writer, wanted: Bitmap, status: Status) {
    let returned = wanted.and(Bitmap::of(&[RDATTR_ERROR]));
    returned.write(w);
    if returned.is_empty() {
        w.u32(0);
    } else {
        w.u32(4);
        w.u32(status.0);
    }
}

fn time(w: &mut Writer, time: Time) {
    w.i64(time.seconds);
    w.u32(time.nanoseconds);
}

fn space_of<'s>(subject: &Subject<'_>, space: &'s mut Option<StatFs>) -> Result<&'s StatFs> {
    if space.is_none() {
        let found = match subject.vfs {
            Some(vfs) => vfs.stat_fs(subject.attr.node)?,
            None => {
                StatFs { block_bytes: 512, blocks: 0, blocks_free: 0, files: 0, files_free: 0, name_max: 255, fsid: 0 }
            }
        };
        *space = Some(found);
    }
    space.as_ref().ok_or(Status::SERVERFAULT)
}

fn write_one(w: &mut Writer, number: u32, subject: &Subject<'_>, space: &mut Option<StatFs>) -> Result<()> {
    let attr = subject.attr;
    match number {
        SUPPORTED_ATTRS => supported(subject.minor).write(w),
        TYPE => w.u32(kind_number(attr.kind)),
        FH_EXPIRE_TYPE => w.u32(PERSISTENT),
        CHANGE => w.u64(subject.change),
        SIZE => w.u64(attr.size),
        LINK_SUPPORT | SYMLINK_SUPPORT | UNIQUE_HANDLES | CANSETTIME | CHOWN_RESTRICTED | HOMOGENEOUS | NO_TRUNC
        | CASE_PRESERVING => w.bool(true),
        NAMED_ATTR => w.bool(false),
        CASE_INSENSITIVE => w.bool(subject.vfs.is_some_and(|vfs| !vfs.names_are_exact())),
        FSID => {
            w.u64(subject.fsid.0);
            w.u64(subject.fsid.1);
        }
        LEASE_TIME => w.u32(subject.lease_seconds),
        RDATTR_ERROR => w.u32(Status::OK.0),
        ACL => write_acl(w, &acl_of(subject)?),
        ACLSUPPORT => w.u32(ACL_SUPPORT),
        FILEHANDLE => w.opaque(subject.handle),
        FILEID => w.u64(attr.ino),
        FILES_AVAIL | FILES_FREE => w.u64(space_of(subject, space)?.files_free),
        FILES_TOTAL => w.u64(space_of(subject, space)?.files),
        MAXFILESIZE => w.u64(i64::MAX as u64),
        MAXLINK => w.u32(i32::MAX as u32),
        MAXNAME => w.u32(space_of(subject, space)?.name_max),
        MAXREAD | MAXWRITE => w.u64(u64::from(IO_BYTES_MAX)),
        MODE => w.u32(attr.mode & 0o7777),
        NUMLINKS => w.u32(attr.links),
        OWNER => w.opaque(attr.uid.to_string().as_bytes()),
        OWNER_GROUP => w.opaque(attr.gid.to_string().as_bytes()),
        RAWDEV => {
            w.u32(attr.rdev_major);
            w.u32(attr.rdev_minor);
        }
        SPACE_AVAIL | SPACE_FREE => {
            let space = space_of(subject, space)?;
            w.u64(space.blocks_free.saturating_mul(space.block_bytes));
        }
        SPACE_TOTAL => {
            let space = space_of(subject, space)?;
            w.u64(space.blocks.saturating_mul(space.block_bytes));
        }
        SPACE_USED => w.u64(attr.blocks_512.saturating_mul(512)),
        TIME_ACCESS => time(w, attr.atime),
        TIME_CREATE => time(w, attr.btime),
        TIME_DELTA => time(w, Time { seconds: 0, nanoseconds: 1 }),
        TIME_METADATA => time(w, attr.ctime),
        TIME_MODIFY => time(w, attr.mtime),
        MOUNTED_ON_FILEID => w.u64(subject.mounted_on),
        FS_LAYOUT_TYPES => w.u32(0),
        SUPPATTR_EXCLCREAT => EXCLUSIVE_CREATE.and(supported(subject.minor)).write(w),
        CHANGE_ATTR_TYPE => w.u32(CHANGE_IS_TIME),
        XATTR_SUPPORT => w.bool(subject.vfs.is_some()),
        _ => return Err(Status::ATTRNOTSUPP),
    }
    Ok(())
}

fn acl_of(subject: &Subject<'_>) -> Result<Vec<Ace>> {
    match subject.vfs {
        Some(vfs) => Ok(vfs.nfs4_acl(subject.attr.node)?),
        None => Ok(files::nfs4_acl::of_mode(subject.attr.mode, true)),
    }
}

/// Flags defined by the protocol. ZFS uses the others to encode the subject of the entry.
const ACE_FLAGS: u16 = 0xff;

fn write_acl(w: &mut Writer, list: &[Ace]) {
    w.u32(list.len() as u32);
    for ace in list {
        let group =
            if matches!(ace.who, AceWho::OwningGroup | AceWho::Group(_)) { Ace::FLAG_IDENTIFIER_GROUP } else { 0 };
        w.u32(u32::from(ace.kind));
        w.u32(u32::from(ace.flags & ACE_FLAGS & !Ace::FLAG_IDENTIFIER_GROUP | group));
        w.u32(ace.mask);
        match ace.who {
            AceWho::Owner => w.opaque(b"OWNER@"),
            AceWho::OwningGroup => w.opaque(b"GROUP@"),
            AceWho::Everyone => w.opaque(b"EVERYONE@"),
            AceWho::User(id) | AceWho::Group(id) => w.opaque(id.to_string().as_bytes()),
        }
    }
}

/// A decoded `fattr4`: attributes to set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NewAttrs {
    /// The attributes that the client sent.
    pub given: Bitmap,
    pub set: SetAttr,
    /// `mode_set_masked`: value and mask.
    pub mode_masked: Option<(u32, u32)>,
    /// The umask of `mode_umask`; its mode is in [`Self::set`].
    pub umask: u32,
    pub acl: Option<Vec<Ace>>,
}

impl NewAttrs {
    /// Reads `fattr4`. Errors in single attributes are returned after everything was decoded.
    pub fn read(r: &mut Reader<'_>, minor: u32) -> xdr::Result<Result<Self>> {
        let given = Bitmap::read(r)?;
        let bytes = r.opaque(1 << 20)?;
        if !given.minus(supported(minor)).is_empty() {
            return Ok(Err(Status::ATTRNOTSUPP));
        }
        if !given.minus(SETTABLE).is_empty() {
            return Ok(Err(Status::INVAL));
        }
        let mut values = Reader::new(bytes);
        let mut new = Self { given, ..Self::default() };
        let mut wrong = Ok(());
        for number in given.numbers() {
            let one = new.read_one(&mut values, number)?;
            wrong = wrong.and(one);
        }
        values.end()?;
        Ok(wrong.map(|()| new))
    }

    fn read_one(&mut self, r: &mut Reader<'_>, number: u32) -> xdr::Result<Result<()>> {
        match number {
            SIZE => self.set.size = Some(r.u64()?),
            ACL => match read_acl(r)? {
                Ok(list) => self.acl = Some(list),
                Err(status) => return Ok(Err(status)),
            },
            MODE => match r.u32()? {
                mode if mode & !0o7777 == 0 => self.set.mode = Some(mode),
                _ => return Ok(Err(Status::INVAL)),
            },
            OWNER => match r.opaque(NAME_BYTES_MAX)? {
                b"" => return Ok(Err(Status::INVAL)),
                name => match names::user(name) {
                    Some(id) => self.set.uid = Some(id),
                    None => return Ok(Err(Status::BADOWNER)),
                },
            },
            OWNER_GROUP => match r.opaque(NAME_BYTES_MAX)? {
                b"" => return Ok(Err(Status::INVAL)),
                name => match names::group(name) {
                    Some(id) => self.set.gid = Some(id),
                    None => return Ok(Err(Status::BADOWNER)),
                },
            },
            TIME_ACCESS_SET => match read_set_time(r)? {
                Ok(time) => self.set.atime = Some(time),
                Err(status) => return Ok(Err(status)),
            },
            TIME_MODIFY_SET => match read_set_time(r)? {
                Ok(time) => self.set.mtime = Some(time),
                Err(status) => return Ok(Err(status)),
            },
            TIME_CREATE => match read_time(r)? {
                Ok(time) => self.set.btime = Some(time),
                Err(status) => return Ok(Err(status)),
            },
            MODE_SET_MASKED => self.mode_masked = Some((r.u32()? & 0o7777, r.u32()? & 0o7777)),
            MODE_UMASK => {
                self.set.mode = Some(r.u32()? & 0o7777);
                self.umask = r.u32()? & 0o777;
            }
            _ => return Ok(Err(Status::ATTRNOTSUPP)),
        }
        Ok(Ok(()))
    }
}

/// Maximum length of an owner string.
const NAME_BYTES_MAX: usize = 1024;

fn read_time(r: &mut Reader<'_>) -> xdr::Result<Result<Time>> {
    let (seconds, nanoseconds) = (r.i64()?, r.u32()?);
    Ok(if nanoseconds < 1_000_000_000 { Ok(Time { seconds, nanoseconds }) } else { Err(Status::INVAL) })
}

fn read_set_time(r: &mut Reader<'_>) -> xdr::Result<Result<SetTime>> {
    match r.u32()? {
        0 => Ok(Ok(SetTime::Now)),
        1 => Ok(read_time(r)?.map(SetTime::To)),
        _ => Err(xdr::Malformed),
    }
}

fn read_acl(r: &mut Reader<'_>) -> xdr::Result<Result<Vec<Ace>>> {
    let count = r.list(usize::MAX, 16)?;
    let (mut list, mut wrong) = (Vec::with_capacity(count.min(ACES_MAX)), Ok(()));
    for _ in 0..count {
        let (kind, flags, mask, who) = (r.u32()?, r.u32()?, r.u32()?, r.opaque(NAME_BYTES_MAX)?);
        let is_group = flags & u32::from(Ace::FLAG_IDENTIFIER_GROUP) != 0;
        let who = match who {
            b"OWNER@" => Some(AceWho::Owner),
            b"GROUP@" => Some(AceWho::OwningGroup),
            b"EVERYONE@" => Some(AceWho::Everyone),
            name if is_group => names::group(name).map(|id| AceWho::Group(u64::from(id))),
            name => names::user(name).map(|id| AceWho::User(u64::from(id))),
        };
        // Audit and alarm entries are not supported, because nothing would act on them.
        if kind > 1 || list.len() == ACES_MAX || flags & !u32::from(ACE_FLAGS) != 0 {
            wrong = Err(if kind <= 3 && kind > 1 { Status::ATTRNOTSUPP } else { Status::INVAL });
            continue;
        }
        match who {
            Some(who) => list.push(Ace { kind: kind as u16, flags: flags as u16, mask, who }.with_who_flags()),
            None => wrong = Err(Status::BADOWNER),
        }
    }
    Ok(wrong.map(|()| list))
}
