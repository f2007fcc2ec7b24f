//! The jobs "scrub" and "resilver": they show work of a pool, whatever started it.

use crate::jobs::{Finished, Jobs, Running};
use admin::OwnedPool;
use anyhow::Result;
use api::JobKind;
use pool::status::{Progress, ScanStatus};
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the progress is updated.
const LOOKED: Duration = Duration::from_millis(500);

/// Shows the active scan of a pool, unless a job already does.
pub fn show(jobs: &Jobs, pool: &Arc<OwnedPool>) {
    let Some(writable) = pool.writable() else { return };
    let activity = writable.writer().scan_activity();
    let kind = match (activity.scrubbing, activity.resilvering) {
        (_, true) => JobKind::Resilver,
        (true, _) => JobKind::Scrub,
        _ => return,
    };
    let name = pool.name();
    if jobs.running_on(&[JobKind::Scrub, JobKind::Resilver], &name).is_some() {
        return;
    }
    let pool = pool.clone();
    if let Err(why) = jobs.start(kind, &name, "the pool", move |running| follow(&pool, running)) {
        tracing::debug!(pool = name, why, "cannot show the scan");
    }
}

/// Begins a scrub, or resumes a paused one. The error is a sentence.
pub fn begin(pool: &OwnedPool) -> Result<(), String> {
    let writable = pool.writable().ok_or("the pool is imported read-only")?;
    match writable.writer().start_scrub() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refused)) => Err(admin::states::scan_refusal(refused).to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Ends a scrub. A scrub that has already ended is no error.
pub fn stop(pool: &OwnedPool) -> Result<(), String> {
    let Some(writable) = pool.writable() else { return Ok(()) };
    match writable.writer().stop_scrub() {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Status of the pool's last scan.
fn status(pool: &OwnedPool) -> Option<ScanStatus> {
    pool.pool().ok()?.status().ok()?.scan
}

/// Reports the progress of a scan until it ends, or the job is cancelled.
pub fn follow(pool: &OwnedPool, running: &Running) -> Result<Finished> {
    loop {
        let Some(writable) = pool.writable() else { return Ok(Finished::default()) };
        let activity = writable.writer().scan_activity();
        let now = status(pool);
        let is_paused = now.as_ref().is_some_and(|s| s.state == Progress::Active && s.pause_time != 0);
        if let Some(scan) = &now {
            let doing = match (is_paused, activity.resilvering) {
                (true, _) => "paused",
                (_, true) => "resilvering devices",
                _ => "reading every copy",
            };
            running.progress(doing, scan.issued_bytes(), scan.to_examine_bytes);
        }
        if !activity.scrubbing && !activity.resilvering && !is_paused {
            let message = now.map(|scan| summary(&scan));
            return Ok(Finished { message, verification: None });
        }
        // A cancelled job only stops showing the scan; the caller ends the scan itself.
        if running.is_cancelled() {
            return Ok(Finished::default());
        }
        std::thread::sleep(LOOKED);
    }
}

fn summary(scan: &ScanStatus) -> String {
    let bytes = dataset::property::format::nice_bytes(scan.processed_bytes);
    match scan.state {
        Progress::Cancelled => "it was stopped".to_owned(),
        _ if scan.errors == 0 => format!("{bytes} repaired, no errors"),
        _ => format!("{bytes} repaired, {} errors could not be repaired", scan.errors),
    }
}
