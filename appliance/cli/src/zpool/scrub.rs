//! `zpool scrub` and `zpool resilver`: what [`admin::verbs::zpool::scan`] does, in OpenZFS's words,
//! with progress on a terminal.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, Parsed, flag};
use crate::number::{duration, nice_bytes};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::PoolLease;
use admin::verbs::zpool::scan::{self, ScanChange, ScanRequest};
use pool::status::{Progress, ScanStatus};
use std::time::{Duration, Instant};

/// The row of `zpool scrub`.
pub static SCRUB: Verb = for_owner("scrub", "Check all data and repair damage", run)
    .usage(&["[-e | -s | -p | -C] [-w] pool ..."])
    .options(&[
        flag('e', "Check only the files of the error log."),
        flag('p', "Pause a running scrub, which a scrub without options resumes."),
        flag('s', "Stop a running scrub."),
        flag('w', "Wait until the scrub has ended."),
        flag('C', "Check only data that was written since the last scrub."),
    ])
    .operands(&[ArgKind::Pool])
    .history("zpool scrub")
    .examples(&[("zpool scrub -w tank", "Check a pool, and wait for the end.")]);

/// The row of `zpool resilver`.
pub static RESILVER: Verb = for_owner("resilver", "Start a resilver, or restart a running one", resilver)
    .usage(&["pool ..."])
    .operands(&[ArgKind::Pool])
    .history("zpool resilver")
    .examples(&[("zpool resilver tank", "Begin the resilver of a pool from its start.")]);

/// How often to check whether a scan has ended or its caller has disconnected.
const LOOK: Duration = Duration::from_millis(200);
/// How often progress is printed on a terminal.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// `zpool scrub`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let has = |letter| parsed.has(letter);
    for (a, b) in [('s', 'p'), ('p', 'C'), ('s', 'C'), ('e', 'C')] {
        if has(a) && has(b) {
            return Err(Failure::usage(format!("invalid option combination: -{a} and -{b} are mutually exclusive")));
        }
    }
    if has('w') && (has('s') || has('p')) {
        return Err(Failure::usage("invalid option combination: -w cannot be used with -p or -s"));
    }
    let change = match (has('p'), has('s'), has('e'), has('C')) {
        (true, _, false, _) => ScanChange::Pause,
        (true, _, true, _) => ScanChange::PauseErrors,
        (_, true, _, _) => ScanChange::Stop,
        (_, _, true, _) => ScanChange::StartErrors,
        (_, _, _, true) => ScanChange::StartSinceLast,
        _ => ScanChange::Start,
    };
    each(cx, parsed, change, &call.history())
}

/// `zpool resilver`.
pub fn resilver(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    each(cx, parsed, ScanChange::RestartResilver, &call.history())
}

fn each(cx: &mut Context<'_>, parsed: &Parsed, change: ScanChange, command: &str) -> Outcome {
    if parsed.operands.is_empty() {
        return Err(Failure::usage("missing pool name argument"));
    }
    let request = ScanRequest { pools: parsed.operands.clone(), change, wait: parsed.has('w') };
    let invocation = cx.invocation(command.to_owned());
    scan::run(&invocation, &request, &mut |name, pool| follow(cx, pool, name))?;
    Ok(0)
}

/// Waits until the scan ends. If this process opened the pool for it, it shows progress on a
/// terminal.
pub(super) fn follow(cx: &mut Context<'_>, pool: &PoolLease, name: &str) {
    let writer = pool.writer();
    let shows_progress = !pool.stays() && cx.client.output_is_terminal();
    let mut reported = Instant::now();
    let mut lines = false;
    loop {
        let now = writer.scan_activity();
        if (!now.scrubbing && !now.resilvering) || cx.client.is_gone() || writer.failure().is_some() {
            break;
        }
        if shows_progress && reported.elapsed() >= REPORT_INTERVAL {
            reported = Instant::now();
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

/// The current time in seconds since 1970; 0 if the clock is set before.
pub fn host_seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
