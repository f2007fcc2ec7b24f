//! `zpool prefetch`: what [`admin::verbs::zpool::prefetch`] does, in OpenZFS's words.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, value};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::prefetch::{self, PrefetchRequest};

/// The row of `zpool prefetch`.
pub static VERB: Verb = for_owner("prefetch", "Load the dedup table into memory", run)
    .usage(&["-t type pool"])
    .options(&[value('t', "type", ArgKind::Text, "What to load: ddt, the dedup table, which is the default.")])
    .operands(&[ArgKind::Pool])
    .examples(&[(
        "zpool prefetch -t ddt tank",
        "Load the dedup table of a pool, so that writes need not wait for it.",
    )]);

/// `zpool prefetch`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let pool = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool name argument")),
        [pool] => pool.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    if parsed.last('t').is_some_and(|kind| kind != "ddt") {
        return Err(Failure::usage("unsupported prefetch type"));
    }
    prefetch::run(&cx.invocation(String::new()), &PrefetchRequest { pool })?;
    Ok(0)
}
