//! How every command that shows figures writes them: one contract for all.
//!
//! ```text
//!   time  read_KiB/s  ops/s  client          a heading for each column, again on each screen
//!   boot        41.3    120  10.0.0.7        since the start: never mixed with intervals, and left out with -y
//!   1795…        0.0      0  10.0.0.7        an interval
//! ```
//!
//! Invariants:
//!   * a column has one unit, and its heading says which; columns keep their order
//!   * a number smaller than half of the last digit that is shown is `0`; what nobody counts is `-`, and null in JSON
//!   * a reader that went away ends the command, without a word

mod number;
mod options;

pub use number::{decimal, exact, printable};
pub use options::{Form, Options, TimeForm, args, count, height, interval, pace_args};

use chrono::{Local, TimeZone as _};
use serde_json::{Map, Value as Json, json};
use std::io::{self, Write};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Names.
    Text,
    /// Numbers, with so many decimals.
    Number(usize),
    /// Bytes, shown in the unit that was asked for.
    Bytes,
    /// Bytes a second, the same.
    ByteRate,
    /// Bytes in units of 1024, as the heading has always said; with so many decimals.
    Kibi(usize),
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading, and what `-f` calls it.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Least width.
    pub width: usize,
    /// What it means.
    pub help: &'static str,
}

/// A column, in a table of them.
pub const fn column(name: &'static str, kind: Kind, width: usize, help: &'static str) -> Column {
    Column { name, kind, width, help }
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nobody counts it.
    Absent,
    /// A name.
    Text(String),
    /// A number, in the column's basic unit: bytes.
    Number(f64),
}

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Number(n as f64)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Self::Number(n)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

/// Of which time a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its end: seconds since 1970.
    pub at: u64,
    /// It tells what was since the start, not since the row before.
    pub boot: bool,
}

/// Writes rows.
pub struct Report<W> {
    out: W,
    options: Options,
    columns: Vec<Column>,
    /// Places of the columns that are shown.
    shown: Vec<usize>,
    since_heading: usize,
    headed: bool,
    timed: bool,
}

/// Width of the column of times, for each form.
fn time_width(form: TimeForm) -> usize {
    match form {
        TimeForm::Clock => 8,
        TimeForm::Epoch => 10,
        TimeForm::Date => 24,
        TimeForm::Iso => 25,
    }
}

/// A moment as the option says.
pub fn moment(at: u64, form: TimeForm) -> String {
    let local = i64::try_from(at).ok().and_then(|at| Local.timestamp_opt(at, 0).single());
    match (form, local) {
        (TimeForm::Clock, Some(t)) => t.format("%H:%M:%S").to_string(),
        (TimeForm::Date, Some(t)) => t.format("%a %b %e %H:%M:%S %Y").to_string(),
        (TimeForm::Iso, Some(t)) => t.format("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        _ => at.to_string(),
    }
}

impl<W: Write> Report<W> {
    /// With these columns; an error names a field that is none of them.
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

    /// The same, of a list that is of now: without a column of times.
    pub fn untimed(out: W, columns: &[Column], options: &Options) -> anyhow::Result<Self> {
        Ok(Self { timed: false, ..Self::new(out, columns, options)? })
    }

    /// How it is written.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Has the headings printed again before the next row.
    pub fn again(&mut self) {
        self.headed = false;
    }

    /// Where it is written.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// What was written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// A row, of all columns in their order.
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
                    object.insert(column.name.to_owned(), number::json(cell));
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

    /// The end of what belongs together: whoever reads sees it now.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn time(&self, stamp: Stamp) -> String {
        if stamp.boot { "boot".to_owned() } else { moment(stamp.at, self.options.time) }
    }

    fn cell(&self, at: usize, cells: &[Value]) -> String {
        number::cell(&self.columns[at], cells.get(at).unwrap_or(&Value::Absent), &self.options)
    }

    fn heading(&mut self) -> io::Result<()> {
        (self.headed, self.since_heading) = (true, 0);
        let time = format!("{:>1$}", "time", time_width(self.options.time));
        let names: Vec<String> =
            self.shown.iter().map(|at| number::heading(&self.columns[*at], &self.options)).collect();
        self.line(&time, &names)
    }

    fn line(&mut self, time: &str, cells: &[String]) -> io::Result<()> {
        let mut line = if self.timed { time.to_owned() } else { String::new() };
        for (n, (at, cell)) in self.shown.iter().zip(cells).enumerate() {
            let column = &self.columns[*at];
            let width = column.width.max(number::heading(column, &self.options).len());
            line.push_str(if line.is_empty() { "" } else { "  " });
            match column.kind {
                Kind::Text if n + 1 == cells.len() => line.push_str(cell),
                Kind::Text => line.push_str(&format!("{cell:<width$}")),
                _ => line.push_str(&format!("{cell:>width$}")),
            }
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

/// What the columns mean, a line each.
pub fn glossary(columns: &[Column]) -> String {
    let width = columns.iter().map(|c| c.name.len()).max().unwrap_or(0);
    columns.iter().map(|c| format!("{:<width$}  {}\n", c.name, c.help)).collect()
}

/// The columns for programs, a JSON document each.
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

/// Prints the glossary (`-v`) or the schema (`--columns`) if that was asked for; whether it was.
pub fn explained(out: &mut dyn Write, columns: &[Column], options: &Options) -> io::Result<bool> {
    let text = match (options.glossary, options.schema) {
        (_, true) => schema(columns),
        (true, _) => glossary(columns),
        _ => return Ok(false),
    };
    out.write_all(text.as_bytes())?;
    Ok(true)
}

/// A reader that went away is a good end.
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
