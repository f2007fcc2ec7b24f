//! Compares two results, only if their configurations differ in nothing but the declared factors.

use crate::Facts;
use crate::statistics::{difference, interval};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Why it is refused; empty if it is not.
    pub refused: Vec<String>,
    /// The result as one sentence.
    pub text: String,
    /// Operations per second of the first and the second run.
    pub rates: (f64, f64),
    /// The relative gain of the second run over the first, and half the width of its 95 % interval.
    pub gain: Option<(f64, f64)>,
}

/// Values that differ from run to run and do not describe the system.
const OF_A_MOMENT: [&str; 4] = ["directory", "started", "title", "command"];

/// Collects the paths of all values that differ.
fn differing(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let mut keys: Vec<&String> = x.keys().chain(y.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                differing(&path, x.get(key).unwrap_or(&Value::Null), y.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (a, b) if a != b => found.push(format!("{path}: {a} and {b}")),
        _ => {}
    }
}

/// Differences other than the declared factors. A factor is the last component of a path, or the
/// whole path.
pub fn undeclared(a: &Facts, b: &Facts, factors: &[String]) -> Vec<String> {
    let whole = |f: &Facts| {
        let mut all = f.configuration.clone();
        all.retain(|key, _| !OF_A_MOMENT.contains(&key.as_str()));
        all.insert("load".to_owned(), serde_json::to_value(&f.load).unwrap_or(Value::Null));
        if let Some(server) = &f.server {
            all.insert("record_bytes".to_owned(), server.record_bytes.into());
            all.insert("layout".to_owned(), server.layout.clone().into());
        }
        Value::Object(all)
    };
    let mut found = Vec::new();
    differing("", &whole(a), &whole(b), &mut found);
    found.retain(|line| {
        let path = line.split(": ").next().unwrap_or_default();
        !factors.iter().any(|f| path == f || path.ends_with(&format!(".{f}")))
    });
    found
}

/// Compares the rates of two runs. [`Comparison::refused`] says why they are not comparable: they
/// differ in more than `factors`, or have fewer than three repetitions.
pub fn compare(a: &Facts, b: &Facts, factors: &[String]) -> Comparison {
    let mut refused: Vec<String> = undeclared(a, b, factors)
        .into_iter()
        .map(|what| format!("the runs differ in more than the declared factors: {what}"))
        .collect();
    for (name, facts) in [("the first run", a), ("the second run", b)] {
        if facts.repeats.len() < 3 {
            refused.push(format!(
                "{name} was repeated {} times: at least 3 are needed to estimate the interval",
                facts.repeats.len()
            ));
        }
    }
    let rates = (crate::statistics::mean(&a.repeats), crate::statistics::mean(&b.repeats));
    let gain = difference(&a.repeats, &b.repeats).map(|(d, half)| (d / rates.0, half / rates.0));
    let of = |f: &Facts| {
        interval(&f.repeats).map_or_else(String::new, |(m, h)| format!("{m:.0} ({:.0} to {:.0})", m - h, m + h))
    };
    let text = match gain {
        None => "the difference cannot be estimated".to_owned(),
        Some((gain, half)) => {
            let text = format!(
                "{} against {} operations a second: {:+.1} %, 95 % interval {:+.1} % to {:+.1} %",
                of(a),
                of(b),
                gain * 100.0,
                (gain - half) * 100.0,
                (gain + half) * 100.0
            );
            if gain.abs() > half { text } else { text + ": no significant difference" }
        }
    };
    Comparison { refused, text, rates, gain }
}
