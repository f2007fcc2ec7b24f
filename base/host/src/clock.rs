//! Wall-clock time and a monotonic stopwatch.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01 00:00 UTC; 0 if the clock is set before that.
pub fn seconds() -> u64 {
    now().0
}

/// Seconds and nanoseconds since 1970-01-01 00:00 UTC.
pub fn now() -> (u64, u32) {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or((0, 0), |d| (d.as_secs(), d.subsec_nanos()))
}

/// Nanoseconds since 1970-01-01 00:00 UTC.
pub fn nanoseconds() -> u64 {
    let (seconds, nanoseconds) = now();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into())
}

/// Measures elapsed time with the monotonic clock, which is never set. The smaller of two was
/// started first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts the stopwatch.
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Nanoseconds since [`Stopwatch::start`].
    pub fn ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Nanoseconds from the start of this one to the start of `later`; 0 if that was started first.
    pub fn ns_until(&self, later: &Self) -> u64 {
        u64::try_from(later.0.saturating_duration_since(self.0).as_nanos()).unwrap_or(u64::MAX)
    }
}
