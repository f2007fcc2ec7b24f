//! Schemes: the fixed classes (buckets) of numbers in heat maps. They are the same at all times and
//! on all machines, so that counts of seconds, datasets and machines can be added.
//!
//! The schemes are those of DTrace's `llquantize()` as used by Cloud Analytics: each power of the
//! base is divided into equal parts, so that bounds are round numbers, and a coarser scale is an
//! exact sum of finer classes.
//!
//! ```text
//! latency   0 │ 1.0 1.1 1.2 … 9.9 us │ 10 11 … 99 us │ 100 110 … 990 us │ 1.0 1.1 … 9.9 ms │ …
//!             │ 100 s and more
//! size      0 1 2 … 31 │ 32 34 … 62 │ 64 68 … 124 │ …   (32 parts from 0 to each power of 2)
//! offset    0 1 … 99 │ 100 110 … 990 │ …                (90 parts of each power of 10)
//! ```

use serde::{Deserialize, Serialize};

/// A scheme of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Nanoseconds up to 100 s; classes are at most 10 us wide below 1 ms.
    Latency,
    /// Bytes of one operation, up to 64 MiB.
    Size,
    /// Byte offset in a file or device.
    Offset,
    /// Percent, one class each; 100 is a class of its own.
    Percent,
}

/// A power of the base, divided into parts.
struct Power {
    first: u64,
    /// Width of its parts.
    step: u64,
    /// Class of its first part.
    class: u32,
}

/// The powers of a scheme and its number of classes.
struct Table {
    powers: [Power; 48],
    len: usize,
    classes: u32,
}

/// `base`^`low` up to `base`^`end`, divided such that `parts` parts reach from 0 to the next power.
/// One class below, one above.
const fn table(base: u64, low: u32, end: u32, parts: u64) -> Table {
    const NONE: Power = Power { first: u64::MAX, step: 1, class: 0 };
    let mut out = Table { powers: [NONE; 48], len: 0, classes: 1 };
    let mut power = low;
    while power < end {
        let (first, next) = (base.pow(power), base.pow(power + 1));
        let step = if next > parts { next / parts } else { 1 };
        out.powers[out.len] = Power { first, step, class: out.classes };
        out.classes += ((next - first) / step) as u32;
        out.len += 1;
        power += 1;
    }
    // The class above all powers.
    out.powers[out.len] = Power { first: base.pow(end), step: u64::MAX, class: out.classes };
    out.len += 1;
    out.classes += 1;
    out
}

static LATENCY: Table = table(10, 3, 11, 100);
static SIZE: Table = table(2, 0, 26, 32);
static OFFSET: Table = table(10, 0, 13, 100);

/// Number of classes of [`Scheme::Percent`].
const PERCENTS: u32 = 101;

impl Scheme {
    fn table(self) -> Option<&'static Table> {
        match self {
            Self::Latency => Some(&LATENCY),
            Self::Size => Some(&SIZE),
            Self::Offset => Some(&OFFSET),
            Self::Percent => None,
        }
    }

    /// Number of classes; they are numbered from 0.
    pub fn classes(self) -> u32 {
        self.table().map_or(PERCENTS, |t| t.classes)
    }

    /// The class of a number.
    pub fn class(self, value: u64) -> u32 {
        let Some(table) = self.table() else { return value.min(100) as u32 };
        let powers = table.powers.get(..table.len).unwrap_or_default();
        let power = match self {
            Self::Size => value.checked_ilog2().map(|p| p as usize),
            Self::Offset => value.checked_ilog10().map(|p| p as usize),
            _ => value.checked_ilog10().and_then(|p| (p as usize).checked_sub(3)),
        };
        let Some(power) = power.and_then(|p| powers.get(p.min(powers.len() - 1))) else { return 0 };
        power.class + ((value - power.first) / power.step) as u32
    }

    /// Lower bound and exclusive upper bound of a class.
    pub fn range(self, class: u32) -> (u64, u64) {
        let Some(table) = self.table() else {
            let class = u64::from(class.min(100));
            return (class, if class == 100 { u64::MAX } else { class + 1 });
        };
        let powers = table.powers.get(..table.len).unwrap_or_default();
        let class = class.min(table.classes - 1);
        let first = |class: u32| {
            let power = powers.iter().rfind(|p| p.class <= class)?;
            Some(power.first + u64::from(class - power.class).saturating_mul(power.step))
        };
        let end = if class + 1 == table.classes { u64::MAX } else { first(class + 1).unwrap_or(u64::MAX) };
        (first(class).unwrap_or(0), end)
    }

    /// Unit of the numbers.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Latency => "ns",
            Self::Size | Self::Offset => "bytes",
            Self::Percent => "percent",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Scheme; 4] = [Scheme::Latency, Scheme::Size, Scheme::Offset, Scheme::Percent];

    #[test]
    fn classes_are_adjacent_and_contain_their_values() {
        for scheme in ALL {
            let mut next = 0;
            for class in 0..scheme.classes() {
                let (first, end) = scheme.range(class);
                assert_eq!(first, next, "{scheme:?} {class}");
                assert!(end > first);
                assert_eq!((scheme.class(first), scheme.class(end - 1)), (class, class), "{scheme:?} {first} {end}");
                next = end;
            }
            assert_eq!(next, u64::MAX, "{scheme:?}");
        }
    }

    #[test]
    fn latencies_below_a_millisecond_are_resolved_to_ten_microseconds() {
        assert_eq!(Scheme::Latency.classes(), 722);
        for us in 1..1000 {
            let (first, end) = Scheme::Latency.range(Scheme::Latency.class(us * 1000));
            assert!(end - first <= 10_000, "{us}");
        }
        assert_eq!(Scheme::Latency.range(Scheme::Latency.class(104_000)), (100_000, 110_000));
        assert_eq!(Scheme::Latency.range(Scheme::Latency.class(23_500)), (23_000, 24_000));
        assert_eq!(Scheme::Latency.range(Scheme::Latency.class(7_300_000_000)), (7_300_000_000, 7_400_000_000));
        assert_eq!(Scheme::Latency.class(999), 0);
        assert_eq!(Scheme::Latency.class(1 << 50), 721);
    }

    #[test]
    fn sizes_of_blocks_begin_a_class() {
        for power in 5..26 {
            assert_eq!(Scheme::Size.range(Scheme::Size.class(1 << power)).0, 1 << power);
        }
        assert_eq!(Scheme::Size.range(Scheme::Size.class(8192)), (8192, 8192 + 512));
    }

    proptest! {
        #[test]
        fn every_number_is_in_its_class(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            for scheme in ALL {
                let (first, end) = scheme.range(scheme.class(value));
                prop_assert!(first <= value && (value < end || end == u64::MAX));
            }
        }
    }
}
