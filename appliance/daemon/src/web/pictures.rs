//! Export of statistics as pictures and tables.

use super::caller::Caller;
use super::reply::{Answer, Problem, Query, waiting};
use super::statistics::{name, permitted, problem, span};
use crate::service::Service;
use analytics::catalogue::Shown;
use analytics::column::Column;
use analytics::engine::Answer as Queried;
use analytics::picture::{self, Area, Coloring, Heat, Outliers, Palette, Scale, Shape, Theme};
use api::{ErrorCode, ExportedValue};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::fmt::Write;
use std::sync::Arc;

/// Maximum size of a table.
const EXPORT_BYTES: usize = 64 << 20;
/// Steps for pictures, in seconds; longer steps are multiples of a day.
const STEPS: [u64; 18] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 43_200, DAY];
const DAY: u64 = 86_400;

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum PictureFormat {
    Png,
    Svg,
}

#[derive(Deserialize)]
pub struct Wanted {
    name: String,
    from: Option<u64>,
    to: Option<u64>,
    step: Option<u64>,
    format: Option<PictureFormat>,
    width: Option<u32>,
    height: Option<u32>,
    rows: Option<u32>,
    #[serde(default)]
    palette: Palette,
    #[serde(default)]
    coloring: Coloring,
    #[serde(default)]
    scale: Scale,
    #[serde(default)]
    outliers: Outliers,
    low: Option<u64>,
    high: Option<u64>,
    #[serde(default)]
    shape: Shape,
    #[serde(default)]
    theme: Theme,
    #[serde(default)]
    plain: bool,
}

fn not_drawn(error: picture::Error) -> Problem {
    match error {
        picture::Error::Png(_) => Problem::internal(&anyhow::anyhow!(error)),
        error => Problem::new(ErrorCode::InvalidRequest, error.to_string()),
    }
}

/// The shortest step with which a time span has at most as many columns as the picture has pixels.
fn step_for((from, to): (u64, u64), width: u32) -> u64 {
    let width = u64::from(width.max(1));
    let fits = |step: &u64| (to - (from - from % step)).div_ceil(*step) <= width;
    // Starts at the smallest number of days that may be enough.
    let least = (to - from).div_ceil(width.saturating_mul(DAY)).max(1);
    let days = || (least..).map(|days| days.saturating_mul(DAY)).find(fits).unwrap_or(u64::MAX);
    STEPS.into_iter().find(fits).unwrap_or_else(days)
}

fn given_step(step: Option<u64>) -> Answer<Option<u64>> {
    if step == Some(0) { Err(Problem::invalid("step", "0", "1 or more")) } else { Ok(step) }
}

pub async fn picture(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Answer<Response> {
    let (statistic, (from, to)) = (name(&wanted.name)?, span(wanted.from, wanted.to)?);
    let sight = service.sight(&caller);
    permitted(sight, &statistic)?;
    let area = Area { width: wanted.width.unwrap_or(600), height: wanted.height.unwrap_or(300) };
    for (place, pixels) in [("width", area.width), ("height", area.height)] {
        if pixels == 0 || pixels > picture::PIXELS {
            return Err(Problem::invalid(place, pixels.to_string(), format!("1 to {}", picture::PIXELS)));
        }
    }
    let step = given_step(wanted.step)?.unwrap_or_else(|| step_for((from, to), area.width));
    let heat = Heat {
        area,
        rows: wanted.rows.unwrap_or(area.height.min(100)),
        scale: wanted.scale,
        coloring: wanted.coloring,
        outliers: wanted.outliers,
        low: wanted.low,
        high: wanted.high,
    };
    let Wanted { shape, palette, theme, plain, format, .. } = wanted;
    let look = picture::Wanted { heat, shape, palette, theme, plain };
    waiting(move || {
        let data = sight.answer(service.analytics.engine.query(&statistic, from, to, step).map_err(problem)?);
        let drawn = picture::of(&data, (from, to), &look).map_err(not_drawn)?;
        Ok(match format.unwrap_or(PictureFormat::Png) {
            PictureFormat::Png => {
                ([(header::CONTENT_TYPE, "image/png")], drawn.png().map_err(not_drawn)?).into_response()
            }
            PictureFormat::Svg => {
                ([(header::CONTENT_TYPE, "image/svg+xml")], drawn.svg().map_err(not_drawn)?).into_response()
            }
        })
    })
    .await
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum TableFormat {
    Csv,
    Json,
}

#[derive(Deserialize)]
pub struct Exported {
    name: String,
    from: Option<u64>,
    to: Option<u64>,
    step: Option<u64>,
    format: Option<TableFormat>,
}

pub async fn export(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(wanted): Query<Exported>,
) -> Answer<Response> {
    let (statistic, (from, to)) = (name(&wanted.name)?, span(wanted.from, wanted.to)?);
    let sight = service.sight(&caller);
    permitted(sight, &statistic)?;
    let step = given_step(wanted.step)?.unwrap_or(1);
    let format = wanted.format.unwrap_or(TableFormat::Csv);
    waiting(move || {
        let data = sight.answer(service.analytics.engine.query(&statistic, from, to, step).map_err(problem)?);
        let (kind, end) = match format {
            TableFormat::Csv => ("text/csv; charset=utf-8; header=present", "csv"),
            TableFormat::Json => ("application/x-ndjson", "jsonl"),
        };
        let file = format!("attachment; filename=\"{}.{end}\"", statistic.raw());
        let text = table(&data, format)?;
        Ok(([(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, file)], text).into_response())
    })
    .await
}

/// All values of a column: a line for each cell; a line without key if there is none.
fn values(data: &Queried, start: u64, column: &Column) -> Vec<ExportedValue> {
    let seconds = if data.shown == Shown::Level { u64::from(column.seconds) } else { data.step };
    let time = i64::try_from(start).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let value = |key: Option<String>, from: Option<u64>, to: Option<u64>, count: u64| ExportedValue {
        start,
        time: time.map_or_else(String::new, |t| t.to_string()),
        seconds: column.seconds,
        key,
        from,
        to,
        count,
        value: count as f64 / seconds.max(1) as f64,
    };
    if column.cells.is_empty() {
        return vec![value(None, None, None, column.total)];
    }
    let cell = |(key, count): &(u32, u64)| match data.scheme {
        Some(scheme) if *key < scheme.classes() => {
            let (from, to) = scheme.range(*key);
            value(None, Some(from), (to != u64::MAX).then_some(to), *count)
        }
        _ => value(Some(data.words.get(key).map_or_else(|| key.to_string(), ToString::to_string)), None, None, *count),
    };
    column.cells.iter().map(cell).collect()
}

/// A field of CSV. Text that a spreadsheet would take for a formula gets an apostrophe in front.
fn field(text: &str) -> String {
    let text = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn table(data: &Queried, format: TableFormat) -> Answer<String> {
    let mut out = String::new();
    if let TableFormat::Csv = format {
        out += "start,time,seconds,key,from,to,count,value\r\n";
    }
    for (start, column) in &data.columns {
        for v in values(data, *start, column) {
            match format {
                TableFormat::Json => {
                    out += &serde_json::to_string(&v).map_err(|e| Problem::internal(&e.into()))?;
                    out.push('\n');
                }
                TableFormat::Csv => {
                    let number = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
                    let (key, from, to) = (field(v.key.as_deref().unwrap_or("")), number(v.from), number(v.to));
                    let ExportedValue { time, seconds, count, value, .. } = v;
                    // Writing to a string cannot fail.
                    let _ = write!(out, "{start},{time},{seconds},{key},{from},{to},{count},{value}\r\n");
                }
            }
        }
        if out.len() > EXPORT_BYTES {
            let text = format!("more than {} MiB, expected a longer step or a shorter time", EXPORT_BYTES >> 20);
            return Err(Problem::new(ErrorCode::InvalidRequest, text).at("step"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::statistics::LAST;
    use super::*;
    use std::collections::BTreeMap;

    fn data(name: &str, cells: Vec<(u32, u64)>, words: &[(u32, &str)]) -> Queried {
        let name: analytics::name::Name = name.parse().expect("a name");
        let scheme = name.breakdown.and_then(|f| f.scheme());
        let column = Column { total: cells.iter().map(|(_, n)| n).sum(), seconds: 2, cells, ..Column::default() };
        let words = words.iter().map(|(k, w)| (*k, Arc::from(*w))).collect();
        let columns = BTreeMap::from([(60, column), (64, Column { seconds: 2, ..Column::default() })]);
        let title = String::new();
        let (unit, shown) = ("ops", Shown::Rate);
        Queried { name, title, unit, shown, scheme, rows: None, step: 2, closed: 100, columns, words }
    }

    #[test]
    fn a_table_has_a_line_for_each_cell_and_zeros_are_not_left_out() {
        let words = [(1, "deimos"), (2, "=1+1,\"x\"")];
        let text = table(&data("nfs3.ops[client]", vec![(1, 3), (2, 1)], &words), TableFormat::Csv).expect("small");
        let expected = "start,time,seconds,key,from,to,count,value\r\n\
                        60,1970-01-01T00:01:00Z,2,deimos,,,3,1.5\r\n\
                        60,1970-01-01T00:01:00Z,2,\"'=1+1,\"\"x\"\"\",,,1,0.5\r\n\
                        64,1970-01-01T00:01:04Z,2,,,,0,0\r\n";
        assert_eq!(text, expected);
        let text = table(&data("nfs3.ops[latency]", vec![(0, 3), (721, 1)], &[]), TableFormat::Json).expect("small");
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!((&lines[0]["from"], &lines[0]["to"]), (&0.into(), &1000.into()));
        assert_eq!((&lines[1]["from"], &lines[1]["to"]), (&100_000_000_000u64.into(), &serde_json::Value::Null));
    }

    #[test]
    fn a_picture_takes_the_shortest_step_that_fits() {
        assert_eq!(step_for((0, 600), 600), 1);
        assert_eq!(step_for((0, 601), 600), 2);
        // It begins at a whole step, so it may need one more column.
        assert_eq!(step_for((1, 1201), 600), 5);
        assert_eq!(step_for((0, 86_400), 600), 300);
        assert_eq!(step_for((0, 90 * 86_400), 4), 23 * 86_400);
        for width in [1, 600] {
            let (from, to) = (LAST - 5, LAST);
            assert_eq!(step_for((from, to), 600), 1);
            let step = step_for((0, LAST), width);
            assert!(LAST.div_ceil(step) <= u64::from(width) && LAST.div_ceil(step - DAY) > u64::from(width));
        }
    }
}
