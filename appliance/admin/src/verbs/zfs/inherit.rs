//! `zfs inherit`: removes the own values of a property, so that datasets inherit it or revert to a
//! received value.

use crate::mounts::MountReport;
use crate::verbs::line::line;
use crate::verbs::lookup::Lookup;
use crate::verbs::tally::Tally;
use crate::verbs::{Found, Invocation, Kind, Reason, Refusal, pool_of};
use dataset::property::{Kinds, PropertyDef, find, full_name, is_user_property};
use dataset::write;
use dataset::{DatasetKind, Entry, ListOptions};
use std::collections::BTreeSet;

/// A property to inherit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InheritRequest {
    pub property: String,
    pub datasets: Vec<String>,
    /// All datasets below too (`-r`).
    pub recursive: bool,
    /// Revert to the received value (`-S`).
    pub received: bool,
}

impl InheritRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let operands: Vec<&str> = std::iter::once(&self.property).chain(&self.datasets).map(String::as_str).collect();
        line("zfs inherit", &[(self.recursive, "-r"), (self.received, "-S")], &[], operands)
    }

    /// Refuses properties that nothing inherits.
    fn check(&self) -> Result<(), Refusal> {
        let Self { property: name, received, .. } = self;
        let invalid = |message: String| Err(Refusal::new(Kind::Invalid, message));
        match find(name) {
            Some(def) if def.readonly() => return invalid(format!("{name} property is read-only")),
            Some(def) if !def.inheritable() && !received => {
                let mut text = format!("'{name}' property cannot be inherited");
                if matches!(def.name, "quota" | "reservation" | "refquota" | "refreservation") {
                    text += &format!(
                        "\nuse 'zfs set {name}=none' to clear\nuse 'zfs inherit -S {name}' to revert to received value"
                    );
                }
                return invalid(text);
            }
            None if !is_user_property(name) => {
                return Err(Refusal::usage(Kind::Invalid, format!("invalid property '{name}'")));
            }
            _ => {}
        }
        match *received && matches!(full_name(name), "volsize" | "version") {
            true => invalid(format!("'{name}' property cannot be reverted to a received value")),
            false => Ok(()),
        }
    }
}

/// Removes the values, pool by pool.
pub fn run(invocation: &Invocation<'_>, request: &InheritRequest) -> Result<MountReport, Refusal> {
    request.check()?;
    let mut tally = Tally::default();
    let depth = if request.recursive { None } else { Some(0) };
    let options = ListOptions { bookmarks: false, depth, ..ListOptions::all() };
    let found = match Lookup::new(invocation).list(&request.datasets, &options, &mut tally) {
        Ok(found) => found,
        Err(refusal) => return Err(tally.abort(refusal)),
    };
    for pool in request.datasets.iter().map(|d| pool_of(d)).collect::<BTreeSet<_>>() {
        let all: Vec<&Found> = found.iter().filter(|f| pool_of(f.entry.name()) == pool).collect();
        if let Err(refusal) = in_pool(invocation, request, &all, &mut tally) {
            return Err(tally.abort(refusal));
        }
    }
    tally.finish()
}

/// Removes the values of the datasets of one pool. An error ends the verb.
fn in_pool(
    invocation: &Invocation<'_>,
    request: &InheritRequest,
    all: &[&Found],
    tally: &mut Tally,
) -> Result<(), Refusal> {
    let InheritRequest { property: name, datasets, recursive, received } = request;
    let Some(first) = all.first() else { return Ok(()) };
    let cannot = |of: &str| format!("cannot inherit {name} for '{of}'");
    let record = &first.pool.record;
    for f in all.iter().filter(|f| find(name).is_none_or(|def| applies(def, &f.entry))) {
        let of = f.entry.name();
        let permitted = invocation.permit(record, |caller, tree| caller.require_property(tree, of, name));
        permitted.map_err(|reason| reason.refuse(&cannot(of)))?;
    }
    let mut remounts = Vec::new();
    for root in all.iter().map(|f| f.entry.name()).filter(|n| !n.contains('@') && datasets.iter().any(|d| d == n)) {
        let Some(mounts) = invocation.mounts(record) else { continue };
        remounts.extend(mounts.prepare(root, &[(full_name(name), "")])?);
    }
    let (applying, others): (Vec<&Found>, Vec<&Found>) =
        all.iter().copied().partition(|f| find(name).is_none_or(|def| applies(def, &f.entry)));
    let mut refusals = Vec::new();
    if !recursive {
        let reason = || Reason::new(Kind::Invalid, "property doesn't apply to datasets of this type");
        refusals.extend(others.iter().map(|f| reason().refuse(&cannot(f.entry.name()))));
    }
    let mut opened = false;
    let changed = match applying.is_empty() {
        true => Ok(()),
        false => invocation.change(record, |pool| {
            opened = true;
            for f in applying.iter().filter(|f| has_place(&f.entry)) {
                if let Err(error) = write::inherit(&pool.live, f.entry.name(), name, *received) {
                    refusals.push(Reason::from(error).refuse(&cannot(f.entry.name())));
                }
            }
            // As with OpenZFS, what was not done as a whole is not in the history.
            match refusals.is_empty() {
                true => Ok(()),
                false => Err(Reason::new(Kind::Failed, "not inherited by all")),
            }
        }),
    };
    remounts.into_iter().for_each(|remount| tally.report(remount.settle(changed.is_ok())));
    if let Err(reason) = changed
        && (refusals.is_empty() || !opened)
    {
        return Err(reason.refuse(&cannot(first.entry.name())));
    }
    refusals.into_iter().for_each(|refusal| tally.refuse(refusal));
    Ok(())
}

/// Whether a property applies to a dataset of that kind. A command on several datasets skips the
/// others.
fn applies(def: &PropertyDef, entry: &Entry) -> bool {
    def.kinds.intersects(match entry.kind() {
        Ok(DatasetKind::Volume) => Kinds::VOLUME,
        Ok(DatasetKind::Snapshot) => Kinds::SNAPSHOT,
        _ => Kinds::FILESYSTEM,
    })
}

/// Whether there is anything that a property could be removed from: most snapshots have no place
/// for properties, and each change takes a txg.
fn has_place(entry: &Entry) -> bool {
    entry.dataset().is_some_and(|d| !d.is_snapshot() || d.phys().props_zap != 0)
}
