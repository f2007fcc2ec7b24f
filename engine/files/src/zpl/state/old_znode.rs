//! Files of ZPL versions before 5, whose attributes are a znode: the bonus itself.
//!
//! ```text
//!   bonus:  znode, 0x108 bytes | target of a symbolic link, if it fits
//!             zp_acl: entries of version 0 (before ZPL version 3) or 1; if they need more than 72
//!             bytes, the number of an object that contains them
//! ```
//! In a file system of version 5, a znode becomes system attributes when its file is next changed.
//! Below: `object` holds the bonus. Format: `ondisk::znode`, `ondisk::acl`. Facts: zfs_mknode,
//! zfs_sa_symlink, zfs_aclset_common, zfs_sa_upgrade.
//!
//! Invariants:
//!   * a file has either a znode or system attributes, never parts of both
//!   * a znode that cannot be replaced is kept, with its ACL: only changes that need system
//!     attributes fail
//!   * an object with entries belongs to one znode, and is freed when the znode no longer names it

use super::{BEFORE_ACL, State};
use crate::vfs::FileKind;
use crate::zpl::master::Version;
use crate::zpl::node::Znode;
use crate::zpl::{FileSystem, trivial_acl};
use errors::{Error, Place, Result};
use object::{NewObject, Object, ObjectSet, Tx};
use ondisk::acl::Ace;
use ondisk::sa::Attr as Sa;
use ondisk::znode::{Flags, LEGACY_BYTES};
use ondisk::{Endian, ObjectType, Objset};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of entries that fit into a znode (`ZFS_ACE_SPACE`).
const INLINE_BYTES: usize = 72;
/// Bytes of bonus that every dnode can hold (`DN_OLD_MAX_BONUSLEN`).
const BONUS_BYTES_MAX: usize = 320;
const SCAN_STAMP_BYTES: usize = 32;

/// Bytes of a field of a znode.
fn place_of(attr: Sa) -> Option<Range<usize>> {
    let mut start = 0;
    for (field, _, length) in &Sa::TABLE[..Sa::LEGACY_COUNT] {
        if *field == attr {
            return Some(start..start + usize::from(*length));
        }
        start += usize::from(*length);
    }
    None
}

/// Stores a znode as the attributes of a new object.
pub(in crate::zpl) fn build(
    tx: &Tx,
    object: &Object,
    fields: &[(Sa, Vec<u8>)],
    (list, target): (&[Ace], Option<&[u8]>),
    version: Version,
) -> Result<()> {
    let mut bonus = vec![0; LEGACY_BYTES];
    for (attr, value) in fields {
        if let Some(place) = place_of(*attr) {
            bonus[place].copy_from_slice(value);
        }
    }
    let entries = Entries::pack(list, version);
    if let Some(place) = place_of(Sa::ZnodeAcl) {
        entries.put(&mut bonus[place], 0);
    }
    if let Some(target) = target {
        if LEGACY_BYTES + target.len() <= BONUS_BYTES_MAX {
            bonus.extend_from_slice(target);
        } else {
            object.set_block_bytes(tx, target.len().next_multiple_of(512) as u32)?;
            object.renewed()?.write_at(tx, 0, target)?;
        }
    }
    object.set_bonus(tx, bonus)
}

/// The entries of an ACL as a znode stores them.
struct Entries {
    bytes: Vec<u8>,
    count: usize,
    has_fuids: bool,
}

impl Entries {
    fn pack(list: &[Ace], version: Version) -> Self {
        let has_fuids = version.has_fuids();
        let bytes = if has_fuids { trivial_acl::pack(list) } else { trivial_acl::pack_old(list) };
        Self { bytes, count: list.len(), has_fuids }
    }

    fn are_inline(&self) -> bool {
        self.bytes.len() <= INLINE_BYTES
    }

    /// Writes `zfs_acl_phys_t`. `external` is the object with the entries, or 0.
    fn put(&self, out: &mut [u8], external: u64) {
        let le = Endian::Little;
        out.fill(0);
        le.put_u64(out, external);
        // The fields for size and count are swapped in version 0.
        let (first, second) = match self.has_fuids {
            true => (self.bytes.len(), self.count),
            false => (self.count, self.bytes.len()),
        };
        le.put_u32(&mut out[8..], first as u32);
        le.put_u16(&mut out[12..], u16::from(self.has_fuids));
        le.put_u16(&mut out[14..], second as u16);
        if external == 0 {
            out[16..16 + self.bytes.len()].copy_from_slice(&self.bytes);
        }
    }

    /// Stores the entries in an object of their own.
    fn store(&self, objset: &Arc<ObjectSet>, tx: &Tx) -> Result<u64> {
        let block_bytes = self.bytes.len().next_multiple_of(512) as u32;
        let new = match self.has_fuids {
            true => {
                NewObject::new(ObjectType::ACL, block_bytes).with_bonus(ObjectType::SYSACL, vec![0; BONUS_BYTES_MAX])
            }
            false => NewObject::new(ObjectType::OLDACL, block_bytes),
        };
        let object = objset.create_object(tx, &new)?;
        object.write_at(tx, 0, &self.bytes).inspect_err(|_| {
            let _ = objset.free_object(tx, object.id());
        })?;
        Ok(object.id())
    }
}

/// Entries of version 1, little-endian, and their number.
struct Carried {
    bytes: Vec<u8>,
    count: u64,
}

impl State {
    /// Sets the ACL of a file that has a znode. The flags that describe it are set already.
    pub(super) fn set_old_acl(&mut self, fs: &FileSystem, tx: &Tx, list: &[Ace], why_old: Option<Error>) -> Result<()> {
        self.check_byte_order()?;
        let place = place_of(Sa::ZnodeAcl).filter(|place| place.end <= self.bonus.len());
        let place = place.ok_or_else(|| Error::corrupt(self.object.place(), "access list beyond the bonus"))?;
        let before = self.entries_object(fs)?;
        let entries = Entries::pack(list, fs.version());
        let external = if entries.are_inline() { 0 } else { entries.store(&fs.objset, tx)? };
        let old = self.bonus[place.clone()].to_vec();
        entries.put(&mut self.bonus[place.clone()], external);
        // Never replaces the znode, which would take the ACL from the stored bonus.
        if let Err(error) = self.store_in_form(fs, tx, &[], why_old) {
            self.bonus[place].copy_from_slice(&old);
            if external != 0 {
                let _ = fs.objset.free_object(tx, external);
            }
            return Err(error);
        }
        if external != 0 && !fs.is_replaying() {
            // Replaying the record would create the object with a number that a later record may
            // need.
            fs.live()?.backing.unloggable_for_all(tx);
        }
        match before {
            // Held, so it can be freed without reading its dnode.
            Some(before) => fs.objset.free_object(tx, before.id()),
            None => Ok(()),
        }
    }

    /// The object that holds the ACL of a znode, if there is one.
    pub(in crate::zpl) fn entries_object(&self, fs: &FileSystem) -> Result<Option<Object>> {
        if self.is_sa {
            return Ok(None);
        }
        let attributes = self.attributes(fs)?;
        let Some((bytes, endian)) = attributes.get(Sa::ZnodeAcl)? else { return Ok(None) };
        // At the same place in every version, so that a file with an unknown one can be removed.
        match bytes.first_chunk::<8>().map_or(0, |id| endian.u64(id)) {
            0 => Ok(None),
            id => fs.object(id).map(Some),
        }
    }

    pub(super) fn check_byte_order(&self) -> Result<()> {
        if !self.is_sa && self.endian != Endian::Little {
            // The bonus has the byte order of the dnode, which becomes native when it is written.
            return Err(Error::unsupported(self.object.place(), "writing old znodes of a big-endian host"));
        }
        Ok(())
    }

    /// Replaces the znode by system attributes, if the version of the file system has them. As in
    /// OpenZFS, symbolic links keep their znodes. So does a file whose ACL cannot be read or does
    /// not fit: returns why.
    pub(in crate::zpl) fn upgrade(&mut self, fs: &FileSystem, tx: &Tx) -> Result<Option<Error>> {
        if self.is_sa || self.kind == FileKind::Symlink || !fs.version().has_system_attributes() {
            return Ok(None);
        }
        let (before, carried) = match self.entries_object(fs).and_then(|o| Ok((o, self.carried(fs)?))) {
            Ok(both) => both,
            Err(why) => {
                tracing::debug!(%why, "a file keeps its znode");
                return Ok(Some(why));
            }
        };
        let flags = self.flags;
        let carried = carried.unwrap_or_else(|| {
            let list = trivial_acl::trivial(self.mode & 0o777, self.is_dir());
            self.flags |= Flags::ACL_TRIVIAL | trivial_acl::mode_of(&list, self.uid, self.gid).1;
            Carried { bytes: trivial_acl::pack(&list), count: list.len() as u64 }
        });
        if fs.objset.flags() & Objset::FLAG_PROJECTQUOTA_COMPLETE != 0 {
            self.flags |= Flags::PROJID;
        }
        self.flags -= Flags::BONUS_SCANSTAMP;
        let packed = self.packed(carried, flags.contains(Flags::BONUS_SCANSTAMP));
        let done = fs.object(self.object.id()).and_then(|object| fs.sa.build(tx, &object, &packed));
        if let Err(why) = done {
            self.flags = flags;
            let is_same = |o: Object| o.dnode().bonus_type == ObjectType::ZNODE && o.bonus() == self.bonus;
            return if fs.object(self.object.id()).is_ok_and(is_same) { Ok(Some(why)) } else { Err(why) };
        }
        self.is_sa = true;
        let reloaded = self.reload_places(fs);
        let freed = before.map_or(Ok(()), |before| fs.objset.free_object(tx, before.id()));
        reloaded.and(freed).map(|()| None)
    }

    /// The ACL as system attributes store it; `None` if the znode has no ACL. Entries of version 1
    /// are carried unchanged, because some have parts that [`Ace`] lacks.
    fn carried(&self, fs: &FileSystem) -> Result<Option<Carried>> {
        let file = Znode::new(self.attributes(fs)?)?;
        let Some((acl, mut bytes, endian)) = fs.old_entries(&file)? else { return Ok(None) };
        let place = || format!("{}: acl", self.object.place());
        let list = acl.entries(Some(&bytes)).at_with(place)?;
        let known = if acl.version == 0 { 0..=4 } else { 0..=8 };
        if let Some(e) = list.iter().find(|e| !known.contains(&e.kind)) {
            let what = format!("an entry of type {} in a list of version {}", e.kind, acl.version);
            return Err(Error::unsupported(place(), what));
        }
        if list.len() as u64 != u64::from(acl.count) {
            return Err(Error::corrupt(place(), format!("{} entries, expected {}", list.len(), acl.count)));
        }
        if acl.version == 0 {
            bytes = trivial_acl::pack(&list);
        } else if endian != Endian::Little {
            Ace::swap_v1(&mut bytes, endian).at_with(place)?;
        }
        Ok(Some(Carried { bytes, count: list.len() as u64 }))
    }

    /// The attributes in the order in which the kernel packs them.
    fn packed(&self, list: Carried, has_scan_stamp: bool) -> Vec<(Sa, Vec<u8>)> {
        let value = |attr| {
            let (words, count) = self.words(attr);
            words[..count].iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>()
        };
        let wanted = BEFORE_ACL.into_iter().filter(|attr| self.wants_place(*attr));
        let mut packed: Vec<_> = wanted.map(|attr| (attr, value(attr))).collect();
        packed.push((Sa::DaclCount, list.count.to_le_bytes().to_vec()));
        packed.push((Sa::DaclAces, list.bytes));
        if self.wants_place(Sa::Xattr) {
            packed.push((Sa::Xattr, value(Sa::Xattr)));
        }
        let stamp = self.bonus.get(LEGACY_BYTES..LEGACY_BYTES + SCAN_STAMP_BYTES);
        if let Some(stamp) = stamp.filter(|_| has_scan_stamp) {
            packed.push((Sa::Scanstamp, stamp.to_vec()));
        }
        packed
    }
}
