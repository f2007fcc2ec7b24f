//! `zfs snapshot`, `zfs hold`, `zfs release`, `zfs bookmark`: what [`admin::verbs::zfs`] does, in
//! OpenZFS's words.

use super::create::properties;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::zpool::writing::command_line;
use admin::verbs::zfs::bookmark::{self, BookmarkRequest};
use admin::verbs::zfs::hold::{self, HoldRequest};
use admin::verbs::zfs::snapshot::{self, SnapshotRequest};

const SNAPSHOT: Options = Options { short: "ro:", long: &[] };
const HOLD: Options = Options { short: "r", long: &[] };
const RELEASE: Options = Options { short: "r", long: &[] };
const BOOKMARK: Options = Options { short: "r", long: &[] };

pub fn snapshot(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = SNAPSHOT.parse(args).map_err(Failure::usage)?;
    let properties = properties(&parsed)?;
    if parsed.operands.is_empty() {
        return Err(Failure::usage("missing snapshot argument"));
    }
    let request = SnapshotRequest { recursive: parsed.has('r'), names: parsed.operands, properties };
    snapshot::run(&cx.invocation(command_line("zfs snapshot", args)), &request)?;
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

pub fn hold(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let request = holds(&HOLD.parse(args).map_err(Failure::usage)?)?;
    hold::hold(&cx.invocation(command_line("zfs hold", args)), &request)?;
    Ok(0)
}

pub fn release(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let request = holds(&RELEASE.parse(args).map_err(Failure::usage)?)?;
    hold::release(&cx.invocation(command_line("zfs release", args)), &request)?;
    Ok(0)
}

pub fn bookmark(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = BOOKMARK.parse(args).map_err(Failure::usage)?;
    let request = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing source argument")),
        [_] => return Err(Failure::usage("missing bookmark argument")),
        [source, name, ..] => {
            BookmarkRequest { source: source.clone(), name: name.clone(), recursive: parsed.has('r') }
        }
    };
    bookmark::run(&cx.invocation(command_line("zfs bookmark", args)), &request)?;
    Ok(0)
}
