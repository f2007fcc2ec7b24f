//! `zpool export`: unmounts a pool, marks it as exported, and forgets it.
//!
//! Invariants:
//!   * a pool can always be exported, even if it can no longer be written: its labels then stay as
//!     they were

use super::writing::{command_line, is_in_use, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::state::Imported;
use admin::OwnedPool;
use admin::house::Leave;
use std::sync::Arc;

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
        if let Err(message) =
            forgetting(cx, record, "export", |cx, open| export(cx, record, open, &command, parsed.has('f')))
        {
            cx.complain(&message);
            code = 1;
        }
    }
    Ok(code)
}

/// A pool that this process should own, or the error from opening it; `None`: no process owns the
/// pool.
pub type Opened = anyhow::Result<Option<Arc<OwnedPool>>>;

/// Removes the record that a pool is imported, calls `leave` to close the pool, and forgets its
/// keys. In this order, nothing has changed yet if the state folder cannot be written. If `leave`
/// fails, the pool is imported as before.
///
/// The pool is opened first, because a pool without that record cannot be opened.
pub fn forgetting(
    cx: &mut Context<'_>,
    record: &Imported,
    verb: &str,
    leave: impl FnOnce(&mut Context<'_>, Opened) -> Result<(), String>,
) -> Result<(), String> {
    let open = if record.readonly { Ok(None) } else { super::pools::owned(cx, record) };
    let forgotten = cx.state.change(|pools| pools.retain(|p| record.guid != p.guid || record.name != p.name));
    forgotten.map_err(|error| format!("cannot {verb} '{}': {error:#}", record.name))?;
    let left = leave(cx, open);
    if left.is_ok() {
        crate::zfs::keys::forget(&cx.state, record);
    } else if let Err(error) = cx.state.change(|pools| pools.push(record.clone())) {
        cx.complain(&format!("weir: '{}' is still imported, but will not be after a restart: {error:#}", record.name));
    }
    left
}

fn export(cx: &mut Context<'_>, record: &Imported, open: Opened, command: &str, force: bool) -> Result<(), String> {
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
    let exported = match open {
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
                "weir: '{}' is closed, but could not be marked as exported on its devices: {}",
                record.name,
                reason(&error)
            ));
            Ok(())
        }
    }
}

/// Exports a pool of this process. A pool that can no longer write is closed too; the error reports
/// why it was not exported cleanly.
fn leave(cx: &Context<'_>, pool: &OwnedPool, command: &str) -> anyhow::Result<()> {
    let logged = pool.writable().map_or(Ok(()), |pool| pool.log_command(command));
    let left = cx.owner.as_ref().map_or(Ok(()), |owner| owner.house.release(pool.guid(), Leave::Export));
    logged.and(left)
}
