//! Bodies of intent log records. Offsets are relative to the start of the record, whose first 32
//! bytes are `lr_t`.
//!
//! | record                                         | fields after lr_t (of 8 bytes unless noted) |
//! |------------------------------------------------|---------------------------------------------|
//! | create, mkdir, mkxattr, symlink (also `_ATTR`) | doid, foid (bits 56-63: dnode slots - 1),   |
//! |                                                | mode, uid, gid, gen, crtime\[2\], rdev;     |
//! |                                                | attributes (only `_ATTR`), domains, name,   |
//! |                                                | link target                                 |
//! | create, mkdir with `_ACL`                      | the same nine, then aclcnt, domcnt,         |
//! |                                                | fuidcnt, acl_bytes, acl_flags; attributes   |
//! |                                                | (only `_ATTR`), ACL padded to 8, fuids,     |
//! |                                                | domains, name                               |
//! | remove, rmdir                                  | doid; name                                  |
//! | link                                           | doid, link_obj; name                        |
//! | rename, exchange                               | sdoid, tdoid; old name, new name            |
//! | whiteout                                       | sdoid, tdoid, foid, mode, uid, gid, gen,    |
//! |                                                | crtime\[2\], rdev of the whiteout; old      |
//! |                                                | name, new name                              |
//! | write, write2                                  | foid, offset, length, blkoff, block pointer |
//! |                                                | (128 bytes); data, unless the pointer       |
//! |                                                | refers to it                                |
//! | truncate                                       | foid, offset, length                        |
//! | setattr                                        | foid, mask, mode, uid, gid, size,           |
//! |                                                | atime\[2\], mtime\[2\]; attributes, domains |
//! | acl_v0                                         | foid, aclcnt; entries                       |
//! | acl                                            | foid, aclcnt, domcnt, fuidcnt, acl_bytes,   |
//! |                                                | acl_flags; ACL padded to 8, fuids, domains  |
//! | setsaxattr                                     | foid, size; name, value                     |
//! | clone_range                                    | foid, offset, length, blksz, nbps; block    |
//! |                                                | pointers (128 bytes each)                   |
//!
//! Names end with NUL. Attributes (`lr_attr_t`): a count *n* of 4 bytes, *n* times 4 bytes that
//! indicate which are set, then 8 bytes of flags, 16 of creation time, 32 of virus scan stamp or,
//! in its first 8, project ID.
//!
//! A rename of `text.txt` (in 34) to `moved` (in 433), number 70851 of txg 122, with offsets from
//! its chain header of 184 bytes:
//!
//! ```text
//! 00000780  08 00 00 00 00 00 00 00  40 00 00 00 00 00 00 00  |........@.......|
//! 00000790  7a 00 00 00 00 00 00 00  c3 14 01 00 00 00 00 00  |z...............|
//! 000007a0  22 00 00 00 00 00 00 00  b1 01 00 00 00 00 00 00  |"...............|
//! 000007b0  74 65 78 74 2e 74 78 74  00 6d 6f 76 65 64 00 00  |text.txt.moved..|
//! ```

use super::{Record, RecordType};
use crate::blkptr::{self, BlkPtr};
use crate::endian::Endian;
use crate::error::{Error, Result};

/// Seconds since 1970, and nanoseconds.
pub type Time = [u64; 2];

/// Attributes beyond POSIX (`lr_attr_t`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Which attributes are set (`xva_reqattrmap`).
    pub mask: Vec<u32>,
    /// Flags (`XAT0_`).
    pub flags: u64,
    /// Creation time, if set.
    pub created: Time,
    /// Virus scan stamp, or the project ID in its first 8 bytes.
    pub scan_stamp: [u8; 32],
}

/// An ACL in a log record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl<'a> {
    pub count: u64,
    /// Flags of the ACL.
    pub flags: u64,
    /// The entries as encoded on disk; see [`crate::acl`].
    pub entries: &'a [u8],
    /// IDs from other identity domains.
    pub fuids: Vec<u64>,
    /// Names of those domains.
    pub domains: Vec<&'a [u8]>,
}

/// A new file, directory, link or attribute directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create<'a> {
    /// Object of the parent directory.
    pub directory: u64,
    pub object: u64,
    /// Number of slots of its dnode.
    pub slots: u8,
    /// Type and permissions.
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    /// Generation: the txg of its creation.
    pub generation: u64,
    /// Creation time: seconds since 1970 and nanoseconds.
    pub created: Time,
    /// Device number as the writer encodes it; 0 unless it is a device node.
    pub rdev: u64,
    pub attributes: Option<Attributes>,
    pub acl: Option<Acl<'a>>,
    /// Identity domains of owner and group, if there is no ACL.
    pub domains: Vec<&'a [u8]>,
    pub name: &'a [u8],
    /// Target of a symbolic link.
    pub target: Option<&'a [u8]>,
}

/// The contents of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // Fields are named as in the table above.
pub enum Body<'a> {
    /// A file, directory, link or attribute directory was created.
    Create(Create<'a>),
    /// A name was removed: file or directory.
    Remove { directory: u64, name: &'a [u8] },
    /// A further name was created for an object.
    Link { directory: u64, object: u64, name: &'a [u8] },
    /// A name was moved or, for an exchange, two names were swapped.
    Rename { from_directory: u64, to_directory: u64, from: &'a [u8], to: &'a [u8], whiteout: Option<Whiteout> },
    /// Data was written. It is in `data`, or `pointer` refers to it.
    Write { object: u64, offset: u64, length: u64, pointer: BlkPtr, data: &'a [u8] },
    /// A file was truncated or a hole punched.
    Truncate { object: u64, offset: u64, length: u64 },
    /// The attributes in `mask` changed. Its bits depend on the writer's operating system. Linux: 1
    /// mode, 2 uid, 4 gid, 8 size, 0x10 atime, 0x20 mtime. FreeBSD and illumos: 2, 4, 8, 0x80,
    /// 0x100, 0x200.
    SetAttr {
        object: u64,
        mask: u64,
        mode: u64,
        uid: u64,
        gid: u64,
        size: u64,
        atime: Time,
        mtime: Time,
        attributes: Option<Attributes>,
    },
    /// The ACL was replaced.
    Acl { object: u64, acl: Acl<'a> },
    /// An extended attribute was set or, if `value` is `None`, removed.
    SetSaXattr { object: u64, name: &'a [u8], value: Option<&'a [u8]> },
    /// Blocks were cloned into a file.
    CloneRange { object: u64, offset: u64, length: u64, block_bytes: u64, pointers: Vec<BlkPtr> },
    /// No operation (commit marker).
    Commit,
}

/// The file that a whiteout leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whiteout {
    pub object: u64,
    /// Number of slots of its dnode.
    pub slots: u8,
    /// Type and permissions.
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    /// Generation: the txg of its creation.
    pub generation: u64,
    /// Creation time: seconds since 1970 and nanoseconds.
    pub created: Time,
    /// Device number as the writer encodes it; a whiteout is a character device with number 0.
    pub rdev: u64,
}

/// Bits of the object number in `lr_foid`; the bits above hold dnode slots.
pub(super) const OBJECT_MASK: u64 = (1 << 48) - 1;

struct Reader<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(count).ok().and_then(|n| self.rest.split_at_checked(n));
        let (out, rest) = split.ok_or_else(|| {
            let found = format!("{} bytes", self.rest.len());
            Error::corrupt("lr", "rest of record", found, format_args!("{count} bytes"))
        })?;
        self.rest = rest;
        Ok(out)
    }

    fn word(&mut self) -> Result<u64> {
        Ok(self.endian.u64(self.take(8)?))
    }

    fn time(&mut self) -> Result<Time> {
        Ok([self.word()?, self.word()?])
    }

    fn name(&mut self) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|b| *b == 0);
        let end = end.ok_or_else(|| Error::corrupt("lr", "name", "without end", "a NUL"))?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(name)
    }

    fn names(&mut self, count: u64) -> Result<Vec<&'a [u8]>> {
        // Each name has at least a NUL, so that an excessive count fails at the end of the record.
        (0..count).map(|_| self.name()).collect()
    }

    fn pointer(&mut self) -> Result<BlkPtr> {
        BlkPtr::parse(self.take(blkptr::SIZE_BYTES as u64)?, self.endian)
    }

    fn attributes(&mut self) -> Result<Attributes> {
        let count = self.endian.u32(self.take(4)?);
        let mask = self.take(u64::from(count) * 4)?.chunks_exact(4).map(|b| self.endian.u32(b)).collect();
        Ok(Attributes {
            mask,
            flags: self.word()?,
            created: self.time()?,
            scan_stamp: self.take(32)?.try_into().expect("32 bytes were taken"),
        })
    }

    /// `aclcnt, domcnt, fuidcnt, acl_bytes, acl_flags`.
    fn acl_header(&mut self) -> Result<[u64; 5]> {
        Ok([self.word()?, self.word()?, self.word()?, self.word()?, self.word()?])
    }

    fn acl(&mut self, [count, domains, fuids, bytes, flags]: [u64; 5]) -> Result<Acl<'a>> {
        let entries = self.take(bytes)?;
        self.take((bytes.wrapping_neg() % 8).min(self.rest.len() as u64))?;
        let fuids = self.take(fuids.saturating_mul(8))?.chunks_exact(8).map(|b| self.endian.u64(b)).collect();
        Ok(Acl { count, flags, entries, fuids, domains: self.names(domains)? })
    }
}

/// Number of domains that must follow for an owner and a group whose upper half refers to a domain.
fn domain_count(uid: u64, gid: u64) -> u64 {
    let (uid, gid) = (uid >> 32, gid >> 32);
    u64::from(uid != 0) + u64::from(gid != 0 && gid != uid)
}

impl<'a> Record<'a> {
    /// Parses the body. In an encrypted dataset, the record must have been decrypted.
    pub fn parse_body(&self) -> Result<Body<'a>> {
        Body::parse(self)
    }
}

impl<'a> Body<'a> {
    /// Parses the body of a record according to its type.
    pub fn parse(record: &Record<'a>) -> Result<Self> {
        let mut r = Reader { rest: record.body, endian: record.endian };
        Ok(match record.kind {
            RecordType::COMMIT => Self::Commit,
            RecordType(1..=4 | 14..=19) => Self::Create(create(&mut r, record.kind)?),
            RecordType::REMOVE | RecordType::RMDIR => Self::Remove { directory: r.word()?, name: r.name()? },
            RecordType::LINK => Self::Link { directory: r.word()?, object: r.word()?, name: r.name()? },
            RecordType::RENAME | RecordType::RENAME_EXCHANGE | RecordType::RENAME_WHITEOUT => {
                let (from_directory, to_directory) = (r.word()?, r.word()?);
                let whiteout = match record.kind {
                    RecordType::RENAME_WHITEOUT => Some(whiteout(&mut r)?),
                    _ => None,
                };
                Self::Rename { from_directory, to_directory, whiteout, from: r.name()?, to: r.name()? }
            }
            RecordType::WRITE | RecordType::WRITE2 => {
                let (object, offset, length) = (r.word()?, r.word()?, r.word()?);
                let _blkoff = r.word()?;
                let pointer = r.pointer()?;
                let data = match r.rest {
                    [] => r.rest,
                    _ => r.take(length)?,
                };
                Self::Write { object, offset, length, pointer, data }
            }
            RecordType::TRUNCATE => Self::Truncate { object: r.word()?, offset: r.word()?, length: r.word()? },
            RecordType::SETATTR => {
                let (object, mask, mode, uid, gid, size) =
                    (r.word()?, r.word()?, r.word()?, r.word()?, r.word()?, r.word()?);
                let (atime, mtime) = (r.time()?, r.time()?);
                let attributes = if has_attributes(mask, &r) { Some(r.attributes()?) } else { None };
                Self::SetAttr { object, mask, mode, uid, gid, size, atime, mtime, attributes }
            }
            RecordType::ACL_V0 => {
                let (object, count) = (r.word()?, r.word()?);
                let acl = Acl { count, flags: 0, entries: r.rest, fuids: Vec::new(), domains: Vec::new() };
                Self::Acl { object, acl }
            }
            RecordType::ACL => {
                let object = r.word()?;
                let header = r.acl_header()?;
                Self::Acl { object, acl: r.acl(header)? }
            }
            RecordType::SETSAXATTR => {
                let (object, size) = (r.word()?, r.word()?);
                let name = r.name()?;
                let value = if size == 0 { None } else { Some(r.take(size)?) };
                Self::SetSaXattr { object, name, value }
            }
            RecordType::CLONE_RANGE => {
                let (object, offset, length, block_bytes) = (r.word()?, r.word()?, r.word()?, r.word()?);
                let count = r.word()?;
                let bytes = r.take(count.saturating_mul(blkptr::SIZE_BYTES as u64))?;
                let pointers = bytes
                    .chunks_exact(blkptr::SIZE_BYTES)
                    .map(|b| BlkPtr::parse(b, r.endian))
                    .collect::<Result<_>>()?;
                Self::CloneRange { object, offset, length, block_bytes, pointers }
            }
            other => {
                return Err(Error::Unsupported { structure: "lr", what: format!("lrc_txtype {}", other.0) });
            }
        })
    }
}

/// Whether attributes follow a setattr. The bits of `lr_mask` depend on the writer's operating
/// system: Linux uses bit 31, FreeBSD and illumos bit 16, which has another meaning on Linux; in
/// that case the size must match too.
fn has_attributes(mask: u64, r: &Reader<'_>) -> bool {
    let count = if r.rest.len() >= 4 { r.endian.u32(r.rest) as usize } else { return false };
    mask & (1 << 31) != 0 || (mask & (1 << 16) != 0 && (1..=8).contains(&count) && r.rest.len() >= 4 + 4 * count + 56)
}

fn slots(foid: u64) -> u8 {
    ((foid >> 56) as u8).saturating_add(1)
}

fn whiteout(r: &mut Reader<'_>) -> Result<Whiteout> {
    let foid = r.word()?;
    Ok(Whiteout {
        object: foid & OBJECT_MASK,
        slots: slots(foid),
        mode: r.word()?,
        uid: r.word()?,
        gid: r.word()?,
        generation: r.word()?,
        created: r.time()?,
        rdev: r.word()?,
    })
}

fn create<'a>(r: &mut Reader<'a>, kind: RecordType) -> Result<Create<'a>> {
    let (directory, foid, mode, uid, gid, generation) =
        (r.word()?, r.word()?, r.word()?, r.word()?, r.word()?, r.word()?);
    let (created, rdev) = (r.time()?, r.word()?);
    let has_acl = matches!(
        kind,
        RecordType::CREATE_ACL | RecordType::CREATE_ACL_ATTR | RecordType::MKDIR_ACL | RecordType::MKDIR_ACL_ATTR
    );
    let has_attributes = matches!(
        kind,
        RecordType::CREATE_ATTR | RecordType::CREATE_ACL_ATTR | RecordType::MKDIR_ATTR | RecordType::MKDIR_ACL_ATTR
    );
    let acl_header = if has_acl { Some(r.acl_header()?) } else { None };
    let attributes = if has_attributes { Some(r.attributes()?) } else { None };
    let acl = acl_header.map(|header| r.acl(header)).transpose()?;
    let domains = if has_acl { Vec::new() } else { r.names(domain_count(uid, gid))? };
    let name = r.name()?;
    let target = if kind == RecordType::SYMLINK { Some(r.name()?) } else { None };
    Ok(Create {
        directory,
        object: foid & OBJECT_MASK,
        slots: slots(foid),
        mode,
        uid,
        gid,
        generation,
        created,
        rdev,
        attributes,
        acl,
        domains,
        name,
        target,
    })
}
