//! Random sizes with weights.

use fastrand::Rng;

/// A weighted distribution of sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix(Vec<(u64, f64)>);

impl Mix {
    /// Always this value.
    pub fn one(value: u64) -> Self {
        Self(vec![(value, 1.0)])
    }

    /// Values with weights, at least one of which must be positive.
    pub fn of(values: Vec<(u64, f64)>) -> Option<Self> {
        let sum: f64 = values.iter().map(|(_, w)| *w).sum();
        (sum > 0.0 && sum.is_finite() && values.iter().all(|(_, w)| *w >= 0.0)).then_some(Self(values))
    }

    /// Round sizes around a mean, similar to filebench's gamma distribution: from a quarter to four
    /// times the mean.
    pub fn around(mean: u64) -> Self {
        // The weights preserve the mean exactly: 0.3/4 + 0.3/2 + 0.2 + 0.1125*2 + 0.0875*4 = 1.
        let of = |quarters: u64| (mean * quarters / 4).max(1);
        Self(vec![(of(1), 0.3), (of(2), 0.3), (of(4), 0.2), (of(8), 0.1125), (of(16), 0.0875)])
    }

    /// A random value, by weight.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.at(rng.f64())
    }

    /// The value for number `n`, always the same.
    pub fn of_number(&self, n: u64) -> u64 {
        if let [(only, _)] = self.0[..] { only } else { self.draw(&mut Rng::with_seed(n ^ 0x5eed_f11e)) }
    }

    fn at(&self, part: f64) -> u64 {
        let sum: f64 = self.0.iter().map(|(_, w)| w).sum();
        let mut left = part * sum;
        for (value, weight) in &self.0 {
            left -= weight;
            if left < 0.0 {
                return *value;
            }
        }
        self.largest()
    }

    pub fn largest(&self) -> u64 {
        self.0.iter().map(|(v, _)| *v).max().unwrap_or(0)
    }

    /// The mean by weight.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.0.iter().map(|(_, w)| w).sum();
        self.0.iter().map(|(v, w)| *v as f64 * w).sum::<f64>() / sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_values_follow_the_weights() {
        let mix = Mix::of(vec![(8 << 10, 60.0), (32 << 10, 25.0), (512 << 10, 10.0), (4 << 20, 5.0)]).expect("weights");
        // The published mail archive: 268.8 KiB on average.
        assert_eq!(mix.mean() / 1024.0, 268.8);
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<u64> = (0..100_000).map(|_| mix.draw(&mut rng)).collect();
        let small = drawn.iter().filter(|v| **v == 8 << 10).count();
        assert!((59_000..61_000).contains(&small), "{small}");
        assert_eq!(mix.of_number(7), mix.of_number(7));
        let mean = Mix::around(16 << 10).mean() / 16384.0;
        assert!((0.99..1.01).contains(&mean), "{mean}");
        assert_eq!(Mix::of(vec![(1, 0.0)]), None);
    }
}
