//! Histograms whose bucket bounds grow by a constant factor: native histograms in Prometheus,
//! exponential histograms in OpenTelemetry.
//!
//! Eight buckets for each doubling ([`SCALE`] 3, a factor of 1.09), wider than those of
//! [`Histogram`](crate::Histogram). A value is reported in its bucket or, within 1/32 of a bound,
//! in the adjacent one.

use crate::{Spread, Unit};

/// Buckets for each doubling, as a power of two.
pub const SCALE: i32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exponential {
    /// Number of values that are zero.
    pub zeros: u64,
    /// Bucket index and count, ascending. Bucket `i` holds values greater than `2^(i/8)` and at
    /// most `2^((i+1)/8)`, in the exported unit (seconds for nanoseconds).
    pub classes: Vec<(i32, u64)>,
}

impl Exponential {
    /// Converts a histogram, with values in the exported unit.
    pub fn of(spread: &Spread, unit: Unit) -> Self {
        let mut out = Self::default();
        for (last, count) in &spread.classes {
            if *last == 0 {
                out.zeros += count;
                continue;
            }
            // From 16 on, a source bucket is a sixteenth of its power of two wide. Its midpoint
            // represents it.
            let width = if *last < 16 { 1 } else { 1u64 << (last.ilog2() - 4) };
            let middle = *last as f64 - (width - 1) as f64 / 2.0;
            let value = if unit == Unit::Nanoseconds { middle / 1e9 } else { middle };
            let class = (value.log2() * f64::from(1 << SCALE)).ceil() as i32 - 1;
            match out.classes.last_mut() {
                Some((before, sum)) if *before == class => *sum += count,
                _ => out.classes.push((class, *count)),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    #[test]
    fn every_value_is_in_its_class_or_within_a_thirty_second_of_it() {
        let mut value = 1u64;
        while value < 1 << 60 {
            for unit in [Unit::Nanoseconds, Unit::Bytes] {
                let h = Histogram::default();
                h.record(value);
                let converted = Exponential::of(&h.spread(), unit);
                assert_eq!((converted.zeros, converted.classes.len()), (0, 1));
                let (class, _) = converted.classes[0];
                let value = if unit == Unit::Nanoseconds { value as f64 / 1e9 } else { value as f64 };
                let edge = |i: i32| (f64::from(i) / 8.0).exp2();
                assert!(value > edge(class) * (1.0 - 1.0 / 31.0), "{value}");
                assert!(value <= edge(class + 1) * (1.0 + 1.0 / 31.0), "{value}");
            }
            value += value / 9 + 1;
        }
    }

    #[test]
    fn nothing_is_lost() {
        let h = Histogram::default();
        (0..5000).for_each(|v| h.record(v * v));
        let converted = Exponential::of(&h.spread(), Unit::Number);
        assert_eq!(converted.zeros, 1);
        assert_eq!(converted.classes.iter().map(|(_, n)| n).sum::<u64>(), 4999);
        assert!(converted.classes.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(Exponential::of(&Spread::default(), Unit::Bytes), Exponential::default());
    }
}
