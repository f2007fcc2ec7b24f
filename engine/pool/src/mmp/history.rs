//! The last heartbeats of a pool, for people who look for a slow device.
//!
//! ZFS name: the kstat `multihost` of a pool (module/zfs/spa_stats.c).

use super::settings::settings;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// No leaf could take a heartbeat: some are not writable (`MMP_FAIL_NOT_WRITABLE`).
pub(super) const NOT_WRITABLE: i32 = 1;
/// No leaf could take a heartbeat: on some the last one has not ended (`MMP_FAIL_WRITE_PENDING`).
pub(super) const WRITE_PENDING: i32 = 2;

/// A heartbeat, or a time in which there could be none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Number of the heartbeat, from 1 since the pool was opened.
    pub id: u64,
    /// The last synced txg.
    pub txg: u64,
    /// When it began, in seconds since 1970.
    pub timestamp: u64,
    /// Errno; 0: written, or on its way. With `skipped`, why no leaf could take it: 1 some leaves
    /// are not writable, 2 on some the last one has not ended, or the sum of both.
    pub error: i32,
    /// How long the write took, or since when none was possible; zero while it is on its way.
    pub duration: Duration,
    /// The delay that the uberblock recorded, in nanoseconds.
    pub delay_ns: u64,
    /// Number of heartbeats that were skipped one after the other; 0: this is one that was written.
    pub skipped: u64,
    /// Guid of the leaf.
    pub vdev_guid: u64,
    /// Number of the label, 0 to 3.
    pub label: u32,
    /// Path of the leaf.
    pub path: Option<String>,
}

impl Heartbeat {
    /// The heading of OpenZFS's kstat.
    pub fn heading() -> String {
        let [id, txg, timestamp, error, duration] = ["id", "txg", "timestamp", "error", "duration"];
        let [delay, guid, label, path] = ["mmp_delay", "vdev_guid", "vdev_label", "vdev_path"];
        format!(
            "{id:<10} {txg:<10} {timestamp:<10} {error:<6} {duration:<10} {delay:<12} {guid:<24} {label:<10} {path}"
        )
    }
}

impl fmt::Display for Heartbeat {
    /// A line of OpenZFS's kstat. For heartbeats that were skipped, their number is in the column
    /// of the guid.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = if self.skipped > 0 { format!("{:#x}", self.error) } else { self.error.to_string() };
        let guid = if self.skipped > 0 { self.skipped } else { self.vdev_guid };
        let Self { id, txg, timestamp, delay_ns, label, .. } = self;
        let (duration, path) = (self.duration.as_nanos(), self.path.as_deref().unwrap_or("-"));
        write!(
            f,
            "{id:<10} {txg:<10} {timestamp:>10} {error:>6} {duration:>10} {delay_ns:>12} {guid:<24} {label:<10} {path}"
        )
    }
}

/// As many as the settings ask for.
#[derive(Default)]
pub(super) struct History(VecDeque<Heartbeat>);

impl History {
    pub fn add(&mut self, heartbeat: Heartbeat) {
        self.0.push_back(heartbeat);
        self.truncate();
    }

    fn truncate(&mut self) {
        let max = settings().history as usize;
        self.0.drain(..self.0.len().saturating_sub(max));
    }

    /// Changes the heartbeat `id`, if it is still listed.
    pub fn update(&mut self, id: u64, change: impl FnOnce(&mut Heartbeat)) {
        // The newest ones change.
        if let Some(heartbeat) = self.0.iter_mut().rev().find(|heartbeat| heartbeat.id == id) {
            change(heartbeat);
        }
    }

    pub fn list(&mut self) -> Vec<Heartbeat> {
        self.truncate();
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_kstat() {
        let mut beat = Heartbeat {
            id: 7,
            txg: 12,
            timestamp: 1_795_255_657,
            error: 0,
            duration: Duration::from_micros(90),
            delay_ns: 500_000_000,
            skipped: 0,
            vdev_guid: 42,
            label: 3,
            path: Some("/dev/sda1".into()),
        };
        let heading = "id         txg        timestamp  error  duration   mmp_delay    vdev_guid                vdev_label \
                       vdev_path";
        assert_eq!(Heartbeat::heading(), heading);
        let line = "7          12         1795255657      0      90000    500000000 42                       3          /dev/sda1";
        assert_eq!(beat.to_string(), line);
        (beat.skipped, beat.error, beat.path) = (5, NOT_WRITABLE | WRITE_PENDING, None);
        let line =
            "7          12         1795255657    0x3      90000    500000000 5                        3          -";
        assert_eq!(beat.to_string(), line);
    }
}
