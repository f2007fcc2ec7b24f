//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970-01-01 00:00 UTC; 0 when the clock stands before that.
pub fn seconds() -> u64 {
    now().0
}

/// Seconds and nanoseconds since 1970-01-01 00:00 UTC.
pub fn now() -> (u64, u32) {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or((0, 0), |d| (d.as_secs(), d.subsec_nanos()))
}
