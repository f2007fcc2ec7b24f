//! Delegated permissions: what users other than the owner may do with datasets.
//!
//! ```text
//!   dd_deleg_zapobj ─> ZAP: key ─> ZAP: names of permissions, each 0
//! ```
//! | key              | whose                                      | where                    |
//! |------------------|--------------------------------------------|--------------------------|
//! | `ul$ID`, `ud$ID` | of user ID                                 | here, or only below      |
//! | `gl$ID`, `gd$ID` | of group ID                                | here, or only below      |
//! | `el$`, `ed$`     | of everyone                                | here, or only below      |
//! | `c-$`            | given to the creator of datasets below     | on the dataset created   |
//! | `s-$@NAME`       | what set `@NAME` consists of               | here and below           |
//!
//! A key whose first letter is a capital holds names of sets instead of permissions. Written by
//! `write::delegation`. Facts: module/zfs/dsl_deleg.c, module/zcommon/zfs_deleg.c.
//!
//! Invariants:
//!   * nothing is granted that no entry grants: what cannot be read is an error, and an error
//!     grants nothing
//!   * a set is what the nearest directory says that defines it, from where it is granted upwards

use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::property::{self, View, find, full_name};
use crate::tree::{Datasets, Entry};
use crate::zap::open_zap;
use errors::{Error, Result};
use object::Zap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The first pool version with delegated permissions.
pub(crate) const VERSION: u64 = 8;
/// Maximum bytes of the name of a set, with its `@` and a NUL.
const SET_NAME_MAX: usize = 64;
/// Maximum bytes of a key, with a NUL.
const KEY_MAX: usize = 128;

/// Permissions that are not the names of properties, as zfs(8) lists them.
pub const PERMISSIONS: &[&str] = &[
    "allow",
    "bookmark",
    "clone",
    "create",
    "destroy",
    "diff",
    "mount",
    "promote",
    "receive",
    "receive:append",
    "rename",
    "rollback",
    "snapshot",
    "share",
    "send",
    "userprop",
    "userquota",
    "groupquota",
    "userused",
    "groupused",
    "userobjquota",
    "groupobjquota",
    "userobjused",
    "groupobjused",
    "hold",
    "release",
    "load-key",
    "change-key",
    "projectused",
    "projectquota",
    "projectobjused",
    "projectobjquota",
];

/// A user who is not the owner of the pools, as the kernel identified the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Arc<[u32]>,
}

/// What a dataset's own entries grant: names of permissions and sets by key.
pub type Permissions = BTreeMap<String, BTreeSet<String>>;

/// The name under which a permission is stored: a permission, the full name of a property that can
/// be set, or a set (`@name`). `None`: there is no such permission.
pub fn permission(name: &str) -> Option<&str> {
    if name.starts_with('@') {
        return is_set(name).then_some(name);
    }
    if PERMISSIONS.contains(&name) {
        return Some(name);
    }
    find(full_name(name)).filter(|def| !def.readonly() && def.name != "mlslabel").map(|def| def.name)
}

/// Whether `name` can be that of a set.
pub fn is_set(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | ' ');
    name.len() < SET_NAME_MAX
        && name.strip_prefix('@').is_some_and(|rest| !rest.is_empty() && rest.chars().all(allowed))
}

/// Whether a key is one of the table above.
pub(crate) fn is_key(key: &str) -> bool {
    let bytes = key.as_bytes();
    if key.len() >= KEY_MAX || bytes.get(2) != Some(&b'$') || !key.is_ascii() {
        return false;
    }
    let rest = &key[3..];
    match (bytes[0].to_ascii_lowercase(), bytes[1]) {
        (b'u' | b'g', b'l' | b'd') => rest.bytes().all(|b| b.is_ascii_digit()),
        (b'e', b'l' | b'd') | (b'c', b'-') => rest.is_empty(),
        (b's', b'-') => is_set(rest),
        _ => false,
    }
}

/// Opens a ZAP of permissions by its number.
type Open<'a> = dyn Fn(u64) -> Result<Zap> + 'a;

/// The evaluation of one permission, from a dataset up to the root.
pub(crate) struct Question<'a> {
    open: &'a Open<'a>,
    permission: &'a str,
    user: &'a Credentials,
    /// The sets that the user has, and whether their definition was found.
    sets: BTreeMap<String, bool>,
}

impl<'a> Question<'a> {
    pub(crate) fn new(open: &'a Open<'a>, permission: &'a str, user: &'a Credentials) -> Self {
        Self { open, permission, user, sets: BTreeMap::new() }
    }

    /// Whether any of the directories grants the permission: `zaps` are their delegations (0:
    /// none), from the dataset itself up to the root. `here` is false if the first one is only
    /// above the dataset in question, or if that is a snapshot.
    pub(crate) fn decide(mut self, zaps: &[u64], here: bool) -> Result<bool> {
        for (at, zap) in zaps.iter().enumerate().filter(|(_, zap)| **zap != 0) {
            if self.grants(*zap, if at == 0 && here { 'l' } else { 'd' })? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same for a dataset that does not exist yet, of which the user would be the creator:
    /// `zaps` are those of the directories above it.
    pub(crate) fn decide_for_creator(mut self, zaps: &[u64]) -> Result<bool> {
        for zap in zaps.iter().filter(|zap| **zap != 0) {
            let zap = (self.open)(*zap)?;
            if self.has(&zap, "c-$")? == Some(true) {
                return Ok(true);
            }
            self.add_sets(&zap, "C-$")?;
        }
        self.decide(zaps, false)
    }

    /// Whether the permission is among those of `key`; `None`: there is no such key.
    fn has(&self, zap: &Zap, key: &str) -> Result<Option<bool>> {
        let Some(id) = zap.lookup_u64(key)? else { return Ok(None) };
        Ok(Some((self.open)(id)?.lookup(self.permission)?.is_some()))
    }

    /// Adds the sets that `key` names. Returns whether there is such a key.
    fn add_sets(&mut self, zap: &Zap, key: &str) -> Result<bool> {
        let Some(id) = zap.lookup_u64(key)? else { return Ok(false) };
        for entry in (self.open)(id)?.entries()? {
            self.sets.entry(String::from_utf8_lossy(&entry.name).into_owned()).or_insert(false);
        }
        Ok(true)
    }

    /// The keys of the user, without their first letters.
    fn keys(&self, at: char) -> Vec<(char, String)> {
        let Credentials { uid, gid, groups } = self.user;
        let mut keys = vec![('u', format!("{at}${uid}")), ('g', format!("{at}${gid}")), ('e', format!("{at}$"))];
        keys.extend(groups.iter().map(|group| ('g', format!("{at}${group}"))));
        keys
    }

    /// Whether the entries of one directory grant the permission. `at`: `l` if it is the dataset
    /// itself, `d` if it is above.
    fn grants(&mut self, zap: u64, at: char) -> Result<bool> {
        let (zap, keys) = ((self.open)(zap)?, self.keys(at));
        for (kind, rest) in &keys {
            self.add_sets(&zap, &format!("{}{rest}", kind.to_ascii_uppercase()))?;
        }
        // A set may consist of others: until all that were found have been looked up.
        loop {
            let waiting: Vec<String> =
                self.sets.iter().filter(|(_, is_found)| !**is_found).map(|(name, _)| name.clone()).collect();
            let mut grown = false;
            for set in waiting {
                let mut is_found = match self.has(&zap, &format!("s-${set}"))? {
                    Some(true) => return Ok(true),
                    found => found.is_some(),
                };
                if self.add_sets(&zap, &format!("S-${set}"))? {
                    (is_found, grown) = (true, true);
                }
                if is_found {
                    self.sets.insert(set, true);
                }
            }
            if !grown {
                break;
            }
        }
        for (kind, rest) in &keys {
            if self.has(&zap, &format!("{kind}{rest}"))? == Some(true) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The delegations of a directory and of those above it.
fn zaps(dir: &Arc<Dir>) -> Vec<u64> {
    std::iter::successors(Some(dir), |dir| dir.parent()).map(|dir| dir.phys().delegation_zap).collect()
}

impl Datasets {
    /// Whether the pool has delegated permissions that are in effect: its property `delegation`.
    pub fn has_delegation(&self) -> Result<bool> {
        let set = self.pool().set_properties()?;
        Ok(set.iter().find(|(name, _)| name == "delegation").is_none_or(|(_, value)| value.as_u64() != Some(0)))
    }

    fn can_delegate(&self) -> bool {
        self.pool().version() >= VERSION
    }
}

impl Dataset {
    /// Whether the dataset belongs to a zone: then only the owner of the pools may change it.
    pub fn is_zoned(&self) -> Result<bool> {
        let zoned = property::get(&Entry::Dataset(self.clone()), "zoned", &View::default())?;
        Ok(zoned.is_some_and(|zoned| !matches!(zoned.value.raw.as_str(), "off" | "0" | "-")))
    }

    /// Whether `permission` on this dataset is delegated to `user`. Of a snapshot: what its file
    /// system grants to descendants counts, as for everything below.
    pub fn is_granted(&self, permission: &str, user: &Credentials) -> Result<bool> {
        let open = |id| open_zap(self.tree().mos(), id);
        Ok(self.tree().can_delegate()
            && Question::new(&open, permission, user).decide(&zaps(self.dir()), !self.is_snapshot())?)
    }

    /// Whether `user` would have `permission` on a dataset that this user creates below this one.
    pub fn is_granted_to_creator(&self, permission: &str, user: &Credentials) -> Result<bool> {
        let open = |id| open_zap(self.tree().mos(), id);
        Ok(self.tree().can_delegate()
            && Question::new(&open, permission, user).decide_for_creator(&zaps(self.dir()))?)
    }

    /// What this dataset's own entries delegate. Empty: nothing.
    pub fn delegations(&self) -> Result<Permissions> {
        let (mos, id) = (self.tree().mos(), self.dir().phys().delegation_zap);
        if id == 0 {
            return Ok(Permissions::new());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let entries = open_zap(mos, id)?.entries()?.into_iter();
        let each = entries.map(|entry| {
            let missing = || Error::corrupt(self.name(), "a delegation that is not the number of an object");
            let names = open_zap(mos, entry.value.as_u64().ok_or_else(missing)?)?.entries()?;
            Ok((text(&entry.name), names.iter().map(|name| text(&name.name)).collect()))
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_verbs_properties_that_can_be_set_and_sets() {
        for (name, stored) in [
            ("create", "create"),
            ("receive:append", "receive:append"),
            ("compression", "compression"),
            ("compress", "compression"),
            ("@a-b.c:d", "@a-b.c:d"),
        ] {
            assert_eq!(permission(name), Some(stored), "{name}");
        }
        for name in [
            "",
            "add",
            "scrub",
            "used",
            "type",
            "creation",
            "mlslabel",
            "receive:all",
            "@",
            "@a/b",
            "snapshots",
            "com.example:x",
        ] {
            assert_eq!(permission(name), None, "{name}");
        }
        assert!(permission(&format!("@{}", "a".repeat(62))).is_some());
        assert!(permission(&format!("@{}", "a".repeat(63))).is_none());
    }

    #[test]
    fn keys_are_those_of_the_table_only() {
        for key in ["ul$0", "ud$1000", "Gl$7", "gd$7", "el$", "Ed$", "c-$", "C-$", "s-$@a", "S-$@a"] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "ul", "u-$1", "ul$-1", "ul$root", "el$1", "c-$x", "cl$", "s-$a", "s-$@", "sl$@a", "x-$", "ué$1"]
        {
            assert!(!is_key(key), "{key}");
        }
    }
}
