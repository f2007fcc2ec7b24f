//! `zpool destroy`, `zpool sync`, `zpool freeze`, `zpool reguid`, `zpool labelclear`: verbs that
//! take a pool or a device, and little else.

use super::writing::command_line;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use admin::verbs::zpool as verb;
use admin::verbs::zpool::destroy::DestroyRequest;
use admin::verbs::zpool::freeze::FreezeRequest;
use admin::verbs::zpool::label_clear::LabelClearRequest;
use admin::verbs::zpool::reguid::ReguidRequest;
use admin::verbs::zpool::sync::SyncRequest;

const DESTROY: Options = Options { short: "f", long: &[] };
const SYNC: Options = Options { short: "f", long: &[] };
const FREEZE: Options = Options { short: "", long: &[] };
const REGUID: Options = Options { short: "g:", long: &[] };
const LABELCLEAR: Options = Options { short: "f", long: &[] };

pub fn destroy(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = DESTROY.parse(args).map_err(Failure::usage)?;
    let pool = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool argument")),
        [pool] => pool.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = DestroyRequest { pool, force: parsed.has('f') };
    verb::destroy::run(&cx.invocation(command_line("zpool destroy", args)), &request)?;
    Ok(0)
}

/// `zpool sync`: what commands changed is on disk when they end; a mounted pool is asked by syncing
/// its files.
pub fn sync(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = SYNC.parse(args).map_err(Failure::usage)?;
    let request = SyncRequest { force: parsed.has('f'), pools: parsed.operands };
    verb::sync::run(&cx.invocation(command_line("zpool sync", args)), &request)?;
    Ok(0)
}

pub fn freeze(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = FREEZE.parse(args).map_err(Failure::usage)?;
    let pool = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool argument")),
        [pool] => pool.clone(),
        _ => return Err(Failure::usage("too many arguments")),
    };
    verb::freeze::run(&cx.invocation(command_line("zpool freeze", args)), &FreezeRequest { pool })?;
    Ok(0)
}

pub fn reguid(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = REGUID.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool name")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let guid = parsed.last('g').map(|text| match text.parse::<u64>() {
        Ok(guid) if guid != 0 && guid != u64::MAX => Ok(guid),
        _ => Err(Failure::usage(format!("invalid GUID: {text}"))),
    });
    let request = ReguidRequest { pool: name.clone(), guid: guid.transpose()? };
    verb::reguid::run(&cx.invocation(command_line("zpool reguid", args)), &request)?;
    Ok(0)
}

pub fn labelclear(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = LABELCLEAR.parse(args).map_err(Failure::usage)?;
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing vdev name")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let request = LabelClearRequest { device: name.clone(), force: parsed.has('f') };
    verb::label_clear::run(&cx.invocation(command_line("zpool labelclear", args)), &request)?;
    Ok(0)
}
