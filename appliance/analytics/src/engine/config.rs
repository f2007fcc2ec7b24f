//! Configuration of the engine.

use crate::archive::Tier;
use std::path::PathBuf;

/// How long columns of each tier are kept, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Columns of a second.
    pub second: u64,
    /// Columns of a minute.
    pub minute: u64,
    /// Columns of an hour.
    pub hour: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { second: 7 * 86_400, minute: 14 * 86_400, hour: 90 * 86_400 }
    }
}

impl Retention {
    pub(super) fn of(self, tier: Tier) -> u64 {
        match tier {
            Tier::Second => self.second,
            Tier::Minute => self.minute,
            Tier::Hour => self.hour,
        }
    }
}

/// Configuration of the engine.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the archive and the recorder; without it, everything is in memory.
    pub folder: Option<PathBuf>,
    /// Size limit of the recorder in bytes; 0 records no operations.
    pub ring: u64,
    pub retention: Retention,
}
