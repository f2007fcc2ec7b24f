//! `zpool checkpoint`: what [`admin::verbs::zpool::checkpoint`] does, in OpenZFS's words.

use super::wait::{Activity, until_done};
use super::writing;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::checkpoint::{self, CheckpointRequest};

/// The row of `zpool checkpoint`.
pub static VERB: Verb = for_owner("checkpoint", "Create or discard a checkpoint of a pool", run)
    .usage(&["[-d [-w]] pool"])
    .options(&[
        flag('d', "Discard the checkpoint.").long("discard"),
        flag('w', "With -d, wait until the checkpoint is discarded.").long("wait"),
    ])
    .operands(&[ArgKind::Pool])
    .history("zpool checkpoint")
    .examples(&[(
        "zpool checkpoint tank",
        "Remember the state of a pool, which zpool import --rewind-to-checkpoint restores.",
    )]);

/// `zpool checkpoint`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (discard, waits) = (parsed.has('d'), parsed.has('w'));
    if waits && !discard {
        return Err(Failure::usage("--wait only valid when --discard also specified"));
    }
    let pool = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool argument")),
        [pool] => pool.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = CheckpointRequest { pool, discard };
    let runs = checkpoint::run(&cx.invocation(call.history()), &request)?;
    match waits && runs {
        true => {
            let record = writing::record(cx, &request.pool)?;
            until_done(cx, &record, &[Activity::Discard])
        }
        false => Ok(0),
    }
}
