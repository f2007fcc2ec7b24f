//! Tables that list what the daemon has.

use super::super::statistic::now;
use crate::report::{Column, Options, Report, Stamp, Value, explained};
use anyhow::Result;
use clap::ArgMatches;
use std::io::{BufWriter, Write};

/// Prints one report, or the glossary or schema if requested.
pub(super) fn table(
    matches: &ArgMatches,
    columns: &[Column],
    rows: impl FnOnce() -> Result<Vec<Vec<Value>>>,
) -> Result<()> {
    let options = Options::of(matches)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    if explained(&mut out, columns, &options)? {
        return Ok(out.flush()?);
    }
    let mut report = Report::untimed(out, columns, &options)?;
    let stamp = Stamp { at: now().as_secs(), boot: false };
    for row in rows()? {
        report.row(stamp, &row)?;
    }
    Ok(report.flush()?)
}
