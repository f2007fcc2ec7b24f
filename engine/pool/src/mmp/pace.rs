//! When heartbeats are due, how long they take on average, and when they are late.
//!
//! Pure: times come from the caller. Facts: mmp_delay_update, mmp_thread (module/zfs/mmp.c).
//!
//! Invariants:
//!   * the recorded delay is never less than the time between two heartbeats of an idle pool: an
//!     importing host could otherwise wait too short a time once a busy pool becomes idle

use super::settings::{INTERVAL_MS_MIN, Settings};
use std::time::Duration;

/// Share of a new delay in the average: one of this many.
const WEIGHT: u32 = 128;
/// Share of a shorter deadline that takes effect with each heartbeat: one of this many.
const SMOOTHING: u32 = 32;

/// Times of the heartbeats of a pool, each since the pool was opened.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    pub settings: Settings,
    /// The last one that reached a device, or when the first became due.
    last: Duration,
    /// Decaying average of the time between two.
    delay: Duration,
    /// Time without one after which the pool is suspended.
    fail: Duration,
    /// Number of heartbeats that follow at the shortest interval, so that others learn new settings
    /// soon.
    hurried: u32,
}

impl Pace {
    pub fn new(settings: Settings) -> Self {
        Self { settings, last: Duration::ZERO, delay: settings.interval(), fail: settings.fail(), hurried: 0 }
    }

    /// Heartbeats begin, or begin again: the first one has the whole time until it is late.
    pub fn restart(&mut self, now: Duration) {
        (self.last, self.delay, self.fail) = (now, self.settings.interval(), self.settings.fail());
    }

    /// Follows a change of the settings. A shorter deadline takes effect gradually: heartbeats that
    /// came in time by the old one are not late.
    pub fn adopt(&mut self, settings: Settings, leaves: u32) {
        let is_same =
            |a: &Settings, b: &Settings| (a.interval_ms, a.fail_intervals) == (b.interval_ms, b.fail_intervals);
        if !is_same(&self.settings, &settings) {
            self.hurried = self.hurried.saturating_add(leaves);
        }
        self.settings = settings;
        let fail = settings.fail();
        self.fail = if fail < self.fail { (self.fail * (SMOOTHING - 1) + fail) / SMOOTHING } else { fail };
    }

    /// A heartbeat, or the uberblock of a txg, reached a device (`is_good`), or could not be
    /// written.
    pub fn note(&mut self, now: Duration, leaves: u32, is_good: bool) {
        let since = now.saturating_sub(self.last);
        // A sudden delay is recorded as it is: that is how long others must wait.
        if since > self.delay {
            self.delay = since;
        }
        if !is_good {
            return;
        }
        self.last = now;
        if since < self.delay {
            let least = self.settings.interval() / leaves.max(1);
            self.delay = ((since + self.delay * (WEIGHT - 1)) / WEIGHT).max(least);
        }
    }

    /// What an uberblock records.
    pub fn delay_ns(&self) -> u64 {
        u64::try_from(self.delay.as_nanos()).unwrap_or(u64::MAX).max(1)
    }

    /// Time after a heartbeat until which the pool may be written; `None`: it is never suspended.
    pub fn deadline(&self) -> Option<Duration> {
        (self.settings.fail_intervals > 0).then_some(self.fail)
    }

    /// Time since the last heartbeat, if it is too long.
    pub fn lateness(&self, now: Duration) -> Option<Duration> {
        let since = now.saturating_sub(self.last);
        self.deadline().filter(|fail| since > *fail).map(|_| since)
    }

    /// Time until the next heartbeat.
    pub fn next(&mut self, leaves: u32) -> Duration {
        if self.hurried > 0 {
            self.hurried -= 1;
            return Duration::from_millis(INTERVAL_MS_MIN.into()) / leaves.max(1);
        }
        self.settings.interval() / leaves.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_delay_rises_at_once_and_decays_to_the_interval_of_a_leaf() {
        let mut pace = Pace::new(Settings::DEFAULT);
        pace.restart(ms(0));
        assert_eq!(pace.delay_ns(), 1_000_000_000);
        pace.note(ms(3000), 4, true);
        assert_eq!(pace.delay_ns(), 3_000_000_000);
        // (250 + 3000 * 127) / 128
        pace.note(ms(3250), 4, true);
        assert_eq!(pace.delay_ns(), 2_978_515_625);
        let mut now = 3250;
        for _ in 0..2000 {
            now += 1;
            pace.note(ms(now), 4, true);
        }
        assert_eq!(pace.delay_ns(), 250_000_000);
        // One that fails only raises it.
        pace.note(ms(now + 100), 4, false);
        assert_eq!(pace.delay_ns(), 250_000_000);
        pace.note(ms(now + 900), 4, false);
        assert_eq!((pace.delay_ns(), pace.last), (900_000_000, ms(now)));
    }

    #[test]
    fn heartbeats_are_late_after_ten_intervals_by_default() {
        let mut pace = Pace::new(Settings::DEFAULT);
        pace.restart(ms(500));
        assert_eq!((pace.lateness(ms(10_500)), pace.lateness(ms(10_501))), (None, Some(ms(10_001))));
        pace.adopt(Settings { fail_intervals: 0, ..Settings::DEFAULT }, 1);
        assert_eq!((pace.lateness(ms(1 << 40)), pace.deadline()), (None, None));
    }

    #[test]
    fn new_settings_are_announced_to_each_leaf_and_shorten_the_deadline_gradually() {
        let mut pace = Pace::new(Settings::DEFAULT);
        assert_eq!(pace.next(2), ms(500));
        let short = Settings { interval_ms: 200, ..Settings::DEFAULT };
        pace.adopt(short, 2);
        // (10000 * 31 + 2000) / 32
        assert_eq!((pace.deadline(), pace.hurried), (Some(ms(9750)), 2));
        assert_eq!([pace.next(2), pace.next(2), pace.next(2)], [ms(50), ms(50), ms(100)]);
        pace.adopt(short, 2);
        assert!(pace.deadline() < Some(ms(9750)) && pace.hurried == 0);
        pace.adopt(Settings { interval_ms: 5000, ..Settings::DEFAULT }, 2);
        assert_eq!(pace.deadline(), Some(ms(50_000)));
    }

    #[test]
    fn values_out_of_range_become_the_nearest_ones() {
        let odd = Settings { interval_ms: 1, fail_intervals: 1, import_intervals: 0, history: 7 }.in_range();
        assert_eq!(odd, Settings { interval_ms: 100, fail_intervals: 2, import_intervals: 1, history: 7 });
        assert_eq!(Settings { fail_intervals: 0, ..odd }.in_range().fail_intervals, 0);
    }
}
