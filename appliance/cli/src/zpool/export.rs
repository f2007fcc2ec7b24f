//! `zpool export`: unmounts a pool, marks it as exported, and forgets it.
//!
//! Invariants:
//!   * a pool can always be exported, also one that cannot be written any more: its devices then say what they said

use super::writing::{command_line, is_in_use, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::state::Imported;
use admin::OwnedPool;
use admin::house::Leave;

const OPTIONS: Options = Options { short: "afF", long: &[] };

/// `zpool export`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    if parsed.has('a') && !parsed.operands.is_empty() {
        return Err(Failure::usage("too many arguments"));
    }
    if !parsed.has('a') && parsed.operands.is_empty() {
        return Err(Failure::usage("missing pool argument"));
    }
    let (records, mut code) = super::pools::records(cx, &parsed.operands)?;
    let command = command_line("zpool export", args);
    for record in &records {
        if cx.client.is_gone() {
            return Ok(1);
        }
        match export(cx, record, &command, parsed.has('f')) {
            Ok(()) => forget(cx, record)?,
            Err(message) => {
                cx.complain(&message);
                code = 1;
            }
        }
    }
    Ok(code)
}

/// Forgets that a pool is imported, and its keys.
pub fn forget(cx: &Context<'_>, record: &Imported) -> Result<(), Failure> {
    crate::zfs::keys::forget(&cx.state, record);
    cx.state
        .change(|pools| pools.retain(|p| record.guid != p.guid || record.name != p.name))
        .map_err(|e| Failure::failed(format!("{e:#}")))
}

fn export(cx: &mut Context<'_>, record: &Imported, command: &str, force: bool) -> Result<(), String> {
    if crate::mounts::has_used_volume(cx, record) {
        return Err(format!("cannot export '{}': pool is busy", record.name));
    }
    crate::mounts::release(cx, record, force)?;
    if record.readonly {
        if let Some(owner) = &cx.owner {
            // Nothing is written to it: there is nothing that could fail.
            let _ = owner.house.release(record.guid, Leave::Close);
        }
        return Ok(());
    }
    let exported = match super::pools::owned(cx, record) {
        Ok(Some(owned)) => leave(cx, &owned, command),
        Ok(None) => admin::write::open(&super::pools::request(record)).and_then(|pool| {
            pool.log_command(command)?;
            pool.export()
        }),
        Err(error) => Err(error),
    };
    match exported {
        Ok(()) => Ok(()),
        Err(error) if is_in_use(&error) => Err(format!("cannot export '{}': {}", record.name, reason(&error))),
        Err(error) => {
            cx.complain(&format!(
                "weir: '{}' is not in use any more, but its devices could not be told: {}",
                record.name,
                reason(&error)
            ));
            Ok(())
        }
    }
}

/// Exports a pool of this process. One that cannot write any more is let go as well: the error says why.
fn leave(cx: &Context<'_>, pool: &OwnedPool, command: &str) -> anyhow::Result<()> {
    let logged = pool.writable().map_or(Ok(()), |pool| pool.log_command(command));
    let left = cx.owner.as_ref().map_or(Ok(()), |owner| owner.house.release(pool.guid(), Leave::Export));
    logged.and(left)
}
