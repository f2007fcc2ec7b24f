//! Counters and gauges.

use std::sync::atomic::{AtomicU64, Ordering};

/// Shards of a counter. Guessed: on more cores than this, neighbours share a shard and still count
/// correctly.
const SHARDS: usize = 8;

/// One counter value on its own cache line, so that counting threads do not contend for it. 128
/// bytes, because processors prefetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

/// Index of the shard that this thread uses, derived from the address of a thread-local variable.
fn shard() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    // Thread-local blocks are one thread stack apart, so the low address bits are the same for all
    // threads.
    let at = HERE.with(|here| std::ptr::from_ref(here).addr() as u64);
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize % SHARDS
}

/// A number that only grows, such as the operations completed so far. Wraps at 2^64.
#[derive(Default)]
pub struct Counter([Shard; SHARDS]);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, n: u64) {
        self.0[shard()].0.fetch_add(n, Ordering::Relaxed);
    }

    /// The current value: the sum of all shards.
    pub fn get(&self) -> u64 {
        self.0.iter().fold(0, |sum, shard| sum.wrapping_add(shard.0.load(Ordering::Relaxed)))
    }
}

/// A number that goes up and down.
#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Sets the gauge to `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Subtracts `n`, which must not exceed what was added before.
    pub fn subtract(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_count_at_once_lose_nothing() {
        let (counter, gauge) = (Counter::default(), Gauge::default());
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for n in 0..10_000 {
                        counter.add(n % 3);
                        gauge.add(2);
                        gauge.subtract(1);
                    }
                });
            }
        });
        assert_eq!(counter.get(), 8 * (0..10_000).map(|n| n % 3).sum::<u64>());
        assert_eq!(gauge.get(), 80_000);
        gauge.set(7);
        assert_eq!(gauge.get(), 7);
    }
}
