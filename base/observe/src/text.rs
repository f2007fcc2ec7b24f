//! Metrics in Prometheus' text format, version 0.0.4.
//!
//! Names get the prefix `weir_`, the unit as a suffix and, for counters, `_total`; nanoseconds
//! become seconds. Histograms are exported with a fixed set of power-of-two buckets, so that those
//! of different devices or hosts can be added.

use crate::{Family, Kind, Spread, Unit, Value};
use std::fmt::Write;

/// All `families` as text.
pub fn prometheus(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let kind = match family.kind {
            Kind::Count => "counter",
            Kind::Level => "gauge",
            Kind::Spread => "histogram",
        };
        let name = family_name(family);
        let help = family.info.help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for series in &family.series {
            let labels: Vec<String> =
                series.labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
            let labels = labels.join(",");
            match &series.value {
                Value::Count(n) | Value::Level(n) => {
                    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
                    let _ = writeln!(out, "{name}{braced} {}", number(*n, family.info.unit));
                }
                Value::Spread(spread) => write_spread(&mut out, &name, &labels, spread, family.info.unit),
            }
        }
    }
    out
}

/// The metric's name in Prometheus.
pub(crate) fn family_name(family: &Family) -> String {
    let unit = match family.info.unit {
        Unit::Number => "",
        Unit::Bytes => "_bytes",
        Unit::Nanoseconds => "_seconds",
    };
    let end = if family.kind == Kind::Count { "_total" } else { "" };
    format!("weir_{}{unit}{end}", family.info.name)
}

/// Converts a number to the exported unit.
pub(crate) fn in_unit(n: u64, unit: Unit) -> f64 {
    if unit == Unit::Nanoseconds { n as f64 / 1e9 } else { n as f64 }
}

/// Exponents of the exported bucket bounds: 1 us to 34 s, 512 bytes to 16 GiB, 1 to a million.
pub(crate) fn powers(unit: Unit) -> std::ops::RangeInclusive<u32> {
    match unit {
        Unit::Nanoseconds => 10..=35,
        Unit::Bytes => 9..=34,
        Unit::Number => 0..=20,
    }
}

fn write_spread(out: &mut String, name: &str, labels: &str, spread: &Spread, unit: Unit) {
    let comma = if labels.is_empty() { "" } else { "," };
    let (mut classes, mut so_far) = (spread.classes.iter().peekable(), 0);
    for power in powers(unit) {
        // No source bucket spans a power of two.
        let end = (1 << power) - 1;
        while let Some((_, count)) = classes.next_if(|(last, _)| *last <= end) {
            so_far += count;
        }
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{}\"}} {so_far}", number(end, unit));
    }
    let (sum, all) = (number(spread.sum, unit), spread.count);
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let _ = writeln!(
        out,
        "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {all}\n{name}_sum{braced} {sum}\n{name}_count{braced} {all}"
    );
}

fn number(n: u64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => in_unit(n, unit).to_string(),
        Unit::Number | Unit::Bytes => n.to_string(),
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, Info, Series};

    #[test]
    fn all_kinds_are_written_as_prometheus_reads_them() {
        static READS: Info = Info { name: "device_reads", unit: Unit::Number, help: "Reads of a device." };
        static SIZE: Info = Info { name: "cache_size", unit: Unit::Bytes, help: "Bytes\nheld." };
        static TIME: Info = Info { name: "read_time", unit: Unit::Nanoseconds, help: "How long." };
        let label = |value: &str| vec![("device", value.to_owned())];
        let times = Histogram::default();
        [0, 3, 1000, 1020, 2_000_000_000, 1 << 40].iter().for_each(|t| times.record(*t));
        let (reads, size) = (Value::Count(7), Value::Level(8));
        let one = |info, kind, labels, value| Family { info, kind, series: vec![Series { labels, value }] };
        let text = prometheus(&[
            one(&READS, Kind::Count, label("/a \"b\""), reads),
            one(&SIZE, Kind::Level, vec![], size),
            one(&TIME, Kind::Spread, label("c"), Value::Spread(times.spread())),
        ]);
        let (start, rest) = text.split_at(text.find("weir_read_time_seconds_bucket").unwrap());
        let expected = r#"# HELP weir_device_reads_total Reads of a device.
# TYPE weir_device_reads_total counter
weir_device_reads_total{device="/a \"b\""} 7
# HELP weir_cache_size_bytes Bytes\nheld.
# TYPE weir_cache_size_bytes gauge
weir_cache_size_bytes 8
# HELP weir_read_time_seconds How long.
# TYPE weir_read_time_seconds histogram
"#;
        assert_eq!(start, expected);
        let lines: Vec<&str> = rest.lines().collect();
        assert_eq!(lines.len(), 26 + 3);
        assert_eq!(lines[0], "weir_read_time_seconds_bucket{device=\"c\",le=\"0.000001023\"} 4");
        assert_eq!(lines[20], "weir_read_time_seconds_bucket{device=\"c\",le=\"1.073741823\"} 4");
        assert_eq!(lines[21], "weir_read_time_seconds_bucket{device=\"c\",le=\"2.147483647\"} 5");
        assert_eq!(lines[26], "weir_read_time_seconds_bucket{device=\"c\",le=\"+Inf\"} 6");
        assert_eq!(lines[27], "weir_read_time_seconds_sum{device=\"c\"} 1101.511629799");
        assert_eq!(lines[28], "weir_read_time_seconds_count{device=\"c\"} 6");
    }
}
