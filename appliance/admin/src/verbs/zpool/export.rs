//! `zpool export`: unmounts a pool, marks it as exported, and forgets it.
//!
//! Invariants:
//!   * a pool can always be exported, even if it cannot be written any more: its devices then show
//!     the state before the export

use super::records;
use crate::house::{self, Leave};
use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use crate::{OwnedPool, cache_file, kept_keys, write};
use std::sync::Arc;

/// Which pools to export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportRequest {
    /// None means all (`-a`).
    pub pools: Vec<String>,
    /// Unmount file systems that are in use (`-f`).
    pub force: bool,
}

impl ExportRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.pools.is_empty(), "-a"), (self.force, "-f")];
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
            export(invocation, record, open, request.force, remarks)
        });
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
        cache_file::remove(record);
    } else if let Err(error) = invocation.state.change(|pools| pools.push(record.clone())) {
        remarks.push(format!("weir: '{}' is still imported, but will not be after a restart: {error:#}", record.name));
    }
    left
}

fn export(
    invocation: &Invocation<'_>,
    record: &Imported,
    open: Opened,
    force: bool,
    remarks: &mut Vec<String>,
) -> Result<(), Refusal> {
    let cannot = format!("cannot export '{}'", record.name);
    if invocation.has_used_volume(record) {
        return Err(Reason::new(Kind::Conflict, "pool is busy").refuse(&cannot));
    }
    invocation.unmount_all(record, force)?;
    if record.readonly {
        if let Some(house) = &invocation.house {
            // Nothing is written to it: there is nothing that could fail.
            let _ = house.release(record.guid, Leave::Close);
        }
        return Ok(());
    }
    let exported = match open {
        Ok(Some(owned)) => leave(invocation, &owned),
        Ok(None) => write::open(&house::request(record)).and_then(|pool| {
            pool.log_command(&invocation.command)?;
            pool.export()
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

/// Exports a pool of this process. A pool that cannot be written any more is closed as well: the
/// error says why.
fn leave(invocation: &Invocation<'_>, pool: &OwnedPool) -> anyhow::Result<()> {
    let logged = pool.writable().map_or(Ok(()), |pool| pool.log_command(&invocation.command));
    let left = invocation.house.as_ref().map_or(Ok(()), |house| house.release(pool.guid(), Leave::Export));
    logged.and(left)
}
