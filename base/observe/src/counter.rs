//! Numbers that grow, and numbers that stand somewhere.

use std::sync::atomic::{AtomicU64, Ordering};

/// Parts of a counter. Guessed: on more cores than this, neighbours share a part and still count right.
const SHARDS: usize = 8;

/// A line of cache of its own: two threads that count do not take it from each other. 128: processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Shard(AtomicU64);

/// Which part this thread uses: its place in memory tells threads apart.
fn shard() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    // Blocks of thread-local storage lie a thread's stack apart, so the low bits are the same for all.
    let at = HERE.with(|here| std::ptr::from_ref(here).addr() as u64);
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize % SHARDS
}

/// A number that only grows: what happened so far.
#[derive(Default)]
pub struct Counter([Shard; SHARDS]);

impl Counter {
    /// Counts one more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Counts `n` more.
    pub fn add(&self, n: u64) {
        self.0[shard()].0.fetch_add(n, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.iter().fold(0, |sum, shard| sum.wrapping_add(shard.0.load(Ordering::Relaxed)))
    }
}

/// A number that stands where it was last put.
#[derive(Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Puts it at `value`.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Moves it up.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Moves it down, by no more than was added before.
    pub fn subtract(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    /// Where it stands.
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
