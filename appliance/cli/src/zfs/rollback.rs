//! `zfs rollback` and `zfs promote`: what [`admin::verbs::zfs`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::zpool::writing::command_line;
use admin::verbs::zfs::promote;
use admin::verbs::zfs::rollback::{self, RollbackRequest};

const ROLLBACK: Options = Options { short: "rRf", long: &[] };
const PROMOTE: Options = Options { short: "", long: &[] };

pub fn rollback(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = ROLLBACK.parse(args).map_err(Failure::usage)?;
    let snapshot = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing dataset argument")),
        [name] => name.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let (recursive, clones, force) = (parsed.has('r'), parsed.has('R'), parsed.has('f'));
    let request = RollbackRequest { snapshot, recursive, clones, force };
    let report = rollback::run(&cx.invocation(command_line("zfs rollback", args)), &request)?;
    Ok(cx.report(report))
}

pub fn promote(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = PROMOTE.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing clone filesystem argument")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    promote::run(&cx.invocation(command_line("zfs promote", args)), name)?;
    Ok(0)
}
