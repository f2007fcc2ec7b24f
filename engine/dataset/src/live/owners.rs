//! Space and objects by user, group and project, counted as each txg is synced.
//!
//! `files` knows how ownership is stored: it supplies a function that reads the owners from a
//! dnode. Facts: `do_userquota_update`, `dmu_objset_do_userquota_updates_prep` in
//! module/zfs/dmu_objset.c.
//!
//! Invariants:
//!   * what was counted for a dnode is recorded in its flags, and is subtracted when the dnode
//!     changes

use bytes::Bytes;
use errors::{Place, Result};
use object::zap::Zap;
use object::{Object, ObjectSet, Tx};
use ondisk::Dnode;
use ondisk::zap::NormFlags;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Owners of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owners {
    pub user: u64,
    pub group: u64,
    pub project: u64,
}

/// Returns the spill block of an object, if it has one.
pub type Spill<'a> = &'a dyn Fn() -> Result<Option<Bytes>>;

/// Reads the owners of an object from its dnode; `None` for objects without owners.
pub type OwnersOf = fn(&Dnode, Spill<'_>) -> Result<Option<Owners>>;

/// Bytes charged for every object, in addition to its blocks (`DNODE_MIN_SIZE`).
const DNODE_MIN_BYTES: i64 = 512;
/// Prefix of object counts.
const OBJECTS_PREFIX: &str = "obj-";

/// What is counted in a dataset.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counting {
    pub(crate) owners_of: OwnersOf,
    pub(crate) objects: bool,
    pub(crate) projects: bool,
}

/// Changes of one txg, by kind of principal and key.
#[derive(Default)]
pub(crate) struct Changes {
    by_principal: [BTreeMap<String, i64>; 3],
}

impl Changes {
    /// The object with dnode `old` now has dnode `new`.
    pub(crate) fn note(
        &mut self,
        counting: &Counting,
        old: Option<&Dnode>,
        new: Option<&mut Dnode>,
        spill: Spill<'_>,
    ) -> Result<()> {
        let nothing = || Ok(None);
        if let Some(old) = old
            && let Some(owners) = (counting.owners_of)(old, if old.spill.is_some() { spill } else { &nothing })?
        {
            self.count(counting, old, owners, -1);
        }
        if let Some(new) = new {
            new.flags |= Dnode::FLAG_USERUSED_ACCOUNTED;
            if counting.objects {
                new.flags |= Dnode::FLAG_USEROBJUSED_ACCOUNTED;
            }
            if let Some(owners) = (counting.owners_of)(new, spill)? {
                self.count(counting, new, owners, 1);
            }
        }
        Ok(())
    }

    fn count(&mut self, counting: &Counting, dnode: &Dnode, owners: Owners, sign: i64) {
        let ids = [Some(owners.user), Some(owners.group), counting.projects.then_some(owners.project)];
        for (deltas, id) in self.by_principal.iter_mut().zip(ids) {
            let Some(id) = id else { continue };
            if dnode.flags & Dnode::FLAG_USERUSED_ACCOUNTED != 0 {
                let bytes = DNODE_MIN_BYTES.wrapping_add(dnode.used_bytes as i64);
                // A damaged dnode may contain any value: sums wrap around, as those
                // on disk do.
                let delta = deltas.entry(format!("{id:x}")).or_default();
                *delta = delta.wrapping_add(bytes.wrapping_mul(sign));
            }
            if counting.objects && dnode.flags & Dnode::FLAG_USEROBJUSED_ACCOUNTED != 0 {
                *deltas.entry(format!("{OBJECTS_PREFIX}{id:x}")).or_default() += sign;
            }
        }
    }

    /// Adds the changes to the accounting objects of `set`, creating them if needed.
    pub(crate) fn apply(self, set: &Arc<ObjectSet>, tx: &Tx, projects: bool) -> Result<()> {
        set.create_accounting(tx, projects)?;
        let objects: [Option<Object>; 3] = [set.user_used(), set.group_used(), set.project_used()];
        for (object, deltas) in objects.into_iter().zip(self.by_principal) {
            let Some(object) = object else { continue };
            if object.block(0)?.is_none() {
                Zap::create_in(object.clone(), tx, NormFlags::empty())?;
            }
            for (key, delta) in deltas.into_iter().filter(|(_, delta)| *delta != 0) {
                let place = object.place();
                Zap::open(object.clone())?.increment(tx, key.as_bytes(), delta).at(&place)?;
            }
        }
        Ok(())
    }
}
