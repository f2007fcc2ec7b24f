//! `zfs rename`: gives a file system, volume or snapshot another name, or another parent.

use super::create::create_parents;
use crate::kept_keys;
use crate::mounts::MountReport;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal, pool_of};
use dataset::{ListOptions, write};
use errors::{Error, Refusal as Denied};

/// Operands and options of `zfs rename`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenameRequest {
    pub from: String,
    /// The new name. That of a snapshot may omit the dataset, and the `@` with it.
    pub to: String,
    /// Create missing parents of the new name (`-p`).
    pub parents: bool,
    /// Of a snapshot: also those of the same name below (`-r`).
    pub recursive: bool,
    /// `-f`, which changes nothing: as with OpenZFS on Linux, file systems in use stay mounted.
    pub force: bool,
    /// Leave file systems mounted where they are (`-u`).
    pub keep_mounts: bool,
}

impl RenameRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.parents, "-p"), (self.recursive, "-r"), (self.keep_mounts, "-u"), (self.force, "-f")];
        line("zfs rename", &flags, &[], [&*self.from, &*self.to])
    }
}

/// Renames within a pool. The report says which file systems could not be mounted again.
pub fn run(invocation: &Invocation<'_>, request: &RenameRequest) -> Result<MountReport, Refusal> {
    let RenameRequest { from, to, .. } = request;
    if request.recursive && request.parents {
        return Err(Refusal::usage(Kind::Invalid, "-p and -r options are mutually exclusive"));
    }
    if request.recursive && !from.contains('@') {
        return Err(Refusal::usage(Kind::Invalid, "source dataset for recursive rename must be a snapshot"));
    }
    invocation.entry(from).map(drop)?;
    if from.contains('#') {
        let message = format!("cannot rename '{from}': operation not applicable to datasets of this type");
        return Err(Refusal::new(Kind::Invalid, message));
    }
    if let Some((of, _)) = from.split_once('@') {
        return snapshot(invocation, request, of).map(|()| MountReport::default());
    }
    if pool_of(from) != pool_of(to) {
        let reason = Reason::new(Kind::Invalid, "datasets must be within same pool");
        return Err(reason.refuse(&format!("cannot rename to '{to}'")));
    }
    head(invocation, request)
}

fn head(invocation: &Invocation<'_>, request: &RenameRequest) -> Result<MountReport, Refusal> {
    let RenameRequest { from, to, .. } = request;
    let record = invocation.record("rename", from)?;
    let caller = &invocation.caller;
    let permitted = invocation.permit(&record, |caller, tree| {
        caller.require(tree, from, &["rename", "mount"])?;
        caller.require_to_create(tree, to, request.parents, [])
    });
    permitted.map_err(|reason| reason.refuse(&format!("cannot rename '{from}'")))?;
    let mounts = invocation.mounts(&record);
    if let (Some(mounts), true) = (&mounts, !caller.is_owner() && request.keep_mounts) {
        // What stays mounted would be shown under a name that its mount point does not belong to.
        mounts.unmount_below(from, false)?;
    }
    let unmounted = match &mounts {
        Some(mounts) if !request.keep_mounts => mounts.unmount_placed(from, false)?,
        _ => Vec::new(),
    };
    let mut names: Vec<String> = unmounted.into_iter().map(|m| m.dataset).collect();
    let mut lacks_parent = false;
    let result = invocation.change(&record, |pool| {
        let renamed = match request.parents {
            true => create_parents(invocation, pool, to),
            false => Ok(()),
        };
        renamed.and_then(|()| write::rename_for(&pool.live, caller.other(), from, to)).map_err(|error| {
            lacks_parent = matches!(&error, Error::NotFound { what, .. } if what == "the parent dataset");
            Reason::from(error)
        })
    });
    if result.is_ok() {
        kept_keys::rename(&invocation.state, &record, from, to);
        names.iter_mut().for_each(|name| *name = format!("{to}{}", &name[from.len()..]));
        if let Some(mounts) = &mounts {
            mounts.renamed(from, to);
        }
    }
    let report = mounts.map(|mounts| mounts.mount_again(&names)).unwrap_or_default();
    match result {
        Ok(()) => Ok(report),
        Err(reason) => {
            let cannot = if lacks_parent { format!("cannot create '{to}'") } else { format!("cannot rename '{from}'") };
            Err(reason.refuse(&cannot).after(report.lines))
        }
    }
}

/// Renames a snapshot of the dataset `of`.
fn snapshot(invocation: &Invocation<'_>, request: &RenameRequest, of: &str) -> Result<(), Refusal> {
    let RenameRequest { from, to, recursive, .. } = request;
    let to = match to.split_once('@') {
        None => format!("{of}@{to}"),
        Some(("", short)) => format!("{of}@{short}"),
        Some((other, _)) if other != of => {
            let reason = Reason::new(Kind::Invalid, "snapshots must be part of same dataset");
            return Err(reason.refuse(&format!("cannot rename to '{to}'")));
        }
        Some(_) => to.clone(),
    };
    if *from == to {
        return Ok(());
    }
    let record = invocation.record("rename", from)?;
    let permitted = invocation.permit(&record, |caller, tree| {
        caller.require(tree, from, &["rename", "mount"])?;
        caller.require(tree, of, &["create", "mount"])?;
        let below = if *recursive { tree.list(&[of], &ListOptions::heads())?.entries } else { Vec::new() };
        let short = &from[of.len()..];
        for head in &below {
            let snapshot = format!("{}{short}", head.name());
            if tree.dataset(&snapshot).is_ok() {
                caller.require(tree, &snapshot, &["rename", "mount"])?;
                caller.require(tree, head.name(), &["create", "mount"])?;
            }
        }
        Ok(())
    });
    permitted.map_err(|reason| reason.refuse(&format!("cannot rename '{from}'")))?;
    let each = |name: &str, error: &Error| {
        let reason = match error {
            Error::Refused { why: Denied::Exists, .. } if *recursive => {
                Reason::new(Kind::Conflict, "a child dataset already has a snapshot with the new name")
            }
            error => error.into(),
        };
        reason.refuse(&format!("cannot rename '{name}'"))
    };
    invocation
        .change_each(&record, "cannot rename", &each, |pool| write::rename_snapshot(&pool.live, from, &to, *recursive))
}
