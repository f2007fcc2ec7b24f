//! `zfs rollback`: returns a file system or volume to the state of one of its snapshots.

use super::dependents::Dependents;
use super::destroy::{destroy_all, require};
use crate::mounts::MountReport;
use crate::verbs::line::line;
use crate::verbs::lookup::not_applicable;
use crate::verbs::{Invocation, Kind, Refusal, cannot_open};
use dataset::name::is_hidden;
use dataset::{Dataset, write};
use errors::Error;

/// The most names listed when more recent snapshots exist.
const LISTED_MAX: usize = 32;

/// What to roll back to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RollbackRequest {
    pub snapshot: String,
    /// Destroy more recent snapshots and bookmarks (`-r`).
    pub recursive: bool,
    /// The same, and clones of these snapshots with everything below them (`-R`).
    pub clones: bool,
    /// Unmount file systems that are in use (`-f`).
    pub force: bool,
}

/// What lies between a file system and its snapshot.
struct Newer {
    /// The file system or volume.
    head: String,
    /// Snapshots, clones and what depends on these, in a possible order of destruction.
    datasets: Vec<String>,
    bookmarks: Vec<String>,
}

impl RollbackRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.recursive, "-r"), (self.clones, "-R"), (self.force, "-f")];
        line("zfs rollback", &flags, &[], [&*self.snapshot])
    }
}

/// Rolls back, after destroying what is more recent if the request allows it.
pub fn run(invocation: &Invocation<'_>, request: &RollbackRequest) -> Result<MountReport, Refusal> {
    let newer = newer(invocation, request)?;
    let record = invocation.record("rollback", &request.snapshot)?;
    let permitted = invocation.permit(&record, |caller, tree| caller.require(tree, &newer.head, &["rollback"]));
    permitted.map_err(|reason| reason.refuse(&format!("cannot rollback '{}'", newer.head)))?;
    require(invocation, &record, &newer.datasets)?;
    require(invocation, &record, &newer.bookmarks)?;
    if !newer.datasets.is_empty() {
        destroy_all(invocation, &record, &newer.datasets)?;
    }
    let mounts = invocation.mounts(&record);
    let unmounted = match &mounts {
        Some(mounts) => mounts.unmount_briefly(&newer.head, request.force)?,
        None => Vec::new(),
    };
    let result = invocation.change(&record, |pool| {
        for mark in &newer.bookmarks {
            write::destroy_bookmark(&pool.live, mark)?;
        }
        pool.close_dataset(&newer.head)?;
        Ok(write::rollback(&pool.live, &request.snapshot)?)
    });
    let report = match mounts {
        Some(mounts) => mounts.mount_again(&unmounted.into_iter().map(|m| m.dataset).collect::<Vec<_>>()),
        None => MountReport::default(),
    };
    match result {
        Ok(()) => Ok(report),
        Err(reason) => Err(reason.refuse(&format!("cannot rollback '{}'", newer.head)).after(report.lines)),
    }
}

fn newer(invocation: &Invocation<'_>, request: &RollbackRequest) -> Result<Newer, Refusal> {
    let name = &request.snapshot;
    let found = invocation.entry(name)?;
    let Some(target) = found.entry.dataset().filter(|d| d.is_snapshot()) else { return Err(not_applicable(name)) };
    let broken = |e: Error| cannot_open(name, &e);
    let head = target.tree().head(target.dir()).map_err(broken)?;
    let since = target.phys().creation_txg;
    let is_newer = |s: &Dataset| s.phys().creation_txg > since && !s.snapshot_name().is_some_and(is_hidden);
    let snapshots: Vec<Dataset> = head.snapshots().map_err(broken)?.into_iter().filter(is_newer).collect();
    let marks = head.bookmarks().map_err(broken)?;
    let bookmarks: Vec<String> =
        marks.iter().filter(|m| m.phys().creation_txg > since).map(|m| m.name().to_owned()).collect();
    let names: Vec<&str> = snapshots.iter().map(Dataset::name).chain(bookmarks.iter().map(String::as_str)).collect();
    let conflict = |why: &str| Err(Refusal::new(Kind::Conflict, format!("cannot rollback to '{name}': {why}")));
    if !request.recursive && !request.clones && !names.is_empty() {
        let mut listed = names[..names.len().min(LISTED_MAX)].join("\n");
        if names.len() >= LISTED_MAX {
            listed += &format!("\nOutput limited to {LISTED_MAX} snapshots/bookmarks");
        }
        return conflict(&format!(
            "more recent snapshots or bookmarks exist\nuse '-r' to force deletion of the following snapshots and \
             bookmarks:\n{listed}"
        ));
    }
    let mut dependents = Dependents::default();
    for snapshot in &snapshots {
        dependents.of_snapshot(snapshot).map_err(broken)?;
    }
    if !request.clones && !dependents.names.is_empty() {
        return conflict(&format!(
            "clones of previous snapshots exist\nuse '-R' to force deletion of the following clones and \
             dependents:\n{}",
            dependents.names.join("\n")
        ));
    }
    dependents.check_order()?;
    snapshots.iter().for_each(|snapshot| dependents.push(snapshot));
    Ok(Newer { head: head.name().to_owned(), datasets: dependents.names, bookmarks })
}
