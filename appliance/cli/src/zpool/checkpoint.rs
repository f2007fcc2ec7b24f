//! `zpool checkpoint`: what [`admin::verbs::zpool::checkpoint`] does, in OpenZFS's words.

use super::wait::{Activity, until_done};
use super::writing::{self, command_line};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use admin::verbs::zpool::checkpoint::{self, CheckpointRequest};

const OPTIONS: Options = Options { short: "dw", long: &[("discard", false, 'd'), ("wait", false, 'w')] };

pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
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
    let runs = checkpoint::run(&cx.invocation(command_line("zpool checkpoint", args)), &request)?;
    match waits && runs {
        true => {
            let record = writing::record(cx, &request.pool)?;
            until_done(cx, &record, &[Activity::Discard])
        }
        false => Ok(0),
    }
}
