//! Writes the attributes of a file back to its object: fields, other attributes, the ZFS ACL.

use super::{CACHED, State};
use crate::zpl::FileSystem;
use crate::zpl::node::Znode;
use crate::zpl::trivial_acl::{self, AclMode};
use errors::{Error, Result};
use object::{Attributes, Tx};
use ondisk::acl::Ace;
use ondisk::sa::Attr as Sa;
use ondisk::znode::Flags;

/// A change of an attribute that is not a field: its new bytes, or `None` to remove it.
type Change<'a> = (Sa, Option<&'a [u8]>);

impl State {
    /// Writes the fields back, together with `changes`. On failure the stored attributes are
    /// unchanged.
    pub fn store(&mut self, fs: &FileSystem, tx: &Tx, changes: &[Change<'_>]) -> Result<()> {
        let why_old = self.upgrade(fs, tx)?;
        self.store_in_form(fs, tx, changes, why_old)
    }

    /// The same, without replacing a znode. `why_old`: why that was not possible.
    pub(super) fn store_in_form(
        &mut self,
        fs: &FileSystem,
        tx: &Tx,
        changes: &[Change<'_>],
        why_old: Option<Error>,
    ) -> Result<()> {
        self.has_fuids = fs.version().has_fuids();
        let placeless = self.placeless();
        if !placeless.is_empty() || !changes.is_empty() {
            if !self.is_sa {
                let what = "attributes of an old znode that it has no place for";
                return Err(why_old.unwrap_or_else(|| Error::unsupported(self.object.place(), what)));
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
        self.is_sa = now.is_sa;
        // The attributes may have got a project, and those of a former znode have the scan stamp.
        self.flags |= now.flags & Flags::PROJID;
        if self.is_sa {
            self.flags -= Flags::BONUS_SCANSTAMP;
        }
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

    /// Rejects new permission bits if the ZFS ACL forbids them (`aclmode=restricted`). Called
    /// before anything is changed.
    pub fn check_mode(&self, fs: &FileSystem, acl_mode: AclMode) -> Result<()> {
        let is_restricted = acl_mode == AclMode::Restricted;
        if is_restricted && !trivial_acl::is_trivial(&fs.aces(&Znode::new(self.attributes(fs)?)?)?.unwrap_or_default())
        {
            return Err(errors::Refusal::NotPermitted.at(self.object.place()));
        }
        Ok(())
    }

    /// Sets the permission bits and updates the ZFS ACL to match. The caller has called
    /// [`State::check_mode`].
    pub fn set_mode(&mut self, fs: &FileSystem, tx: &Tx, mode: u64, acl_mode: AclMode) -> Result<()> {
        let old = match acl_mode {
            AclMode::Discard => Vec::new(),
            _ => fs.aces(&Znode::new(self.attributes(fs)?)?)?.unwrap_or_default(),
        };
        let list = trivial_acl::with_mode(&old, mode, self.is_dir(), acl_mode == AclMode::GroupMask);
        self.mode = self.mode & !0o7777 | mode & 0o7777;
        self.set_acl(fs, tx, &list)
    }

    /// Stores `list` as the ZFS ACL, with the flags that describe it. The mode must be set already.
    pub fn set_acl(&mut self, fs: &FileSystem, tx: &Tx, list: &[Ace]) -> Result<()> {
        if list.iter().any(trivial_acl::is_for_objects) {
            let what = "changing an access list with entries for types of objects";
            return Err(Error::unsupported(self.object.place(), what));
        }
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
        let why_old = self.upgrade(fs, tx)?;
        if self.is_sa {
            let (aces, count) = (trivial_acl::pack(list), list.len() as u64);
            let attributes = self.attributes(fs)?;
            let same = attributes.get(Sa::DaclAces)?.is_some_and(|(old, _)| old == aces);
            drop(attributes);
            if same {
                return self.store(fs, tx, &[]);
            }
            let count = count.to_le_bytes();
            return self.store(fs, tx, &[(Sa::DaclCount, Some(&count)), (Sa::DaclAces, Some(&aces))]);
        }
        self.set_old_acl(fs, tx, list, why_old)
    }
}
