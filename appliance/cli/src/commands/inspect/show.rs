//! A document as text: scalars line by line, lists of similar objects as tables, other values
//! nested.

use serde_json::{Map, Value};

/// Longer strings are on a line of their own.
const WORD_MAX: usize = 60;
/// Longer cells do not widen their column.
const CELL_MAX: usize = 48;

/// The document as text.
pub fn text(document: &Value) -> String {
    let mut out = String::new();
    show(&mut out, document, 0);
    out
}

fn show(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => object(out, map, indent),
        Value::Array(list) if !list.is_empty() && list.iter().all(is_row) => table(out, list, indent),
        Value::Array(list) if list.iter().all(Value::is_string) => {
            list.iter().for_each(|l| push_lines(out, indent, &scalar(l)));
        }
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                line(out, indent, &format!("[{i}]"), 0, item);
            }
        }
        other => push_lines(out, indent, &scalar(other)),
    }
}

fn push_lines(out: &mut String, indent: usize, text: &str) {
    for l in text.lines() {
        out.push_str(&format!("{:indent$}{l}\n", ""));
    }
}

fn is_scalar(value: &Value) -> bool {
    match value {
        Value::Object(_) => false,
        Value::Array(list) => list.iter().all(|v| match v {
            Value::Object(_) | Value::Array(_) => false,
            Value::String(s) => s.len() <= WORD_MAX,
            _ => true,
        }),
        Value::String(s) => !s.contains('\n'),
        _ => true,
    }
}

/// Whether it fits into a table row.
fn is_row(value: &Value) -> bool {
    matches!(value, Value::Object(map) if map.values().all(is_scalar))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(s) => s.clone(),
        Value::Array(list) => list.iter().map(scalar).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn object(out: &mut String, map: &Map<String, Value>, indent: usize) {
    let width = map.iter().filter(|(_, v)| is_scalar(v)).map(|(k, _)| k.chars().count()).max().unwrap_or(0);
    for (key, value) in map {
        line(out, indent, key, width, value);
    }
}

fn line(out: &mut String, indent: usize, key: &str, width: usize, value: &Value) {
    if is_scalar(value) {
        let text = format!("{:indent$}{key:width$}  {}", "", scalar(value));
        out.push_str(text.trim_end());
        out.push('\n');
    } else {
        out.push_str(&format!("{:indent$}{key}:\n", ""));
        show(out, value, indent + 4);
    }
}

fn table(out: &mut String, rows: &[Value], indent: usize) {
    let mut columns: Vec<&String> = Vec::new();
    let maps: Vec<&Map<String, Value>> = rows.iter().filter_map(Value::as_object).collect();
    for key in maps.iter().flat_map(|m| m.keys()) {
        if !columns.contains(&key) {
            columns.push(key);
        }
    }
    let cell = |m: &Map<String, Value>, c: &String| m.get(c).map_or(String::new(), scalar);
    let cells: Vec<Vec<String>> = maps.iter().map(|m| columns.iter().map(|c| cell(m, c)).collect()).collect();
    let is_number = |i: usize| maps.iter().all(|m| m.get(columns[i]).is_none_or(|v| v.is_number() || v.is_null()));
    let width = |i: usize| {
        // A much longer cell, such as a message among names, overflows instead of widening the
        // column.
        let widest = cells.iter().map(|row| row[i].chars().count()).filter(|n| *n <= CELL_MAX).max().unwrap_or(0);
        widest.max(columns[i].chars().count())
    };
    let layout: Vec<(usize, bool)> = (0..columns.len()).map(|i| (width(i), is_number(i))).collect();
    let mut row = |cells: &mut dyn Iterator<Item = String>| {
        let mut text = " ".repeat(indent);
        for (cell, (width, right)) in cells.zip(&layout) {
            let cell = if *right { format!("{cell:>width$}  ") } else { format!("{cell:width$}  ") };
            text.push_str(&cell);
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    row(&mut columns.iter().map(|c| c.to_uppercase()));
    for c in cells {
        row(&mut c.into_iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn uniform_lists_are_tables_with_numbers_on_the_right() {
        let document = json!({"pool": "tank", "labels": [{"n": 0, "what": "good"}, {"n": 12, "what": null}]});
        assert_eq!(text(&document), "pool  tank\nlabels:\n     N  WHAT\n     0  good\n    12  -\n");
    }

    #[test]
    fn nested_values_are_indented() {
        let document = json!({"a": {"b": {"c": [1, 2]}, "dd": "x"}});
        assert_eq!(text(&document), "a:\n    b:\n        c  1, 2\n    dd  x\n");
    }
}
