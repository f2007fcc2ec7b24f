//! `zpool scrub` and `zpool resilver`.
//!
//! A process that owns the pool scans in the background; the command returns at once, or waits with
//! `-w`. Without one, the command keeps the pool open until the scan ends, and shows progress on a
//! terminal. The progress survives an interruption: the next `zpool scrub`, the next process that
//! opens the pool, and OpenZFS continue from there. The same holds for the resilver that follows
//! `zpool attach`, `replace`, `online` and `clear`.

use super::writing::{self, command_line, reason};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::number::{duration, nice_bytes};
use crate::state::Imported;
use admin::states::scan_refusal;
use admin::status::{Progress, ScanStatus};
use admin::verbs::PoolLease;
use pool::Writer;
use pool::writer::{ScanAnswer, ScanRefused};
use std::time::{Duration, Instant};

const SCRUB: Options = Options { short: "epswC", long: &[] };
const RESILVER: Options = Options { short: "", long: &[] };
/// How often to check whether a scan has ended or its caller has disconnected.
const LOOK: Duration = Duration::from_millis(200);
/// How often progress is printed on a terminal.
const TELL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Start,
    /// Only blocks written since the last scrub.
    StartSinceLast,
    StartErrors,
    Pause,
    PauseErrors,
    Stop,
    Resilver,
}

/// `zpool scrub`.
pub fn run(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = SCRUB.parse(args).map_err(Failure::usage)?;
    let has = |letter| parsed.has(letter);
    for (a, b) in [('s', 'p'), ('p', 'C'), ('s', 'C'), ('e', 'C')] {
        if has(a) && has(b) {
            return Err(Failure::usage(format!("invalid option combination: -{a} and -{b} are mutually exclusive")));
        }
    }
    if has('w') && (has('s') || has('p')) {
        return Err(Failure::usage("invalid option combination: -w cannot be used with -p or -s"));
    }
    let job = match (has('p'), has('s'), has('e'), has('C')) {
        (true, _, false, _) => Job::Pause,
        (true, _, true, _) => Job::PauseErrors,
        (_, true, _, _) => Job::Stop,
        (_, _, true, _) => Job::StartErrors,
        (_, _, _, true) => Job::StartSinceLast,
        _ => Job::Start,
    };
    each(cx, &parsed.operands, job, has('w'), &command_line("zpool scrub", args))
}

/// `zpool resilver`.
pub fn resilver(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = RESILVER.parse(args).map_err(Failure::usage)?;
    each(cx, &parsed.operands, Job::Resilver, false, &command_line("zpool resilver", args))
}

fn each(cx: &mut Context<'_>, names: &[String], job: Job, wait: bool, command: &str) -> Outcome {
    if names.is_empty() {
        return Err(Failure::usage("missing pool name argument"));
    }
    let mut code = 0;
    for name in names {
        let done = writing::record(cx, name).and_then(|record| one(cx, &record, job, wait, command));
        match done {
            Ok(()) => {}
            Err(Failure::Failed(message)) => {
                cx.complain(&message);
                code = 1;
            }
            Err(other) => return Err(other),
        }
    }
    Ok(code)
}

fn one(cx: &mut Context<'_>, record: &Imported, job: Job, wait: bool, command: &str) -> Result<(), Failure> {
    let name = &record.name;
    let cannot = match job {
        Job::Start | Job::StartSinceLast | Job::StartErrors => format!("cannot scrub {name}"),
        Job::Pause | Job::PauseErrors => format!("cannot pause scrubbing {name}"),
        Job::Stop => format!("cannot cancel scrubbing {name}"),
        Job::Resilver => format!("cannot restart resilver on {name}"),
    };
    let failed = |why: &str| Failure::failed(format!("{cannot}: {why}"));
    let pool = writing::open(cx, record, &cannot)?;
    let stays = pool.stays();
    let result = start(pool.writer(), job, stays).map_err(|e| failed(&writing::why(&e)));
    let answer = match result {
        Ok(answer) => answer,
        Err(error) => {
            let _ = pool.finish();
            return Err(error);
        }
    };
    let runs = matches!(job, Job::Start | Job::StartSinceLast | Job::StartErrors | Job::Resilver);
    let done = match answer {
        // Nothing to pause: OpenZFS counts that as success.
        Err(ScanRefused::NoScan) if matches!(job, Job::Pause | Job::PauseErrors) => Ok(()),
        Err(ScanRefused::ScrubPaused) if job == Job::StartErrors => {
            Err(failed("scrub is paused; use 'zpool scrub' to resume or 'zpool scrub -s' to cancel scrub"))
        }
        Err(why) => Err(failed(scan_refusal(why))),
        Ok(()) => {
            let noted = pool.note_command(command).map_err(|e| failed(&reason(&e)));
            if noted.is_ok() && runs && (wait || !stays) {
                follow(cx, &pool, name, !stays);
            }
            noted
        }
    };
    let closed = pool.finish().map_err(|e| failed(&reason(&e)));
    done.and(closed)
}

/// Resilvers devices that miss data. The process that owns the pool does it in the background. If
/// no process owns the pool, this command does it and returns when the resilver ends, as it does
/// with `wait`.
pub(super) fn resilver_due(cx: &mut Context<'_>, pool: &PoolLease, name: &str, wait: bool) -> anyhow::Result<()> {
    if !pool.writer().needs_resilver() {
        return Ok(());
    }
    let stays = pool.stays();
    if !stays {
        pool.writer().run_scans()?;
    }
    if wait || !stays {
        follow(cx, pool, name, !stays);
    }
    Ok(())
}

/// Runs the scans of a pool that only this process has open, and waits for their end.
pub(super) fn finish(cx: &mut Context<'_>, pool: &PoolLease, name: &str) -> anyhow::Result<()> {
    pool.writer().run_scans()?;
    follow(cx, pool, name, true);
    Ok(())
}

/// Opens the pool and runs [`resilver_due`].
pub(super) fn resilver_now(cx: &mut Context<'_>, record: &Imported, wait: bool) -> Result<(), Failure> {
    let cannot = format!("cannot resilver {}", record.name);
    let pool = writing::open(cx, record, &cannot)?;
    let done = resilver_due(cx, &pool, &record.name, wait);
    let closed = pool.finish();
    done.and(closed).map_err(|e| Failure::failed(format!("{cannot}: {}", reason(&e))))
}

fn start(writer: &Writer, job: Job, stays: bool) -> pool::Result<ScanAnswer> {
    let answer = match job {
        Job::Start => writer.start_scrub()?,
        Job::StartSinceLast => writer.start_scrub_since_last()?,
        Job::StartErrors => writer.start_error_scrub()?,
        Job::Pause => writer.pause_scrub()?,
        Job::PauseErrors => writer.pause_error_scrub()?,
        Job::Stop => writer.stop_scrub()?,
        Job::Resilver => {
            writer.restart_resilver()?;
            Ok(())
        }
    };
    // An interrupted command left the scan running: continue it.
    let goes_on = !stays
        && matches!(
            (job, answer),
            (Job::Start | Job::StartSinceLast, Err(ScanRefused::Scrubbing))
                | (Job::StartErrors, Err(ScanRefused::ErrorScrubbing))
        );
    if answer.is_ok() || goes_on {
        // Pausing and stopping need no scan task.
        if !matches!(job, Job::Pause | Job::PauseErrors | Job::Stop) {
            writer.run_scans()?;
        }
        return Ok(Ok(()));
    }
    Ok(answer)
}

/// Waits until the scan ends. `tell`: show progress on a terminal.
fn follow(cx: &mut Context<'_>, pool: &PoolLease, name: &str, tell: bool) {
    let writer = pool.writer();
    let tell = tell && cx.client.output_is_terminal();
    let mut told = Instant::now();
    let mut lines = false;
    loop {
        let now = writer.scan_activity();
        if (!now.scrubbing && !now.resilvering) || cx.client.is_gone() || writer.failure().is_some() {
            break;
        }
        if tell && told.elapsed() >= TELL {
            told = Instant::now();
            if let Some(text) =
                writer.shown().ok().and_then(|p| p.status().ok()).and_then(|s| s.scan).and_then(|s| line(&s))
            {
                cx.print(&format!("\r\x1b[K{name}: {text}"));
                let _ = cx.out.flush();
                lines = true;
            }
        }
        writer.wait_for_scan(LOOK);
    }
    if lines {
        cx.print("\r\x1b[K");
    }
}

/// The progress as one line for a terminal.
fn line(scan: &ScanStatus) -> Option<String> {
    if scan.state != Progress::Active {
        return None;
    }
    let total = scan.to_examine_bytes.saturating_sub(scan.skipped_bytes);
    let seconds = host_seconds().saturating_sub(scan.pass_start).max(1);
    let rate = scan.pass_issued_bytes / seconds;
    let percent = 100.0 * scan.issued_bytes() as f64 / total.max(1) as f64;
    let left = match rate {
        0 => String::new(),
        rate => format!(", {} to go", duration(total.saturating_sub(scan.issued_bytes()) / rate)),
    };
    let (done, all, rate) = (nice_bytes(scan.issued_bytes()), nice_bytes(total), nice_bytes(rate));
    Some(format!("{percent:.1}% done, {done} of {all} at {rate}/s{left}, {} errors", scan.errors))
}

/// Seconds since 1970.
pub fn host_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
