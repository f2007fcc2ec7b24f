//! `zfs redact`: creates a redaction bookmark.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::ArgKind;
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zfs::redact::{self, RedactRequest};

/// The row of `zfs redact`.
pub static VERB: Verb = for_owner("redact", "Create a bookmark of data that `zfs send --redact` leaves out", run)
    .usage(&["snapshot bookmark redaction_snapshot ..."])
    .operands(&[ArgKind::Snapshot, ArgKind::Text, ArgKind::Snapshot])
    .history("zfs redact")
    .examples(&[(
        "zfs redact tank/db@monday public tank/db-cleaned@monday",
        "List what a clone has changed or deleted; zfs send --redact public then leaves it out.",
    )]);

/// `zfs redact`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let [snapshot, bookmark, redaction_snapshots @ ..] = call.parsed.operands.as_slice() else {
        return Err(Failure::usage("too few arguments"));
    };
    if redaction_snapshots.is_empty() {
        return Err(Failure::usage("too few arguments"));
    }
    let request = RedactRequest {
        snapshot: snapshot.clone(),
        bookmark: bookmark.clone(),
        redaction_snapshots: redaction_snapshots.to_vec(),
    };
    redact::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}
