//! `zpool export`: what [`admin::verbs::zpool::export`] does, in OpenZFS's words.

use super::writing::command_line;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use admin::verbs::zpool::export::{self, ExportRequest};

const OPTIONS: Options = Options { short: "afF", long: &[] };

pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if parsed.has('F') {
        return Err(Failure::failed("unsupported: 'zpool export' with '-F'"));
    }
    if parsed.has('a') && !parsed.operands.is_empty() {
        return Err(Failure::usage("too many arguments"));
    }
    if !parsed.has('a') && parsed.operands.is_empty() {
        return Err(Failure::usage("missing pool argument"));
    }
    let request = ExportRequest { force: parsed.has('f'), pools: parsed.operands };
    let remarks = export::run(&cx.invocation(command_line("zpool export", args)), &request)?;
    remarks.iter().for_each(|line| cx.complain(line));
    Ok(0)
}
