//! Wall-clock time and monotonic time, of the machine of the calling thread.

use crate::machine::Machine;
use rustix::time::{ClockId, clock_gettime};
use std::ops::{Add, Sub};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01 00:00 UTC; 0 if the clock is set before that.
pub fn seconds() -> u64 {
    now().0
}

/// Seconds and nanoseconds since 1970-01-01 00:00 UTC.
pub fn now() -> (u64, u32) {
    let since = match Machine::simulated() {
        None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        Some(machine) => machine.clock.wall(),
    };
    (since.as_secs(), since.subsec_nanos())
}

/// Nanoseconds since 1970-01-01 00:00 UTC.
pub fn nanoseconds() -> u64 {
    let (seconds, nanoseconds) = now();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into())
}

/// Seconds since 1970, which may be negative, and nanoseconds as of the last tick of the kernel's
/// clock: the time that Linux assigns to files.
pub fn file_time() -> (i64, u32) {
    match Machine::simulated() {
        None => {
            let now = clock_gettime(ClockId::RealtimeCoarse);
            (now.tv_sec, now.tv_nsec as u32)
        }
        Some(machine) => {
            let since = machine.clock.wall();
            (since.as_secs() as i64, since.subsec_nanos())
        }
    }
}

/// Seconds of a monotonic clock that starts after 0. Costs less than [`Instant::now`], and is as
/// exact as the kernel's tick.
pub fn coarse_seconds() -> u64 {
    1 + match Machine::simulated() {
        None => clock_gettime(ClockId::MonotonicCoarse).tv_sec.unsigned_abs(),
        Some(machine) => machine.clock.monotonic().as_secs(),
    }
}

/// A time of the monotonic clock, which is never set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(std::time::Instant);

impl Instant {
    pub fn now() -> Self {
        Self(match Machine::simulated() {
            None => std::time::Instant::now(),
            Some(machine) => simulated_start() + machine.clock.monotonic(),
        })
    }

    /// Time since then; zero if it is in the future.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// Time from `earlier` to this; zero if this is the earlier.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// The start of all simulated machines: any time, since only differences count.
fn simulated_start() -> std::time::Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    *START.get_or_init(std::time::Instant::now)
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// Measures elapsed time. The smaller of two was started first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since [`Stopwatch::start`].
    pub fn ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Nanoseconds from the start of this one to the start of `later`; 0 if that was started first.
    pub fn ns_until(&self, later: &Self) -> u64 {
        u64::try_from((later.0 - self.0).as_nanos()).unwrap_or(u64::MAX)
    }
}
