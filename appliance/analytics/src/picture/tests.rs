//! The examples with which the web page is tested, too.

use super::*;
use crate::column::{Column, OTHER};
use serde_json::Value;

const EXAMPLES: &str = include_str!("../../../../ui/test/fixtures/picture.json");

fn number<T: TryFrom<u64>>(case: &Value, name: &str) -> T {
    let value = case[name].as_u64().unwrap_or_else(|| panic!("{name} of {}", case["name"]));
    T::try_from(value).ok().expect("fits")
}

fn word<T: serde::de::DeserializeOwned>(case: &Value, name: &str) -> T {
    serde_json::from_value(case[name].clone()).expect(name)
}

fn area(case: &Value) -> Area {
    Area { width: number(case, "width"), height: number(case, "height") }
}

fn hold(case: &Value, raster: &Raster) {
    let expected: Vec<Vec<u16>> = word(&case["expected"], "pixels");
    let found: Vec<&[u16]> = raster.codes.chunks(raster.area.width as usize).collect();
    for (y, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "{}: line {y} from the top", case["name"]);
    }
    assert_eq!(found.len(), expected.len());
}

fn heat_of(case: &Value) -> (Heat, Scheme, Vec<Option<Column>>) {
    let scheme: Scheme = word(case, "scheme");
    let column = |column: &Value| {
        let cells: Vec<(u64, Option<u64>, u64)> = serde_json::from_value(column.clone()).expect("a column");
        let cells = cells.into_iter().map(|(from, to, n)| {
            let class = scheme.class(from);
            assert_eq!(scheme.range(class), (from, to.unwrap_or(u64::MAX)), "{}", case["name"]);
            (class, n)
        });
        Column { cells: cells.collect(), seconds: 1, ..Column::default() }
    };
    let columns = case["columns"].as_array().expect("columns").iter();
    let columns = columns.map(|c| (!c.is_null()).then(|| column(c))).collect();
    let heat = Heat {
        area: area(case),
        rows: number(case, "rows"),
        scale: word(case, "scale"),
        coloring: word(case, "coloring"),
        outliers: word(case, "outliers"),
        low: case["low"].as_u64(),
        high: case["high"].as_u64(),
    };
    (heat, scheme, columns)
}

#[test]
fn heat_maps_are_those_of_the_examples() {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("JSON");
    for case in examples["heat"].as_array().expect("cases") {
        let (wanted, scheme, columns) = heat_of(case);
        let columns: Vec<Option<&Column>> = columns.iter().map(Option::as_ref).collect();
        let drawn = heat(&wanted, scheme, &columns).expect("drawn");
        let expected = &case["expected"];
        let limits = [drawn.axis.low, drawn.axis.high, drawn.outside.0, drawn.outside.1];
        let wanted = ["low", "high", "above", "below"].map(|name| number::<u64>(expected, name));
        assert_eq!(limits, wanted, "{}: low, high, above, below", case["name"]);
        assert_eq!(drawn.cells, word::<Vec<u64>>(expected, "cells"), "{}", case["name"]);
        hold(case, &drawn.raster);
    }
}

#[test]
fn graphs_are_those_of_the_examples() {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("JSON");
    for case in examples["graphs"].as_array().expect("cases") {
        let column = |column: &Value| Column {
            total: number(column, "total"),
            seconds: number(column, "seconds"),
            cells: {
                let mut cells: Vec<(u32, u64)> = word(column, "cells");
                cells.retain(|(_, n)| *n > 0);
                cells.sort_unstable();
                cells
            },
            ..Column::default()
        };
        let columns: Vec<Option<Column>> =
            case["columns"].as_array().expect("columns").iter().map(|c| (!c.is_null()).then(|| column(c))).collect();
        let columns: Vec<Option<&Column>> = columns.iter().map(Option::as_ref).collect();
        let kind = if case["level"] == true { Kind::Level } else { Kind::Rate(number(case, "step")) };
        let drawn = lines(area(case), word(case, "shape"), kind, &columns).expect("drawn");
        assert_eq!(Some(drawn.top), case["expected"]["top"].as_f64(), "{}", case["name"]);
        let keys: Vec<Option<u32>> = drawn.series.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, word::<Vec<Option<u32>>>(&case["expected"], "series"), "{}", case["name"]);
        hold(case, &drawn.raster);
    }
}

#[test]
fn every_event_is_in_a_row_or_counted_as_outside() {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("JSON");
    for case in examples["heat"].as_array().expect("cases") {
        let (wanted, scheme, columns) = heat_of(case);
        let columns: Vec<Option<&Column>> = columns.iter().map(Option::as_ref).collect();
        let drawn = heat(&wanted, scheme, &columns).expect("drawn");
        let all: u64 = columns.iter().flatten().flat_map(|c| c.cells.iter().map(|(_, n)| *n)).sum();
        let shown: u64 = drawn.cells.iter().sum();
        assert_eq!(shown + drawn.outside.0 + drawn.outside.1, all, "{}", case["name"]);
        let rows = rows(&drawn.axis);
        assert_eq!(rows.first().map(|r| r.slots.0), Some(0));
        assert!(rows.windows(2).all(|w| w[0].slots.1 == w[1].slots.0 && w[0].last + 1 == w[1].first));
        assert_eq!(rows.last().map(|r| r.slots.1), Some(wanted.rows));
    }
}

#[test]
fn oversized_pictures_are_refused_with_a_reason() {
    let column = Column::default();
    let heat_with = |width, height, rows, columns: usize| {
        let (scale, coloring, outliers) = Default::default();
        let wanted = Heat { area: Area { width, height }, rows, scale, coloring, outliers, low: None, high: None };
        heat(&wanted, Scheme::Latency, &vec![Some(&column); columns]).map(|_| ())
    };
    assert_eq!(heat_with(100, 100, 100, 100), Ok(()));
    for (width, height, rows, columns) in
        [(0, 9, 1, 1), (9, 5000, 1, 1), (9, 9, 10, 1), (9, 9, 0, 1), (9, 9, 9, 10), (9, 9, 9, 0)]
    {
        let error = heat_with(width, height, rows, columns).expect_err("no room");
        assert!(error.to_string().contains("expected 1 to"), "{error}");
    }
}

fn picture(plain: bool) -> Picture {
    let examples: Value = serde_json::from_str(EXAMPLES).expect("JSON");
    let (heat, scheme, columns) = heat_of(&examples["heat"][0]);
    let columns = (0..).zip(columns).filter_map(|(second, c)| Some((second, c?))).collect();
    let name = "nfs3.ops[op=read][client=<script>alert(1)</script>][latency]".parse().expect("a name");
    let title = crate::catalogue::title(&name);
    let (unit, shown, words) = ("ops", crate::catalogue::Shown::Rate, Default::default());
    let scheme = Some(scheme);
    let answer =
        crate::engine::Answer { name, title, unit, shown, scheme, rows: None, step: 1, closed: 0, columns, words };
    let (shape, palette, theme) = Default::default();
    of(&answer, (0, 4), &Wanted { heat, shape, palette, theme, plain }).expect("drawn")
}

#[test]
fn a_png_has_the_pixels_of_the_raster_in_its_area() {
    for plain in [true, false] {
        let picture = picture(plain);
        let file = picture.png().expect("written");
        let mut reader = ::png::Decoder::new(std::io::Cursor::new(file)).read_info().expect("PNG");
        let mut bytes = vec![0; reader.output_buffer_size().expect("small")];
        let info = reader.next_frame(&mut bytes).expect("PNG");
        assert_eq!((info.width, info.height), (picture.size.width, picture.size.height));
        let colors = Palette::Cividis.colors(Theme::Light);
        let (left, top) = picture.place;
        for (n, code) in (0..).zip(&picture.raster.codes) {
            let (x, y) = (left + n % picture.raster.area.width, top + n / picture.raster.area.width);
            let at = (y * info.width + x) as usize * 3;
            assert_eq!(bytes[at..at + 3], colors[usize::from(*code)], "{plain}: {x} {y}");
        }
    }
}

#[test]
fn an_svg_has_a_title_and_contains_no_scripts() {
    let text = picture(false).svg().expect("written");
    assert!(text.contains("<title>NFSv3 operations of type read for client &lt;script&gt;alert(1)"), "{text}");
    assert!(!text.contains("<script"));
    assert!(text.contains("url(#h)"), "{text}");
}

#[test]
fn the_rest_of_a_breakdown_is_one_series() {
    let column = Column { total: 30, seconds: 1, cells: vec![(1, 10), (OTHER, 20)], ..Column::default() };
    let drawn = lines(Area { width: 4, height: 4 }, Shape::Stacked, Kind::Rate(1), &[Some(&column)]).expect("drawn");
    assert_eq!(drawn.series, [(Some(1), 10.0), (None, 20.0)]);
}
