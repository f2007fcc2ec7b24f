//! `zpool offline`, `zpool online`, `zpool reopen`: take devices offline, and bring them back.

use crate::write::WritablePool;
use anyhow::Result;
use host::device::Device;
use pool::devices;
use std::path::Path;
use std::sync::Arc;

use pool::writer::{Lasts, ScanRefused};

/// Opens the device at a path for writing, exclusively.
pub(crate) fn open(path: &str) -> errors::Result<Arc<dyn Device>> {
    devices::open_for_writing(Path::new(path))
}

pub fn offline(pool: &WritablePool, guid: u64, lasts: Lasts) -> Result<()> {
    Ok(pool.writer().offline(guid, lasts)?)
}

/// Marks a device as faulted.
pub fn fault(pool: &WritablePool, guid: u64, lasts: Lasts) -> Result<()> {
    Ok(pool.writer().fault(guid, lasts)?)
}

/// Brings a device back online. Returns whether it is in use now.
pub fn online(pool: &WritablePool, guid: u64) -> Result<bool> {
    Ok(pool.writer().online(guid, &open)?)
}

/// Expands a device to its current size (`zpool online -e`).
pub fn expand(pool: &WritablePool, guid: u64) -> Result<()> {
    pool.writer().expand(guid)?;
    Ok(())
}

/// Tries to open missing devices again.
pub fn reopen(pool: &WritablePool) -> Result<()> {
    pool.writer().reopen(&open)?;
    Ok(())
}

/// Why a scan cannot be started, paused or stopped, in OpenZFS's words.
pub fn scan_refusal(why: ScanRefused) -> &'static str {
    match why {
        ScanRefused::Scrubbing => "currently scrubbing; use 'zpool scrub -s' to cancel scrub",
        ScanRefused::ScrubPaused => "scrub is paused; use 'zpool scrub' to resume scrub",
        ScanRefused::ErrorScrubbing => "currently error scrubbing; use 'zpool scrub -s' to cancel error scrub",
        ScanRefused::ErrorScrubPaused => "error scrub is paused; use 'zpool scrub -e' to resume error scrub",
        ScanRefused::Resilvering => "currently resilvering",
        ScanRefused::NoScan => "there is no active scrub",
    }
}
