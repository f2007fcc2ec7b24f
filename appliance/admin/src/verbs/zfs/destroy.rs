//! `zfs destroy`: destroys file systems and volumes with their dependents, snapshots and ranges of
//! snapshots, and bookmarks.
//!
//! [`plan`] finds out what would be destroyed and changes nothing; [`DestroyPlan::run`] does it.
//!
//! Invariants:
//!   * what depends on a dataset is destroyed before it; the request has to allow it
//!   * file systems are unmounted first; if anything is not destroyed, they are mounted again

use super::dependents::Dependents;
use crate::kept_keys;
use crate::mounts::Mounted;
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::lookup::not_applicable;
use crate::verbs::{Invocation, Kind, Reason, Refusal, cannot_open, heads, pool_of};
use crate::write::WritablePool;
use dataset::name::is_hidden;
use dataset::write::{self, Failures};
use dataset::{Dataset, DatasetKind};
use errors::{Error, Refusal as Denied};
use std::collections::HashMap;
use std::path::PathBuf;

/// Operand and options of `zfs destroy`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestroyRequest {
    /// A file system or volume, snapshots of one (`pool/a@b,c,d%e`), or a bookmark.
    pub name: String,
    /// With everything below it (`-r`).
    pub recursive: bool,
    /// With everything below it, and clones of its snapshots, wherever they are (`-R`).
    pub clones: bool,
    /// Snapshots that are held or cloned: later, when nothing needs them any more (`-d`).
    pub deferred: bool,
    /// `-f`, which changes nothing: as with OpenZFS on Linux, file systems in use stay mounted.
    pub force: bool,
}

/// What a plan reports.
pub trait Preview {
    /// The name of something that will be destroyed, in the order that OpenZFS prints. Names may
    /// come before a refusal.
    fn name(&mut self, name: &str);
    /// Whether to find out how much space snapshots give back, which takes time.
    fn wants_space(&self) -> bool;
}

/// A preview that is not shown.
pub struct Unseen;

impl Preview for Unseen {
    fn name(&mut self, _: &str) {}

    fn wants_space(&self) -> bool {
        false
    }
}

/// A request that can be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestroyPlan {
    request: DestroyRequest,
    target: Target,
    /// Bytes that destroying the snapshots frees, if the preview requested it.
    pub reclaimed_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    /// Datasets and their snapshots, in this order.
    Heads(Vec<String>),
    /// Snapshots, after the clones of them and what depends on those.
    Snapshots {
        clones: Vec<String>,
        names: Vec<String>,
    },
    Bookmark,
}

impl DestroyRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.recursive, "-r"), (self.clones, "-R"), (self.deferred, "-d"), (self.force, "-f")];
        line("zfs destroy", &flags, &[], [&*self.name])
    }

    fn is_recursive(&self) -> bool {
        self.recursive || self.clones
    }
}

/// Finds out what a request destroys, and whether it can.
pub fn plan(
    invocation: &Invocation<'_>,
    request: &DestroyRequest,
    preview: &mut dyn Preview,
) -> Result<DestroyPlan, Refusal> {
    let name = &request.name;
    let (target, reclaimed_bytes) = match name.find(['@', '#']) {
        Some(at) if name[at..].starts_with('@') => {
            plan_snapshots(invocation, request, preview, (&name[..at], &name[at + 1..]))?
        }
        Some(_) => {
            check_bookmark(invocation, request)?;
            preview.name(name);
            (Target::Bookmark, None)
        }
        None => {
            let names = plan_heads(invocation, request)?;
            names.iter().for_each(|name| preview.name(name));
            (Target::Heads(names), None)
        }
    };
    Ok(DestroyPlan { request: request.clone(), target, reclaimed_bytes })
}

fn plan_heads(invocation: &Invocation<'_>, request: &DestroyRequest) -> Result<Vec<String>, Refusal> {
    let name = &request.name;
    let cannot = format!("cannot destroy '{name}'");
    let found = invocation.entry(name)?;
    let Some(dataset) = found.entry.dataset().filter(|_| !request.deferred) else {
        return Err(not_applicable(name));
    };
    let is_root = !name.contains('/');
    if is_root && !request.is_recursive() {
        return Err(Refusal::new(
            Kind::Invalid,
            format!(
                "{cannot}: operation does not apply to pools\nuse 'zfs destroy -r {name}' to destroy all datasets in \
                 the pool\nuse 'zpool destroy {name}' to destroy the pool itself"
            ),
        ));
    }
    let mut dependents = Dependents::default();
    dependents.of_head(dataset).map_err(|e| Reason::from(e).refuse(&cannot))?;
    let order = dependents.check_order();
    let mut all = dependents.names;
    let is_below = |n: &str| n.strip_prefix(&**name).is_some_and(|rest| rest.starts_with(['/', '@']));
    let (reported, what, option): (Vec<&str>, _, _) = match (request.is_recursive(), request.clones) {
        (_, true) => (Vec::new(), "", ""),
        (true, _) => (all.iter().map(String::as_str).filter(|n| !is_below(n)).collect(), "dependent clones", "-R"),
        _ => (all.iter().map(String::as_str).filter(|n| is_below(n)).collect(), "children", "-r"),
    };
    if !reported.is_empty() {
        let kind = if found.entry.kind().ok() == Some(DatasetKind::Volume) { "volume" } else { "filesystem" };
        return Err(Refusal::new(
            Kind::Conflict,
            format!(
                "{cannot}: {kind} has {what}\nuse '{option}' to destroy the following datasets:\n{}",
                reported.join("\n")
            ),
        ));
    }
    order?;
    if !is_root {
        all.push(name.clone());
    }
    Ok(all)
}

fn plan_snapshots(
    invocation: &Invocation<'_>,
    request: &DestroyRequest,
    preview: &mut dyn Preview,
    (of, spec): (&str, &str),
) -> Result<(Target, Option<u64>), Refusal> {
    let found = invocation.entry(of)?;
    let broken = |e: Error| cannot_open(of, &e);
    let (mut names, mut clones, mut bytes) = (Vec::new(), Dependents::default(), None);
    for head in heads(&found.pool.datasets, of, request.is_recursive())? {
        let selected = selected(&head, spec).map_err(broken)?;
        for snapshot in &selected {
            let before = clones.names.len();
            clones.of_snapshot(snapshot).map_err(broken)?;
            if !request.clones && !request.deferred && clones.names.len() > before {
                return Err(Refusal::new(
                    Kind::Conflict,
                    format!(
                        "cannot destroy '{}': snapshot has dependent clones\nuse '-R' to destroy the following \
                         datasets:\n{}",
                        snapshot.name(),
                        clones.names[before..].join("\n")
                    ),
                ));
            }
        }
        let mut sorted: Vec<&Dataset> = selected.iter().collect();
        sorted.sort_by_key(|s| s.phys().creation_txg);
        sorted.iter().for_each(|s| preview.name(s.name()));
        if preview.wants_space() {
            *bytes.get_or_insert(0) += reclaimed(&head, &selected).map_err(broken)?;
        }
        names.extend(selected.iter().map(|s| s.name().to_owned()));
    }
    if request.clones {
        clones.check_order()?;
    }
    if names.is_empty() {
        let message = "could not find any snapshots to destroy; check snapshot names.";
        return Err(Refusal::new(Kind::NotFound, message));
    }
    let clones = if request.clones { clones.names } else { Vec::new() };
    // The list may include snapshots of clones.
    names.retain(|name| !clones.contains(name));
    Ok((Target::Snapshots { clones, names }, bytes))
}

/// The snapshots of `head` that a list of names and ranges (`a,b%c,%d`) selects, the oldest first
/// within a range.
fn selected(head: &Dataset, spec: &str) -> Result<Vec<Dataset>, Error> {
    let all: Vec<Dataset> =
        head.snapshots()?.into_iter().filter(|s| !s.snapshot_name().is_some_and(is_hidden)).collect();
    let at = |short: &str| all.iter().position(|s| s.snapshot_name() == Some(short));
    let mut found: Vec<Dataset> = Vec::new();
    for part in spec.split(',') {
        let range = match part.split_once('%') {
            None => at(part).map(|at| at..at + 1),
            Some((first, last)) => {
                let first = if first.is_empty() { Some(0) } else { at(first) };
                let last = if last.is_empty() { all.len().checked_sub(1) } else { at(last) };
                first.zip(last).filter(|(first, last)| first <= last).map(|(first, last)| first..last + 1)
            }
        };
        for snapshot in range.map(|range| &all[range]).unwrap_or_default() {
            if found.iter().all(|f| f.id() != snapshot.id()) {
                found.push(snapshot.clone());
            }
        }
    }
    Ok(found)
}

/// The bytes that destroying these snapshots of `head` frees. Each run of adjacent snapshots is
/// counted as one.
fn reclaimed(head: &Dataset, gone: &[Dataset]) -> Result<u64, Error> {
    let gone: HashMap<u64, &Dataset> = gone.iter().map(|d| (d.id(), d)).collect();
    let all = head.snapshots()?;
    let runs = all.chunk_by(|a, b| gone.contains_key(&a.id()) == gone.contains_key(&b.id()));
    let runs = runs.filter(|run| gone.contains_key(&run[0].id()));
    runs.map(|run| run[0].would_free_up_to(&run[run.len() - 1])).sum()
}

fn check_bookmark(invocation: &Invocation<'_>, request: &DestroyRequest) -> Result<(), Refusal> {
    let name = &request.name;
    for (given, what) in [(request.deferred, "defer destroy"), (request.is_recursive(), "recursive")] {
        if given {
            let message = format!("{what} is not supported with bookmark");
            return Err(Refusal::new(Kind::Invalid, message).with_code(255));
        }
    }
    let pool = invocation.pool(pool_of(name))?;
    match pool.is_some_and(|pool| pool.datasets.entry(name).is_ok()) {
        true => Ok(()),
        false => Err(Refusal::new(Kind::NotFound, format!("bookmark '{name}' does not exist."))),
    }
}

impl DestroyPlan {
    /// Destroys everything that the plan names.
    pub fn run(&self, invocation: &Invocation<'_>) -> Result<(), Refusal> {
        // The pool may have been exported, or imported otherwise, since the plan was made.
        let record = invocation.record("destroy", &self.request.name)?;
        match &self.target {
            Target::Heads(names) => require(invocation, &record, names)?,
            Target::Snapshots { clones, names } => {
                require(invocation, &record, clones)?;
                require(invocation, &record, names)?;
            }
            Target::Bookmark => require(invocation, &record, std::slice::from_ref(&self.request.name))?,
        }
        match &self.target {
            Target::Heads(names) => destroy_all(invocation, &record, names),
            Target::Snapshots { clones, names } => {
                if !clones.is_empty() {
                    destroy_all(invocation, &record, clones)?;
                }
                let deferred = self.request.deferred;
                let run = |pool: &WritablePool| destroy_snapshots(pool, names, deferred);
                invocation.change_each(&record, WHOLE, &complaint, run)
            }
            Target::Bookmark => {
                let name = &self.request.name;
                let each = |_: &str, error: &Error| Reason::from(error).refuse("cannot destroy bookmark");
                invocation.change_each(&record, "cannot destroy bookmark", &each, |pool| {
                    write::destroy_bookmark(&pool.live, name).map_err(|e| vec![(name.clone(), e)])
                })
            }
        }
    }
}

/// Requires the caller's permission to destroy all of these datasets, snapshots and bookmarks.
pub(super) fn require(invocation: &Invocation<'_>, record: &Imported, names: &[String]) -> Result<(), Refusal> {
    let mut cannot = String::new();
    let permitted = invocation.permit(record, |caller, tree| {
        names.iter().try_for_each(|name| {
            cannot = match name {
                name if name.contains('#') => "cannot destroy bookmark".to_owned(),
                name if name.contains('@') => WHOLE.to_owned(),
                name => format!("cannot destroy '{name}'"),
            };
            let permissions: &[&str] = if name.contains('#') { &["destroy"] } else { &["mount", "destroy"] };
            caller.require(tree, name, permissions)
        })
    });
    permitted.map_err(|reason| reason.refuse(&cannot))
}

/// OpenZFS's message for an error that concerns no single dataset begins with this.
const WHOLE: &str = "cannot destroy snapshots";

/// Why a dataset or snapshot cannot be destroyed.
fn complaint(name: &str, error: &Error) -> Refusal {
    if !name.contains('@') {
        return Reason::from(error).refuse(&format!("cannot destroy '{name}'"));
    }
    let reason = match error {
        Error::Refused { why: Denied::Exists, .. } => Reason::new(Kind::Conflict, "snapshot is cloned"),
        Error::Refused { why: Denied::Busy, .. } => {
            Reason::new(Kind::Conflict, format!("it's being held. Run 'zfs holds -r {name}' to see holders."))
        }
        error => error.into(),
    };
    reason.refuse(&format!("cannot destroy snapshot {name}"))
}

/// Unmounts datasets and destroys them and the snapshots, in this order.
pub fn destroy_all(invocation: &Invocation<'_>, record: &Imported, all: &[String]) -> Result<(), Refusal> {
    let heads: Vec<&String> = all.iter().filter(|n| !n.contains('@')).collect();
    let mounted = unmount(invocation, record, &heads)?;
    let destroyed = invocation.change_each(record, WHOLE, &complaint, |pool| {
        for part in all.chunk_by(|a, b| a.contains('@') && b.contains('@')) {
            if (invocation.is_gone)() {
                return Err(vec![(part[0].clone(), Error::invalid("", "cancelled"))]);
            }
            if part[0].contains('@') {
                destroy_snapshots(pool, part, false)?;
            } else {
                destroy_head(pool, &part[0]).map_err(|e| vec![(part[0].clone(), e)])?;
            }
        }
        Ok(())
    });
    let mounts = invocation.mounts(record);
    if let Err(refusal) = destroyed {
        if let Some(mounts) = mounts {
            mounts.mount_again(&mounted.names());
        }
        return Err(refusal);
    }
    if let Some(mounts) = mounts {
        mounts.forget(&mounted.all);
    }
    // Children first. One that is not empty stays, as with OpenZFS.
    for directory in mounted.directories.iter().rev() {
        let _ = std::fs::remove_dir(directory);
    }
    for name in heads {
        kept_keys::forget_below(&invocation.state, record, name);
    }
    Ok(())
}

/// What was mounted before datasets are destroyed.
#[derive(Default)]
struct WasMounted {
    all: Vec<Mounted>,
    /// Mount points to remove, parents first.
    directories: Vec<PathBuf>,
}

impl WasMounted {
    /// The datasets that were mounted according to their properties.
    fn names(&self) -> Vec<String> {
        self.all.iter().filter(|m| !m.by_hand).map(|m| m.dataset.clone()).collect()
    }
}

fn unmount(invocation: &Invocation<'_>, record: &Imported, heads: &[&String]) -> Result<WasMounted, Refusal> {
    let Some(mounts) = invocation.mounts(record) else { return Ok(WasMounted::default()) };
    let mut before = WasMounted::default();
    for name in heads {
        let below = mounts.below(name);
        let is_removed = |m: &&Mounted| !m.by_hand && mounts.is_placed_by_others(&m.dataset);
        before.directories.extend(below.iter().filter(is_removed).map(|m| m.place.clone()));
        before.all.extend(below);
        if let Err(error) = mounts.unmount_below(name, false) {
            let gone = before.names().into_iter().filter(|name| !mounts.is_mounted(name));
            mounts.mount_again(&gone.collect::<Vec<_>>());
            return Err(error.into());
        }
    }
    before.directories.sort_unstable();
    Ok(before)
}

fn destroy_head(pool: &WritablePool, name: &str) -> Result<(), Error> {
    let closed = pool.close_dataset(name);
    closed.map_err(|e| e.downcast::<Error>().unwrap_or_else(|e| Error::invalid(name, format!("{e:#}"))))?;
    write::destroy(&pool.live, name)
}

/// Destroys snapshots. Snapshots of volumes may be exported over the network, so each is first
/// checked for being in use.
fn destroy_snapshots(pool: &WritablePool, names: &[String], deferred: bool) -> Result<(), Failures> {
    for name in names.iter().filter(|_| !deferred) {
        match pool.check_unused(name) {
            Err(Error::NotFound { .. }) | Ok(()) => {}
            Err(error) => return Err(vec![(name.clone(), error)]),
        }
    }
    write::destroy_snapshots(&pool.live, names, deferred)
}
