//! `zpool export`: what [`admin::verbs::zpool::export`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::export::{self, ExportRequest};

/// The row of `zpool export`.
pub static VERB: Verb = for_owner("export", "Export pools so that another system can import them", run)
    .usage(&["[-afF] pool ..."])
    .options(&[
        flag('a', "Export all imported pools."),
        flag(
            'f',
            "Unmount file systems that are in use, and export pools that use a spare which they share with others.",
        ),
        flag('F', "Do not mark the pools as exported on their devices, and leave them in their cache files."),
    ])
    .operands(&[ArgKind::Pool])
    .history("zpool export")
    .examples(&[("zpool export tank", "Unmount all file systems of a pool and export it.")]);

/// `zpool export`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    if parsed.has('a') && !parsed.operands.is_empty() {
        return Err(Failure::usage("too many arguments"));
    }
    if !parsed.has('a') && parsed.operands.is_empty() {
        return Err(Failure::usage("missing pool argument"));
    }
    let request = ExportRequest { pools: parsed.operands.clone(), force: parsed.has('f'), unmarked: parsed.has('F') };
    let remarks = export::run(&cx.invocation(call.history()), &request)?;
    remarks.iter().for_each(|line| cx.complain(line));
    Ok(0)
}
