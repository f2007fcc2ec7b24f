//! Reduces a series to one value per pixel column: average, minimum and maximum.

use crate::series::{Series, Span};

/// A pixel column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// Start and end in seconds since the start of the run.
    pub time: (f64, f64),
    /// Seconds of it that were measured.
    pub seconds: f64,
    /// Average over the measured time.
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

/// Reduces the series to this many columns of equal width. Columns without measurements are
/// omitted.
pub fn reduce(series: &Series, (from, to): (f64, f64), columns: usize) -> Vec<Column> {
    let width = (to - from) / columns.max(1) as f64;
    let mut out: Vec<Column> = Vec::with_capacity(columns);
    if width <= 0.0 {
        return out;
    }
    for span in &series.spans {
        let (mut at, end) = (span.from.max(from), span.to.min(to));
        while at < end {
            let n = (((at - from) / width + 1e-9) as usize).min(columns.saturating_sub(1));
            let time = (from + n as f64 * width, from + (n as f64 + 1.0) * width);
            let until = if n + 1 >= columns { end } else { end.min(time.1) };
            // Rounding must not prevent progress.
            let until = if until > at { until } else { end };
            let seconds = until - at;
            match out.last_mut().filter(|c| c.time == time) {
                Some(column) => {
                    column.mean = (column.mean * column.seconds + span.value * seconds) / (column.seconds + seconds);
                    column.seconds += seconds;
                    column.least = column.least.min(span.value);
                    column.most = column.most.max(span.value);
                }
                None => out.push(Column { time, seconds, mean: span.value, least: span.value, most: span.value }),
            }
            at = until;
        }
    }
    out
}

/// A moving average over `width` seconds around each span, of what was measured there.
pub fn smooth(series: &Series, width: f64) -> Series {
    let spans = &series.spans;
    // Prefix sums of seconds, and of values times seconds.
    let mut sums = vec![(0.0, 0.0)];
    let (mut seconds, mut area) = (0.0, 0.0);
    for span in spans {
        seconds += span.to - span.from;
        area += span.value * (span.to - span.from);
        sums.push((seconds, area));
    }
    let up_to = |at: f64| -> (f64, f64) {
        let n = spans.partition_point(|s| s.to <= at);
        let (seconds, area) = sums.get(n).copied().unwrap_or_default();
        match spans.get(n).filter(|s| s.from < at) {
            Some(s) => (seconds + at - s.from, area + s.value * (at - s.from)),
            None => (seconds, area),
        }
    };
    let around = |s: &Span| {
        let middle = (s.from + s.to) / 2.0;
        let ((t0, a0), (t1, a1)) = (up_to(middle - width / 2.0), up_to(middle + width / 2.0));
        Span { value: if t1 > t0 { (a1 - a0) / (t1 - t0) } else { s.value }, ..*s }
    };
    Series { spans: spans.iter().map(around).collect(), ..series.clone() }
}
