//! Kinds of work on free space, and the progress of each leaf in its ZAP.

use crate::config::VdevConfig;
use errors::Result;
use object::ObjectSet;
use object::zap::Zap;
use ondisk::pool_dir::{config, vdev_leaf as key};
use std::collections::HashMap;
use std::sync::Arc;

/// Work on the free space of leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Discard free space.
    Trim,
    /// Write a pattern to free space.
    Initialize,
}

/// State of the work on a leaf, with the numbers on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u64)]
pub enum WorkState {
    /// Never started.
    #[default]
    None = 0,
    Active = 1,
    /// Cancelled before it was complete.
    Cancelled = 2,
    /// Suspended until it is resumed.
    Suspended = 3,
    Complete = 4,
}

/// Progress on a leaf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub state: WorkState,
    /// Everything before this offset on the device is done.
    pub last_offset: u64,
    /// Time of the start or of the last state change: seconds since 1970.
    pub action_time: u64,
    /// Bytes per second; 0: no limit.
    pub rate: u64,
    /// Only metaslabs that were ever used.
    pub partial: bool,
}

impl WorkState {
    fn of(number: u64) -> Self {
        match number {
            1 => Self::Active,
            2 => Self::Cancelled,
            3 => Self::Suspended,
            4 => Self::Complete,
            _ => Self::None,
        }
    }
}

/// Names in the ZAP: state, offset, time.
pub(super) fn names(work: Work) -> [&'static str; 3] {
    match work {
        Work::Trim => [key::TRIM_STATE, key::TRIM_LAST_OFFSET, key::TRIM_ACTION_TIME],
        Work::Initialize => [key::INITIALIZE_STATE, key::INITIALIZE_LAST_OFFSET, key::INITIALIZE_ACTION_TIME],
    }
}

/// Reads the state from the ZAP of a leaf.
pub(crate) fn read(zap: &Zap, work: Work) -> Result<Progress> {
    let number = |name: &str| -> Result<u64> { Ok(zap.lookup_u64(name)?.unwrap_or(0)) };
    let [state, offset, time] = names(work);
    let mut progress = Progress {
        state: WorkState::of(number(state)?),
        last_offset: number(offset)?,
        action_time: number(time)?,
        ..Progress::default()
    };
    if work == Work::Trim && progress.state != WorkState::None {
        progress.rate = number(key::TRIM_RATE)?;
        progress.partial = number(key::TRIM_PARTIAL)? != 0;
    }
    Ok(progress)
}

/// Reads the states of all leaves.
pub(super) fn load(mos: &Arc<ObjectSet>, root: &VdevConfig) -> Result<HashMap<(u64, Work), Progress>> {
    let mut all = HashMap::new();
    for leaf in root.leaves() {
        let id = leaf.number(config::VDEV_LEAF_ZAP);
        if id == 0 {
            continue;
        }
        let zap = Zap::open(mos.object(id)?)?;
        for work in [Work::Trim, Work::Initialize] {
            let progress = read(&zap, work)?;
            if progress.state != WorkState::None {
                all.insert((leaf.guid, work), progress);
            }
        }
    }
    Ok(all)
}
