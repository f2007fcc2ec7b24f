//! Changing delegated permissions. What is stored: [`crate::delegation`].
//!
//! Facts: `dsl_deleg_set_sync`, `dsl_deleg_unset_sync` in module/zfs/dsl_deleg.c.

use super::cx::Cx;
use super::permissions::{find_zap, remove_key, zap_of};
use super::tree;
use crate::delegation::{VERSION, is_key, permission};
use crate::live::LiveDatasets;
use errors::{Error, Result};
use pool::SpaceCheck;

/// A change of the permissions under one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delegation {
    /// Adds these permissions.
    Allow { key: String, permissions: Vec<String> },
    /// Removes these permissions.
    Remove { key: String, permissions: Vec<String> },
    /// Removes all permissions.
    RemoveAll { key: String },
}

impl Delegation {
    fn key(&self) -> &str {
        match self {
            Self::Allow { key, .. } | Self::Remove { key, .. } | Self::RemoveAll { key } => key,
        }
    }

    fn check(&self, name: &str) -> Result<()> {
        if !is_key(self.key()) {
            return Err(Error::invalid(name, format!("'{}' does not say to whom to delegate", self.key())));
        }
        let (Self::Allow { permissions, .. } | Self::Remove { permissions, .. }) = self else { return Ok(()) };
        let is_of_sets = self.key().starts_with(|c: char| c.is_ascii_uppercase());
        let wrong = |p: &&String| permission(p) != Some(p.as_str()) || p.starts_with('@') != is_of_sets;
        match permissions.iter().find(wrong) {
            Some(wrong) => Err(Error::invalid(name, format!("'{wrong}' is no permission"))),
            None if permissions.is_empty() => Err(Error::invalid(name, "no permissions")),
            None => Ok(()),
        }
    }
}

/// Changes the permissions that are delegated on file system or volume `name`.
pub fn delegate(live: &LiveDatasets, name: &str, changes: &[Delegation]) -> Result<()> {
    changes.iter().try_for_each(|change| change.check(name))?;
    let (name, changes) = (name.to_owned(), changes.to_vec());
    live.writer().task(move |sync| delegate_in(&Cx::new(sync), &name, &changes))?;
    live.refresh()
}

fn delegate_in(cx: &Cx<'_>, name: &str, changes: &[Delegation]) -> Result<()> {
    if cx.sync.version() < VERSION {
        return Err(Error::unsupported(name, "pool must be upgraded"));
    }
    cx.sync.check_space(name, changes.len() as u64, SpaceCheck::Reserved)?;
    let node = tree::find(cx, name)?;
    if node.snapshot.is_some() {
        return Err(Error::invalid(name, "permissions are delegated on file systems and volumes"));
    }
    cx.sync.all_or_nothing(|| {
        for change in changes {
            let log = |event: &str, text: &str| cx.history(event, name, node.head, text);
            match change {
                Delegation::Allow { key, permissions } => {
                    let zap = zap_of(cx, node.dir, key)?;
                    for permission in permissions {
                        zap.update_u64(cx.tx(), permission.as_bytes(), 0)?;
                        log("permission update", &format!("{key} {permission}"))?;
                    }
                }
                Delegation::Remove { key, permissions } => {
                    let Some(zap) = find_zap(cx, node.dir, key)? else { continue };
                    for permission in permissions {
                        if zap.lookup(permission)?.is_some() {
                            zap.remove(cx.tx(), permission.as_bytes())?;
                        }
                        log("permission remove", &format!("{key} {permission}"))?;
                    }
                    if zap.count()? == 0 {
                        remove_key(cx, node.dir, key)?;
                    }
                }
                Delegation::RemoveAll { key } => {
                    remove_key(cx, node.dir, key)?;
                    if cx.dir(node.dir)?.phys.delegation_zap != 0 {
                        log("permission who remove", key)?;
                    }
                }
            }
        }
        Ok(())
    })
}
