//! The job "verify": reads everything in a pool and compares it with its checksums, while the pool
//! is in use.

use crate::jobs::{Finished, Running};
use admin::verify::{self as verifying, Place, Verdict};
use admin::{OpenPool, OwnedPool};
use anyhow::{Result, bail};
use api::{DamagedDevice, DamagedFile, Verification};
use pool::scan::Phase;

/// Limit for the damaged files that are listed.
const NAMED: usize = 1_000;

/// Verifies the pool in the state of its newest synced txg.
pub fn verify(pool: &OwnedPool, running: &Running) -> Result<Finished> {
    // Freed blocks are not reallocated meanwhile, so that the view stays intact.
    let kept = pool.writable().map(|writable| writable.writer().allocator().keep_freed());
    let open = OpenPool { datasets: pool.datasets()?, keys: pool.keys().clone() };
    let found = verifying::verify(&open, 0, &|progress| {
        let doing = match progress.phase {
            Phase::SpaceMaps => "loading space maps",
            Phase::Blocks => "reading blocks",
            Phase::Compare => "comparing",
        };
        running.progress(doing, progress.done_bytes, progress.total_bytes);
        !running.is_cancelled() && kept.as_ref().is_none_or(|kept| kept.holds())
    })?;
    if kept.as_ref().is_some_and(|kept| !kept.holds()) {
        bail!("the pool is nearly full, and the space being verified was reused; try again when it is not written to");
    }
    if running.is_cancelled() {
        return Ok(Finished::default());
    }
    let summary = summary(&found);
    let message = match (summary.verdict, summary.damaged_blocks, summary.lost_blocks) {
        (api::Verdict::Clean, ..) => format!("all {} blocks are intact", summary.blocks),
        (api::Verdict::Damaged, 0, _) => "all data is readable, but there are errors".to_owned(),
        (api::Verdict::Damaged, n, _) => format!("all data is readable; {n} blocks have damaged copies"),
        (api::Verdict::Lost, _, n) => format!("{n} blocks cannot be read"),
    };
    Ok(Finished { message: Some(message), verification: Some(summary) })
}

fn summary(found: &verifying::Verification) -> Verification {
    let report = &found.report;
    let mut notes = Vec::new();
    let mut note = |wrong: bool, text: String| {
        if wrong {
            notes.push(text);
        }
    };
    note(
        report.malformed_blocks > 0,
        format!(
            "{} of the blocks that cannot be read have the right checksum, but do not decrypt or decompress",
            report.malformed_blocks
        ),
    );
    note(
        report.sealed_blocks > 0,
        format!(
            "{} blocks are encrypted and their key is not loaded: only their checksums were compared",
            report.sealed_blocks
        ),
    );
    note(report.leaked_bytes > 0, format!("{} bytes are allocated but not referenced (leaked)", report.leaked_bytes));
    note(
        report.unallocated_bytes > 0,
        format!(
            "{} bytes are referenced but free in the space maps: writes could overwrite them",
            report.unallocated_bytes
        ),
    );
    note(report.doubly_used_bytes > 0, format!("{} bytes are allocated to two blocks", report.doubly_used_bytes));
    note(
        report.wrong_references_count > 0,
        format!("{} shared blocks have wrong reference counts", report.wrong_references_count),
    );
    notes.extend(report.space_anomalies.iter().take(100).cloned());
    notes.extend(report.space_unknown.iter().map(|why| format!("space could not be compared: {why}")));
    let wrong = found.accounting.iter().take(100);
    notes.extend(
        wrong.map(|a| {
            format!("{} records {} referenced bytes, but {} were found", a.dataset, a.says_bytes, a.found_bytes)
        }),
    );
    let short = found.logs.short.iter().take(100);
    notes.extend(short.map(|log| format!("{}: {}", log.dataset, log.unread)));
    notes.extend(found.logs.errors.iter().take(100).map(|e| format!("an intent log cannot be read: {e}")));
    let device = |d: &verifying::Device| DamagedDevice {
        name: d.name.clone(),
        absent: d.absent.clone(),
        bad_copies: d.faults.wrong + d.faults.stale,
        read_errors: d.faults.unreadable,
    };
    let has_fault = |d: &&verifying::Device| {
        d.absent.is_some() || d.faults.wrong + d.faults.stale + d.faults.unreadable + d.faults.missing > 0
    };
    Verification {
        verdict: match found.verdict {
            Verdict::Clean => api::Verdict::Clean,
            Verdict::Damaged => api::Verdict::Damaged,
            Verdict::Lost => api::Verdict::Lost,
        },
        txg: found.txg,
        blocks: report.blocks,
        bytes: report.read_bytes,
        damaged_blocks: report.repairable_blocks,
        lost_blocks: report.lost_blocks,
        files: found.files.iter().take(NAMED).map(file).collect(),
        devices: found.devices.iter().filter(has_fault).map(device).collect(),
        notes,
        seconds: found.elapsed.as_secs_f64(),
    }
}

fn file(file: &verifying::DamagedFile) -> DamagedFile {
    DamagedFile { dataset: file.dataset.clone(), path: path(file), lost: true, blocks: file.blocks }
}

fn path(file: &verifying::DamagedFile) -> String {
    match &file.place {
        Place::File { path, .. } => String::from_utf8_lossy(path).into_owned(),
        Place::Directory { path } => format!("{}/ (its names)", String::from_utf8_lossy(path)),
        Place::Attributes { path } => format!("{} (its attributes)", String::from_utf8_lossy(path)),
        Place::Object { what, .. } => format!("object {}: {what}", file.object),
        Place::Objects { first, end } => format!("objects {first} to {}", end.saturating_sub(1)),
        Place::Everything => "everything".to_owned(),
    }
}
