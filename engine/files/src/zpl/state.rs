//! The mutable attributes of a file in memory, and how they are written back to its bonus.
//!
//! Below: `object` holds the bonus. Above: [`live`](super::live) keeps one [`State`] for each file
//! in use, behind its lock.
//!
//! Invariants:
//!   * Between operations, the stored bonus and the fields agree, except for an access time marked
//!     by [`State::atime_dirty`].
//!   * Storing writes all fields to their existing places, which costs one copy of some 200 bytes.
//!     Only attributes that have no place yet create a new layout.

use super::trivial_acl;
use super::{FileSystem, Znode};
use crate::vfs::{FileKind, Time};
use crate::{Error, Result};
use object::{Attributes, Object, Place, Tx};
use ondisk::Endian;
use ondisk::acl::{Ace, AclPhys};
use ondisk::sa::Attr as Sa;
use ondisk::znode::Flags;

/// Attributes that are cached as fields, with their lengths: the places that [`State::store`]
/// writes.
const CACHED: [Sa; 15] = [
    Sa::Mode,
    Sa::Size,
    Sa::Gen,
    Sa::Uid,
    Sa::Gid,
    Sa::Parent,
    Sa::Flags,
    Sa::Atime,
    Sa::Mtime,
    Sa::Ctime,
    Sa::Crtime,
    Sa::Links,
    Sa::Projid,
    Sa::Rdev,
    Sa::Xattr,
];

/// A change of an attribute that is not a field: its new bytes, or `None` to remove it.
pub(super) type Change<'a> = (Sa, Option<&'a [u8]>);

/// The current attributes of a file.
#[derive(Clone)]
pub(super) struct State {
    pub kind: FileKind,
    /// Type and permissions.
    pub mode: u64,
    pub size: u64,
    pub generation: u64,
    pub uid: u64,
    pub gid: u64,
    pub parent: u64,
    pub flags: Flags,
    pub links: u64,
    /// 0 unless [`Flags::PROJID`] is set.
    pub project: u64,
    pub rdev: u64,
    /// Object of the directory of extended attributes, or 0.
    pub xattr_dir: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub crtime: Time,
    /// The access time changed and is not stored yet.
    pub atime_dirty: bool,
    /// Whether the file can hold attributes beyond those of old znodes.
    pub is_sa: bool,
    pub object: Object,
    bonus: Vec<u8>,
    endian: Endian,
    /// Offset of each of [`CACHED`] in the bonus.
    places: [Option<u32>; CACHED.len()],
}

impl State {
    /// Loads the state from the attributes of an object.
    pub fn load(attributes: Attributes<'_>) -> Result<Self> {
        let object = attributes.object().clone();
        let file = Znode::new(attributes)?;
        let a = file.attributes();
        let time = |attr| a.get_time(attr).map(|(seconds, nanoseconds)| Time { seconds, nanoseconds });
        let flags = Flags::from_bits_retain(a.need_u64(Sa::Flags)?);
        let has_project = flags.contains(Flags::PROJID);
        Ok(Self {
            kind: file.kind(),
            mode: a.need_u64(Sa::Mode)?,
            size: a.need_u64(Sa::Size)?,
            generation: a.need_u64(Sa::Gen)?,
            uid: a.need_u64(Sa::Uid)?,
            gid: a.need_u64(Sa::Gid)?,
            parent: a.need_u64(Sa::Parent)?,
            flags,
            links: a.need_u64(Sa::Links)?,
            project: if has_project { a.get_u64(Sa::Projid)?.unwrap_or(0) } else { 0 },
            rdev: a.get_u64(Sa::Rdev)?.unwrap_or(0),
            xattr_dir: a.get_u64(Sa::Xattr)?.unwrap_or(0),
            atime: time(Sa::Atime)?,
            mtime: time(Sa::Mtime)?,
            ctime: time(Sa::Ctime)?,
            crtime: time(Sa::Crtime)?,
            atime_dirty: false,
            is_sa: a.is_sa(),
            bonus: object.bonus().to_vec(),
            endian: a.bonus_endian(),
            places: CACHED.map(|attr| a.bonus_place(attr)),
            object,
        })
    }

    /// The value of a cached attribute as two words; the second is used only for times.
    fn words(&self, attr: Sa) -> ([u64; 2], usize) {
        let time = |t: Time| ([t.seconds as u64, u64::from(t.nanoseconds)], 2);
        match attr {
            Sa::Mode => ([self.mode, 0], 1),
            Sa::Size => ([self.size, 0], 1),
            Sa::Gen => ([self.generation, 0], 1),
            Sa::Uid => ([self.uid, 0], 1),
            Sa::Gid => ([self.gid, 0], 1),
            Sa::Parent => ([self.parent, 0], 1),
            Sa::Flags => ([self.flags.bits(), 0], 1),
            Sa::Links => ([self.links, 0], 1),
            Sa::Projid => ([self.project, 0], 1),
            Sa::Rdev => ([self.rdev, 0], 1),
            Sa::Xattr => ([self.xattr_dir, 0], 1),
            Sa::Atime => time(self.atime),
            Sa::Mtime => time(self.mtime),
            Sa::Ctime => time(self.ctime),
            _ => time(self.crtime),
        }
    }

    /// Whether a cached attribute without a place needs one.
    fn wants_place(&self, attr: Sa) -> bool {
        match attr {
            Sa::Projid => self.flags.contains(Flags::PROJID),
            Sa::Xattr => self.xattr_dir != 0,
            Sa::Rdev => matches!(self.kind, FileKind::CharDevice | FileKind::BlockDevice),
            _ => true,
        }
    }

    /// Writes the fields that have places to the bonus.
    pub fn store_fields(&mut self, tx: &Tx) -> Result<()> {
        if !self.is_sa && self.endian != Endian::Little {
            // The bonus has the byte order of the dnode, which becomes native when it is written.
            return Err(Error::unsupported(self.object.place(), "writing old znodes of a big-endian host"));
        }
        self.atime_dirty = false;
        for (attr, place) in CACHED.into_iter().zip(self.places) {
            let Some(at) = place else { continue };
            let (words, count) = self.words(attr);
            for (i, word) in words[..count].iter().enumerate() {
                if let Some(bytes) = self.bonus.get_mut(at as usize + 8 * i..at as usize + 8 * i + 8) {
                    self.endian.put_u64(bytes, *word);
                }
            }
        }
        self.object.set_bonus(tx, self.bonus.clone())
    }

    /// The fields without a place in the bonus: they are new, or in the spill block.
    fn placeless(&self) -> Vec<(Sa, Vec<u8>)> {
        let fields = CACHED.into_iter().zip(self.places);
        let placeless = fields.filter(|(attr, place)| place.is_none() && self.wants_place(*attr));
        placeless
            .map(|(attr, _)| {
                let (words, count) = self.words(attr);
                (attr, words[..count].iter().flat_map(|w| w.to_le_bytes()).collect())
            })
            .collect()
    }

    /// Writes the fields back, together with `changes`. On failure the stored attributes are
    /// unchanged.
    pub fn store(&mut self, fs: &FileSystem, tx: &Tx, changes: &[Change<'_>]) -> Result<()> {
        let placeless = self.placeless();
        if !placeless.is_empty() || !changes.is_empty() {
            if !self.is_sa {
                let what = "attributes of an old znode that it has no place for";
                return Err(Error::unsupported(self.object.place(), what));
            }
            let all: Vec<Change<'_>> = placeless
                .iter()
                .map(|(attr, bytes)| (*attr, Some(&bytes[..])))
                .chain(changes.iter().copied())
                .collect();
            let object = fs.object(self.object.id())?;
            // First, because it may have to read the spill block.
            fs.sa.update(tx, &object, &all)?;
            self.reload_places(fs)?;
        }
        self.store_fields(tx)
    }

    /// Sets the fields to those of `before`, a copy from before an operation that failed, and
    /// stores them if the operation stored others.
    pub fn put_back(&mut self, fs: &FileSystem, tx: &Tx, before: Self) -> Result<()> {
        let stored = fs.object(self.object.id())?;
        let is_stored = stored.bonus() != before.bonus;
        let now = std::mem::replace(self, before);
        (self.object, self.bonus, self.endian, self.places) = (now.object, now.bonus, now.endian, now.places);
        if is_stored { self.store(fs, tx, &[]) } else { Ok(()) }
    }

    /// Reloads the places after the bonus was changed by anything other than [`State::store`].
    pub fn reload_places(&mut self, fs: &FileSystem) -> Result<()> {
        let object = fs.object(self.object.id())?;
        let attributes = fs.sa.attributes(&object)?;
        self.bonus = object.bonus().to_vec();
        self.endian = attributes.bonus_endian();
        self.places = CACHED.map(|attr| attributes.bonus_place(attr));
        self.object = object;
        Ok(())
    }

    /// The stored attributes, for those that are not fields.
    pub fn attributes<'t>(&self, fs: &'t FileSystem) -> Result<Attributes<'t>> {
        fs.sa.attributes(&fs.object(self.object.id())?)
    }

    /// Updates the times after a change of contents.
    pub fn touch_contents(&mut self, now: Time) {
        (self.mtime, self.ctime) = (now, now);
        self.flags |= Flags::ARCHIVE | Flags::AV_MODIFIED;
    }

    /// Updates the times after a change of attributes.
    pub fn touch(&mut self, now: Time) {
        self.ctime = now;
        self.flags |= Flags::ARCHIVE;
    }

    pub fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Whether any name leads to the file: changes to it must then survive a crash.
    pub fn has_name(&self) -> bool {
        self.links != 0
    }

    /// Link count of a directory or file without names.
    pub fn links_of_nameless(&self) -> u64 {
        u64::from(self.is_dir())
    }

    /// The mode after a change of contents or owner: without setuid, and without setgid if the
    /// group may execute. Setgid without group execute once meant mandatory locks, and is kept.
    pub fn mode_without_set_id(&self) -> u64 {
        let group = if self.mode & 0o010 != 0 { 0o2000 } else { 0 };
        self.mode & !(0o4000 | group)
    }

    /// Clears setuid and setgid, as when an unprivileged caller changes the contents. Follows
    /// Linux, whose page cache applies its own rule; OpenZFS also clears setgid if the group may
    /// not execute.
    pub fn drop_set_id(&mut self) -> bool {
        let before = self.mode;
        self.mode = self.mode_without_set_id();
        self.mode != before
    }

    /// Rejects new permission bits if the ZFS ACL forbids them (`aclmode=restricted`). Called
    /// before anything is changed.
    pub fn check_mode(&self, fs: &FileSystem, acl_mode: trivial_acl::AclMode) -> Result<()> {
        let is_restricted = acl_mode == trivial_acl::AclMode::Restricted;
        if is_restricted && !trivial_acl::is_trivial(&fs.aces(&Znode::new(self.attributes(fs)?)?)?.unwrap_or_default())
        {
            return Err(crate::Refusal::NotPermitted.at(self.object.place()));
        }
        Ok(())
    }

    /// Sets the permission bits and updates the ZFS ACL to match. The caller has called
    /// [`State::check_mode`].
    pub fn set_mode(&mut self, fs: &FileSystem, tx: &Tx, mode: u64, acl_mode: trivial_acl::AclMode) -> Result<()> {
        use trivial_acl::AclMode;
        let old = match acl_mode {
            AclMode::Discard => Vec::new(),
            _ => fs.aces(&Znode::new(self.attributes(fs)?)?)?.unwrap_or_default(),
        };
        let list = trivial_acl::with_mode(&old, mode, self.is_dir(), acl_mode == AclMode::GroupMask);
        self.mode = self.mode & !0o7777 | mode & 0o7777;
        self.set_acl(fs, tx, &list)
    }

    /// Stores `list` as the ZFS ACL, with the flags that describe it. The mode must be set already.
    pub(super) fn set_acl(&mut self, fs: &FileSystem, tx: &Tx, list: &[Ace]) -> Result<()> {
        let wide = Flags::INHERIT_ACE | Flags::ACL_TRIVIAL | Flags::ACL_OBJ_ACE;
        let kept = self.flags & (Flags::ACL_PROTECTED | Flags::ACL_DEFAULTED | Flags::ACL_AUTO_INHERIT);
        self.flags = (self.flags - wide - Flags::NO_EXECS_DENIED) | kept;
        self.flags |= trivial_acl::mode_of(list, self.uid, self.gid).1;
        if trivial_acl::is_trivial(list) {
            self.flags |= Flags::ACL_TRIVIAL;
        }
        if list.iter().any(|e| e.flags & 3 != 0) && self.is_dir() {
            self.flags |= Flags::INHERIT_ACE;
        }
        let (aces, count) = (trivial_acl::pack(list), list.len() as u64);
        if self.is_sa {
            let attributes = self.attributes(fs)?;
            let same = attributes.get(Sa::DaclAces)?.is_some_and(|(old, _)| old == aces);
            drop(attributes);
            if same {
                return self.store(fs, tx, &[]);
            }
            let count = count.to_le_bytes();
            return self.store(fs, tx, &[(Sa::DaclCount, Some(&count)), (Sa::DaclAces, Some(&aces))]);
        }
        self.set_old_acl(fs, tx, &aces, count)
    }

    /// Does the same for an old znode, whose ACL is inline (72 bytes are enough for the entries of
    /// a mode) or in an object.
    fn set_old_acl(&mut self, fs: &FileSystem, tx: &Tx, aces: &[u8], count: u64) -> Result<()> {
        let attributes = self.attributes(fs)?;
        let Some(at) = attributes.bonus_place(Sa::ZnodeAcl).map(|at| at as usize) else {
            return Err(Error::unsupported(self.object.place(), "a file without access list"));
        };
        let old = attributes.get(Sa::ZnodeAcl)?.map(|(bytes, endian)| AclPhys::parse(bytes, endian)).transpose();
        let external = old.at_with(|| self.object.place())?.map_or(0, |acl| acl.object);
        if aces.len() > 72 {
            return Err(Error::unsupported(self.object.place(), "long access lists of old znodes"));
        }
        if external != 0 {
            fs.objset.free_object(tx, external)?;
        }
        let endian = self.endian;
        let Some(out) = self.bonus.get_mut(at..at + AclPhys::SIZE_BYTES) else {
            return Err(Error::corrupt(self.object.place(), "access list beyond the bonus"));
        };
        out.fill(0);
        endian.put_u32(&mut out[8..], aces.len() as u32);
        endian.put_u16(&mut out[12..], 1);
        endian.put_u16(&mut out[14..], count as u16);
        // Entries use the znode's byte order.
        for (from, to) in aces.chunks_exact(8).zip(out[16..].chunks_exact_mut(8)) {
            let le = Endian::Little;
            endian.put_u16(to, le.u16(from));
            endian.put_u16(&mut to[2..], le.u16(&from[2..]));
            endian.put_u32(&mut to[4..], le.u32(&from[4..]));
        }
        self.store(fs, tx, &[])
    }
}
