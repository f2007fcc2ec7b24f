//! `zpool destroy`, `zpool sync`, `zpool freeze`, `zpool reguid`, `zpool labelclear`: verbs that
//! take a pool or a device, and little else.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zpool as verb;
use admin::verbs::zpool::destroy::DestroyRequest;
use admin::verbs::zpool::freeze::FreezeRequest;
use admin::verbs::zpool::label_clear::LabelClearRequest;
use admin::verbs::zpool::reguid::ReguidRequest;
use admin::verbs::zpool::sync::SyncRequest;

/// The row of `zpool destroy`.
pub static DESTROY: Verb = for_owner("destroy", "Destroy a pool", destroy)
    .usage(&["[-f] pool"])
    .options(&[flag('f', "No effect, as with OpenZFS on Linux: file systems in use stay mounted.")])
    .operands(&[ArgKind::Pool])
    .history("zpool destroy")
    .examples(&[(
        "zpool destroy tank",
        "Destroy a pool; zpool import -D finds it as long as its devices are not used again.",
    )]);

/// The row of `zpool sync`.
pub static SYNC: Verb = for_owner("sync", "Write all pending data to disk", sync)
    .usage(&["[pool] ..."])
    .options(&[flag(
        'f',
        "Write a transaction group, and the configuration to all labels, even if nothing has changed.",
    )])
    .operands(&[ArgKind::Pool])
    .history("zpool sync")
    .examples(&[("zpool sync", "Write the pending data of all pools.")]);

/// The row of `zpool freeze`.
pub static FREEZE: Verb = for_owner("freeze", "Keep the state on disk, to test the replay of intent logs", freeze)
    .usage(&["pool"])
    .operands(&[ArgKind::Pool])
    .history("zpool freeze")
    .examples(&[("zpool freeze tank", "Freeze a pool that is used for tests only.")]);

/// The row of `zpool reguid`.
pub static REGUID: Verb = for_owner("reguid", "Give a pool a new GUID", reguid)
    .usage(&["[-g guid] pool"])
    .options(&[value('g', "guid", ArgKind::Text, "Use this GUID instead of a random one.")])
    .operands(&[ArgKind::Pool])
    .history("zpool reguid")
    .examples(&[(
        "zpool reguid tank",
        "Give a pool whose devices are copies of another one's an identity of its own.",
    )]);

/// The row of `zpool labelclear`.
pub static LABELCLEAR: Verb = for_owner("labelclear", "Remove a pool's labels from a device", labelclear)
    .usage(&["[-f] vdev"])
    .options(&[flag('f', "Clear the labels of a device that an exported or foreign pool uses.")])
    .operands(&[ArgKind::File])
    .history("zpool labelclear")
    .examples(&[("zpool labelclear -f /dev/sdb", "Make a device of an exported pool usable again.")]);

/// `zpool destroy`.
pub fn destroy(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let pool = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool argument")),
        [pool] => pool.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = DestroyRequest { pool, force: parsed.has('f') };
    verb::destroy::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

/// `zpool sync`: what commands changed is on disk when they end; a mounted pool is asked by syncing
/// its files.
pub fn sync(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let request = SyncRequest { force: parsed.has('f'), pools: parsed.operands.clone() };
    verb::sync::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

/// `zpool freeze`.
pub fn freeze(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let pool = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool argument")),
        [pool] => pool.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    verb::freeze::run(&cx.invocation(call.history()), &FreezeRequest { pool })?;
    Ok(0)
}

/// `zpool reguid`.
pub fn reguid(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool name")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let guid =
        parsed.last('g').map(|text| text.parse::<u64>().map_err(|_| Failure::usage(format!("invalid GUID: {text}"))));
    let request = ReguidRequest { pool: name.clone(), guid: guid.transpose()? };
    verb::reguid::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}

/// `zpool labelclear`.
pub fn labelclear(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing vdev name")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = LabelClearRequest { device: name.clone(), force: parsed.has('f') };
    verb::label_clear::run(&cx.invocation(call.history()), &request)?;
    Ok(0)
}
