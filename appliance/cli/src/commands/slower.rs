//! `weir slower`: each operation that took longer than a limit, with what it waited for.

use super::statistic::{span, span_args};
use crate::daemon_client::{DaemonClient, with};
use crate::report::{self, Column, Kind, Report, Stamp, Value, args, column};
use anyhow::{Context as _, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde::Deserialize;
use std::io::Write;
use std::process::ExitCode;

const COLUMNS: &[Column] = &[
    column("ms", Kind::Number(3), 10, "Time from the request to the answer."),
    column("queue_ms", Kind::Number(3), 9, "Time waiting behind other calls of its connection."),
    column("log_ms", Kind::Number(3), 9, "Time waiting for the intent log: a synchronous write, fsync or COMMIT."),
    column("txg_ms", Kind::Number(3), 9, "Time waiting to enter a txg: the pool cannot write as fast as data arrives."),
    column("disk_ms", Kind::Number(3), 9, "Time waiting for reads of devices."),
    column("rest_ms", Kind::Number(3), 9, "The rest: waiting for locks and processors, and processing."),
    column("layer", Kind::Text, 6, "Protocol."),
    column("op", Kind::Text, 10, "Type of operation."),
    column("size", Kind::Bytes, 10, "Bytes."),
    column("offset", Kind::Bytes, 12, "First byte."),
    column("cache", Kind::Text, 15, "Cache hit or miss."),
    column("result", Kind::Text, 6, "Result."),
    column("client", Kind::Text, 15, "Client; for a device, its pool."),
    column("user", Kind::Text, 8, "For whom."),
    column("file", Kind::Text, 4, "File; if its name is unknown, the share."),
];

/// Default time span in seconds.
const DEFAULT_SECONDS: u64 = 60;

/// Options of `weir slower`.
pub fn command() -> Command {
    Command::new("slower")
        .about("Show operations that took longer than a limit, and what they waited for")
        .long_about(
            "Reads the recorder, which keeps every operation of the last minutes, so it covers the past too. --follow \
             shows new operations as they happen.",
        )
        .arg(Arg::new("ms").value_name("MS").required(true).value_parser(milliseconds).help("Milliseconds, such as 10 or 0.5"))
        .arg(
            Arg::new("name")
                .long("of")
                .value_name("NAME")
                .help("Of this statistic only, such as nfs3.ops[client=10.0.0.7] or io.ops[disk=/dev/sdb] [default: all of protocols]"),
        )
        .arg(Arg::new("limit").long("limit").value_name("COUNT").value_parser(value_parser!(u64).range(1..)).help("Maximum number, newest first [default: 1000]"))
        .arg(Arg::new("follow").long("follow").action(ArgAction::SetTrue).help("Continue with new operations as they happen"))
        .args(span_args())
        .args(args())
}

fn milliseconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if ms >= 0.0 && ms.is_finite() => Ok(ms),
        _ => Err("expected milliseconds, such as 10 or 0.5".to_owned()),
    }
}

/// An operation in the daemon's answer.
#[derive(Debug, Clone, Deserialize)]
struct Operation {
    ended_ns: u64,
    layer: String,
    op: String,
    #[serde(default)]
    client: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    share: String,
    #[serde(default)]
    file: String,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    size: u64,
    latency_ns: u64,
    #[serde(default)]
    queue_wait_ns: u64,
    #[serde(default)]
    log_wait_ns: u64,
    #[serde(default)]
    txg_wait_ns: u64,
    #[serde(default)]
    disk_wait_ns: u64,
    #[serde(default)]
    cache: AnyValue,
    #[serde(default)]
    result: AnyValue,
}

/// Text or any other JSON value.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
struct AnyValue(serde_json::Value);

impl AnyValue {
    fn text(&self) -> Value {
        match &self.0 {
            serde_json::Value::Null => Value::Absent,
            serde_json::Value::String(text) => Value::Text(text.clone()),
            other => Value::Text(other.to_string()),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Operations {
    items: Vec<Operation>,
}

/// Limit for the operations in one request.
const LIMIT: u64 = 1000;

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    report::quiet(show(matches)).map(|()| ExitCode::SUCCESS)
}

fn show(matches: &ArgMatches) -> Result<()> {
    let Some((options, out)) = report::begin(matches, COLUMNS)? else { return Ok(()) };
    let slower = (matches.get_one::<f64>("ms").context("MS")? * 1e6).round() as u64;
    let limit = matches.get_one::<u64>("limit").copied().unwrap_or(LIMIT);
    let daemon = DaemonClient::find()?;
    let names = match matches.get_one::<String>("name") {
        Some(name) => vec![name.clone()],
        None => protocols(&daemon)?,
    };
    let mut report = Report::new(out, COLUMNS, &options)?;
    if !matches.get_flag("follow") {
        let (from, to) = span(matches, DEFAULT_SECONDS)?;
        return print(&mut report, &gather(&daemon, &names, (from, to), slower, limit)?);
    }
    if matches.contains_id("from") || matches.contains_id("to") {
        bail!("--follow starts now and cannot be combined with --from or --to");
    }
    let mut from = super::statistic::now().as_secs();
    loop {
        // A second is available a little after its end.
        std::thread::sleep(std::time::Duration::from_millis(500));
        let to = super::statistic::now().as_secs();
        if to > from {
            print(&mut report, &gather(&daemon, &names, (from, to), slower, limit)?)?;
            from = to;
        }
    }
}

fn protocols(daemon: &DaemonClient) -> Result<Vec<String>> {
    let all: api::StatisticList = daemon.get("/v1/analytics/statistics")?;
    let fits = |s: &&api::Statistic| {
        s.category == "Protocol" && s.unit == "ops" && s.fields.iter().any(|f| f.name == "latency")
    };
    Ok(all.items.iter().filter(fits).map(|s| s.name.clone()).collect())
}

fn gather(
    daemon: &DaemonClient,
    names: &[String],
    (from, to): (u64, u64),
    slower: u64,
    limit: u64,
) -> Result<Vec<Operation>> {
    let mut all = Vec::new();
    for name in names {
        let params = [
            ("name", Some(name.clone())),
            ("from", Some(from.to_string())),
            ("to", Some(to.to_string())),
            ("slower_than_ns", Some(slower.to_string())),
            ("limit", Some(limit.to_string())),
        ];
        let found: Operations = daemon.get(&with("/v1/analytics/operations", &params))?;
        all.extend(found.items);
    }
    all.sort_by_key(|o| o.ended_ns);
    let excess = all.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    all.drain(..excess);
    Ok(all)
}

fn print<W: Write>(report: &mut Report<W>, operations: &[Operation]) -> Result<()> {
    let ms = |ns: u64| Value::Number(ns as f64 / 1e6);
    let named = |text: &str| if text.is_empty() { Value::Absent } else { Value::from(text) };
    for o in operations {
        let waits = [o.queue_wait_ns, o.log_wait_ns, o.txg_wait_ns, o.disk_wait_ns];
        let waits = waits.into_iter().fold(0, u64::saturating_add);
        let file = if o.file.is_empty() { &o.share } else { &o.file };
        report.row(
            Stamp { at: o.ended_ns / 1_000_000_000, boot: false },
            &[
                ms(o.latency_ns),
                ms(o.queue_wait_ns),
                ms(o.log_wait_ns),
                ms(o.txg_wait_ns),
                ms(o.disk_wait_ns),
                ms(o.latency_ns.saturating_sub(waits)),
                named(&o.layer),
                named(&o.op),
                o.size.into(),
                o.offset.into(),
                o.cache.text(),
                o.result.text(),
                named(&o.client),
                named(&o.user),
                named(file),
            ],
        )?;
    }
    Ok(report.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Form;

    #[test]
    fn reasons_add_up_to_the_whole() {
        let text = r#"{"items":[{"ended_ns":7000000001,"layer":"nfs3","op":"write","client":"10.0.0.7","latency_ns":12000000,
            "queue_wait_ns":250000,"log_wait_ns":9000000,"disk_wait_ns":500000,"size":4096,"offset":8192,"share":"tank/a","result":"ok"}]}"#;
        let found: Operations = serde_json::from_str(text).expect("operations");
        let mut report = Report::new(Vec::new(), COLUMNS, &report::Options::plain(Form::Scripted)).expect("columns");
        print(&mut report, &found.items).expect("written");
        assert_eq!(
            String::from_utf8(report.into_inner()).expect("text"),
            "7\t12.000\t0.250\t9.000\t0\t0.500\t2.250\tnfs3\twrite\t4096\t8192\t-\tok\t10.0.0.7\t-\ttank/a\n"
        );
    }
}
