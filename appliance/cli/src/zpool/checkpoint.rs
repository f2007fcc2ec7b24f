//! `zpool checkpoint`.
//!
//! Discarding a checkpoint frees its blocks step by step. A process that owns the pool does it in
//! the background. Without one, the command keeps the pool open until all blocks are freed; if it
//! is interrupted, the next process that opens the pool continues.

use super::wait::{Activity, until_done};
use super::writing::{self, command_line, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;

const OPTIONS: Options = Options { short: "dw", long: &[("discard", false, 'd'), ("wait", false, 'w')] };

/// `zpool checkpoint`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = OPTIONS.parse(args).map_err(Failure::usage)?;
    let (discards, waits) = (parsed.has('d'), parsed.has('w'));
    if waits && !discards {
        return Err(Failure::usage("--wait only valid when --discard also specified"));
    }
    let name = match parsed.operands.as_slice() {
        [] => return Err(Failure::usage("missing pool argument")),
        [name] => name,
        _ => return Err(Failure::usage("too many arguments")),
    };
    let record = writing::record(cx, name).inspect_err(|_| {
        if name.contains('/') {
            cx.complain(
                "'zpool checkpoint' doesn't work on datasets. To save the state of a dataset from a specific point in \
                 time please use 'zfs snapshot'",
            );
        }
    })?;
    let cannot = match discards {
        false => format!("cannot checkpoint '{name}'"),
        true => format!("cannot discard checkpoint in '{name}'"),
    };
    let pool = writing::open(cx, &record, &cannot)?;
    let writer = pool.writer();
    let result = match discards {
        false => writer.checkpoint(),
        true => writer.discard_checkpoint(),
    };
    let noted = result.map_err(Into::into).and_then(|()| pool.note_command(&command_line("zpool checkpoint", args)));
    let done = match noted {
        Ok(()) if discards && !pool.stays() => writer.finish_discarding(&|| cx.client.is_gone()).map_err(Into::into),
        other => other,
    };
    let stays = pool.stays();
    let closed = pool.finish();
    done.and(closed).map_err(|e| Failure::failed(format!("{cannot}: {}", reason(&e))))?;
    match waits && stays {
        true => until_done(cx, &record, &[Activity::Discard]),
        false => Ok(0),
    }
}
