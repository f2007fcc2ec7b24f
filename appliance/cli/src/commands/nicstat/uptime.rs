//! How long the machine has counted: its counters begin with its start.

use std::fs::read_to_string;

/// Seconds since the machine started.
pub(super) fn uptime() -> f64 {
    let text = read_to_string("/proc/uptime").ok();
    text.and_then(|t| t.split(' ').next()?.parse().ok()).unwrap_or(1.0)
}
