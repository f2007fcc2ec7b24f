//! Median and range of repeated measurements.

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

pub fn shown(values: &[f64]) -> String {
    let (low, high) = values.iter().fold((f64::MAX, 0f64), |(l, h), v| (l.min(*v), h.max(*v)));
    format!("{:.0} ({low:.0}-{high:.0})", median(values))
}
