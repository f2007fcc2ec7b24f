//! `zpool remove`: what [`admin::verbs::zpool::remove`] does, in OpenZFS's words.

use super::states::operands;
use super::wait::{Activity, until_done};
use super::writing;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag};
use crate::number::nice_number;
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool::remove::{self, RemoveRequest};

/// The row of `zpool remove`.
pub static VERB: Verb = for_owner("remove", "Remove devices, after moving their data to the others", run)
    .usage(&["[-npw] pool device ...", "-s pool"])
    .options(&[
        flag('n', "Print the memory that the mapping of the removed device will use, and remove nothing."),
        flag('p', "With -n, print exact numbers."),
        flag('s', "Stop a removal, and keep the device."),
        flag('w', "Wait until the devices are removed."),
    ])
    .operands(&[ArgKind::Pool, ArgKind::Text])
    .history("zpool remove")
    .examples(&[("zpool remove tank mirror-1", "Move the data of a mirror to the other devices, and remove it.")]);

/// `zpool remove`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let (stops, only_asks) = (parsed.has('s'), parsed.has('n'));
    if stops && only_asks {
        cx.complain("stop request ignored");
        return Ok(0);
    }
    let invocation = cx.invocation(call.history());
    if stops {
        if parsed.has('w') {
            return Err(Failure::usage("invalid option combination: -w cannot be used with -s"));
        }
        let pool = match parsed.operands.as_slice() {
            [] => return Err(Failure::usage("missing pool name argument")),
            [pool] => pool,
            _ => return Err(Failure::usage("too many arguments")),
        };
        remove::stop(&invocation, pool)?;
        return Ok(0);
    }
    let (pool, devices) = operands(parsed, "missing device")?;
    let request = RemoveRequest { pool: pool.clone(), devices: devices.to_vec() };
    if only_asks {
        let is_parsable = parsed.has('p');
        remove::mapping_bytes(&invocation, &request, &mut |device, bytes| {
            cx.print(&match is_parsable {
                true => format!("{device} {bytes}\n"),
                false => format!("Memory that will be used after removing {device}: {}\n", nice_number(bytes)),
            });
        })?;
        return Ok(0);
    }
    let runs = remove::run(&invocation, &request)?;
    match runs && parsed.has('w') {
        true => {
            let record = writing::record(cx, pool)?;
            until_done(cx, &record, &[Activity::Remove])
        }
        false => Ok(0),
    }
}
