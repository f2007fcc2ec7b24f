//! `zpool offline`, `zpool online`, `zpool reopen`: what [`admin::verbs::zpool::states`] does, in
//! OpenZFS's words.

use super::scrub::follow;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag, long_flag};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::states::{self, OfflineRequest, OnlineRequest};
use pool::status::VdevState;

/// The row of `zpool offline`.
pub static OFFLINE: Verb = for_owner("offline", "Take devices offline", offline)
    .usage(&["[-ft] pool device ..."])
    .options(&[
        flag('f', "Mark the devices as faulted instead of offline."),
        flag('t', "Only until the pool is imported again."),
        long_flag('P', "power", "Turn off the power of the device's slot.")
            .refused("unsupported: 'zpool offline' with '--power'"),
    ])
    .operands(&[ArgKind::Pool, ArgKind::Text])
    .history("zpool offline")
    .examples(&[("zpool offline tank sda", "Stop using a disk until it is brought back.")]);

/// The row of `zpool online`.
pub static ONLINE: Verb = for_owner("online", "Bring devices online", online)
    .usage(&["[-e] pool device ..."])
    .options(&[
        flag('e', "Use all space of devices that have grown."),
        long_flag('P', "power", "Turn on the power of the device's slot.")
            .refused("unsupported: 'zpool online' with '--power'"),
    ])
    .operands(&[ArgKind::Pool, ArgKind::Text])
    .history("zpool online")
    .examples(&[("zpool online tank sda", "Use a disk again, and write what it missed.")]);

/// The row of `zpool reopen`.
pub static REOPEN: Verb = for_owner("reopen", "Reopen devices, and look for missing ones", reopen)
    .usage(&["[-n] [pool ...]"])
    .options(&[flag('n', "Do not restart a running scrub, which Weir never does.")])
    .operands(&[ArgKind::Pool])
    .history("zpool reopen")
    .examples(&[("zpool reopen tank", "Find the devices of a pool again, for example after a cable was replaced.")]);

/// The operands of a verb on devices: the pool, and at least one device.
pub(super) fn operands<'a>(parsed: &'a Parsed, what: &str) -> Result<(&'a String, &'a [String]), Failure> {
    match parsed.operands.as_slice() {
        [] => Err(Failure::usage("missing pool name")),
        [_] => Err(Failure::usage(what)),
        [name, devices @ ..] => Ok((name, devices)),
    }
}

/// `zpool offline`.
pub fn offline(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (pool, devices) = operands(parsed, "missing device name")?;
    let (fault, temporary) = (parsed.has('f'), parsed.has('t'));
    let request = OfflineRequest { pool: pool.clone(), devices: devices.to_vec(), fault, temporary };
    states::offline(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

/// `zpool online`.
pub fn online(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (pool, devices) = operands(parsed, "missing device name")?;
    let request = OnlineRequest { pool: pool.clone(), devices: devices.to_vec(), expand: parsed.has('e') };
    let invocation = cx.invocation(call.history());
    let outcome = states::online(&invocation, &request, &mut |name, pool| follow(cx, pool, name))?;
    for online in outcome.devices.iter().filter(|online| online.state != VdevState::Healthy) {
        let then = match online.state {
            VdevState::Faulted => "use 'zpool clear' to restore a faulted device",
            _ => "use 'zpool replace' to replace devices that are no longer present",
        };
        let device = &online.device;
        cx.print(&format!("warning: device '{device}' onlined, but remains in faulted state\n{then}\n"));
    }
    outcome.refused.map_or(Ok(0), |refusal| Err(refusal.into()))
}

/// `zpool reopen`.
pub fn reopen(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    states::reopen(&cx.invocation(call.history()), &parsed.operands)?;
    Ok(0)
}
