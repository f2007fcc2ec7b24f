//! What a caller may do who is not the owner of the pools: what was delegated with `zfs allow`.
//!
//! | verb                | permission                                  | on                        |
//! |---------------------|---------------------------------------------|---------------------------|
//! | create              | create, mount                               | the parent                |
//! | clone               | clone; then as create                       | the snapshot              |
//! | destroy             | mount, destroy; of bookmarks: destroy       | each that is destroyed    |
//! | snapshot            | snapshot; with properties: userprop         | each file system          |
//! | rename              | rename, mount; create, mount                | the old name; the parent  |
//! | promote             | promote, mount; promote                     | the clone; its origin     |
//! | hold, release, bookmark, rollback | that of the verb's name       | the file system           |
//! | set, inherit        | the property's name, userprop, userquota …  | the dataset               |
//! | load-key, unload-key, change-key  | load-key, change-key          | the dataset               |
//! | send, diff          | that of the verb's name                     | each snapshot             |
//! | receive             | receive, mount, create; without -F,         | the dataset or its parent |
//! |                     | receive:append is enough for receive        |                           |
//! | allow               | allow, and each permission that is given    | the dataset               |
//!
//! Below: `dataset::delegation`. Facts: `zfs_secpolicy_*`, `zfs_check_settable` in
//! module/zfs/zfs_ioctl.c.
//!
//! Invariants:
//!   * a caller who is not the owner changes nothing before a check of this module passes
//!     ([`Caller::check_opening`])
//!   * this process reads no file for such a caller, and mounts nothing that was not mounted:
//!     paths may be the caller's own links ([`Unprivileged`])

use super::refusal::{Kind, Reason};
use crate::mounts::{Mounted, Mounter, NotUnmounted, Plan};
use crate::{OwnedPool, principals};
use dataset::property::{find, full_name, is_user_property};
use dataset::{Credentials, Dataset, Datasets};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Properties that only a new dataset has a say in: creating it is permission enough.
const OF_CREATION: [&str; 10] = [
    "volsize",
    "volblocksize",
    "version",
    "normalization",
    "utf8only",
    "casesensitivity",
    "encryption",
    "keyformat",
    "pbkdf2iters",
    "pbkdf2salt",
];

/// Who runs a verb.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    user: Option<Credentials>,
    /// The pools, by guid, for which a check has passed.
    permitted: Arc<Mutex<BTreeSet<u64>>>,
}

impl Caller {
    /// The owner of the pools, who may do everything.
    pub fn owner() -> Self {
        Self::default()
    }

    /// Any other user.
    pub fn user(user: Credentials) -> Self {
        Self { user: Some(user), ..Self::default() }
    }

    /// The user, if it is not the owner of the pools.
    pub fn other(&self) -> Option<&Credentials> {
        self.user.as_ref()
    }

    pub fn is_owner(&self) -> bool {
        self.user.is_none()
    }

    /// Refuses to open a pool for writing for a caller who was not found to have any permission: a
    /// verb that does not ask is closed to all users but the owner.
    pub(super) fn check_opening(&self, pool: u64) -> Result<(), Reason> {
        let permitted = self.permitted.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_owner() || permitted.contains(&pool) { Ok(()) } else { Err(denied()) }
    }

    /// All that a check requires is there.
    fn passed(&self, tree: &Datasets) {
        self.permitted.lock().unwrap_or_else(PoisonError::into_inner).insert(tree.pool().guid());
    }

    /// Refuses what is for the owner alone.
    pub fn require_owner(&self) -> Result<(), Reason> {
        if self.is_owner() { Ok(()) } else { Err(denied()) }
    }

    /// Requires all of these permissions on a dataset, snapshot, or on the dataset of a bookmark.
    pub fn require(&self, tree: &Arc<Datasets>, name: &str, permissions: &[&str]) -> Result<(), Reason> {
        let Some(user) = &self.user else { return Ok(()) };
        let dataset = tree.dataset(name.split('#').next().unwrap_or(name))?;
        check_zone(&dataset)?;
        for permission in permissions {
            decide(tree, dataset.is_granted(permission, user)?)?;
        }
        if !permissions.is_empty() {
            self.passed(tree);
        }
        Ok(())
    }

    /// Requires the permission to set, or to remove, a property.
    pub fn require_property(&self, tree: &Arc<Datasets>, name: &str, property: &str) -> Result<(), Reason> {
        match self.user {
            Some(_) => self.require(tree, name, &[permission_for(property)?]),
            None => Ok(()),
        }
    }

    /// Requires all permissions to create dataset `name` with these properties; with `parents`,
    /// also those above it that are missing.
    pub fn require_to_create<'p>(
        &self,
        tree: &Arc<Datasets>,
        name: &str,
        parents: bool,
        properties: impl IntoIterator<Item = &'p str>,
    ) -> Result<(), Reason> {
        let Some(user) = &self.user else { return Ok(()) };
        let mut missing = 0;
        let mut above = name;
        let parent = loop {
            let Some((parent, _)) = above.rsplit_once('/') else { return Err(denied()) };
            match tree.dataset(parent) {
                Ok(dataset) => break dataset,
                Err(errors::Error::NotFound { .. }) if parents => (above, missing) = (parent, missing + 1),
                Err(error) => return Err(error.into()),
            }
        };
        check_zone(&parent)?;
        for permission in ["create", "mount"] {
            decide(tree, parent.is_granted(permission, user)?)?;
            if missing > 0 {
                decide(tree, parent.is_granted_to_creator(permission, user)?)?;
            }
        }
        for property in properties.into_iter().filter(|p| !OF_CREATION.contains(&full_name(p))) {
            decide(tree, parent.is_granted_to_creator(permission_for(property)?, user)?)?;
        }
        self.passed(tree);
        Ok(())
    }

    /// Refuses key files for callers whose files this process must not read.
    pub fn check_key_location(&self, location: Option<&str>) -> Result<(), Reason> {
        match location {
            Some(location) if !self.is_owner() && location != "prompt" && location != "none" => {
                let why = "unsupported: key files for users other than the owner of the pools; use keylocation=prompt";
                Err(Reason::new(Kind::Unsupported, why))
            }
            _ => Ok(()),
        }
    }
}

fn decide(tree: &Datasets, is_granted: bool) -> Result<(), Reason> {
    if !tree.has_delegation()? {
        return Err(Reason::new(Kind::Forbidden, "delegated administration is disabled on pool"));
    }
    if is_granted { Ok(()) } else { Err(denied()) }
}

fn denied() -> Reason {
    Reason::new(Kind::Forbidden, "permission denied")
}

/// Only the owner changes datasets that belong to a zone.
fn check_zone(dataset: &Dataset) -> Result<(), Reason> {
    if dataset.is_zoned()? { Err(denied()) } else { Ok(()) }
}

/// The permission to set a property.
fn permission_for(property: &str) -> Result<&str, Reason> {
    if is_user_property(property) {
        return Ok("userprop");
    }
    if principals::is_quota(property) {
        return Ok(property.split('@').next().unwrap_or_default());
    }
    let def = find(full_name(property)).filter(|def| !def.readonly() && def.name != "mlslabel");
    def.map(|def| def.name).ok_or_else(denied)
}

/// The mounts of this process as a caller sees them who is not the owner: what is mounted stays,
/// and nothing is mounted. A file system is unmounted for the time of a change if it can be mounted
/// again at the same place and in the same way, whatever the caller does meanwhile.
pub struct Unprivileged {
    mounter: Arc<dyn Mounter>,
    /// What was unmounted, and is to be mounted again.
    unmounted: Mutex<Vec<Mounted>>,
}

/// Whether only the owner of this process and root can change which directory `place` is.
fn is_guarded(place: &Path) -> bool {
    let owner = rustix::process::geteuid().as_raw();
    place.is_absolute()
        && place.ancestors().skip(1).all(|dir| {
            let found = fs::symlink_metadata(dir);
            found.is_ok_and(|m| m.is_dir() && (m.uid() == 0 || m.uid() == owner) && m.mode() & 0o022 == 0)
        })
}

impl Unprivileged {
    pub fn new(mounter: Arc<dyn Mounter>) -> Self {
        Self { mounter, unmounted: Mutex::default() }
    }

    fn refuse_any(&self, mounted: Vec<Mounted>) -> Result<(), NotUnmounted> {
        match mounted.into_iter().next() {
            Some(first) => Err((first.place, io::Error::new(ErrorKind::PermissionDenied, "permission denied"))),
            None => Ok(()),
        }
    }
}

impl Mounter for Unprivileged {
    fn is_automatic(&self) -> bool {
        false
    }

    fn below(&self, pool: u64, dataset: &str) -> Vec<Mounted> {
        self.mounter.below(pool, dataset)
    }

    fn mount(&self, pool: &OwnedPool, dataset: &str, _: &Plan) -> io::Result<()> {
        let mut unmounted = self.unmounted.lock().unwrap_or_else(PoisonError::into_inner);
        match unmounted.iter().position(|m| m.dataset == dataset && m.pool == pool.guid()) {
            // As it was mounted, whatever its properties say now.
            Some(at) => self.mounter.mount(pool, dataset, &unmounted.swap_remove(at).plan),
            None => Err(io::Error::new(ErrorKind::PermissionDenied, "permission denied")),
        }
    }

    fn unmount_below(&self, pool: u64, dataset: &str, _: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.refuse_any(self.below(pool, dataset))?;
        // Nothing is mounted: only servers of the dataset release it.
        self.mounter.unmount_below(pool, dataset, false)
    }

    fn unmount_placed(&self, pool: u64, dataset: &str, _: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        self.refuse_any(self.below(pool, dataset).into_iter().filter(|mounted| !mounted.by_hand).collect())?;
        self.mounter.unmount_placed(pool, dataset, false)
    }

    fn unmount_briefly(&self, pool: u64, dataset: &str, force: bool) -> Result<Vec<Mounted>, NotUnmounted> {
        let placed: Vec<Mounted> = self.below(pool, dataset).into_iter().filter(|mounted| !mounted.by_hand).collect();
        if force || placed.iter().any(|mounted| !is_guarded(&mounted.place)) {
            self.refuse_any(placed)?;
            return self.mounter.unmount_placed(pool, dataset, false);
        }
        self.unmounted.lock().unwrap_or_else(PoisonError::into_inner).extend(placed);
        self.mounter.unmount_placed(pool, dataset, false)
    }

    fn renamed(&self, pool: u64, from: &str, to: &str) {
        self.mounter.renamed(pool, from, to);
    }

    fn forget(&self, pool: &OwnedPool, destroyed: &[Mounted]) {
        self.mounter.forget(pool, destroyed);
    }
}
