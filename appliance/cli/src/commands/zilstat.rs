//! `weir zilstat`: intent log statistics, with the field names of OpenZFS's zilstat, and others.

use super::counters::{OfDaemon, show_as, with_args};
use crate::report::{self, Column, Form, Kind, Options, Value, column, separator_arg};
use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Command};
use observe::scrape::Metrics;
use std::process::ExitCode;

const NO_KINDS: &str = "- : records are counted by block, not by write type.";
const NO_CLASSES: &str = "- : blocks are not counted by device class; blk and blkb include all.";

const NO_PADDING: &str = "- : unused space in log blocks is not counted.";

const fn rate(name: &'static str, help: &'static str) -> Column {
    column(name, Kind::Number(1), 6, help)
}

const COLUMNS: &[Column] = &[
    column("ds", Kind::Text, 8, "The pool; its intent logs are counted together."),
    rate("cc", "Commits per second, such as fsync."),
    rate("cwc", "Log writes per second; one can serve several commits."),
    rate(
        "csc",
        "Commits that waited for a txg instead: a new chain, a change without a record, or too much data to write twice.",
    ),
    rate("cec", "Commits per second that failed and waited for a txg."),
    rate("cSc", "- : logs are not suspended: snapshots are taken at the end of a txg."),
    rate("cCc", "- : commits that a failed log did not serve are counted in cec."),
    rate("ic", NO_KINDS),
    rate("idc", NO_KINDS),
    rate("idb", NO_KINDS),
    rate("iic", NO_KINDS),
    rate("iib", NO_KINDS),
    rate("icc", NO_KINDS),
    rate("icb", NO_KINDS),
    rate("inc", NO_KINDS),
    rate("inb", NO_KINDS),
    rate("iwc", NO_KINDS),
    rate("iwb", NO_KINDS),
    rate("imnc", NO_CLASSES),
    rate("imnb", NO_CLASSES),
    rate("imnw", NO_CLASSES),
    rate("imna", NO_CLASSES),
    rate("imsc", NO_CLASSES),
    rate("imsb", NO_CLASSES),
    rate("imsw", NO_CLASSES),
    rate("imsa", NO_CLASSES),
    rate("imc", "Log blocks written per second, of both classes: blk."),
    rate("imb", "Bytes of log records written per second: blkb."),
    rate("imw", NO_PADDING),
    rate("ima", NO_PADDING),
    rate("se%", NO_PADDING),
    rate("sen%", NO_PADDING),
    rate("ses%", NO_PADDING),
    rate("te%", NO_PADDING),
    rate("ten%", NO_PADDING),
    rate("tes%", NO_PADDING),
    rate("blk", "Log blocks written per second."),
    column("blkb", Kind::ByteRate, 9, "Bytes of log records written."),
    column("each", Kind::Number(2), 6, "Average number of commits per log write."),
    column("cms", Kind::Number(3), 8, "Average time of a commit, in milliseconds."),
];

const DEFAULT: &str = "ds,cc,ic,idc,idb,iic,iib,imnc,imnw,imsc,imsw,blk,blkb,each,cms";

/// Options of `weir zilstat`.
pub fn command() -> Command {
    with_args(
        Command::new("zilstat")
            .about("Show intent log statistics, like OpenZFS's zilstat")
            .long_about(
                "A row for each pool of the running daemon; the first report is the average since the daemon started. -v describes \
                 the columns and why some are '-'.",
            )
            .arg(Arg::new("all").short('a').action(ArgAction::SetTrue).help("All columns"))
            .arg(separator_arg()),
    )
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let mut options = Options::of(matches)?;
    let all = matches.get_flag("all") || options.form == Form::Json || options.glossary || options.schema;
    if options.fields.is_none() && !all {
        options.fields = Some(DEFAULT.split(',').map(str::to_owned).collect());
    }
    if let Some(fields) = &mut options.fields {
        fields.retain(|f| f != "time");
    }
    let rows = |_: &_, before: Option<&Metrics>, now: &Metrics| Ok(rows(before, now));
    report::quiet(show_as(&options, COLUMNS, |_| OfDaemon::new(rows))).map(|()| ExitCode::SUCCESS)
}

fn rows(before: Option<&Metrics>, now: &Metrics) -> Vec<Vec<Value>> {
    let seconds = now.seconds(before);
    let row = |pool: String| {
        let grown = |name: &str| now.grown(before, name, &[("pool", &pool)]);
        let rate = |name: &str| grown(name).map(|n| n / seconds);
        let commits = grown("weir_intent_log_commit_time_seconds_count");
        let batches = grown("weir_intent_log_batches_total");
        let over =
            |part: Option<f64>, by: Option<f64>, unit: f64| Some(if by? > 0.0 { part? * unit / by? } else { 0.0 });
        let value = |name: &str| match name {
            "cc" => commits.map(|n| n / seconds),
            "cwc" => batches.map(|n| n / seconds),
            "csc" => rate("weir_intent_log_waits_total"),
            "cec" => rate("weir_intent_log_errors_total"),
            "blk" | "imc" => rate("weir_intent_log_blocks_total"),
            "blkb" | "imb" => rate("weir_intent_log_written_bytes_total"),
            "each" => over(commits, batches, 1.0),
            "cms" => over(grown("weir_intent_log_commit_time_seconds_sum"), commits, 1000.0),
            _ => None,
        };
        let cell = |c: &Column| if c.name == "ds" { Value::from(pool.as_str()) } else { value(c.name).into() };
        COLUMNS.iter().map(cell).collect()
    };
    now.labels("weir_intent_log_batches_total", "pool").into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn selected_columns_exist_and_logs_are_printed_per_second() {
        for name in DEFAULT.split(',') {
            assert!(COLUMNS.iter().any(|c| c.name == name), "{name}");
        }
        let text = "weir_intent_log_batches_total{pool=\"tank\"} 10\nweir_intent_log_commit_time_seconds_count{pool=\"tank\"} 40\n\
                    weir_intent_log_commit_time_seconds_sum{pool=\"tank\"} 0.2\nweir_process_start_time 90\n";
        let now = Metrics::parse(text, Duration::from_secs(110));
        let rows = rows(None, &now);
        let of = |name: &str| rows[0][COLUMNS.iter().position(|c| c.name == name).expect(name)].clone();
        assert_eq!(
            (of("ds"), of("cc"), of("cwc"), of("each"), of("cms")),
            ("tank".into(), 2.0.into(), 0.5.into(), 4.0.into(), 5.0.into())
        );
        assert_eq!((of("idc"), of("blk")), (Value::Absent, Value::Absent), "a missing value is not zero");
    }
}
