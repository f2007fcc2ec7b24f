//! `weir stat NAME [INTERVAL [COUNT]]`: a statistic of Analytics, with a row for each key of its
//! breakdown.

use crate::daemon_client::DaemonClient;
use crate::daemon_client::when;
use crate::report::{Column, Kind, Options, Report, Stamp, Value, column, decimal, explained};
use anyhow::{Context as _, Result, bail};
use api::{CellKey, StatisticColumn, StatisticData};
use clap::{Arg, ArgMatches};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Default time span in seconds.
const DEFAULT_SECONDS: u64 = 60;
/// Time to wait for a second after its end, before it counts as not recorded.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time after its end at which a second is usually available.
const SLACK: Duration = Duration::from_millis(300);

/// The options `--from` and `--to`.
pub fn span_args() -> [Arg; 2] {
    let arg = |id: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name("TIME").allow_hyphen_values(true).help(help)
    };
    [
        arg(
            "from",
            "Start: -10m (ago), 15:49:35, 2026-11-22T15:49 or seconds since 1970 [default: a minute before the end]",
        ),
        arg("to", "End [default: now]"),
    ]
}

/// Current time: seconds since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The requested time span; the default is `otherwise` seconds up to now.
pub fn span(matches: &ArgMatches, otherwise: u64) -> Result<(u64, u64)> {
    let now = now().as_secs();
    let read = |id: &str| matches.get_one::<String>(id).map(|text| when::parse(text, now)).transpose();
    let to = read("to")?.unwrap_or(now);
    let from = read("from")?.unwrap_or(to.saturating_sub(otherwise));
    if from >= to {
        bail!("--from {from} is not before --to {to}");
    }
    Ok((from, to))
}

/// Whether a word names a statistic, `module.statistic[…]`, and not a file in a pool.
/// `POOL.WITH.DOT:/` names the pool.
pub fn is_name(word: &str) -> bool {
    let head = word.split('[').next().unwrap_or_default();
    let letters = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_'))
    };
    head.split_once('.').is_some_and(|(module, stat)| letters(module) && letters(stat))
        && (head.len() == word.len() || word.ends_with(']'))
}

/// Quotes a value for the brackets of a name.
pub fn quoted(value: &str) -> String {
    value.chars().flat_map(|c| if matches!(c, ']' | '\\') { vec!['\\', c] } else { vec![c] }).collect()
}

/// Field by which a statistic is broken down: the last bracket of its name, if that contains no
/// `=`.
pub fn breakdown(name: &str) -> Option<&str> {
    let inner = name.strip_suffix(']')?;
    let last = &inner[inner.rfind('[')? + 1..];
    (!last.contains('=')).then_some(last)
}

/// A number of a heat map, in the unit of its field.
pub fn shown(field: &str, n: u64) -> String {
    let times = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us"), (1, "ns")];
    let bytes = [(1u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let units: &[(u64, &str)] = match field {
        "latency" | "logwait" | "txgwait" | "diskwait" => &times,
        "size" | "offset" => &bytes,
        "utilization" => return format!("{n}%"),
        _ => &[],
    };
    match units.iter().find(|(unit, _)| n >= *unit) {
        Some((unit, name)) if n.is_multiple_of(*unit) => format!("{}{name}", n / unit),
        Some((unit, name)) => {
            let text = decimal(n as f64 / *unit as f64, 2);
            format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        None => n.to_string(),
    }
}

/// Text for the key of a cell.
pub fn key_text(key: &CellKey, field: &str) -> String {
    match key {
        CellKey::Name(name) if name.is_empty() => "<unknown>".to_owned(),
        CellKey::Name(name) => name.clone(),
        CellKey::Range { from, to: Some(to) } => format!("{}..{}", shown(field, *from), shown(field, *to)),
        CellKey::Range { from, to: None } => format!("{}..", shown(field, *from)),
    }
}

/// Keys and counts of a column.
pub fn cells(column: &StatisticColumn) -> impl Iterator<Item = (u64, u64)> {
    column.cells.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?)))
}

fn columns(data: &StatisticData, field: Option<&str>) -> Vec<Column> {
    let (kind, help) = match (data.unit.as_str(), data.level) {
        ("bytes", true) => (Kind::Bytes, "Average value."),
        ("bytes", false) => (Kind::ByteRate, "Average amount per second."),
        (_, true) => (Kind::Number(1), "Average value."),
        (_, false) => (Kind::Number(1), "Average number per second."),
    };
    let name: &'static str = match (data.unit.as_str(), data.level) {
        ("bytes", _) => "value",
        ("ops", _) => "ops/s",
        ("accesses", _) => "accesses/s",
        ("percent", _) => "percent",
        ("disks", _) => "disks",
        ("operations", _) => "operations",
        (_, true) => "value",
        (_, false) => "value/s",
    };
    let mut all = vec![column(name, kind, 12, help)];
    if field.is_some() {
        all.push(column(
            "key",
            Kind::Text,
            4,
            "What the statistic is broken down by: a client, a file, a range of a heat map.",
        ));
    }
    all
}

/// Prints reports, each for a time span.
struct Printer<W> {
    report: Option<Report<W>>,
    options: Options,
    field: Option<String>,
    /// All keys seen so far: idle ones have zeros.
    keys: BTreeMap<String, ()>,
    many: bool,
}

/// Limit for the keys remembered; beyond it, keys that were idle for long are dropped.
const KEYS: usize = 1000;

impl<W: Write> Printer<W> {
    fn rows(
        &mut self,
        out: impl FnOnce() -> W,
        data: &StatisticData,
        found: Option<&StatisticColumn>,
        at: u64,
    ) -> Result<()> {
        let columns = columns(data, self.field.as_deref());
        if self.report.is_none() {
            self.report = Some(Report::new(out(), &columns, &self.options)?);
        }
        let report = self.report.as_mut().context("a report")?;
        let stamp = Stamp { at, boot: false };
        let seconds = found.map_or(0, |c| c.seconds);
        let value = |n: u64| if seconds == 0 { Value::Absent } else { Value::Number(n as f64 / f64::from(seconds)) };
        let Some(field) = &self.field else {
            report.row(stamp, &[value(found.map_or(0, |c| c.total))])?;
            return Ok(report.flush()?);
        };
        let is_map = data.keys.values().any(|key| matches!(key, CellKey::Range { .. }));
        let mut rows: Vec<(u64, u64, String)> = Vec::new();
        for (key, n) in found.into_iter().flat_map(cells) {
            let text = data.keys.get(&key.to_string()).map_or_else(|| "<unknown>".to_owned(), |k| key_text(k, field));
            rows.push((key, n, text));
        }
        if !is_map {
            rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.2.cmp(&b.2)));
        }
        if self.many && !is_map {
            let idle: Vec<String> =
                self.keys.keys().filter(|key| !rows.iter().any(|(.., text)| text == *key)).cloned().collect();
            if self.keys.len() < KEYS {
                self.keys.extend(rows.iter().map(|(.., text)| (text.clone(), ())));
            }
            rows.extend(idle.into_iter().map(|key| (u64::MAX, 0, key)));
        }
        if rows.is_empty() {
            report.row(stamp, &[value(0), Value::Absent])?;
        }
        for (_, n, text) in rows {
            report.row(stamp, &[value(n), Value::Text(text)])?;
        }
        Ok(report.flush()?)
    }
}

/// Runs `weir stat NAME`, with the words after `weir stat` and its options.
pub fn run(words: &[String], matches: &ArgMatches) -> Result<()> {
    let [name, rest @ ..] = words else { bail!("expected the name of a statistic") };
    if rest.len() > 2 {
        bail!("expected NAME [INTERVAL [COUNT]]");
    }
    let mut options = Options::of(matches)?;
    options.interval = rest.first().map(|t| crate::report::interval(t)).transpose()?;
    options.count = rest.get(1).map(|t| crate::report::count(t)).transpose()?;
    let daemon = DaemonClient::find()?;
    let out = || BufWriter::new(std::io::stdout().lock());
    let field = breakdown(name).map(str::to_owned);
    if options.glossary || options.schema {
        let now = now().as_secs();
        let data = daemon.query(name, now.saturating_sub(1), now, 1)?;
        explained(&mut out(), &columns(&data, field.as_deref()), &options)?;
        return Ok(());
    }
    let step = matches.get_one::<u64>("step").copied();
    let printer =
        |many| Printer { report: None, options: options.clone(), field: field.clone(), keys: BTreeMap::new(), many };
    let Some(interval) = options.interval else {
        let (from, to) = span(matches, DEFAULT_SECONDS)?;
        let step = step.unwrap_or(to - from);
        let data = daemon.query(name, from, to, step)?;
        if data.columns.is_empty() {
            bail!("{name} was not recorded at that time");
        }
        let mut printer = printer(step < to - from);
        for column in &data.columns {
            printer.rows(out, &data, Some(column), column.start + step)?;
        }
        return Ok(());
    };
    let every = interval.as_secs();
    if every == 0 || interval.subsec_nanos() != 0 {
        bail!("invalid interval: statistics are kept per second, expected whole seconds");
    }
    follow(&daemon, name, every, &mut printer(true), out, options.count)
}

fn follow<W: Write>(
    daemon: &DaemonClient,
    name: &str,
    every: u64,
    printer: &mut Printer<W>,
    out: impl Fn() -> W,
    count: Option<u64>,
) -> Result<()> {
    let mut from = now().as_secs();
    let mut left = count;
    while left != Some(0) {
        let to = from + every;
        let data = recorded(daemon, name, from, to)?;
        printer.rows(&out, &data, data.columns.first(), to)?;
        left = left.map(|n| n - 1);
        // After a pause of this machine, older seconds are skipped; --from shows them.
        from = to.max(now().as_secs().saturating_sub(10 * every));
    }
    Ok(())
}

/// Values of a time span, once it has ended and all of it is available.
pub fn recorded(daemon: &DaemonClient, name: &str, from: u64, to: u64) -> Result<StatisticData> {
    let end = Duration::from_secs(to);
    std::thread::sleep((end + SLACK).saturating_sub(now()));
    loop {
        let data = daemon.query(name, from, to, to - from)?;
        let whole = data.columns.first().is_some_and(|c| u64::from(c.seconds) == to - from);
        if whole || now() > end + PATIENCE {
            return Ok(data);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Form;

    #[test]
    fn statistics_are_distinguished_from_files() {
        for name in [
            "nfs3.ops",
            "nfs4-1.ops[op=read][client]",
            "arc.accesses[hit/miss]",
            "io.disks[utilization=95][disk]",
            "nfs3.ops[file=/a:b@c/]",
        ] {
            assert!(is_name(name), "{name}");
        }
        for file in ["tank", "tank/a.b", "tank.old:/x", "tank.old@snap", "Tank.x", "tank:/a.b", "nfs3.ops[op", "a.b.c"]
        {
            assert!(!is_name(file), "{file}");
        }
    }

    #[test]
    fn numbers_have_the_unit_of_their_field() {
        assert_eq!(shown("latency", 10_000), "10us");
        assert_eq!(shown("latency", 1_250_000), "1.25ms");
        assert_eq!(
            (shown("size", 8192), shown("offset", 0), shown("utilization", 95)),
            ("8K".into(), "0".into(), "95%".into())
        );
        assert_eq!(
            (breakdown("a.b[x=1][latency]"), breakdown("a.b[x=1]"), breakdown("a.b")),
            (Some("latency"), None, None)
        );
        assert_eq!(quoted("a]b\\"), "a\\]b\\\\");
        assert_eq!(key_text(&CellKey::Range { from: 1000, to: None }, "latency"), "1us..");
    }

    #[test]
    fn idle_clients_have_zeros() {
        let options = Options::plain(Form::Scripted);
        let mut printer =
            Printer { report: None, options, field: Some("client".into()), keys: BTreeMap::new(), many: true };
        let data = |keys: &[(&str, u64)]| -> StatisticData {
            let total: u64 = keys.iter().map(|k| k.1).sum();
            let cells: Vec<u64> = keys.iter().enumerate().flat_map(|(n, (_, count))| [n as u64, *count]).collect();
            let names: BTreeMap<String, &str> =
                keys.iter().enumerate().map(|(n, (k, _))| (n.to_string(), *k)).collect();
            let text = serde_json::json!({
                "name": "nfs3.ops[client]", "title": "", "unit": "ops", "level": false, "step": 2, "closed": 99, "keys": names,
                "columns": [{ "start": 8, "seconds": 2, "total": total, "cells": cells }],
            });
            serde_json::from_value(text).expect("an answer")
        };
        for (at, keys) in [(10, &[("a", 3u64), ("b", 8)][..]), (12, &[("a", 2)])] {
            let data = data(keys);
            printer.rows(Vec::new, &data, data.columns.first(), at).expect("written");
        }
        let data = data(&[]);
        printer.rows(Vec::new, &data, None, 14).expect("written");
        let text = String::from_utf8(printer.report.expect("a report").into_inner()).expect("text");
        assert_eq!(text, "10\t4.0\tb\n10\t1.5\ta\n12\t1.0\ta\n12\t0\tb\n14\t-\ta\n14\t-\tb\n");
    }
}
