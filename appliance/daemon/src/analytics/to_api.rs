//! Converts answers of the engine to API types.

use analytics::catalogue::Shown;
use analytics::column::{Column, UNRECORDED};
use analytics::engine::Answer;
use api::{CellKey, LiveStatistic, StatisticColumn, StatisticData};
use std::collections::{BTreeMap, BTreeSet};

fn keys<'a>(answer: &Answer, columns: impl Iterator<Item = &'a Column>) -> BTreeMap<String, CellKey> {
    let used: BTreeSet<u32> = columns.flat_map(|c| c.cells.iter().map(|(key, _)| *key)).collect();
    let range = |(from, to): (u64, u64)| CellKey::Range { from, to: (to != u64::MAX).then_some(to) };
    let key = |key: u32| match (&answer.rows, answer.scheme) {
        (_, Some(_)) if key >= UNRECORDED => CellKey::Name("<not recorded>".to_owned()),
        (Some(rows), _) => range(rows.range(key)),
        (None, Some(scheme)) => range(scheme.range(key)),
        (None, None) => CellKey::Name(answer.words.get(&key).map_or_else(String::new, ToString::to_string)),
    };
    used.into_iter().map(|k| (k.to_string(), key(k))).collect()
}

fn column(is_map: bool, start: u64, column: &Column) -> StatisticColumn {
    StatisticColumn {
        start,
        seconds: column.seconds,
        total: column.total,
        average: (is_map && column.total > 0).then(|| column.sum as f64 / column.total as f64),
        max: is_map.then_some(column.max),
        cells: column.cells.iter().flat_map(|(key, n)| [u64::from(*key), *n]).collect(),
    }
}

/// Converts all columns of an answer.
pub fn data(answer: Answer) -> StatisticData {
    let keys = keys(&answer, answer.columns.values());
    let is_map = answer.scheme.is_some();
    StatisticData {
        name: answer.name.to_string(),
        title: answer.title,
        unit: answer.unit.to_owned(),
        level: answer.shown == Shown::Level,
        step: answer.step,
        closed: answer.closed,
        columns: answer.columns.iter().map(|(start, c)| column(is_map, *start, c)).collect(),
        keys,
    }
}

/// One second of an answer whose step is one second.
pub fn second(answer: &Answer, second: u64) -> LiveStatistic {
    let found = answer.columns.get(&second);
    LiveStatistic {
        name: answer.name.to_string(),
        column: found.map(|c| column(answer.scheme.is_some(), second, c)),
        keys: keys(answer, found.into_iter()),
    }
}
