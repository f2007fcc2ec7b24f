//! `zfs rollback` and `zfs promote`: what [`admin::verbs::zfs`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::verb::{Call, Verb, for_delegates};
use admin::verbs::zfs::promote;
use admin::verbs::zfs::rollback::{self, RollbackRequest};

/// The row of `zfs rollback`.
pub static ROLLBACK: Verb = for_delegates("rollback", "Roll back to a snapshot", rollback)
    .usage(&["[-rRf] snapshot"])
    .options(&[
        flag('r', "Destroy more recent snapshots and bookmarks."),
        flag('R', "Destroy more recent snapshots, bookmarks and their clones."),
        flag('f', "Unmount the file system even if it is in use."),
    ])
    .operands(&[ArgKind::Snapshot])
    .history("zfs rollback")
    .examples(&[("zfs rollback tank/home@monday", "Discard all changes since the last snapshot.")]);

/// The row of `zfs promote`.
pub static PROMOTE: Verb = for_delegates("promote", "Make a clone the owner of its origin's snapshots", promote)
    .usage(&["clone-filesystem"])
    .operands(&[ArgKind::Dataset])
    .history("zfs promote")
    .examples(&[("zfs promote tank/copy", "Make it possible to destroy the file system that was cloned.")]);

/// `zfs rollback`.
pub fn rollback(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let snapshot = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing dataset argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let (recursive, clones, force) = (parsed.has('r'), parsed.has('R'), parsed.has('f'));
    let request = RollbackRequest { snapshot, recursive, clones, force };
    let report = rollback::run(&cx.invocation(call.history()), &request)?;
    Ok(cx.report(report))
}

/// `zfs promote`.
pub fn promote(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing clone filesystem argument")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    promote::run(&cx.invocation(call.history()), name)?;
    Ok(0)
}
