//! `zpool remove`.
//!
//! Logs, spares and cache devices leave at once. Device removal of data devices first copies their
//! blocks away: in the background, if a process owns the pool. Without one, the verb keeps the pool
//! open until the copy is complete; if it is interrupted, the next process that opens the pool
//! continues.

use super::{device, finish, lease_status, record};
use crate::remove;
use crate::verbs::line::line;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use pool::status::VdevClass;

/// Operands of `zpool remove`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoveRequest {
    pub pool: String,
    pub devices: Vec<String>,
}

impl RemoveRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let operands = std::iter::once(&self.pool).chain(&self.devices).map(String::as_str);
        line("zpool remove", &[], &[], operands)
    }

    fn cannot(&self) -> String {
        format!("cannot remove {}", self.devices.first().map(String::as_str).unwrap_or_default())
    }
}

/// Removes devices, and continues after one that is refused. Returns whether the removal may still
/// be running in the process that owns the pool.
pub fn run(invocation: &Invocation<'_>, request: &RemoveRequest) -> Result<bool, Refusal> {
    let record = record(invocation, &request.pool)?;
    let pool = invocation.open(&record).map_err(|reason| reason.refuse(&request.cannot()))?;
    let before = lease_status(&pool)?;
    let mut tally = Tally::default();
    for name in &request.devices {
        let removed = device(&before, name).and_then(|found| Ok(remove::remove(&pool, found.guid)?));
        if let Err(reason) = removed {
            tally.refuse(reason.refuse(&format!("cannot remove {name}")));
        }
    }
    let stays = pool.stays();
    if stays || tally.is_refused() {
        finish(invocation, pool, tally)?;
        return Ok(stays);
    }
    pool.note_command(&invocation.command).map_err(|e| Reason::from(e).alone())?;
    let done = pool.writer().finish_removal(&*invocation.is_gone);
    let closed = pool.finish();
    done.map_err(Into::into).and(closed).map_err(|e| Reason::from(e).refuse(&request.cannot()))?;
    Ok(false)
}

/// Stops the removal that is running (`-s`).
pub fn stop(invocation: &Invocation<'_>, pool: &str) -> Result<(), Refusal> {
    let record = record(invocation, pool)?;
    let stopped = invocation.change(&record, |pool| Ok(pool.writer().cancel_removal()?));
    stopped.map_err(|reason| reason.refuse("cannot cancel removal"))
}

/// Reports how many bytes of memory the indirect mappings of each device would take after its
/// removal (`-n`), until one is refused.
pub fn mapping_bytes(
    invocation: &Invocation<'_>,
    request: &RemoveRequest,
    report: &mut dyn FnMut(&str, u64),
) -> Result<(), Refusal> {
    let pool = invocation.open_to_read(&record(invocation, &request.pool)?)?;
    let status = pool.status().map_err(|e| Reason::from(e).alone())?;
    for name in &request.devices {
        let cannot = format!("cannot determine indirect size of {name}");
        let found = device(&status, name).map_err(|reason| reason.refuse(&cannot))?;
        let bytes = match found.class {
            VdevClass::Log | VdevClass::Spare | VdevClass::Cache => Some(0),
            _ => pool.mapping_bytes_if_removed(found.guid).map_err(|e| Reason::from(e).refuse(&cannot))?,
        };
        let absent = || Reason::new(Kind::Invalid, "indirect size not available").refuse(&cannot);
        report(name, bytes.ok_or_else(absent)?);
    }
    Ok(())
}
