//! Parses numbers in load files: sizes, times, lists and ranges.

use std::time::Duration;

/// `8k`, `1.5g`, `4096`: powers of 1024, as in vdbench, fio and OpenZFS; also `8KiB`.
pub(crate) fn size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_suffix("ib").or_else(|| lower.strip_suffix('b')).unwrap_or(&lower);
    let (digits, power) = match lower.char_indices().last()? {
        (at, 'k') => (&lower[..at], 10),
        (at, 'm') => (&lower[..at], 20),
        (at, 'g') => (&lower[..at], 30),
        (at, 't') => (&lower[..at], 40),
        (at, 'p') => (&lower[..at], 50),
        _ => (lower, 0),
    };
    let number: f64 = digits.parse().ok()?;
    let bytes = number * (1u64 << power) as f64;
    (number >= 0.0 && bytes < u64::MAX as f64 && bytes.fract() == 0.0).then_some(bytes as u64)
}

/// `30`, `30s`, `5m`, `2h`, `100ms`: a duration.
pub(crate) fn time(text: &str) -> Option<Duration> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let unit = units.iter().find_map(|(u, f)| Some((text.strip_suffix(u)?, *f)));
    let (digits, factor) = unit.unwrap_or((text, 1.0));
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * factor).ok()
}

/// Parses a size on a command line. The error says what a size looks like.
pub fn size_argument(text: &str) -> std::result::Result<u64, String> {
    size(text).ok_or_else(|| format!("'{text}' is not a size, such as 4096, 8K or 1.5G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_in_common_notations() {
        let sizes = ["0", "8k", "8K", "4KiB", "1.5g", "512", "4m", "4mb"].map(size);
        let wanted = [0, 8 << 10, 8 << 10, 4 << 10, 3 << 29, 512, 4 << 20, 4 << 20].map(Some);
        assert_eq!(sizes, wanted);
        assert_eq!(["", "k", "-1", "1x", "0.3"].map(size), [None; 5]);
        let times = ["30", "5m", "2h", "100ms", "1.5s"].map(time);
        assert_eq!(times, [30_000, 300_000, 7_200_000, 100, 1500].map(|ms| Some(Duration::from_millis(ms))));
        assert_eq!(["", "m", "-1", "1w"].map(time), [None; 4]);
    }
}
