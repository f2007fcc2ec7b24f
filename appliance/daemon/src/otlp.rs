//! Pushes all statistics to an OpenTelemetry collector: OTLP over HTTP, in JSON encoding.
//!
//! Counters are monotonic sums, levels are gauges, distributions are exponential histograms, all
//! since the start of the process. JSON is one of the two encodings that every receiver must
//! accept. Protobuf would need generated messages, and save three quarters of some 100 KiB.
//!
//! Invariant: a failed push is skipped: the next one contains everything. A collector that does not
//! answer delays only the thread that pushes.

use crate::config::OtlpConfig;
use crate::outgoing;
use crate::service::Service;
use observe::exponential::{Exponential, SCALE};
use observe::{Family, Kind, Series, Unit, Value};
use serde_json::{Value as Json, json};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Time limit for one push.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which to check for changes.
const TURN: Duration = Duration::from_millis(500);

/// Starts the thread that pushes as configured, as long as the service exists.
pub fn start(service: &Arc<Service>) -> std::io::Result<()> {
    let of = Arc::downgrade(service);
    std::thread::Builder::new().name("weir-otlp".to_owned()).spawn(move || run(&of)).map(|_| ())
}

fn run(of: &Weak<Service>) {
    let mut last: Option<Instant> = None;
    let mut failing = false;
    loop {
        std::thread::sleep(TURN);
        // Not held while waiting: the service ends when all others have dropped it.
        let Some(service) = of.upgrade() else { return };
        if *service.signals.stopped.borrow() {
            return;
        }
        let config = service.settings.now();
        let interval = Duration::from_secs(config.otlp.interval_seconds);
        if config.otlp.endpoint.is_empty() || last.is_some_and(|last| last.elapsed() < interval) {
            continue;
        }
        last = Some(Instant::now());
        service.list_figures();
        let document = document(&service.metrics.registry.collect(), service.metrics.started, host::clock::seconds());
        drop(service);
        match push(&config.otlp, &document) {
            Ok(()) if failing => {
                tracing::info!(endpoint = config.otlp.endpoint, "pushing metrics works again");
                failing = false;
            }
            Ok(()) => {}
            Err(error) if !failing => {
                tracing::warn!(endpoint = config.otlp.endpoint, error, "cannot push metrics");
                failing = true;
            }
            Err(_) => {}
        }
    }
}

fn push(config: &OtlpConfig, document: &Json) -> Result<(), String> {
    let url = format!("{}/v1/metrics", config.endpoint.trim_end_matches('/'));
    let header = |h: &String| h.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    let headers: Vec<(String, String)> = config.headers.iter().filter_map(header).collect();
    outgoing::post(&url, "application/json", &headers, document.to_string().as_bytes(), PATIENCE)
}

/// Statistics between two times, in seconds since 1970, as an `ExportMetricsServiceRequest`.
pub fn document(families: &[Family], started: u64, now: u64) -> Json {
    let attribute = |name: &str, value: &str| json!({"key": name, "value": {"stringValue": value}});
    let version = env!("CARGO_PKG_VERSION");
    json!({"resourceMetrics": [{
        "resource": {"attributes": [
            attribute("service.name", "weir"),
            attribute("service.version", version),
            attribute("host.name", &host::name()),
        ]},
        "scopeMetrics": [{
            "scope": {"name": "weir", "version": version},
            "metrics": families.iter().map(|f| metric(f, started, now)).collect::<Vec<_>>(),
        }],
    }]})
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE` of OTLP: values count from the start of the process.
const CUMULATIVE: u8 = 2;

fn metric(family: &Family, started: u64, now: u64) -> Json {
    // 64-bit numbers are strings in this encoding.
    let nanos = |second: u64| second.saturating_mul(1_000_000_000).to_string();
    let unit = family.info.unit;
    let points = family.series.iter().map(|series| {
        let mut point = point(series, unit);
        point["attributes"] =
            series.labels.iter().map(|(k, v)| json!({"key": k, "value": {"stringValue": v}})).collect();
        point["timeUnixNano"] = nanos(now).into();
        if family.kind != Kind::Level {
            point["startTimeUnixNano"] = nanos(started).into();
        }
        point
    });
    let points: Vec<Json> = points.collect();
    let mut metric = json!({
        "name": format!("weir_{}", family.info.name),
        "description": family.info.help,
        "unit": match unit {
            Unit::Number => "1",
            Unit::Bytes => "By",
            Unit::Nanoseconds => "s",
        },
    });
    match family.kind {
        Kind::Count => {
            metric["sum"] = json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true});
        }
        Kind::Level => metric["gauge"] = json!({"dataPoints": points}),
        Kind::Spread => {
            metric["exponentialHistogram"] = json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE});
        }
    }
    metric
}

fn point(series: &Series, unit: Unit) -> Json {
    let seconds = |n: u64| n as f64 / 1e9;
    match &series.value {
        Value::Count(n) | Value::Level(n) if unit == Unit::Nanoseconds => json!({"asDouble": seconds(*n)}),
        Value::Count(n) | Value::Level(n) => json!({"asInt": n.to_string()}),
        Value::Spread(spread) => {
            let native = Exponential::of(spread, unit);
            let first = native.classes.first().map_or(0, |(class, _)| *class);
            let end = native.classes.last().map_or(first, |(class, _)| class + 1);
            let mut counts = vec![0u64; usize::try_from(end - first).unwrap_or(0)];
            for (class, n) in &native.classes {
                if let Some(count) = usize::try_from(class - first).ok().and_then(|at| counts.get_mut(at)) {
                    *count = *n;
                }
            }
            let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
            let sum = if unit == Unit::Nanoseconds { seconds(spread.sum) } else { spread.sum as f64 };
            json!({
                "count": spread.count.to_string(),
                "sum": sum,
                "scale": SCALE,
                "zeroCount": native.zeros.to_string(),
                "positive": {"offset": first, "bucketCounts": counts},
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::{Histogram, Info};

    #[test]
    fn metrics_are_exported_in_otlp_format() {
        static TIME: Info = Info { name: "read_time", unit: Unit::Nanoseconds, help: "How long." };
        static READS: Info = Info { name: "reads", unit: Unit::Number, help: "How many." };
        let times = Histogram::default();
        [0, 999_999_999, 4_000_000_000 - 1].iter().for_each(|t| times.record(*t));
        let series = |value| vec![Series { labels: vec![("device", "a".to_owned())], value }];
        let families = [
            Family { info: &TIME, kind: Kind::Spread, series: series(Value::Spread(times.spread())) },
            Family { info: &READS, kind: Kind::Count, series: series(Value::Count(u64::MAX)) },
        ];
        let document = document(&families, 5, 7);
        let metrics = &document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let point = &metrics[0]["exponentialHistogram"]["dataPoints"][0];
        assert_eq!((&point["count"], &point["zeroCount"], &point["scale"]), (&json!("3"), &json!("1"), &json!(3)));
        assert_eq!(point["positive"]["offset"], -1);
        let counts = point["positive"]["bucketCounts"].as_array().expect("counts");
        assert_eq!((counts.len(), &counts[0], &counts[16]), (17, &json!("1"), &json!("1")));
        assert_eq!(point["startTimeUnixNano"], "5000000000");
        let reads = &metrics[1]["sum"]["dataPoints"][0];
        assert_eq!((&reads["asInt"], &reads["timeUnixNano"]), (&json!("18446744073709551615"), &json!("7000000000")));
        assert_eq!(reads["attributes"][0], json!({"key": "device", "value": {"stringValue": "a"}}));
    }
}
