//! `zpool offline`, `zpool online`, `zpool reopen`.
//!
//! Invariants:
//!   * a device that is offline until the next import is stored in the import record: until then
//!     the pool is opened without it

use super::writing::{self, command_line, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{Options, Parsed};
use crate::state::Imported;
use admin::states::{self, Lasts};
use admin::status::{PoolStatus, VdevClass, VdevState, VdevStatus};
use admin::vdev_names as names;
use admin::verbs::PoolLease;

const OFFLINE: Options = Options { short: "ft", long: &[("power", false, 'P')] };
const ONLINE: Options = Options { short: "e", long: &[("power", false, 'P')] };
const REOPEN: Options = Options { short: "n", long: &[] };
/// The message of `zpool online` for an unknown device.
const NO_DEVICE: &str = "no such device in pool";

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

/// The status of a pool that is open for writing.
pub(super) fn status(pool: &PoolLease) -> Result<PoolStatus, Failure> {
    pool.writer().shown().and_then(|pool| pool.status()).map_err(|e| Failure::failed(writing::why(&e)))
}

/// Notes the command in the history if all of it succeeded, and closes the pool if this process
/// opened it for the verb.
pub(super) fn finish(pool: PoolLease, command: &str, code: u8) -> Outcome {
    let noted = if code == 0 { pool.note_command(command) } else { Ok(()) };
    let closed = pool.finish();
    noted.and(closed).map_err(|e| Failure::failed(reason(&e)))?;
    Ok(code)
}

/// Stores which devices are offline until the next import.
fn remember(cx: &Context<'_>, record: &Imported, guid: u64, is_offline: bool) -> Result<(), Failure> {
    let change = |pools: &mut Vec<Imported>| {
        for pool in pools.iter_mut().filter(|p| p.guid == record.guid) {
            pool.offline.retain(|known| *known != guid);
            pool.offline.extend(is_offline.then_some(guid));
        }
    };
    cx.state.change(change).map_err(|e| Failure::failed(format!("{e:#}")))
}

/// `zpool offline`.
pub fn offline(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OFFLINE.parse(args).map_err(Failure::usage)?;
    no_power(&parsed, "zpool offline")?;
    let (name, devices) = operands(&parsed, "missing device name")?;
    let (fault, lasts) = (parsed.has('f'), if parsed.has('t') { Lasts::UntilImport } else { Lasts::Always });
    if fault && parsed.has('t') && cx.owner.is_none() {
        return Err(Failure::failed(
            "unsupported: 'zpool offline -f -t' without 'weir serve', because no process keeps the pool open",
        ));
    }
    let record = writing::record(cx, name)?;
    let pool = writing::open(cx, &record, &format!("cannot offline {}", devices[0]))?;
    let before = status(&pool)?;
    let mut code = 0;
    for device in devices {
        let found = names::find(&before, device);
        let result = match found {
            None => Err(NO_DEVICE.to_owned()),
            Some(found) if is_idle_spare(found) => Err("device is reserved as a hot spare".to_owned()),
            Some(found) if fault => states::fault(&pool, found.guid, lasts).map_err(|e| reason(&e)),
            Some(found) => states::offline(&pool, found.guid, lasts).map_err(|e| reason(&e)),
        };
        match (result, found) {
            (Ok(()), Some(found)) => remember(cx, &record, found.guid, lasts == Lasts::UntilImport && !fault)?,
            (Err(why), found) => {
                let what = match found.filter(|_| fault) {
                    Some(found) => format!("fault {}", found.guid),
                    None => format!("offline {device}"),
                };
                cx.complain(&format!("cannot {what}: {why}"));
                code = 1;
            }
            (Ok(()), None) => {}
        }
    }
    finish(pool, &command_line("zpool offline", args), code)
}

/// Whether the device is a spare that replaces nothing.
pub(super) fn is_idle_spare(vdev: &VdevStatus) -> bool {
    vdev.class == VdevClass::Spare
}

/// `zpool online`.
pub fn online(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = ONLINE.parse(args).map_err(Failure::usage)?;
    no_power(&parsed, "zpool online")?;
    let (name, devices) = operands(&parsed, "missing device name")?;
    let expand = parsed.has('e');
    let record = writing::record(cx, name)?;
    let pool = writing::open(cx, &record, &format!("cannot online {}", devices[0]))?;
    let before = status(&pool)?;
    let mut code = 0;
    for device in devices {
        let Some(found) = names::find(&before, device) else {
            cx.complain(&format!("couldn't find device \"{device}\" in pool \"{name}\""));
            code = 1;
            continue;
        };
        let result = match is_idle_spare(found) {
            true => Err("device is reserved as a hot spare".to_owned()),
            false => states::online(&pool, found.guid).map_err(|e| reason(&e)),
        };
        let result = result.and_then(|is_used| match expand && is_used {
            true => states::expand(&pool, found.guid).map_err(|e| reason(&e)),
            false => Ok(()),
        });
        if let Err(why) = result {
            cx.complain(&format!("cannot online {device}: {why}"));
            cx.complain(&format!("Failed to online \"{device}\" in pool \"{name}\": -1"));
            code = 1;
            continue;
        }
        remember(cx, &record, found.guid, false)?;
        let now = status(&pool)?;
        let state = now.all_vdevs().into_iter().find(|v| v.guid == found.guid).map(|v| v.state).unwrap_or_default();
        if state != VdevState::Healthy {
            let then = match state {
                VdevState::Faulted => "use 'zpool clear' to restore a faulted device",
                _ => "use 'zpool replace' to replace devices that are no longer present",
            };
            cx.print(&format!("warning: device '{device}' onlined, but remains in faulted state\n{then}\n"));
        }
    }
    let resilvered = super::scrub::resilver_due(cx, &pool, name, false);
    resilvered.map_err(|e| Failure::failed(reason(&e)))?;
    finish(pool, &command_line("zpool online", args), code)
}

/// `zpool reopen`.
pub fn reopen(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = REOPEN.parse(args).map_err(Failure::usage)?;
    let (records, mut code) = super::pools::records(cx, &parsed.operands)?;
    for record in records {
        let cannot = format!("cannot reopen '{}'", record.name);
        let command = command_line("zpool reopen", args);
        match writing::change(cx, &record, &cannot, &command, states::reopen) {
            Ok(()) => {}
            Err(Failure::Failed(message)) => {
                cx.complain(&message);
                code = 1;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(code)
}
