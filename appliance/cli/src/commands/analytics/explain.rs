//! `weir analytics explain`: what distinguishes the operations in a rectangle of a heat map.

use super::super::statistic::{breakdown, span_args};
use crate::daemon_client::{DaemonClient, with};
use crate::report::{Column, Form, Kind, Options, Report, Stamp, args, begin, column, decimal, moment};
use anyhow::{Context as _, Result, bail};
use api::StatisticExplanation;
use clap::{Arg, ArgMatches, Command};
use std::io::Write;

const COLUMNS: &[Column] = &[
    column("field", Kind::Text, 8, "Client, user, file, share, type of operation …"),
    column(
        "score",
        Kind::Number(2),
        5,
        "How well the value separates the selected operations from the others: 0 not at all, 1 completely.",
    ),
    column("inside", Kind::Number(0), 9, "Selected operations that have the value."),
    column("inside%", Kind::Number(1), 7, "Their share of the selected."),
    column("outside%", Kind::Number(1), 8, "Share of the others that have it."),
    column("value", Kind::Text, 5, "The value."),
];

/// Options of `weir analytics explain`.
pub fn command() -> Command {
    let edge = |id: &'static str, help: &'static str| Arg::new(id).long(id).value_name("VALUE").help(help);
    Command::new("explain")
        .about("Find what distinguishes some operations: their clients, files, and what they waited for")
        .long_about(
            "Takes a rectangle of a heat map: a span of time, and on its vertical axis from --low up to --high. The operations in \
             it are compared with all others from five minutes before until its end.",
        )
        .arg(Arg::new("name").value_name("NAME").required(true).help("The heat map, such as nfs3.ops[latency]"))
        .args(span_args())
        .arg(edge("low", "Lower edge, such as 5ms or 8K [default: the lowest]"))
        .arg(edge("high", "Upper edge, exclusive [default: the highest]"))
        .args(args())
}

/// A number with a unit of time or bytes.
pub fn edge(text: &str, field: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == '%');
    let unit = match (field, &text[digits.len()..]) {
        ("size" | "offset", "K") => 1024.0,
        ("size" | "offset", "M") => 1024f64.powi(2),
        ("size" | "offset", "G") => 1024f64.powi(3),
        ("size" | "offset", "T") => 1024f64.powi(4),
        ("latency" | "queuewait" | "logwait" | "txgwait" | "diskwait", "us") => 1e3,
        ("latency" | "queuewait" | "logwait" | "txgwait" | "diskwait", "ms") => 1e6,
        ("latency" | "queuewait" | "logwait" | "txgwait" | "diskwait", "s") => 1e9,
        ("latency" | "queuewait" | "logwait" | "txgwait" | "diskwait", "ns") | ("utilization", "%") | (_, "") => 1.0,
        (field, unit) => bail!("'{unit}' is not a unit of {field}"),
    };
    match digits.parse::<f64>() {
        Ok(n) if n >= 0.0 && n * unit < 1e19 => Ok((n * unit).round() as u64),
        _ => bail!("'{text}' is not a number with a unit"),
    }
}

pub fn run(matches: &ArgMatches) -> Result<()> {
    let Some((options, out)) = begin(matches, COLUMNS)? else { return Ok(()) };
    let name = matches.get_one::<String>("name").context("a name")?;
    let field = breakdown(name).unwrap_or_default();
    let (from, to) = super::super::statistic::span(matches, 60)?;
    let text = |id: &str| matches.get_one::<String>(id);
    let read = |id: &str| text(id).map(|t| edge(t, field).with_context(|| format!("--{id}"))).transpose();
    let (low, high) = (read("low")?, read("high")?);
    let params = [
        ("name", Some(name.clone())),
        ("from", Some(from.to_string())),
        ("to", Some(to.to_string())),
        ("low", low.map(|n| n.to_string())),
        ("high", high.map(|n| n.to_string())),
    ];
    let found: StatisticExplanation = DaemonClient::find()?.get(&with("/v1/analytics/explain", &params))?;
    print(out, &options, &found, (from, to))
}

fn print<W: Write>(mut out: W, options: &Options, found: &StatisticExplanation, (from, to): (u64, u64)) -> Result<()> {
    if options.form == Form::Table {
        writeln!(
            out,
            "{} operations from {} to {}, compared with {} others",
            found.inside,
            moment(from, options.time),
            moment(to, options.time),
            found.outside
        )?;
        let ms = |ns: f64| decimal(ns / 1e6, 3);
        for (whose, t) in [("selected", &found.times_inside), ("others", &found.times_outside)] {
            let rest = t.latency_ns - t.queue_wait_ns - t.log_wait_ns - t.txg_wait_ns - t.disk_wait_ns;
            writeln!(
                out,
                "{whose:<9} {} ms on average: queue {}, intent log {}, txg {}, devices {}, else {}",
                ms(t.latency_ns),
                ms(t.queue_wait_ns),
                ms(t.log_wait_ns),
                ms(t.txg_wait_ns),
                ms(t.disk_wait_ns),
                ms(rest.max(0.0))
            )?;
        }
        writeln!(out)?;
    }
    let mut report = Report::untimed(out, COLUMNS, options)?;
    let percent = |n: u64, of: u64| 100.0 * n as f64 / of.max(1) as f64;
    for field in &found.fields {
        // A value that no selected operation has explains nothing.
        for value in field.values.iter().filter(|v| v.inside > 0) {
            report.row(
                Stamp { at: to, boot: false },
                &[
                    field.field.as_str().into(),
                    value.score.into(),
                    value.inside.into(),
                    percent(value.inside, found.inside).into(),
                    percent(value.outside, found.outside).into(),
                    value.value.as_str().into(),
                ],
            )?;
        }
    }
    Ok(report.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_have_the_units_of_their_axis() {
        let read = |text, field| edge(text, field).map_err(|e| e.to_string());
        assert_eq!(
            (read("5ms", "latency"), read("1.5us", "diskwait"), read("8K", "size")),
            (Ok(5_000_000), Ok(1500), Ok(8192))
        );
        assert_eq!((read("95%", "utilization"), read("700", "latency")), (Ok(95), Ok(700)));
        for (text, field) in [("8K", "latency"), ("5ms", "size"), ("-1", "latency"), ("x", "size"), ("", "size")] {
            assert!(edge(text, field).is_err(), "{text} {field}");
        }
    }
}
