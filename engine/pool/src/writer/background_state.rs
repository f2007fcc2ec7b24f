//! The state of the work that runs in the background. Each part knows nothing of txgs; what the txg
//! engine asks of all of them is [`Background`](super::background::Background).

use crate::checkpoint::Discarding;
use crate::expansion::Expansion;
use crate::mmp::Heartbeats;
use crate::removal::Evacuation;
use crate::scan::live::Scans;
use crate::trim::Sweeps;

/// The background work of a pool.
#[derive(Default)]
pub(crate) struct BackgroundState {
    /// Scrub, resilver and rebuild.
    pub scan: Scans,
    /// Trim and initialize.
    pub sweeps: Sweeps,
    /// Expansion of a RAID-Z device.
    pub expansion: Expansion,
    /// Removal of devices that hold data.
    pub evacuation: Evacuation,
    /// Freeing the space of a discarded checkpoint.
    pub discarding: Discarding,
    /// Heartbeats for other hosts. They outlive the rest: the last txg needs them.
    pub heartbeats: Heartbeats,
}
