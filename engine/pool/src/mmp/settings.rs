//! Settings of multihost protection, one set for all pools of a process.
//!
//! ZFS names: zfs_multihost_interval, zfs_multihost_fail_intervals, zfs_multihost_import_intervals,
//! zfs_multihost_history (zfs(4)), with the same defaults and least values.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often heartbeats are written, and how long an import waits for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Milliseconds in which each leaf gets one heartbeat, at least [`INTERVAL_MS_MIN`].
    pub interval_ms: u32,
    /// Intervals without a heartbeat after which the pool is suspended: at least 2, or 0 for never.
    pub fail_intervals: u16,
    /// Intervals for which an import waits if the last owner recorded none, at least 1.
    pub import_intervals: u32,
    /// Number of heartbeats that [`Writer::heartbeats`](crate::Writer::heartbeats) lists.
    pub history: u32,
}

/// The shortest interval, in milliseconds (`MMP_MIN_INTERVAL`).
pub const INTERVAL_MS_MIN: u32 = 100;
/// The longest one that an uberblock can hold.
pub const INTERVAL_MS_MAX: u32 = 0xff_ffff;
/// The fewest intervals without a heartbeat until the pool is suspended (`MMP_MIN_FAIL_INTERVALS`).
const FAIL_INTERVALS_MIN: u16 = 2;

impl Settings {
    /// As in OpenZFS.
    pub const DEFAULT: Self = Self { interval_ms: 1000, fail_intervals: 10, import_intervals: 20, history: 0 };

    /// The settings with values out of range replaced by the nearest one.
    pub(super) fn in_range(self) -> Self {
        Self {
            interval_ms: self.interval_ms.clamp(INTERVAL_MS_MIN, INTERVAL_MS_MAX),
            fail_intervals: match self.fail_intervals {
                0 => 0,
                n => n.max(FAIL_INTERVALS_MIN),
            },
            import_intervals: self.import_intervals.max(1),
            history: self.history,
        }
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
    }

    /// Time without a heartbeat after which the pool is suspended; zero: never.
    pub(super) fn fail(&self) -> Duration {
        self.interval() * self.fail_intervals.into()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

static CURRENT: [AtomicU32; 4] = [
    AtomicU32::new(Settings::DEFAULT.interval_ms),
    AtomicU32::new(Settings::DEFAULT.fail_intervals as u32),
    AtomicU32::new(Settings::DEFAULT.import_intervals),
    AtomicU32::new(Settings::DEFAULT.history),
];

/// Changes the settings, for open pools too. Values out of range become the nearest possible one.
pub fn set_settings(settings: Settings) {
    let Settings { interval_ms, fail_intervals, import_intervals, history } = settings.in_range();
    let values = [interval_ms, fail_intervals.into(), import_intervals, history];
    CURRENT.iter().zip(values).for_each(|(current, value)| current.store(value, Ordering::Relaxed));
}

/// The current settings.
pub fn settings() -> Settings {
    let [interval_ms, fail, import_intervals, history] = CURRENT.each_ref().map(|value| value.load(Ordering::Relaxed));
    Settings { interval_ms, fail_intervals: fail as u16, import_intervals, history }
}
