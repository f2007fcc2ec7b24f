//! `zfs rollback`: returns a file system or volume to the state of one of its snapshots. `zfs
//! promote`: makes a clone independent of its origin.

use super::create::record;
use super::datasets::{Pools, cannot_open};
use super::destroy::{Dependents, destroy_all};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::zpool::writing::{change, command_line, why};
use dataset::name::is_hidden;
use dataset::{Dataset, write};

const OPTIONS: Options = Options { short: "rRf", long: &[] };
/// The most names listed when more recent snapshots exist.
const LISTED_MAX: usize = 32;

/// `zfs rollback`.
pub fn rollback(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing dataset argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let Some(found) = Pools::new(cx).entry(cx, &name)? else { return Ok(1) };
    let Some(target) = found.entry.dataset().filter(|d| d.is_snapshot()).cloned() else {
        return Err(Failure::failed(format!(
            "cannot open '{name}': operation not applicable to datasets of this type"
        )));
    };
    let broken = |e: dataset::Error| Failure::failed(cannot_open(&name, &e));
    let head = target.tree().head(target.dir()).map_err(broken)?;
    let of = head.name().to_owned();
    let since = target.phys().creation_txg;
    let newer: Vec<Dataset> =
        head.snapshots().map_err(broken)?.into_iter().filter(|s| s.phys().creation_txg > since).collect();
    let newer: Vec<Dataset> = newer.into_iter().filter(|s| !s.snapshot_name().is_some_and(is_hidden)).collect();
    let marks = head.bookmarks().map_err(broken)?;
    let marks: Vec<String> =
        marks.iter().filter(|m| m.phys().creation_txg > since).map(|m| m.name().to_owned()).collect();
    let names: Vec<String> = newer.iter().map(|s| s.name().to_owned()).chain(marks.iter().cloned()).collect();
    let recursive = parsed.has('r') || parsed.has('R');
    let cannot = format!("cannot rollback to '{name}'");
    if !recursive && !names.is_empty() {
        let mut listed = names[..names.len().min(LISTED_MAX)].join("\n");
        if names.len() >= LISTED_MAX {
            listed += &format!("\nOutput limited to {LISTED_MAX} snapshots/bookmarks");
        }
        return Err(Failure::failed(format!(
            "{cannot}: more recent snapshots or bookmarks exist\nuse '-r' to force deletion of the following \
             snapshots and bookmarks:\n{listed}"
        )));
    }
    let mut gone = Dependents::default();
    for snapshot in &newer {
        gone.of_snapshot(snapshot).map_err(broken)?;
    }
    if !parsed.has('R') && !gone.names.is_empty() {
        return Err(Failure::failed(format!(
            "{cannot}: clones of previous snapshots exist\nuse '-R' to force deletion of the following clones and \
             dependents:\n{}",
            gone.names.join("\n")
        )));
    }
    gone.check_order()?;
    newer.iter().for_each(|snapshot| gone.push(snapshot));
    drop((found, target, head, newer));

    let record = record(cx, "rollback", &name)?;
    if !gone.names.is_empty() {
        let code = destroy_all(cx, &command_line("zfs rollback", args), &record, &gone.names, parsed.has('f'))?;
        if code != 0 {
            return Ok(code);
        }
    }
    let owner = crate::mounts::owner(cx, record.guid);
    let unmounted = match &owner {
        Some(owner) => crate::mounts::unmount_placed(owner, &record, &of, parsed.has('f')).map_err(Failure::failed)?,
        None => Vec::new(),
    };
    let cannot = format!("cannot rollback '{of}'");
    let result = change(cx, &record, &cannot, &command_line("zfs rollback", args), |pool| {
        for mark in &marks {
            write::destroy_bookmark(&pool.live, mark)?;
        }
        pool.close_dataset(&of)?;
        Ok(write::rollback(&pool.live, &name)?)
    });
    let code = match owner {
        Some(owner) => crate::mounts::mount_again(cx, &owner, &record, &unmounted),
        None => 0,
    };
    result.map(|()| code)
}

/// Why a clone cannot be promoted, in OpenZFS's words.
fn conflict(error: &dataset::Error, origin: &str) -> String {
    match error {
        dataset::Error::Refused { why: dataset::Refusal::Exists, place } => {
            let short = place.split(['@', '#']).nth(1).unwrap_or_default();
            format!("conflicting snapshot '{short}' from parent '{origin}'")
        }
        error => why(error),
    }
}

/// `zfs promote`.
pub fn promote(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = Options { short: "", long: &[] }.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing clone filesystem argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let Some(found) = Pools::new(cx).entry(cx, &name)? else { return Ok(1) };
    let origin = found.entry.dataset().and_then(|d| d.origin().ok().flatten()).map(|d| d.name().to_owned());
    let root = found.entry.dataset().and_then(|d| d.encryption_root().ok().flatten()).map(|d| d.name().to_owned());
    drop(found);
    let record = record(cx, "promote", &name)?;
    let cannot = format!("cannot promote '{name}'");
    change(cx, &record, &cannot, &command_line("zfs promote", args), |pool| {
        let told = |e: dataset::Error| anyhow::anyhow!(conflict(&e, origin.as_deref().unwrap_or_default()));
        write::promote(&pool.live, &name).map_err(told)
    })?;
    // If the origin was the encryption root, the clone is the encryption root now.
    if let Some(root) = root.filter(|root| origin.as_ref().is_some_and(|o| o.split('@').next() == Some(root))) {
        super::keys::hand_on(&cx.state, &record, &root, &name);
    }
    Ok(0)
}
