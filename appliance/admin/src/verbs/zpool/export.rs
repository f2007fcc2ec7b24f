//! `zpool export`: unmounts a pool, marks it as exported, and forgets it.
//!
//! Invariants:
//!   * a pool can always be exported, even if it cannot be written any more: its devices then show
//!     the state before the export

use super::{imported, records};
use crate::house::{self, Leave};
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use crate::{OwnedPool, cache_file, kept_keys, write};
use pool::status::{VdevAux, VdevStatus};
use std::sync::Arc;

/// Which pools to export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportRequest {
    /// None means all (`-a`).
    pub pools: Vec<String>,
    /// Unmount file systems that are in use, and export pools in which a spare is in use that they
    /// share with others (`-f`).
    pub force: bool,
    /// Do not mark the pools as exported on their devices, and leave them in their cache files
    /// (`-F`).
    pub unmarked: bool,
}

impl ExportRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.pools.is_empty(), "-a"), (self.force, "-f"), (self.unmarked, "-F")];
        line("zpool export", &flags, &[], self.pools.iter().map(String::as_str))
    }
}

/// Exports pools, and continues after one that is refused. Returns remarks for a person.
pub fn run(invocation: &Invocation<'_>, request: &ExportRequest) -> Result<Vec<String>, Refusal> {
    let mut tally = Tally::default();
    for record in &records(invocation, &request.pools, &mut tally)? {
        if (invocation.is_gone)() {
            return Err(tally.abort(Refusal::new(Kind::Failed, "cancelled")));
        }
        let mut remarks = Vec::new();
        let left = forgetting(invocation, record, "export", &mut remarks, |open, remarks| {
            export(invocation, record, open, request, remarks)
        });
        if left.is_ok() && !request.unmarked {
            cache_file::remove(record);
        }
        remarks.into_iter().for_each(|line| tally.note(line));
        if let Err(refusal) = left {
            tally.refuse(refusal);
        }
    }
    Ok(tally.finish()?.lines)
}

/// A pool that this process is to have open, or why it cannot be opened; `None`: it belongs to no
/// process.
pub(super) type Opened = anyhow::Result<Option<Arc<OwnedPool>>>;

/// Forgets that a pool is imported, calls `leave` to close it, and forgets its keys. In this order:
/// if the state folder cannot be written, nothing has changed yet. If `leave` fails, the pool is
/// imported as before.
///
/// The pool is opened first, since one that is not imported cannot be opened.
pub(super) fn forgetting(
    invocation: &Invocation<'_>,
    record: &Imported,
    verb: &str,
    remarks: &mut Vec<String>,
    leave: impl FnOnce(Opened, &mut Vec<String>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let open = if record.readonly { Ok(None) } else { invocation.owned(record) };
    let is_other = |p: &Imported| record.guid != p.guid || record.name != p.name;
    if let Err(error) = invocation.state.change(|pools| pools.retain(is_other)) {
        return Err(Reason::new(Kind::Failed, format!("{error:#}")).refuse(&format!("cannot {verb} '{}'", record.name)));
    }
    let left = leave(open, remarks);
    if left.is_ok() {
        kept_keys::forget(&invocation.state, record);
    } else if let Err(error) = invocation.state.change(|pools| pools.push(record.clone())) {
        remarks.push(format!("weir: '{}' is still imported, but will not be after a restart: {error:#}", record.name));
    }
    left
}

fn export(
    invocation: &Invocation<'_>,
    record: &Imported,
    open: Opened,
    request: &ExportRequest,
    remarks: &mut Vec<String>,
) -> Result<(), Refusal> {
    let cannot = format!("cannot export '{}'", record.name);
    if invocation.has_used_volume(record) {
        return Err(Reason::new(Kind::Conflict, "pool is busy").refuse(&cannot));
    }
    if !request.force && has_active_shared_spare(invocation, record)? {
        let name = &record.name;
        let why = format!(
            "use '-f' to override the following errors:\n'{name}' has an active shared spare which could be used by \
             other pools once '{name}' is exported."
        );
        return Err(Reason::new(Kind::Conflict, why).refuse(&cannot));
    }
    invocation.unmount_all(record, request.force)?;
    if record.readonly {
        close_unwritten(invocation, record);
        return Ok(());
    }
    let how = if request.unmarked { Leave::Close } else { Leave::Export };
    let exported = match open {
        Ok(Some(owned)) => leave(invocation, &owned, how),
        Ok(None) => write::open(&house::request(record)).and_then(|pool| {
            pool.log_command(&invocation.command)?;
            if request.unmarked { pool.close() } else { pool.export() }
        }),
        Err(error) => Err(error),
    };
    match exported {
        Ok(()) => Ok(()),
        Err(error) if write::is_in_use(&error) => Err(Reason::from(error).refuse(&cannot)),
        Err(error) => {
            remarks.push(format!(
                "weir: '{}' is closed, but could not be marked as exported on its devices: {}",
                record.name,
                Reason::from(error).text
            ));
            Ok(())
        }
    }
}

/// Whether a spare is in use in the pool that another imported pool lists too
/// (`spa_has_active_shared_spare`).
fn has_active_shared_spare(invocation: &Invocation<'_>, record: &Imported) -> Result<bool, Refusal> {
    let others = imported(invocation)?;
    let mut others = others.iter().filter(|other| other.guid != record.guid).peekable();
    if others.peek().is_none() {
        return Ok(false);
    }
    let spares = |record: &Imported| -> Vec<VdevStatus> {
        let status = match invocation.owned(record) {
            Ok(Some(owned)) => owned.view().ok().map(|view| view.status),
            _ => invocation.open_to_read(record).ok().and_then(|pool| pool.status().ok()),
        };
        // A pool that cannot be read can be exported, and shares nothing as far as is known.
        status.map(|status| status.spares).unwrap_or_default()
    };
    let active: Vec<u64> =
        spares(record).iter().filter(|spare| spare.aux == VdevAux::Spared).map(|spare| spare.guid).collect();
    Ok(!active.is_empty() && others.any(|other| spares(other).iter().any(|spare| active.contains(&spare.guid))))
}

/// Closes a pool that was imported read-only, if this process has it open.
pub(super) fn close_unwritten(invocation: &Invocation<'_>, record: &Imported) {
    if let Some(house) = &invocation.house {
        // Nothing is written to it: there is nothing that could fail.
        let _ = house.release(record.guid, Leave::Close);
    }
}

/// Exports or closes a pool of this process. A pool that cannot be written any more is closed as
/// well: the error says why.
fn leave(invocation: &Invocation<'_>, pool: &OwnedPool, how: Leave) -> anyhow::Result<()> {
    let logged = pool.writable().map_or(Ok(()), |pool| pool.log_command(&invocation.command));
    let left = invocation.house.as_ref().map_or(Ok(()), |house| house.release(pool.guid(), how));
    logged.and(left)
}
