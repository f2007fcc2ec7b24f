//! Common parts of commands that show counters: the first report covers the time since the start,
//! later ones the time since the previous report.

use crate::daemon_client::DaemonClient;
use crate::report::{Column, Options, Report, Stamp, Value, args, explained, pace_args};
use anyhow::Result;
use clap::{ArgMatches, Command};
use host::pace::Pace;
use observe::scrape::Metrics;
use std::io::{BufWriter, Write};
use std::time::Duration;

/// Adds the options that all of these commands have.
pub fn with_args(command: Command) -> Command {
    command.args(args()).args(pace_args())
}

/// A source of counter readings, and of the rows for the difference of two readings.
pub trait Counters {
    /// All counters at one time.
    type Reading;
    /// Reads all counters now.
    fn read(&mut self) -> Result<Self::Reading>;
    /// Time of a reading: seconds since 1970.
    fn at(reading: &Self::Reading) -> Duration;
    /// Rows for the difference from `before`; without it, for the time since the start.
    fn rows(&mut self, before: Option<&Self::Reading>, now: &Self::Reading) -> Result<Vec<Vec<Value>>>;
}

/// Prints reports according to the options.
pub fn show<C: Counters>(
    matches: &ArgMatches,
    columns: &[Column],
    open: impl FnOnce(&Options) -> Result<C>,
) -> Result<()> {
    show_as(&Options::of(matches)?, columns, open)
}

/// The same with options that are already parsed.
pub fn show_as<C: Counters>(
    options: &Options,
    columns: &[Column],
    open: impl FnOnce(&Options) -> Result<C>,
) -> Result<()> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    if explained(&mut out, columns, options)? {
        return Ok(out.flush()?);
    }
    let mut report = Report::new(out, columns, options)?;
    let mut counters = open(options)?;
    let mut pace = Pace::new(options.interval, options.count);
    let mut before: Option<C::Reading> = None;
    // Without an interval there is only the report since the start.
    let mut skip = options.skip_first && options.interval.is_some();
    loop {
        let now = counters.read()?;
        if !skip {
            let stamp = Stamp { at: C::at(&now).as_secs(), boot: before.is_none() };
            for row in counters.rows(before.as_ref(), &now)? {
                report.row(stamp, &row)?;
            }
            report.flush()?;
        }
        let more = skip || pace.made();
        (skip, before) = (false, Some(now));
        if !more {
            return Ok(());
        }
        pace.wait();
    }
}

/// Statistics of the daemon.
pub struct OfDaemon<F> {
    daemon: DaemonClient,
    rows: F,
}

impl<F: FnMut(&DaemonClient, Option<&Metrics>, &Metrics) -> Result<Vec<Vec<Value>>>> OfDaemon<F> {
    /// `rows` computes the rows from two readings.
    pub fn new(rows: F) -> Result<Self> {
        Ok(Self { daemon: DaemonClient::find()?, rows })
    }
}

impl<F: FnMut(&DaemonClient, Option<&Metrics>, &Metrics) -> Result<Vec<Vec<Value>>>> Counters for OfDaemon<F> {
    type Reading = Metrics;

    fn read(&mut self) -> Result<Metrics> {
        self.daemon.metrics()
    }

    fn at(reading: &Metrics) -> Duration {
        reading.at
    }

    fn rows(&mut self, before: Option<&Metrics>, now: &Metrics) -> Result<Vec<Vec<Value>>> {
        (self.rows)(&self.daemon, before, now)
    }
}

/// A share in percent; 0 if the total is 0.
pub fn percent(part: Option<f64>, all: Option<f64>) -> Option<f64> {
    let (part, all) = (part?, all?);
    Some(if all > 0.0 { 100.0 * part / all } else { 0.0 })
}
