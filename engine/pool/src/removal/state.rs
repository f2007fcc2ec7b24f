//! The state of removals in memory.

use super::mapping::Growing;
use crate::Pool;
use errors::Result;
use host::sync::Mutex;
use ondisk::pool_dir::directory;
use ondisk::removal::Removing;
use ondisk::scan::ScanState;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Names of the features whose counts a removal changes.
pub(super) const DEVICE_REMOVAL: &str = "device_removal";
pub(super) const OBSOLETE_COUNTS: &str = "obsolete_counts";

/// Longest range of a mapping (`SPA_MAXBLOCKSIZE`).
pub(crate) const RANGE_BYTES_MAX: u64 = 16 << 20;
/// A free gap between two pieces is copied too up to this length, so that there are fewer ranges.
/// As OpenZFS (vdev_removal_max_span).
pub(crate) const SPAN_BYTES_MAX: u64 = 32 << 10;

/// A mapping is condensed if it has at least so many bytes. As OpenZFS.
pub(super) const CONDENSE_BYTES_MIN: u64 = 128 << 10;

/// The running removal, and the state of removed devices.
pub(crate) struct Evacuation {
    /// A device is being removed, and there may be something to copy.
    pub(super) active: AtomicBool,
    /// The removal must be cancelled.
    pub(super) cancelled: AtomicBool,
    /// Bytes that may be copied before the removal pauses.
    pub(super) allowance: AtomicU64,
    /// Smaller mappings are not condensed.
    pub(super) condense_bytes_min: AtomicU64,
    /// There was no space for the remaining ranges.
    pub(super) full: AtomicBool,
    /// Only the syncing thread holds this lock for long.
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// State of the last removal, as in the MOS or to be written there.
    pub removing: Option<Removing>,
    /// `removing` changed since it was written.
    pub is_changed: bool,
    /// The mapping of the device that is being removed.
    pub growing: Option<Growing>,
    /// Obsolete ranges by device that are not in its obsolete space map yet.
    pub obsolete: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Default for Evacuation {
    /// State of a pool from which nothing was removed.
    fn default() -> Self {
        Self {
            active: false.into(),
            cancelled: false.into(),
            allowance: u64::MAX.into(),
            condense_bytes_min: CONDENSE_BYTES_MIN.into(),
            full: false.into(),
            state: Mutex::default(),
        }
    }
}

impl Evacuation {
    /// Loads the state of a pool that is being opened.
    pub fn load(pool: &Pool) -> Result<Self> {
        let mut state = State { removing: removing(pool)?, ..State::default() };
        if let Some(vdev) = running(state.removing.as_ref()) {
            state.growing = Some(Growing::load(pool, vdev)?);
        }
        let active = state.growing.is_some().into();
        Ok(Self { active, state: Mutex::new(state), ..Self::default() })
    }

    /// Whether there is something to copy now.
    pub(super) fn can_continue(&self) -> bool {
        self.is_active() && !self.full.load(Ordering::SeqCst) && self.allowance.load(Ordering::SeqCst) > 0
    }

    /// Whether a device is being removed.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }
}

/// State of the last removal in the MOS.
pub(super) fn removing(pool: &Pool) -> Result<Option<Removing>> {
    let value = pool.directory().lookup(directory::REMOVING)?;
    value.map(|value| Ok(Removing::from_words(&value.ints)?)).transpose()
}

pub(super) fn running(removing: Option<&Removing>) -> Option<u32> {
    let vdev = removing.filter(|r| r.state == ScanState::Scanning)?.vdev?;
    u32::try_from(vdev).ok()
}
