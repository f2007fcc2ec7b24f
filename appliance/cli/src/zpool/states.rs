//! `zpool offline`, `zpool online`, `zpool reopen`: what [`admin::verbs::zpool::states`] does, in
//! OpenZFS's words.

use super::scrub::follow;
use super::writing::command_line;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use admin::verbs::zpool::states::{self, OfflineRequest, OnlineRequest};
use pool::status::VdevState;

const OFFLINE: Options = Options { short: "ft", long: &[("power", false, 'P')] };
const ONLINE: Options = Options { short: "e", long: &[("power", false, 'P')] };
const REOPEN: Options = Options { short: "n", long: &[] };

/// The operands of a verb on devices: the pool, and at least one device.
pub(super) fn operands<'a>(parsed: &'a Parsed, what: &str) -> Result<(&'a String, &'a [String]), Failure> {
    match parsed.operands.as_slice() {
        [] => Err(Failure::usage("missing pool name")),
        [_] => Err(Failure::usage(what)),
        [name, devices @ ..] => Ok((name, devices)),
    }
}

fn no_power(parsed: &Parsed, verb: &str) -> Result<(), Failure> {
    match parsed.has('P') {
        true => Err(Failure::failed(format!("unsupported: '{verb}' with '--power'"))),
        false => Ok(()),
    }
}

pub fn offline(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OFFLINE.parse(args).map_err(Failure::usage)?;
    no_power(&parsed, "zpool offline")?;
    let (pool, devices) = operands(&parsed, "missing device name")?;
    let (fault, temporary) = (parsed.has('f'), parsed.has('t'));
    let request = OfflineRequest { pool: pool.clone(), devices: devices.to_vec(), fault, temporary };
    states::offline(&cx.invocation(command_line("zpool offline", args)), &request)?;
    Ok(0)
}

pub fn online(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = ONLINE.parse(args).map_err(Failure::usage)?;
    no_power(&parsed, "zpool online")?;
    let (pool, devices) = operands(&parsed, "missing device name")?;
    let request = OnlineRequest { pool: pool.clone(), devices: devices.to_vec(), expand: parsed.has('e') };
    let invocation = cx.invocation(command_line("zpool online", args));
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

pub fn reopen(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = REOPEN.parse(args).map_err(Failure::usage)?;
    states::reopen(&cx.invocation(command_line("zpool reopen", args)), &parsed.operands)?;
    Ok(0)
}
