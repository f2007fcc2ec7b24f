//! When operations begin.

use fastrand::Rng;
use std::time::{Duration, Instant};

/// How they follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Each when one before it is done: as many as go.
    Closed,
    /// So many a second, at equal distances.
    Even(f64),
    /// So many a second on average, independent of each other (a Poisson process).
    Poisson(f64),
}

impl Arrivals {
    /// A part of it: of one thread among several.
    pub(crate) fn part(self, share: f64) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Even(rate) => Self::Even(rate * share),
            Self::Poisson(rate) => Self::Poisson(rate * share),
        }
    }

    /// Operations a second; `None`: as many as go.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Even(rate) | Self::Poisson(rate) => Some(rate),
        }
    }
}

/// The times of one thread.
pub(crate) struct Pace {
    arrivals: Arrivals,
    next: Instant,
}

impl Pace {
    /// From `start` on; `phase` (0 to 1) keeps threads from beginning together.
    pub fn new(arrivals: Arrivals, start: Instant, phase: f64) -> Self {
        let first = arrivals.rate().map_or(Duration::ZERO, |rate| Duration::from_secs_f64(phase / rate));
        Self { arrivals, next: start + first }
    }

    /// When the next one should begin; `None`: whenever there is room.
    pub fn due(&self) -> Option<Instant> {
        self.arrivals.rate().map(|_| self.next)
    }

    /// The next one begins now; since when it counts.
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

    /// How many should have begun before `end` and did not.
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

    #[test]
    fn a_rate_is_kept_on_average_whatever_the_distances() {
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
            // Equal distances have no spread, those of a Poisson process one as large as their mean.
            assert!(
                if arrivals == Arrivals::Even(1000.0) { relative < 0.02 } else { (0.9..1.1).contains(&relative) },
                "{relative}"
            );
        }
    }
}
