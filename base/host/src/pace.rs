//! Evenly spaced reports: a late report does not delay those that follow.

use std::time::{Duration, Instant};

/// Determines when the next report is due.
#[derive(Debug)]
pub struct Pace {
    interval: Option<Duration>,
    left: Option<u64>,
    next: Instant,
}

impl Pace {
    /// One report, or `count` reports at an interval; without `count`, an unlimited number.
    pub fn new(interval: Option<Duration>, count: Option<u64>) -> Self {
        Self { interval, left: count, next: Instant::now() }
    }

    /// Records that a report was made. Returns whether another one follows.
    pub fn made(&mut self) -> bool {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
        }
        self.interval.is_some() && self.left != Some(0)
    }

    /// When the next report is due; missed ones are skipped.
    pub fn due(&mut self) -> Instant {
        let interval = self.interval.unwrap_or_default();
        self.next += interval;
        let now = Instant::now();
        while !interval.is_zero() && self.next + interval <= now {
            self.next += interval;
        }
        self.next
    }

    /// Sleeps until the next report is due.
    pub fn wait(&mut self) {
        let due = self.due();
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_interval_there_is_one_report() {
        assert!(!Pace::new(None, None).made());
        let mut pace = Pace::new(Some(Duration::from_secs(1)), Some(2));
        let begun = pace.next;
        assert!(pace.made());
        assert_eq!(pace.due(), begun + Duration::from_secs(1));
        assert!(!pace.made());
    }
}
