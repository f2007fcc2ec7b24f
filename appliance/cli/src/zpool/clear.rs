//! `zpool clear`: what [`admin::verbs::zpool::clear`] does, in OpenZFS's words.

use super::scrub::follow;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, long_flag};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::clear::{self, ClearRequest};

/// The row of `zpool clear`.
pub static VERB: Verb = for_owner("clear", "Clear error counters and resume a suspended pool", run)
    .usage(&["pool [vdev]"])
    .options(&[
        flag('F', "Go back to an earlier state.").refused("unsupported: 'zpool clear' with '-F'"),
        flag('n', "With -F, change nothing.").refused("unsupported: 'zpool clear' with '-n'"),
        flag('X', "With -F, try all earlier states.").refused("unsupported: 'zpool clear' with '-X'"),
        long_flag('P', "power", "Turn on the power of the device's slot.")
            .refused("unsupported: 'zpool clear' with '--power'"),
    ])
    .operands(&[ArgKind::Pool, ArgKind::Text])
    .history("zpool clear")
    .examples(&[("zpool clear tank", "Clear all errors of a pool, and resume it if it is suspended.")]);

/// `zpool clear`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (pool, device) = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool name")),
        [pool] => (pool, None),
        [pool, device] => (pool, Some(device.clone())),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = ClearRequest { pool: pool.clone(), device };
    let invocation = cx.invocation(call.history());
    clear::run(&invocation, &request, &mut |name, pool| follow(cx, pool, name))?;
    Ok(0)
}
