//! Output of all commands that show statistics, with one format for all.
//!
//! ```text
//!   time  read_KiB/s  ops/s  client          a heading for each column, again on each screen
//!   boot        41.3    120  10.0.0.7        since the start: separate from intervals; not with -y
//!   1795…        0.0      0  10.0.0.7        an interval
//! ```
//!
//! Invariants:
//!   * a column has one unit, which its heading contains; columns keep their order
//!   * a number smaller than half of the last printed digit is `0`; a value that is not counted is
//!     `-`, and null in JSON
//!   * when its reader closes the output, the command ends silently

mod cell;
mod column;
mod number;
mod options;

pub use cell::printable;
pub use column::{Column, Kind, Value, column};
pub use number::{decimal, exact};
pub use options::{Form, Options, TimeForm, args, count, height, interval, pace_args, separator_arg};

use clap::ArgMatches;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json, json};
use std::io::{self, BufWriter, StdoutLock, Write};

/// Time span of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its end: seconds since 1970.
    pub at: u64,
    /// It begins at the start, not at the previous row.
    pub boot: bool,
}

/// Writes rows in the requested format, with headings.
pub struct Report<W> {
    out: W,
    options: Options,
    columns: Vec<Column>,
    /// Indices of the columns that are shown.
    shown: Vec<usize>,
    since_heading: usize,
    headed: bool,
    timed: bool,
}

/// Width of the time column for each format.
fn time_width(form: TimeForm) -> usize {
    match form {
        TimeForm::Clock => 8,
        TimeForm::Epoch => 10,
        TimeForm::Date => 24,
        TimeForm::Iso => 25,
    }
}

/// A time in the requested format.
pub fn moment(at: u64, form: TimeForm) -> String {
    let time = i64::try_from(at).ok().and_then(|at| Timestamp::from_second(at).ok());
    let local = time.map(|time| time.to_zoned(TimeZone::system()));
    match (form, local) {
        (TimeForm::Clock, Some(t)) => t.strftime("%H:%M:%S").to_string(),
        (TimeForm::Date, Some(t)) => t.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        (TimeForm::Iso, Some(t)) => t.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        _ => at.to_string(),
    }
}

impl<W: Write> Report<W> {
    /// Creates a report. Fails with the name of a field that is not a column.
    pub fn new(out: W, columns: &[Column], options: &Options) -> anyhow::Result<Self> {
        let shown = options.choose(columns)?;
        Ok(Self {
            out,
            options: options.clone(),
            columns: columns.to_vec(),
            shown,
            since_heading: 0,
            headed: false,
            timed: true,
        })
    }

    /// The same for a list of current values: without a time column.
    pub fn untimed(out: W, columns: &[Column], options: &Options) -> anyhow::Result<Self> {
        Ok(Self { timed: false, ..Self::new(out, columns, options)? })
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Prints the headings again before the next row.
    pub fn again(&mut self) {
        self.headed = false;
    }

    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes a row, with the cells of all columns in order.
    pub fn row(&mut self, stamp: Stamp, cells: &[Value]) -> io::Result<()> {
        let idle = cells.iter().all(|c| !matches!(c, Value::Number(n) if exact(*n) != "0"));
        if self.options.hides_idle() && idle {
            return Ok(());
        }
        match self.options.form {
            Form::Json => {
                let mut object = Map::new();
                if self.timed {
                    object.insert("time".to_owned(), json!(stamp.at));
                    object.insert("sample".to_owned(), json!(if stamp.boot { "boot" } else { "interval" }));
                }
                for at in &self.shown {
                    let (column, cell) = (&self.columns[*at], cells.get(*at));
                    object.insert(column.name.to_owned(), cell::json(cell));
                }
                writeln!(self.out, "{}", Json::Object(object))
            }
            Form::Scripted => {
                let time = self.timed.then(|| self.time(stamp));
                let cells = self.shown.iter().map(|at| self.cell(*at, cells));
                let line: Vec<String> = time.into_iter().chain(cells).collect();
                writeln!(self.out, "{}", line.join("\t"))
            }
            Form::Table => {
                if !self.headed || self.since_heading >= self.options.screen {
                    self.heading()?;
                }
                self.since_heading += 1;
                let time = format!("{:>1$}", self.time(stamp), time_width(self.options.time));
                let cells: Vec<String> = self.shown.iter().map(|at| self.cell(*at, cells)).collect();
                self.line(&time, &cells)
            }
        }
    }

    /// Flushes the output at the end of a report, so that readers see it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn time(&self, stamp: Stamp) -> String {
        if stamp.boot { "boot".to_owned() } else { moment(stamp.at, self.options.time) }
    }

    fn cell(&self, at: usize, cells: &[Value]) -> String {
        cell::cell(&self.columns[at], cells.get(at).unwrap_or(&Value::Absent), &self.options)
    }

    fn heading(&mut self) -> io::Result<()> {
        (self.headed, self.since_heading) = (true, 0);
        let time = format!("{:>1$}", "time", time_width(self.options.time));
        let names: Vec<String> = self.shown.iter().map(|at| cell::heading(&self.columns[*at], &self.options)).collect();
        self.line(&time, &names)
    }

    fn line(&mut self, time: &str, cells: &[String]) -> io::Result<()> {
        let mut line = if self.timed { time.to_owned() } else { String::new() };
        for (n, (at, cell)) in self.shown.iter().zip(cells).enumerate() {
            let column = &self.columns[*at];
            let width = column.width.max(cell::heading(column, &self.options).len());
            line.push_str(if line.is_empty() { "" } else { &self.options.separator });
            match column.kind {
                Kind::Text if n + 1 == cells.len() => line.push_str(cell),
                Kind::Text => line.push_str(&format!("{cell:<width$}")),
                _ => line.push_str(&format!("{cell:>width$}")),
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// Descriptions of the columns, one per line.
pub fn glossary(columns: &[Column]) -> String {
    let width = columns.iter().map(|c| c.name.len()).max().unwrap_or(0);
    columns.iter().map(|c| format!("{:<width$}  {}\n", c.name, c.help)).collect()
}

/// The columns for programs, one JSON document each.
pub fn schema(columns: &[Column]) -> String {
    let kind = |column: &Column| match column.kind {
        Kind::Text => ("string", "name"),
        Kind::Number(_) => ("number", "number"),
        Kind::Bytes => ("number", "bytes"),
        Kind::ByteRate | Kind::Kibi(_) => ("number", "bytes/s"),
    };
    let line = |c: &Column| {
        let (kind, unit) = kind(c);
        format!("{}\n", json!({ "name": c.name, "type": kind, "unit": unit, "help": c.help }))
    };
    columns.iter().map(line).collect()
}

/// Prints the glossary (`-v`) or the schema (`--columns`), if requested. Returns whether it was.
pub fn explained(out: &mut dyn Write, columns: &[Column], options: &Options) -> io::Result<bool> {
    let text = match (options.glossary, options.schema) {
        (_, true) => schema(columns),
        (true, _) => glossary(columns),
        _ => return Ok(false),
    };
    out.write_all(text.as_bytes())?;
    Ok(true)
}

/// The options and the buffered standard output of a command with these columns. `None`: it printed
/// their glossary or schema instead, and is done.
pub fn begin(
    matches: &ArgMatches,
    columns: &[Column],
) -> anyhow::Result<Option<(Options, BufWriter<StdoutLock<'static>>)>> {
    let options = Options::of(matches)?;
    let mut out = BufWriter::new(io::stdout().lock());
    if explained(&mut out, columns, &options)? {
        out.flush()?;
        return Ok(None);
    }
    Ok(Some((options, out)))
}

/// Treats an output closed by its reader as success.
pub fn quiet(done: anyhow::Result<()>) -> anyhow::Result<()> {
    match done {
        Err(error)
            if error
                .chain()
                .any(|e| e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)) =>
        {
            Ok(())
        }
        done => done,
    }
}

#[cfg(test)]
mod tests;
