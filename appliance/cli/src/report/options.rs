//! The options of all commands that show statistics.

use super::column::Column;
use super::number::Unit;
use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches};
use std::io::IsTerminal;
use std::time::Duration;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people: aligned, with headings.
    Table,
    /// `-H`: tabs, no headings.
    Scripted,
    /// `-j`: one object per line.
    Json,
}

/// How times are printed (`-T`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeForm {
    /// Time of day, such as `15:49:35`.
    Clock,
    /// Seconds since 1970.
    Epoch,
    /// Format of date(1).
    Date,
    /// ISO 8601.
    Iso,
}

#[derive(Debug, Clone)]
pub struct Options {
    /// `-H`, `-j`.
    pub form: Form,
    /// Text between the cells of a table.
    pub separator: String,
    /// `-p`: exact numbers.
    pub exact: bool,
    /// `-T`: format of times.
    pub time: TimeForm,
    /// `-u`: unit of bytes.
    pub unit: Unit,
    /// `-y`: skip the report since the start.
    pub skip_first: bool,
    /// `-z`: hide idle rows.
    pub hide_idle: bool,
    /// `-f`: names of the columns to show.
    pub fields: Option<Vec<String>>,
    /// `-v`: print the glossary.
    pub glossary: bool,
    /// `--columns`: print the schema.
    pub schema: bool,
    /// Time between reports; `None`: one report.
    pub interval: Option<Duration>,
    /// Number of reports after which the command ends; `None`: no limit.
    pub count: Option<u64>,
    /// Number of rows between headings.
    pub screen: usize,
    /// The output is a terminal.
    pub terminal: bool,
}

/// Rows between headings if the height of the terminal is unknown.
const SCREEN: usize = 20;

/// Text between the cells of a table.
const SEPARATOR: &str = "  ";

/// The option `-s`, which OpenZFS's arcstat and zilstat have.
pub fn separator_arg() -> Arg {
    Arg::new("separator")
        .short('s')
        .long("separator")
        .value_name("TEXT")
        .help("Text between the cells of a table [default: two spaces]")
}

/// The arguments `interval` and `count`.
pub fn pace_args() -> [Arg; 2] {
    [
        Arg::new("interval").value_name("INTERVAL").help("Seconds between reports; without it, one report"),
        Arg::new("count").value_name("COUNT").help("How many reports; without it, until you stop it"),
    ]
}

pub fn args() -> Vec<Arg> {
    let flag = |id: &'static str, short: char, help: &'static str| {
        Arg::new(id).short(short).action(ArgAction::SetTrue).help(help)
    };
    vec![
        flag("scripted", 'H', "For scripts: no headings, one tab between cells"),
        flag("exact", 'p', "Exact numbers, bytes as bytes"),
        flag("json", 'j', "One JSON object per line; exact bytes, null where nothing is counted").long("json"),
        Arg::new("time").short('T').value_name("u|d|iso").value_parser(["u", "d", "iso"]).help(
            "Times in seconds since 1970, as date(1), or by ISO 8601 [default: the clock; u unless on a terminal]",
        ),
        Arg::new("unit")
            .short('u')
            .long("unit")
            .value_name("B|KiB|MiB|GiB|auto")
            .value_parser(|text: &str| {
                Unit::named(text).map(|_| text.to_owned()).ok_or("expected B, KiB, MiB, GiB or auto")
            })
            .help("Unit of all bytes; the heading names it [default: KiB; B unless on a terminal]"),
        flag("skip-first", 'y', "Skip the first report, which covers the time since the start"),
        flag("hide-idle", 'z', "Hide idle rows; in tables only, never with -H or -j"),
        Arg::new("fields")
            .short('f')
            .value_name("COLUMN,…")
            .value_delimiter(',')
            .action(ArgAction::Append)
            .help("Show only these columns, in this order"),
        flag("glossary", 'v', "Describe the columns and exit"),
        Arg::new("columns").long("columns").action(ArgAction::SetTrue).help("Describe the columns in JSON and exit"),
    ]
}

/// Parses an interval in seconds.
pub fn interval(text: &str) -> Result<Duration> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0 * 365.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => bail!("invalid interval '{text}': expected seconds, 0.01 or more"),
    }
}

/// Parses the number of reports: 1 or more.
pub fn count(text: &str) -> Result<u64> {
    match text.parse::<u64>() {
        Ok(count) if count > 0 => Ok(count),
        _ => bail!("invalid count '{text}': expected a number, 1 or more"),
    }
}

impl Options {
    /// The default options for rows of this format.
    pub fn plain(form: Form) -> Self {
        Self {
            form,
            separator: SEPARATOR.to_owned(),
            exact: false,
            time: TimeForm::Epoch,
            unit: Unit::Power(0),
            skip_first: false,
            hide_idle: false,
            fields: None,
            glossary: false,
            schema: false,
            interval: None,
            count: None,
            screen: SCREEN,
            terminal: false,
        }
    }

    /// Reads the options, including `INTERVAL` and `COUNT` if the command has them.
    pub fn of(matches: &ArgMatches) -> Result<Self> {
        let terminal = std::io::stdout().is_terminal();
        let text = |id: &str| matches.try_get_one::<String>(id).ok().flatten();
        let fields = matches.get_many::<String>("fields").map(|f| f.cloned().collect());
        let time = match text("time").map(String::as_str) {
            Some("u") => TimeForm::Epoch,
            Some("d") => TimeForm::Date,
            Some("iso") => TimeForm::Iso,
            _ if terminal => TimeForm::Clock,
            _ => TimeForm::Epoch,
        };
        let form = match (matches.get_flag("json"), matches.get_flag("scripted")) {
            (true, _) => Form::Json,
            (_, true) => Form::Scripted,
            _ => Form::Table,
        };
        let unit = text("unit").and_then(|u| Unit::named(u));
        Ok(Self {
            form,
            separator: text("separator").map_or(SEPARATOR, String::as_str).to_owned(),
            exact: matches.get_flag("exact"),
            time,
            unit: unit.unwrap_or(if terminal { Unit::Power(1) } else { Unit::Power(0) }),
            skip_first: matches.get_flag("skip-first"),
            hide_idle: matches.get_flag("hide-idle"),
            fields,
            glossary: matches.get_flag("glossary"),
            schema: matches.get_flag("columns"),
            interval: text("interval").map(|t| interval(t)).transpose()?,
            count: text("count").map(|t| count(t)).transpose()?,
            screen: terminal.then(height).flatten().unwrap_or(SCREEN),
            terminal,
        })
    }

    /// `-z` applies only to tables for people: recorded data has no gaps.
    pub fn hides_idle(&self) -> bool {
        self.hide_idle && self.form == Form::Table
    }

    /// Indices of the requested columns, in the requested order.
    pub fn choose(&self, columns: &[Column]) -> Result<Vec<usize>> {
        let Some(fields) = &self.fields else { return Ok((0..columns.len()).collect()) };
        let place = |field: &String| match columns.iter().position(|c| c.name == field) {
            Some(at) => Ok(at),
            None => {
                let all: Vec<&str> = columns.iter().map(|c| c.name).collect();
                bail!("unknown column '{field}', expected one or more of {}", all.join(","))
            }
        };
        fields.iter().map(place).collect()
    }
}

/// Rows of the terminal below a heading.
pub fn height() -> Option<usize> {
    let (_, rows) = terminal_size::terminal_size_of(std::io::stdout())?;
    (rows.0 > 4).then(|| usize::from(rows.0) - 2)
}
