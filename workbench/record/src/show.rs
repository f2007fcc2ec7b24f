//! A run as text for people and spreadsheets: its description, and its rows as CSV.

use crate::format::{ColumnId, Run};
use crate::series::Series;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A time in UTC.
pub fn moment(utc_ns: i64) -> String {
    let at = Timestamp::from_nanosecond(i128::from(utc_ns)).unwrap_or_default();
    let at = Timestamp::from_millisecond(at.as_millisecond()).unwrap_or(at);
    format!("{at:.3}")
}

/// Prints the description of the run, one line each, then its columns by name.
pub fn show(run: &Run, out: &mut impl Write) -> io::Result<()> {
    let meta = &run.meta;
    writeln!(out, "run      {}", meta.title)?;
    writeln!(out, "file     {}", run.path.display())?;
    writeln!(out, "began    {}", moment(meta.started.utc_ns))?;
    let ended = match (&run.end, run.torn) {
        (Some(end), _) => format!("{}, {} rows, {} missed", moment(end.at.utc_ns), end.rows, end.missed),
        (None, Some(at)) => format!("no: truncated at byte {at}, {} rows are complete", run.rows.len()),
        (None, None) => format!("not yet, or it was killed; {} rows", run.rows.len()),
    };
    writeln!(out, "ended    {ended}")?;
    writeln!(out, "every    {} s", meta.every_ns as f64 / 1e9)?;
    writeln!(out, "by       {}", meta.program)?;
    for (name, value) in meta.machine.iter().chain(&meta.about) {
        writeln!(out, "{name:<8} {value}")?;
    }
    for note in &run.notes {
        writeln!(out, "note     {}  {}", moment(note.at.utc_ns), note.text)?;
    }
    let mut names: BTreeMap<&str, (usize, ColumnId)> = BTreeMap::new();
    for (id, column) in (0u32..).map(ColumnId).zip(&run.columns) {
        names.entry(&column.name).or_insert((0, id)).0 += 1;
    }
    for (name, (count, id)) in names {
        let Some(column) = run.columns.get(id.0 as usize) else { continue };
        let labels = column.labels.keys().cloned().collect::<Vec<_>>().join(", ");
        let by = if labels.is_empty() { String::new() } else { format!(", {count} by {labels}") };
        writeln!(out, "column   {name}: {:?} {:?}{by}", column.unit, column.kind)?;
    }
    Ok(())
}

/// A CSV cell (RFC 4180).
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Prints the rows of some columns (all if none is named) as CSV. Totals are printed as rates since
/// the previous row; values that were not measured are empty.
pub fn csv(run: &Run, names: &[&str], out: &mut impl Write) -> io::Result<()> {
    let ids =
        (0u32..).map(ColumnId).zip(&run.columns).filter(|(_, c)| names.is_empty() || names.contains(&c.name.as_str()));
    let series: Vec<Series> = ids.filter_map(|(id, _)| run.series(id)).collect();
    let heading = series.iter().zip(names_of(&series)).map(|(s, name)| {
        let per = if s.per_second { "/s" } else { "" };
        cell(&format!("{name} [{:?}{per}]", s.unit).to_lowercase())
    });
    let heading: Vec<String> = ["utc".to_owned(), "seconds".to_owned()].into_iter().chain(heading).collect();
    writeln!(out, "{}", heading.join(","))?;
    let mut next = vec![0; series.len()];
    for row in &run.rows {
        let at = (row.mono_ns - run.meta.started.mono_ns) as f64 / 1e9;
        write!(out, "{},{at:.3}", moment(row.utc_ns))?;
        for (series, next) in series.iter().zip(&mut next) {
            match series.spans.get(*next).filter(|span| span.to <= at) {
                Some(span) => {
                    *next += 1;
                    write!(out, ",{}", span.value)?;
                }
                None => write!(out, ",")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn names_of(series: &[Series]) -> Vec<String> {
    let name = |s: &Series| match s.whose() {
        whose if whose.is_empty() => s.name.clone(),
        whose => format!("{} {whose}", s.name),
    };
    series.iter().map(name).collect()
}
