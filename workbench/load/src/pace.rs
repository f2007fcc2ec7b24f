//! Determines when operations start.

use fastrand::Rng;
use std::time::{Duration, Instant};

/// The arrival process of operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Closed loop: each operation starts when a previous one has completed.
    Closed,
    /// A rate per second, evenly spaced.
    Even(f64),
    /// An average rate per second, independent of each other (a Poisson process).
    Poisson(f64),
}

impl Arrivals {
    /// A part of the rate, for one of several threads.
    pub(crate) fn part(self, share: f64) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Even(rate) => Self::Even(rate * share),
            Self::Poisson(rate) => Self::Poisson(rate * share),
        }
    }

    /// Operations per second; `None`: unlimited.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Even(rate) | Self::Poisson(rate) => Some(rate),
        }
    }
}

/// The schedule of one thread.
pub(crate) struct Pace {
    arrivals: Arrivals,
    next: Instant,
}

impl Pace {
    /// A schedule from `start` on. `phase`, at least 0 and less than 1, staggers the threads.
    pub fn new(arrivals: Arrivals, start: Instant, phase: f64) -> Self {
        let first = match arrivals {
            Arrivals::Closed => 0.0,
            Arrivals::Even(rate) => phase / rate,
            // As if the process had been running for long: if the first operations were spread
            // evenly, many slow threads would start with half too many.
            Arrivals::Poisson(rate) => -(1.0 - phase).ln() / rate,
        };
        let first = Duration::from_secs_f64(first);
        Self { arrivals, next: start + first }
    }

    /// When the next operation is due; `None`: as soon as there is room.
    pub fn due(&self) -> Option<Instant> {
        self.arrivals.rate().map(|_| self.next)
    }

    /// Starts the next operation. Returns the time from which its latency counts.
    pub fn begin(&mut self, now: Instant, rng: &mut Rng) -> Instant {
        let gap = match self.arrivals {
            Arrivals::Closed => return now,
            Arrivals::Even(rate) => 1.0 / rate,
            Arrivals::Poisson(rate) => -(1.0 - rng.f64()).ln() / rate,
        };
        let since = self.next;
        self.next += Duration::from_secs_f64(gap);
        since
    }

    /// Number of operations that were due before `end` and did not start.
    pub fn missed(&mut self, end: Instant, rng: &mut Rng) -> u64 {
        let mut missed = 0;
        while self.due().is_some_and(|due| due < end) {
            self.begin(end, rng);
            missed += 1;
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 96 threads with a Poisson process of two operations per second each, like the scaled-down
    /// mail archive: in the first half second the rate was half higher than later, and the run
    /// seemed to slow down.
    #[test]
    fn many_slow_threads_do_not_begin_with_a_rush() {
        let start = Instant::now();
        let mut by_second = [0u32; 4];
        for round in 0..40 {
            for n in 0..96u64 {
                let mut pace = Pace::new(Arrivals::Poisson(2.0), start, n as f64 / 96.0);
                let mut rng = Rng::with_seed(round * 96 + n);
                loop {
                    let at = (pace.begin(start, &mut rng) - start).as_secs_f64() * 2.0;
                    let Some(count) = by_second.get_mut(at as usize) else { break };
                    *count += 1;
                }
            }
        }
        // 3,840 on average, whose square root is 62; half of the first ones are too early by a part
        // of 96.
        assert!(by_second.iter().all(|count| (3600..4080).contains(count)), "{by_second:?}");
    }

    #[test]
    fn the_average_rate_is_exact_for_any_arrival_process() {
        let start = Instant::now();
        for arrivals in [Arrivals::Even(1000.0), Arrivals::Poisson(1000.0)] {
            let (mut pace, mut rng) = (Pace::new(arrivals, start, 0.5), Rng::with_seed(1));
            let mut gaps = Vec::new();
            let mut before = start;
            for _ in 0..10_000 {
                let at = pace.begin(start, &mut rng);
                gaps.push((at - before).as_secs_f64());
                before = at;
            }
            let took = (before - start).as_secs_f64();
            assert!((9.6..10.4).contains(&took), "{arrivals:?}: {took}");
            let mean = took / gaps.len() as f64;
            let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let relative = variance.sqrt() / mean;
            // Even spacing has no deviation; that of a Poisson process equals its mean.
            assert!(
                if arrivals == Arrivals::Even(1000.0) { relative < 0.02 } else { (0.9..1.1).contains(&relative) },
                "{relative}"
            );
        }
    }
}
