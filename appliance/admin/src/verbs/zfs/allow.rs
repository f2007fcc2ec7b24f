//! `zfs allow` and `zfs unallow`: delegate permissions to users, groups and everyone.
//!
//! Facts: `dsl_deleg_can_allow`, `dsl_deleg_can_unallow` in module/zfs/dsl_deleg.c,
//! `construct_fsacl_list` in cmd/zfs/zfs_main.c, `zfs_set_fsacl` in lib/libzfs/libzfs_dataset.c.

use crate::verbs::line::line;
use crate::verbs::{Caller, Invocation, Kind, Reason, Refusal, cannot_open, heads};
use dataset::delegation::{Permissions, is_set, permission};
use dataset::write::{self, Delegation};
use dataset::{Datasets, Dir};
use errors::Error;
use std::sync::Arc;

/// To whom permissions are delegated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grantee {
    User(u32),
    Group(u32),
    Everyone,
    /// The creator of a dataset below (`-c`).
    Creator,
    /// All who have this set, with its `@` (`-s`).
    Set(String),
}

/// Permissions to delegate, or to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRequest {
    pub dataset: String,
    pub grantees: Vec<Grantee>,
    /// Permissions, properties and sets. Empty: all, to take back.
    pub permissions: Vec<String>,
    /// On the dataset itself (`-l`).
    pub local: bool,
    /// On everything below it (`-d`).
    pub descendants: bool,
    /// Take back, instead of delegating.
    pub removes: bool,
    /// Take back on all datasets below too (`-r`).
    pub recursive: bool,
}

impl AllowRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let verb = if self.removes { "zfs unallow" } else { "zfs allow" };
        let first = self.grantees.first();
        let is_to_some = !matches!(first, Some(Grantee::Creator | Grantee::Set(_)));
        let flags = [
            (self.recursive, "-r"),
            (is_to_some && self.local && !self.descendants, "-l"),
            (is_to_some && self.descendants && !self.local, "-d"),
            (matches!(first, Some(Grantee::User(_))), "-u"),
            (matches!(first, Some(Grantee::Group(_))), "-g"),
            (matches!(first, Some(Grantee::Everyone)), "-e"),
            (matches!(first, Some(Grantee::Creator)), "-c"),
            (matches!(first, Some(Grantee::Set(_))), "-s"),
        ];
        let grantees: Vec<String> = self.grantees.iter().map(Grantee::id).filter(|id| !id.is_empty()).collect();
        let (grantees, permissions) = (grantees.join(","), self.permissions.join(","));
        let operands = [grantees.as_str(), &permissions, &self.dataset].into_iter().filter(|text| !text.is_empty());
        line(verb, &flags, &[], operands)
    }

    /// The changes of the entries of one dataset. Entries of permissions and those of sets differ
    /// in the case of the first letter of their keys.
    fn changes(&self) -> Result<Vec<Delegation>, Reason> {
        let mut changes = Vec::new();
        let unknown = |name: &str| Reason::new(Kind::Invalid, format!("'{name}' is no permission"));
        let stored = |name: &String| permission(name).map(str::to_owned).ok_or_else(|| unknown(name));
        let all = self.permissions.iter().map(stored).collect::<Result<Vec<_>, _>>()?;
        let (sets, single): (Vec<String>, Vec<String>) = all.into_iter().partition(|name| name.starts_with('@'));
        for grantee in &self.grantees {
            let (letter, id) = (grantee.letter(), grantee.id());
            let places: Vec<char> = match grantee {
                Grantee::Creator | Grantee::Set(_) => vec!['-'],
                _ => [(self.local, 'l'), (self.descendants, 'd')].into_iter().filter(|p| p.0).map(|p| p.1).collect(),
            };
            for place in places {
                for (letter, permissions) in [(letter, &single), (letter.to_ascii_uppercase(), &sets)] {
                    let key = format!("{letter}{place}${id}");
                    let permissions = permissions.clone();
                    if self.permissions.is_empty() {
                        changes.push(Delegation::RemoveAll { key });
                    } else if !permissions.is_empty() {
                        changes.push(match self.removes {
                            true => Delegation::Remove { key, permissions },
                            false => Delegation::Allow { key, permissions },
                        });
                    }
                }
            }
        }
        Ok(changes)
    }

    /// Whether the caller may do this on dataset `name`. Who is not the owner may hand on what was
    /// delegated to them, except for the permission to do so, and take back what they have.
    fn check(&self, caller: &Caller, tree: &Arc<Datasets>, name: &str) -> Result<(), Reason> {
        let Some(user) = caller.other() else { return Ok(()) };
        caller.require(tree, name, &["allow"])?;
        let denied = || Reason::new(Kind::Forbidden, "permission denied");
        if self.removes {
            let is_own = |grantee: &Grantee| matches!(grantee, Grantee::User(uid) if *uid == user.uid);
            return if self.grantees.iter().all(is_own) { Ok(()) } else { Err(denied()) };
        }
        for name_of in &self.permissions {
            let permission = permission(name_of).filter(|p| *p != "allow").ok_or_else(denied)?;
            caller.require(tree, name, &[permission])?;
        }
        Ok(())
    }
}

impl Grantee {
    fn letter(&self) -> char {
        match self {
            Self::User(_) => 'u',
            Self::Group(_) => 'g',
            Self::Everyone => 'e',
            Self::Creator => 'c',
            Self::Set(_) => 's',
        }
    }

    fn id(&self) -> String {
        match self {
            Self::User(id) | Self::Group(id) => id.to_string(),
            Self::Set(name) => name.clone(),
            Self::Everyone | Self::Creator => String::new(),
        }
    }
}

/// Delegates permissions, or takes them back.
pub fn run(invocation: &Invocation<'_>, request: &AllowRequest) -> Result<(), Refusal> {
    let name = &request.dataset;
    let cannot = |name: &str| format!("cannot set permissions on '{name}'");
    let found = invocation.entry(name)?;
    let Some(_) = found.entry.dataset().filter(|dataset| !dataset.is_snapshot()) else {
        let message = format!("cannot open '{name}': operation not applicable to datasets of this type");
        return Err(Refusal::new(Kind::Invalid, message));
    };
    let is_bad_set = |g: &Grantee| matches!(g, Grantee::Set(name) if !is_set(name));
    let changes = match request.grantees.iter().any(is_bad_set) {
        true => Err(Reason::new(Kind::Invalid, "invalid name of a permission set")),
        false => request.changes(),
    };
    let changes = changes.map_err(|reason| reason.refuse(&cannot(name)))?;
    let all = heads(&found.pool.datasets, name, request.recursive && request.removes)?;
    let mut names: Vec<String> = Vec::new();
    for head in &all {
        let checked = invocation.permit(&found.pool.record, |caller, tree| request.check(caller, tree, head.name()));
        checked.map_err(|reason| reason.refuse(&cannot(head.name())))?;
        // Only the dataset itself is changed if there is nothing to take back.
        if head.name() == name || head.dir().phys().delegation_zap != 0 {
            names.push(head.name().to_owned());
        }
    }
    let record = found.pool.record.clone();
    drop((all, found));
    let mut failed = name.clone();
    let changed = invocation.change(&record, |pool| {
        for name in &names {
            failed.clone_from(name);
            write::delegate(&pool.live, name, &changes)?;
        }
        Ok(())
    });
    changed.map_err(|reason| reason.refuse(&cannot(&failed)))
}

/// What is delegated on a dataset: its own entries, then those of the datasets above it. Datasets
/// without entries are left out.
pub fn delegations(invocation: &Invocation<'_>, name: &str) -> Result<Vec<(String, Permissions)>, Refusal> {
    let found = invocation.entry(name)?;
    let Some(dataset) = found.entry.dataset().filter(|dataset| !dataset.is_snapshot()) else {
        let message = format!("cannot open '{name}': operation not applicable to datasets of this type");
        return Err(Refusal::new(Kind::Invalid, message));
    };
    let broken = |e: Error| cannot_open(name, &e);
    let mut all = Vec::new();
    let dirs = std::iter::successors(Some(dataset.dir()), |dir: &&Arc<Dir>| dir.parent());
    for dir in dirs {
        let own = dataset.tree().head(dir).and_then(|head| head.delegations()).map_err(broken)?;
        if !own.is_empty() {
            all.push((dir.name().to_owned(), own));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(grantees: Vec<Grantee>, permissions: &[&str]) -> AllowRequest {
        let permissions = permissions.iter().map(|p| (*p).to_owned()).collect();
        let (local, descendants, dataset) = (true, true, "tank/a".to_owned());
        AllowRequest { dataset, grantees, permissions, local, descendants, removes: false, recursive: false }
    }

    #[test]
    fn permissions_and_sets_are_under_different_keys() {
        let changes = request(vec![Grantee::User(7)], &["create", "@set", "compress"]).changes().expect("valid");
        let allow = |key: &str, names: &[&str]| Delegation::Allow {
            key: key.to_owned(),
            permissions: names.iter().map(|n| (*n).to_owned()).collect(),
        };
        let expected = [
            allow("ul$7", &["create", "compression"]),
            allow("Ul$7", &["@set"]),
            allow("ud$7", &["create", "compression"]),
            allow("Ud$7", &["@set"]),
        ];
        assert_eq!(changes, expected);
        let of_set = request(vec![Grantee::Set("@a".to_owned())], &["send"]).changes().expect("valid");
        assert_eq!(of_set, [allow("s-$@a", &["send"])]);
        let removal = AllowRequest { removes: true, local: false, ..request(vec![Grantee::Everyone], &[]) };
        let all = |key: &str| Delegation::RemoveAll { key: key.to_owned() };
        assert_eq!(removal.changes().expect("valid"), [all("ed$"), all("Ed$")]);
        assert!(request(vec![Grantee::Creator], &["scrub"]).changes().is_err());
    }

    #[test]
    fn requests_can_be_typed() {
        let some = request(vec![Grantee::User(1), Grantee::User(2)], &["create", "mount"]);
        assert_eq!(some.command_line(), "zfs allow -u 1,2 create,mount tank/a");
        let set = AllowRequest { removes: true, ..request(vec![Grantee::Set("@s".to_owned())], &[]) };
        assert_eq!(set.command_line(), "zfs unallow -s @s tank/a");
    }
}
