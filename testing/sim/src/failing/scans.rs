//! Waits for scrubs and resilvers, and what they repaired.

use crate::rig::Rig;
use anyhow::{Context, Result, bail};
use block::vdev::{Kind, MirrorKind, Vdev};
use std::time::{Duration, Instant};

/// A repair that takes longer has stopped. The machine may be very busy.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until no device misses data and no device replaces another or spares it.
pub fn settle(rig: &Rig) -> Result<()> {
    fn stands_in(vdev: &Vdev) -> bool {
        matches!(vdev.kind, Kind::Mirror(MirrorKind::Replacing | MirrorKind::Spare))
            || vdev.children.iter().any(stands_in)
    }
    let begun = Instant::now();
    loop {
        wait(rig)?;
        let tree = rig.writer.store().tree();
        let lacking: Vec<_> =
            tree.logs().iter().filter(|l| !l.is_whole()).map(|l| (l.path.clone(), l.stale_ranges())).collect();
        if lacking.is_empty() && !tree.tops.iter().any(|top| stands_in(top)) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("not all is whole: {lacking:?}, {:?}", rig.writer.pool()?.status()?.root);
        }
        rig.writer.wait_for_scan(Duration::from_millis(20));
    }
}

/// Waits until no scan is in progress.
pub fn wait(rig: &Rig) -> Result<()> {
    let begun = Instant::now();
    loop {
        let now = rig.writer.scan_activity();
        if !now.scrubbing && !now.resilvering {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            bail!("the scan does not end: {now:?}");
        }
        rig.writer.wait_for_scan(Duration::from_millis(20));
    }
}

/// Waits for scans in progress, then scrubs to the end. Returns the bytes repaired.
pub fn scrub(rig: &Rig) -> Result<u64> {
    wait(rig)?;
    if let Err(why) = rig.writer.start_scrub()? {
        bail!("a scrub is refused: {why:?}");
    }
    wait(rig)?;
    let scan = rig.writer.pool()?.status()?.scan.context("there was a scrub")?;
    if scan.errors > 0 {
        bail!("the scrub could not repair {} blocks: {scan:?}", scan.errors);
    }
    Ok(scan.processed_bytes)
}

/// What the last scan wrote: device and bytes.
pub fn repaired(rig: &Rig) -> Vec<(String, u64)> {
    let tree = rig.writer.store().tree();
    let written = tree.leaves().into_iter().map(|leaf| (leaf.path.clone(), leaf.repaired().1));
    written.filter(|(_, bytes)| *bytes > 0).collect()
}
