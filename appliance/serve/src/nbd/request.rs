//! Validates and executes a request.

use super::export::{Export, Opened};
use super::handshake::{Agreed, REQUEST_BYTES_MAX};
use super::proto::{Command, Request, flag};
use super::reply::{Replies, errno, number};
use errors::Error;

/// Maximum number of extents in one reply to block status: half a MiB.
const EXTENTS_MAX: usize = 64 << 10;

/// Why a request is refused: error number and text.
pub(super) type Wrong = (u32, String);

/// Checks whether a request is valid for the export, before any of its data is received.
pub(super) fn check(request: &Request, agreed: Agreed, opened: &Opened) -> Result<(), Wrong> {
    use Command::{BlockStatus, Cache, Disconnect, Flush, Other, Read, Trim, Write, WriteZeroes};
    let wrong = |number: u32, text: &str| Err((number, text.to_owned()));
    if let Other(number) = request.command {
        return wrong(errno::INVAL, &format!("no such command: {number}"));
    }
    if request.flags & !request.command.flags() != 0 {
        return wrong(errno::INVAL, "a flag that does not go with the command");
    }
    if matches!(request.command, Write | Trim | WriteZeroes) && opened.is_read_only() {
        return wrong(errno::PERM, "it is read-only");
    }
    match request.command {
        Flush if request.offset != 0 || request.length != 0 => {
            return wrong(errno::INVAL, "a flush is of all");
        }
        Flush | Disconnect | Other(_) => return Ok(()),
        BlockStatus if !agreed.allocation => return wrong(errno::INVAL, "no context was agreed on"),
        BlockStatus if request.length == 0 => return wrong(errno::INVAL, "the requested range is empty"),
        Read if request.length > REQUEST_BYTES_MAX => return wrong(errno::OVERFLOW, "longer than 32 MiB"),
        Read | Write | Trim | WriteZeroes | BlockStatus | Cache => {}
    }
    let is_within = request.offset.checked_add(request.length.into()).is_some_and(|end| end <= opened.export.size());
    match request.command {
        _ if is_within => Ok(()),
        Write | WriteZeroes => wrong(errno::NOSPC, "beyond the end"),
        _ => wrong(errno::INVAL, "beyond the end"),
    }
}

/// Answers a read from the cache. Returns `false` if it has to wait for a device.
pub(super) fn read_at_once(request: &Request, agreed: Agreed, export: &dyn Export, out: &mut Replies) -> bool {
    let Ok(Some(parts)) = export.read_at_once(request.offset, request.length as usize) else { return false };
    out.read(request, agreed, request.flags & flag::DONT_FRAGMENT != 0, parts);
    true
}

/// Executes a checked request and answers it. Returns the error number, or 0.
pub(super) fn perform(request: &Request, data: &[u8], agreed: Agreed, export: &dyn Export, out: &mut Replies) -> u32 {
    match attempt(request, data, agreed, export, out) {
        Ok(()) => 0,
        Err((number, text)) => {
            out.error(request, agreed, number, &text);
            number
        }
    }
}

fn attempt(
    request: &Request,
    data: &[u8],
    agreed: Agreed,
    export: &dyn Export,
    out: &mut Replies,
) -> Result<(), Wrong> {
    let failure = |error: Error| (number(&error), error.to_string());
    let (offset, length) = (request.offset, u64::from(request.length));
    let has = |flag| request.flags & flag != 0;
    match request.command {
        Command::Read => {
            let parts = export.read(offset, request.length as usize).map_err(failure)?;
            out.read(request, agreed, has(flag::DONT_FRAGMENT), parts);
            return Ok(());
        }
        Command::BlockStatus => {
            let max = if has(flag::ONE_EXTENT) { 1 } else { EXTENTS_MAX };
            out.extents(request, &export.extents(offset, length, max).map_err(failure)?);
            return Ok(());
        }
        Command::Write => export.write(offset, data).map_err(failure)?,
        Command::WriteZeroes if has(flag::NO_HOLE) && has(flag::FAST_ZERO) => {
            return Err((errno::NOTSUP, "zeros that take space are not faster than other data".to_owned()));
        }
        Command::WriteZeroes => export.write_zeros(offset, length, !has(flag::NO_HOLE)).map_err(failure)?,
        Command::Trim => export.trim(offset, length).map_err(failure)?,
        Command::Cache => export.prefetch(offset, length),
        Command::Flush => export.flush().map_err(failure)?,
        Command::Disconnect | Command::Other(_) => {}
    }
    if has(flag::FUA) && matches!(request.command, Command::Write | Command::WriteZeroes | Command::Trim) {
        export.flush().map_err(failure)?;
    }
    out.done(request);
    Ok(())
}
