//! `zpool clear`: clears error counters, and resumes a suspended pool.

use super::scan::{Follow, resilver_now};
use super::{device, is_idle_spare, record, status};
use crate::clear;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal};

/// Operands of `zpool clear`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClearRequest {
    pub pool: String,
    /// A device; `None`: all of the pool.
    pub device: Option<String>,
}

impl ClearRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        line("zpool clear", &[], &[], [&*self.pool].into_iter().chain(self.device.as_deref()))
    }
}

/// Clears. A process that owns the pool then resilvers in the background; without one, the verb
/// does it.
pub fn run(invocation: &Invocation<'_>, request: &ClearRequest, follow: &mut Follow<'_>) -> Result<(), Refusal> {
    let record = record(invocation, &request.pool)?;
    let cannot = format!("cannot clear errors for {}", request.device.as_ref().unwrap_or(&request.pool));
    let mut guid = None;
    if let Some(name) = &request.device {
        let status = status(invocation, &record, &cannot)?;
        let found = device(&status, name).map_err(|reason| reason.refuse(&cannot))?;
        if is_idle_spare(found) {
            return Err(Reason::new(Kind::Conflict, "device is reserved as a hot spare").refuse(&cannot));
        }
        guid = Some(found.guid).filter(|_| found.kind != "root");
    }
    let cleared = invocation.change(&record, |pool| Ok(clear::clear(pool, guid)?));
    cleared.map_err(|reason| reason.refuse(&cannot))?;
    match invocation.house {
        Some(_) => Ok(()),
        None => resilver_now(invocation, &record, false, follow),
    }
}
