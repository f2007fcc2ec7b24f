//! Tables that list what the daemon has.

use super::super::statistic::now;
use crate::report::{Column, Report, Stamp, Value, begin};
use anyhow::Result;
use clap::ArgMatches;

/// Prints one report, or the glossary or schema if requested.
pub(super) fn table(
    matches: &ArgMatches,
    columns: &[Column],
    rows: impl FnOnce() -> Result<Vec<Vec<Value>>>,
) -> Result<()> {
    let Some((options, out)) = begin(matches, columns)? else { return Ok(()) };
    let mut report = Report::untimed(out, columns, &options)?;
    let stamp = Stamp { at: now().as_secs(), boot: false };
    for row in rows()? {
        report.row(stamp, &row)?;
    }
    Ok(report.flush()?)
}
