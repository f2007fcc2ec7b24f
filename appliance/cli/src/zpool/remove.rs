//! `zpool remove`.
//!
//! Logs, spares and cache devices leave at once. Device removal of data devices first copies their
//! blocks away: in the background, if a process owns the pool. Without one, the command keeps the
//! pool open until the copy is complete; if it is interrupted, the next process that opens the pool
//! continues.

use super::pools;
use super::states::{finish, operands, status};
use super::wait::{Activity, until_done};
use super::writing::{self, command_line, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::number::nice_number;
use crate::state::Imported;
use admin::status::VdevClass;
use admin::vdev_names as names;

const OPTIONS: Options = Options { short: "npsw", long: &[] };

/// `zpool remove`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let (stops, only_asks) = (parsed.has('s'), parsed.has('n'));
    if stops && only_asks {
        cx.complain("stop request ignored");
        return Ok(0);
    }
    if stops {
        if parsed.has('w') {
            return Err(Failure::usage("invalid option combination: -w cannot be used with -s"));
        }
        return stop(cx, &parsed.operands, args);
    }
    let (name, devices) = operands(&parsed, "missing device")?;
    let record = writing::record(cx, name)?;
    if only_asks {
        return ask(cx, &record, devices, parsed.has('p'));
    }
    let pool = writing::open(cx, &record, &format!("cannot remove {}", devices[0]))?;
    let before = status(&pool)?;
    let mut code = 0;
    for device in devices {
        let result = match names::find(&before, device) {
            None => Err("no such device in pool".to_owned()),
            Some(found) => admin::remove::remove(&pool, found.guid).map_err(|e| reason(&e)),
        };
        if let Err(why) = result {
            cx.complain(&format!("cannot remove {device}: {why}"));
            code = 1;
        }
    }
    let stays = pool.stays();
    if code == 0 && !stays {
        pool.note_command(&command_line("zpool remove", args)).map_err(|e| Failure::failed(reason(&e)))?;
        let done = pool.writer().finish_removal(&|| cx.client.is_gone());
        let closed = pool.finish();
        done.map_err(Into::into)
            .and(closed)
            .map_err(|e| Failure::failed(format!("cannot remove {}: {}", devices[0], reason(&e))))?;
        return Ok(0);
    }
    let code = finish(pool, &command_line("zpool remove", args), code)?;
    match code == 0 && parsed.has('w') {
        true => until_done(cx, &record, &[Activity::Remove]),
        false => Ok(code),
    }
}

fn stop(cx: &mut Context<'_>, words: &[String], args: &[String]) -> Outcome {
    let name = match words {
        [] => return Err(Failure::usage("missing pool name argument")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let record = writing::record(cx, name)?;
    writing::change(cx, &record, "cannot cancel removal", &command_line("zpool remove", args), |pool| {
        Ok(pool.writer().cancel_removal()?)
    })?;
    Ok(0)
}

/// `-n`: prints how much memory the indirect mappings of the devices would take after their
/// removal.
fn ask(cx: &mut Context<'_>, record: &Imported, devices: &[String], parsable: bool) -> Outcome {
    let pool = pools::open(cx, record)?;
    let status = pool.status().map_err(|e| Failure::failed(writing::why(&e)))?;
    for device in devices {
        let refused = |why: &str| Failure::failed(format!("cannot determine indirect size of {device}: {why}"));
        let found = names::find(&status, device).ok_or_else(|| refused("no such device in pool"))?;
        let bytes = match found.class {
            VdevClass::Log | VdevClass::Spare | VdevClass::Cache => Some(0),
            _ => pool.mapping_bytes_if_removed(found.guid).map_err(|e| refused(&writing::why(&e)))?,
        };
        let bytes = bytes.ok_or_else(|| refused("indirect size not available"))?;
        cx.print(&match parsable {
            true => format!("{device} {bytes}\n"),
            false => format!("Memory that will be used after removing {device}: {}\n", nice_number(bytes)),
        });
    }
    Ok(0)
}
