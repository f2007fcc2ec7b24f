//! How long a device takes to answer, as a moving average.

use std::sync::atomic::{AtomicU64, Ordering};

/// From this average on, operations are worth another thread: handing one over and waiting for it
/// takes 10 to 20 microseconds. Memory and the page cache answer 128 KiB within 60.
const SLOW_NS: u64 = 100_000;

/// Moving average of durations, over about eight operations.
#[derive(Debug, Default)]
pub struct Latency(AtomicU64);

impl Latency {
    /// Adds the duration of an operation, in nanoseconds.
    pub fn note(&self, ns: u64) {
        // Two threads may lose each other's value; the average recovers with the next one.
        let before = self.0.load(Ordering::Relaxed);
        let after = if before == 0 { ns } else { before - before / 8 + ns / 8 };
        self.0.store(after, Ordering::Relaxed);
    }

    /// Whether an operation has been measured.
    pub fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Whether operations wait for a device, so that several should run at once.
    pub fn is_slow(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= SLOW_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_slow_while_most_operations_wait() {
        let latency = Latency::default();
        assert!(!latency.is_slow() && !latency.is_known());
        latency.note(5_000_000);
        assert!(latency.is_known());
        assert!(latency.is_slow(), "the first operation counts");
        (0..60).for_each(|_| latency.note(20_000));
        assert!(!latency.is_slow());
        latency.note(5_000_000);
        assert!(latency.is_slow());
    }
}
