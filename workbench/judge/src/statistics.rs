//! Confidence intervals, trends, and detection of bimodal distributions.

/// The 97.5 % quantiles of Student's t distribution, by degrees of freedom. Beyond the table it is
/// nearly normal (to 1 %).
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The 97.5 % quantile of Student's t distribution; see [`T`].
pub fn t(freedom: f64) -> f64 {
    let n = (freedom.floor().max(1.0)) as usize;
    T.get(n - 1).copied().unwrap_or(1.96 + 2.4 / freedom)
}

/// Arithmetic mean; 0 if there are no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sample variance (divisor n - 1); 0 for fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    let m = mean(values);
    values.iter().map(|v| (v - m).powi(2)).sum::<f64>() / (values.len().max(2) - 1) as f64
}

/// The mean and half the width of its 95 % confidence interval; requires at least two values.
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    (values.len() >= 2).then(|| (mean(values), t(n - 1.0) * (variance(values) / n).sqrt()))
}

/// The difference of two means (b - a), and half the width of its 95 % confidence interval (Welch).
pub fn difference(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (va, vb) = (variance(a) / a.len() as f64, variance(b) / b.len() as f64);
    let sum = va + vb;
    let freedom = if sum > 0.0 {
        sum.powi(2) / (va.powi(2) / (a.len() - 1) as f64 + vb.powi(2) / (b.len() - 1) as f64)
    } else {
        (a.len() + b.len() - 2) as f64
    };
    Some((mean(b) - mean(a), t(freedom) * sum.sqrt()))
}

/// Fits a straight line to equidistant values. Returns its rise from the first to the last value
/// relative to the mean, and whether it is significant (95 %).
pub fn drift(values: &[f64]) -> Option<(f64, bool)> {
    let n = values.len();
    let m = mean(values);
    if n < 4 || m == 0.0 {
        return None;
    }
    let x = |i: usize| i as f64 - (n - 1) as f64 / 2.0;
    let sxx: f64 = (0..n).map(|i| x(i).powi(2)).sum();
    let slope = values.iter().enumerate().map(|(i, v)| x(i) * (v - m)).sum::<f64>() / sxx;
    let rest: f64 = values.iter().enumerate().map(|(i, v)| (v - m - slope * x(i)).powi(2)).sum();
    let error = (rest / (n - 2) as f64 / sxx).sqrt();
    Some((slope * (n - 1) as f64 / m, slope.abs() > t((n - 2) as f64) * error))
}

/// The positions of the two peaks of a bimodal distribution: each has at least a twentieth of all
/// values, they are at least a factor of four apart, and the valley between them is less than a
/// third of the lower peak. `classes`: upper bound and count of each bucket, ascending.
pub fn humps(classes: &[(u64, u64)]) -> Option<(u64, u64)> {
    const PARTS: f64 = 4.0; // For each doubling.
    let bin = |value: u64| ((value.max(1) as f64).log2() * PARTS) as usize;
    let mut bins = vec![0.0; 64 * PARTS as usize + 1];
    for (value, count) in classes {
        bins[bin(*value)] += *count as f64;
    }
    let all: f64 = bins.iter().sum();
    // Smoothed over half a doubling, so that a single odd bucket is not a peak.
    let smooth: Vec<f64> = (0..bins.len())
        .map(|i| {
            let range = i.saturating_sub(1)..(i + 2).min(bins.len());
            bins[range.clone()].iter().sum::<f64>() / range.len() as f64
        })
        .collect();
    let value = |i: usize| 2f64.powf((i as f64 + 0.5) / PARTS) as u64;
    let mut best: Option<(f64, usize, usize)> = None;
    for valley in 1..bins.len() - 1 {
        let peak =
            |range: std::ops::Range<usize>| range.max_by(|a, b| smooth[*a].total_cmp(&smooth[*b])).unwrap_or(valley);
        let (low, high) = (peak(0..valley), peak(valley + 1..bins.len()));
        let lower = smooth[low].min(smooth[high]);
        let (below, above): (f64, f64) = (bins[..valley].iter().sum(), bins[valley + 1..].iter().sum());
        let is_valley = smooth[valley] * 3.0 < lower;
        let is_apart = (high - low) as f64 >= 2.0 * PARTS;
        if is_valley && is_apart && below >= all / 20.0 && above >= all / 20.0 {
            let depth = lower - smooth[valley];
            if best.is_none_or(|(d, ..)| depth > d) {
                best = Some((depth, low, high));
            }
        }
    }
    best.map(|(_, low, high)| (value(low), value(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_textbooks() {
        // Mean 10, standard deviation 1: 2.776 / sqrt(5).
        let (m, half) = interval(&[9.0, 9.5, 10.0, 10.5, 11.0]).expect("five");
        assert!((m - 10.0).abs() < 1e-9 && (half - 2.776 * (0.625f64 / 5.0).sqrt()).abs() < 1e-9, "{half}");
        assert_eq!(interval(&[1.0]), None);
        let (d, half) = difference(&[10.0, 10.2, 9.8], &[12.0, 12.1, 11.9]).expect("both");
        assert!((d - 2.0).abs() < 1e-9 && half > 0.2 && half < 0.6, "{half}");
        assert!((t(1000.0) - 1.962).abs() < 0.01 && t(1.0) > 12.0);
    }

    #[test]
    fn a_trend_is_distinguished_from_noise() {
        let noise = |i: u64| (i.wrapping_mul(2_654_435_761) % 1000) as f64 / 1000.0;
        let flat: Vec<f64> = (0..60).map(|i| 100.0 + noise(i)).collect();
        let rising: Vec<f64> = (0..60).map(|i| 100.0 + i as f64 + noise(i)).collect();
        let (up, is_sure) = drift(&rising).expect("a line");
        assert!(is_sure && (0.4..0.5).contains(&up), "{up}");
        let (up, _) = drift(&flat).expect("a line");
        assert!(up.abs() < 0.01, "{up}");
        assert_eq!(drift(&[1.0, 2.0]), None);
    }

    #[test]
    fn two_humps_are_found_and_one_wide_one_is_not() {
        let hump = |at: f64, wide: f64, count: f64| {
            (0..100).map(move |i| {
                let x = (i as f64 - 50.0) / 50.0 * 3.0;
                ((at * 2f64.powf(x * wide)) as u64, (count * (-x * x / 2.0).exp()) as u64)
            })
        };
        let sorted = |mut v: Vec<(u64, u64)>| {
            v.sort_unstable();
            v
        };
        let one: Vec<(u64, u64)> = hump(200_000.0, 1.5, 1000.0).collect();
        assert_eq!(humps(&sorted(one.clone())), None);
        let two = sorted(hump(100_000.0, 0.5, 1000.0).chain(hump(8_000_000.0, 0.5, 300.0)).collect());
        let (low, high) = humps(&two).expect("two");
        assert!((70_000..150_000).contains(&low) && (6_000_000..11_000_000).contains(&high), "{low} {high}");
        // A few slow operations are a tail.
        let tail = sorted(one.into_iter().chain(hump(50_000_000.0, 0.3, 10.0)).collect());
        assert_eq!(humps(&tail), None);
    }
}
