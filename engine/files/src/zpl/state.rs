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

pub(super) mod old_znode;
mod store;

use super::master::Version;
use super::node::Znode;
use crate::vfs::{FileKind, Time};
use errors::Result;
use object::{Attributes, Object, Tx};
use ondisk::Endian;
use ondisk::sa::Attr as Sa;
use ondisk::znode::Flags;

/// Attributes of a file in the order in which the kernel packs them, up to its ACL.
pub(super) const BEFORE_ACL: [Sa; 14] = [
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
];

/// Attributes that are cached as fields, with their lengths: the places that [`State::store`]
/// writes.
const CACHED: [Sa; BEFORE_ACL.len() + 1] = {
    let mut all = [Sa::Xattr; BEFORE_ACL.len() + 1];
    all.split_at_mut(BEFORE_ACL.len()).0.copy_from_slice(&BEFORE_ACL);
    all
};

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
    /// Whether the version of the file system has DOS flags and ACL entries with FUIDs.
    pub has_fuids: bool,
    pub object: Object,
    bonus: Vec<u8>,
    endian: Endian,
    /// Offset of each of [`CACHED`] in the bonus.
    places: [Option<u32>; CACHED.len()],
}

impl State {
    /// Loads the state from the attributes of an object.
    pub fn load(attributes: Attributes<'_>, version: Version) -> Result<Self> {
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
            has_fuids: version.has_fuids(),
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
        self.check_byte_order()?;
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

    /// Updates the times after a change of contents.
    pub fn touch_contents(&mut self, now: Time) {
        (self.mtime, self.ctime) = (now, now);
        self.mark_contents();
    }

    /// Notes in the flags that the contents changed.
    pub fn mark_contents(&mut self) {
        if self.has_fuids {
            self.flags |= Flags::ARCHIVE | Flags::AV_MODIFIED;
        }
    }

    /// Updates the times after a change of attributes.
    pub fn touch(&mut self, now: Time) {
        self.ctime = now;
        if self.has_fuids {
            self.flags |= Flags::ARCHIVE;
        }
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
}
