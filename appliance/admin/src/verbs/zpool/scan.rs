//! `zpool scrub` and `zpool resilver`.
//!
//! A process that owns the pool scans in the background. Without one, the verb keeps the pool open
//! until the scan ends. The progress survives an interruption: the next `zpool scrub`, the next
//! process that opens the pool, and OpenZFS continue from there. The same holds for the resilver
//! that follows `zpool attach`, `replace`, `online` and `clear`.

use super::record;
use crate::state::Imported;
use crate::states::scan_refusal;
use crate::verbs::line::line;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, Kind, PoolLease, Reason, Refusal};
use pool::Writer;
use pool::writer::{ScanAnswer, ScanRefused};

/// Waits until the scan of an open pool ends, or its caller has disconnected. The pool's name comes
/// first.
pub type Follow<'a> = dyn FnMut(&str, &PoolLease) + 'a;

/// What happens to the scan of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanChange {
    /// Start a scrub, or resume one that is paused.
    Start,
    /// Only blocks written since the last scrub (`-C`).
    StartSinceLast,
    /// Only blocks with known errors (`-e`).
    StartErrors,
    /// `-p`.
    Pause,
    /// `-e -p`.
    PauseErrors,
    /// `-s`.
    Stop,
    /// `zpool resilver`.
    RestartResilver,
}

/// Scans to start, pause or stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanRequest {
    pub pools: Vec<String>,
    pub change: ScanChange,
    /// Wait until the scan ends (`-w`).
    pub wait: bool,
}

impl ScanRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let (verb, flag) = match self.change {
            ScanChange::Start => ("zpool scrub", None),
            ScanChange::StartSinceLast => ("zpool scrub", Some("-C")),
            ScanChange::StartErrors => ("zpool scrub", Some("-e")),
            ScanChange::Pause => ("zpool scrub", Some("-p")),
            ScanChange::PauseErrors => ("zpool scrub", Some("-ep")),
            ScanChange::Stop => ("zpool scrub", Some("-s")),
            ScanChange::RestartResilver => ("zpool resilver", None),
        };
        let flags = [(flag.is_some(), flag.unwrap_or_default()), (self.wait, "-w")];
        line(verb, &flags, &[], self.pools.iter().map(String::as_str))
    }
}

/// Changes the scans of pools, and continues after one that is refused.
pub fn run(invocation: &Invocation<'_>, request: &ScanRequest, follow: &mut Follow<'_>) -> Result<(), Refusal> {
    let mut tally = Tally::default();
    for name in &request.pools {
        let done = record(invocation, name).and_then(|record| one(invocation, request, &record, follow));
        if let Err(refusal) = done {
            tally.refuse(refusal);
        }
    }
    tally.finish().map(drop)
}

fn one(
    invocation: &Invocation<'_>,
    request: &ScanRequest,
    record: &Imported,
    follow: &mut Follow<'_>,
) -> Result<(), Refusal> {
    let (change, name) = (request.change, &record.name);
    let cannot = match change {
        ScanChange::Start | ScanChange::StartSinceLast | ScanChange::StartErrors => format!("cannot scrub {name}"),
        ScanChange::Pause | ScanChange::PauseErrors => format!("cannot pause scrubbing {name}"),
        ScanChange::Stop => format!("cannot cancel scrubbing {name}"),
        ScanChange::RestartResilver => format!("cannot restart resilver on {name}"),
    };
    let pool = invocation.open(record).map_err(|reason| reason.refuse(&cannot))?;
    let done = in_pool(invocation, request, &pool, name, follow);
    let closed = pool.finish().map_err(Reason::from);
    done.and(closed).map_err(|reason| reason.refuse(&cannot))
}

fn in_pool(
    invocation: &Invocation<'_>,
    request: &ScanRequest,
    pool: &PoolLease,
    name: &str,
    follow: &mut Follow<'_>,
) -> Result<(), Reason> {
    let (change, stays) = (request.change, pool.stays());
    let is_pause = matches!(change, ScanChange::Pause | ScanChange::PauseErrors);
    if change == ScanChange::StartErrors && !pool.writer().feature_enabled("head_errlog") {
        return Err(Reason::new(Kind::Unsupported, "operation not supported on this type of pool"));
    }
    if change == ScanChange::RestartResilver && !pool.writer().feature_enabled("resilver_defer") {
        return Err(Reason::new(Kind::Unsupported, "this action requires the resilver_defer feature"));
    }
    match start(pool.writer(), change, stays)? {
        // Nothing to pause: OpenZFS counts that as success.
        Err(ScanRefused::NoScan) if is_pause => return Ok(()),
        Err(ScanRefused::ScrubPaused) if change == ScanChange::StartErrors => {
            let why = "scrub is paused; use 'zpool scrub' to resume or 'zpool scrub -s' to cancel scrub";
            return Err(Reason::new(Kind::Conflict, why));
        }
        Err(why) => return Err(Reason::new(Kind::Conflict, scan_refusal(why))),
        Ok(()) => {}
    }
    pool.note_command(&invocation.command)?;
    if !is_pause && change != ScanChange::Stop && (request.wait || !stays) {
        follow(name, pool);
    }
    Ok(())
}

fn start(writer: &Writer, change: ScanChange, stays: bool) -> errors::Result<ScanAnswer> {
    let answer = match change {
        ScanChange::Start => writer.start_scrub()?,
        ScanChange::StartSinceLast => writer.start_scrub_since_last()?,
        ScanChange::StartErrors => writer.start_error_scrub()?,
        ScanChange::Pause => writer.pause_scrub()?,
        ScanChange::PauseErrors => writer.pause_error_scrub()?,
        ScanChange::Stop => writer.stop_scrub()?,
        ScanChange::RestartResilver => {
            writer.restart_resilver()?;
            Ok(())
        }
    };
    // An interrupted command left the scan running: continue it.
    let is_left = !stays
        && matches!(
            (change, answer),
            (ScanChange::Start | ScanChange::StartSinceLast, Err(ScanRefused::Scrubbing))
                | (ScanChange::StartErrors, Err(ScanRefused::ErrorScrubbing))
        );
    if answer.is_ok() || is_left {
        // Pausing and stopping need no scan task.
        if !matches!(change, ScanChange::Pause | ScanChange::PauseErrors | ScanChange::Stop) {
            writer.run_scans()?;
        }
        return Ok(Ok(()));
    }
    Ok(answer)
}

/// Resilvers devices that miss data. The process that owns the pool does it in the background. If
/// no process owns the pool, the verb does it and returns when the resilver ends, as it does with
/// `wait`.
pub(super) fn resilver_due(pool: &PoolLease, name: &str, wait: bool, follow: &mut Follow<'_>) -> anyhow::Result<()> {
    if !pool.writer().needs_resilver() {
        return Ok(());
    }
    let stays = pool.stays();
    if !stays {
        pool.writer().run_scans()?;
    }
    if wait || !stays {
        follow(name, pool);
    }
    Ok(())
}

/// Opens the pool and runs [`resilver_due`].
pub(super) fn resilver_now(
    invocation: &Invocation<'_>,
    record: &Imported,
    wait: bool,
    follow: &mut Follow<'_>,
) -> Result<(), Refusal> {
    let cannot = format!("cannot resilver {}", record.name);
    let pool = invocation.open(record).map_err(|reason| reason.refuse(&cannot))?;
    let done = resilver_due(&pool, &record.name, wait, follow);
    let closed = pool.finish();
    done.and(closed).map_err(|e| Reason::from(e).refuse(&cannot))
}
