//! Metrics in Prometheus' protobuf format (length-delimited `io.prometheus.client.MetricFamily`
//! messages), the only format with native histograms. Includes the same classic buckets as
//! [`prometheus`](crate::prometheus).
//!
//! Messages are encoded by hand: a dozen fields of three kinds do not justify a code generator.

use crate::exponential::{Exponential, SCALE};
use crate::text::{family_name, in_unit, powers};
use crate::{Family, Kind, Series, Spread, Unit, Value};

/// Smaller values count as zero: 2^-128, as in Prometheus' client libraries.
const ZERO_THRESHOLD: f64 = 2.938735877055719e-39;

/// Field numbers, from `metrics.proto` of Prometheus' client model.
mod field {
    pub const FAMILY: [u32; 4] = [1, 2, 3, 4]; // name, help, type, metric
    pub const METRIC_LABEL: u32 = 1;
    pub const METRIC_GAUGE: u32 = 2;
    pub const METRIC_COUNTER: u32 = 3;
    pub const METRIC_HISTOGRAM: u32 = 7;
    pub const LABEL: [u32; 2] = [1, 2]; // name, value
    pub const VALUE: u32 = 1;
    pub const COUNT: u32 = 1;
    pub const SUM: u32 = 2;
    pub const BUCKET: u32 = 3;
    pub const BUCKET_COUNT: u32 = 1;
    pub const BUCKET_BOUND: u32 = 2;
    pub const SCHEMA: u32 = 5;
    pub const ZERO_THRESHOLD: u32 = 6;
    pub const ZERO_COUNT: u32 = 7;
    pub const SPAN: u32 = 12;
    pub const SPAN_OFFSET: u32 = 1;
    pub const SPAN_LENGTH: u32 = 2;
    pub const DELTA: u32 = 13;
}

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, kind: u32) {
        self.varint(u64::from(field << 3 | kind));
    }

    fn number(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    fn signed(&mut self, field: u32, value: i64) {
        self.number(field, ((value << 1) ^ (value >> 63)) as u64);
    }

    fn double(&mut self, field: u32, value: f64) {
        self.tag(field, 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }
}

/// All `families` as length-delimited messages.
pub fn prometheus_protobuf(families: &[Family]) -> Vec<u8> {
    let mut out = Message::default();
    for family in families {
        let message = of_family(family);
        out.varint(message.0.len() as u64);
        out.0.extend(message.0);
    }
    out.0
}

fn of_family(family: &Family) -> Message {
    let [name, help, kind, metric] = field::FAMILY;
    let mut message = Message::default();
    message.bytes(name, family_name(family).as_bytes());
    message.bytes(help, family.info.help.as_bytes());
    message.number(
        kind,
        match family.kind {
            Kind::Count => 0,
            Kind::Level => 1,
            Kind::Spread => 4,
        },
    );
    for series in &family.series {
        message.bytes(metric, &of_series(series, family.info.unit).0);
    }
    message
}

fn of_series(series: &Series, unit: Unit) -> Message {
    let mut message = Message::default();
    for (name, value) in &series.labels {
        let mut label = Message::default();
        label.bytes(field::LABEL[0], name.as_bytes());
        label.bytes(field::LABEL[1], value.as_bytes());
        message.bytes(field::METRIC_LABEL, &label.0);
    }
    let (kind, value) = match &series.value {
        Value::Count(n) => (field::METRIC_COUNTER, of_number(in_unit(*n, unit))),
        Value::Level(n) => (field::METRIC_GAUGE, of_number(in_unit(*n, unit))),
        Value::Spread(spread) => (field::METRIC_HISTOGRAM, of_spread(spread, unit)),
    };
    message.bytes(kind, &value.0);
    message
}

fn of_number(value: f64) -> Message {
    let mut message = Message::default();
    message.double(field::VALUE, value);
    message
}

fn of_spread(spread: &Spread, unit: Unit) -> Message {
    let mut message = Message::default();
    message.number(field::COUNT, spread.count);
    message.double(field::SUM, in_unit(spread.sum, unit));
    let (mut classes, mut so_far) = (spread.classes.iter().peekable(), 0);
    for power in powers(unit) {
        let end = (1u64 << power) - 1;
        while let Some((_, count)) = classes.next_if(|(last, _)| *last <= end) {
            so_far += count;
        }
        let mut bucket = Message::default();
        bucket.number(field::BUCKET_COUNT, so_far);
        bucket.double(field::BUCKET_BOUND, in_unit(end, unit));
        message.bytes(field::BUCKET, &bucket.0);
    }
    let native = Exponential::of(spread, unit);
    message.signed(field::SCHEMA, SCALE.into());
    message.double(field::ZERO_THRESHOLD, ZERO_THRESHOLD);
    message.number(field::ZERO_COUNT, native.zeros);
    // Spans of consecutive buckets: the number of empty buckets before the span (for the first
    // span, its index; indices here count from 1), then its length.
    let mut before: Option<i32> = None;
    for run in native.classes.chunk_by(|a, b| a.0 + 1 == b.0) {
        let first = run.first().map_or(0, |(class, _)| class + 1);
        let mut span = Message::default();
        span.signed(field::SPAN_OFFSET, i64::from(first - before.unwrap_or(0)));
        span.number(field::SPAN_LENGTH, run.len() as u64);
        message.bytes(field::SPAN, &span.0);
        before = Some(first + run.len() as i32);
    }
    let mut last = 0;
    for (_, count) in &native.classes {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        message.signed(field::DELTA, count - last);
        last = count;
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Histogram, Info};

    static TIME: Info = Info { name: "read_time", unit: Unit::Nanoseconds, help: "How long." };

    #[test]
    fn a_histogram_is_written_as_prometheus_reads_it() {
        let times = Histogram::default();
        // 1 s and 1.05 s fall into adjacent buckets; 4 s is 16 buckets further up.
        [0, 1_000_000_000 - 1, 1_050_000_000, 1_050_000_000, 4_000_000_000 - 1].iter().for_each(|t| times.record(*t));
        let labels = vec![("device", "a".to_owned())];
        let series = vec![Series { labels, value: Value::Spread(times.spread()) }];
        let bytes = prometheus_protobuf(&[Family { info: &TIME, kind: Kind::Spread, series }]);
        // After the classic buckets: schema 3, threshold, one zero, spans (0: 2), (14: 1), counts
        // 1, 2, 1.
        let mut end = vec![0x28, 6, 0x31];
        end.extend(ZERO_THRESHOLD.to_le_bytes());
        end.extend([0x38, 1, 0x62, 4, 0x08, 0, 0x10, 2, 0x62, 4, 0x08, 28, 0x10, 1, 0x68, 2, 0x68, 2, 0x68, 1]);
        assert!(bytes.ends_with(&end), "{bytes:02x?}");
        let (length, family) = (usize::from(bytes[0] & 0x7f) + (usize::from(bytes[1]) << 7), &bytes[2..]);
        assert_eq!(length, family.len());
        assert!(family.starts_with(b"\x0a\x16weir_read_time_seconds\x12\x09How long.\x18\x04\x22"), "{family:02x?}");
    }
}
