//! `zfs snapshot`, `zfs hold`, `zfs release`, `zfs bookmark`: what [`admin::verbs::zfs`] does, in
//! OpenZFS's words.

use super::create::properties;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, value};
use crate::verb::{Call, Verb, for_delegates};
use admin::verbs::zfs::bookmark::{self, BookmarkRequest};
use admin::verbs::zfs::hold::{self, HoldRequest};
use admin::verbs::zfs::snapshot::{self, SnapshotRequest};

/// The row of `zfs snapshot`.
pub static SNAPSHOT: Verb = ROW;

/// The row of `zfs snap`.
pub static SNAP: Verb = ROW.called("snap");

const ROW: Verb = for_delegates("snapshot", "Take snapshots atomically", snapshot)
    .usage(&["[-r] [-o property=value] ... filesystem@snapname|volume@snapname ..."])
    .options(&[
        flag('r', "Take snapshots of all descendants too."),
        value('o', "property=value", ArgKind::DatasetAssignment, "Set a user property of the snapshots.").repeated(),
    ])
    .operands(&[ArgKind::Dataset])
    .history("zfs snapshot")
    .examples(&[("zfs snapshot -r tank@monday", "Take snapshots of all datasets of a pool at the same moment.")]);

/// The row of `zfs hold`.
pub static HOLD: Verb = for_delegates("hold", "Place holds on snapshots", hold)
    .usage(&["[-r] tag snapshot ..."])
    .options(&[flag('r', "Hold the snapshots of that name of all descendants too.")])
    .operands(&[ArgKind::Text, ArgKind::Snapshot])
    .history("zfs hold")
    .examples(&[("zfs hold keep tank/home@monday", "Keep a snapshot from being destroyed.")]);

/// The row of `zfs release`.
pub static RELEASE: Verb = for_delegates("release", "Release holds on snapshots", release)
    .usage(&["[-r] tag snapshot ..."])
    .options(&[flag('r', "Release the snapshots of that name of all descendants too.")])
    .operands(&[ArgKind::Text, ArgKind::Snapshot])
    .history("zfs release")
    .examples(&[("zfs release keep tank/home@monday", "Remove a hold.")]);

/// The row of `zfs bookmark`.
pub static BOOKMARK: Verb =
    for_delegates("bookmark", "Create bookmarks, from which incremental streams can start", bookmark)
        .usage(&["[-r] snapshot|bookmark bookmark"])
        .options(&[flag('r', "Bookmark the snapshots of that name of all descendants too.")])
        .operands(&[ArgKind::Snapshot, ArgKind::Text])
        .history("zfs bookmark")
        .examples(&[("zfs bookmark tank/home@monday tank/home#monday", "Remember a snapshot that will be destroyed.")]);

/// `zfs snapshot`.
pub fn snapshot(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let properties = properties(parsed)?;
    if parsed.operands.is_empty() {
        return Err(Failure::usage("missing snapshot argument"));
    }
    let request = SnapshotRequest { recursive: parsed.has('r'), names: parsed.operands.clone(), properties };
    snapshot::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

fn holds(parsed: &Parsed) -> Result<HoldRequest, Failure> {
    match parsed.operands.as_slice() {
        [] | [_] => Err(Failure::usage("")),
        [tag, snapshots @ ..] => {
            Ok(HoldRequest { tag: tag.clone(), snapshots: snapshots.to_vec(), recursive: parsed.has('r') })
        }
    }
}

/// `zfs hold`.
pub fn hold(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let request = holds(&call.parsed)?;
    hold::hold(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

/// `zfs release`.
pub fn release(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let request = holds(&call.parsed)?;
    hold::release(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

/// `zfs bookmark`.
pub fn bookmark(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let request = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source argument")),
        [_] => return Err(Failure::usage("missing bookmark argument")),
        [source, name, ..] => {
            BookmarkRequest { source: source.clone(), name: name.clone(), recursive: parsed.has('r') }
        }
    };
    bookmark::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}
