//! Reads metrics in the format that [`crate::prometheus`] writes. The difference of a counter
//! between two readings is what happened in between.

use std::collections::BTreeMap;
use std::time::Duration;

/// Labels that distinguish values with the same name.
pub type Labels = BTreeMap<String, String>;

/// All metrics at one time.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    /// Time of the reading, since 1970.
    pub at: Duration,
    series: BTreeMap<String, Vec<(Labels, f64)>>,
}

impl Metrics {
    /// Parses metrics in Prometheus' text format; other lines are ignored.
    pub fn parse(text: &str, at: Duration) -> Self {
        let mut series: BTreeMap<String, Vec<(Labels, f64)>> = BTreeMap::new();
        for (name, labels, value) in text.lines().filter_map(line) {
            series.entry(name).or_default().push((labels, value));
        }
        Self { at, series }
    }

    /// All names and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[(Labels, f64)])> {
        self.series.iter().map(|(name, values)| (name.as_str(), values.as_slice()))
    }

    /// All values called `name`.
    pub fn all(&self, name: &str) -> &[(Labels, f64)] {
        self.series.get(name).map_or(&[], Vec::as_slice)
    }

    /// The sum of the values with these labels; `None` if there are none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let has = |of: &Labels| labels.iter().all(|(name, value)| of.get(*name).is_some_and(|v| v == value));
        let found: Vec<f64> = self.all(name).iter().filter(|(l, _)| has(l)).map(|(_, v)| *v).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    }

    /// Growth since `before`, or the whole value if that is `None`. A counter that was reset counts
    /// from zero.
    pub fn grown(&self, before: Option<&Self>, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let now = self.sum(name, labels)?;
        let old = before.and_then(|before| before.sum(name, labels)).unwrap_or(0.0);
        Some(if now < old { now } else { now - old })
    }

    /// Seconds since `before`, or since the daemon started if that is `None`.
    pub fn seconds(&self, before: Option<&Self>) -> f64 {
        let start = match before {
            Some(before) => before.at.as_secs_f64(),
            None => self.sum("weir_process_start_time", &[]).unwrap_or(0.0),
        };
        (self.at.as_secs_f64() - start).max(0.001)
    }

    /// The values of a label.
    pub fn labels(&self, name: &str, label: &str) -> Vec<String> {
        let mut found: Vec<String> = self.all(name).iter().filter_map(|(l, _)| l.get(label).cloned()).collect();
        found.sort();
        found.dedup();
        found
    }
}

fn line(line: &str) -> Option<(String, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.insert(label.to_owned(), value);
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = rest.strip_prefix('}')?;
    }
    Some((name.to_owned(), labels, rest.split_ascii_whitespace().next()?.parse().ok()?))
}

/// The text up to the closing quotation mark, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, text.get(at + 1..)?)),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                c => out.push(c),
            },
            c => out.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_text_is_parsed() {
        let text = "# HELP a b\n# TYPE a counter\na{pool=\"t\\\"x\",device=\"/d,}\"} 5\na{pool=\"u\"} 2.5\nb 7 1234\nbroken{x=\"1\n\n";
        let m = Metrics::parse(text, Duration::ZERO);
        assert_eq!((m.sum("a", &[]), m.sum("b", &[]), m.sum("c", &[])), (Some(7.5), Some(7.0), None));
        assert_eq!(m.sum("a", &[("pool", "t\"x"), ("device", "/d,}")]), Some(5.0));
        assert_eq!(m.labels("a", "pool"), ["t\"x", "u"]);
        let later = Metrics::parse("a{pool=\"u\"} 1\nb 9", Duration::ZERO);
        assert_eq!((later.grown(Some(&m), "b", &[]), later.grown(None, "b", &[])), (Some(2.0), Some(9.0)));
        assert_eq!(later.grown(Some(&m), "a", &[("pool", "u")]), Some(1.0), "a restarted daemon");
    }
}
