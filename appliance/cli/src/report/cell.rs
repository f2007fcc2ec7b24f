//! Headings and cells as text and JSON.

use super::column::{Column, Kind, Value};
use super::number::{Unit, decimal, exact};
use super::options::Options;
use serde_json::{Value as Json, json};

pub(super) fn heading(column: &Column, options: &Options) -> String {
    let unit = if options.exact { Unit::Power(0) } else { options.unit };
    match (column.kind, unit.name()) {
        (Kind::Bytes | Kind::ByteRate, "") => column.name.to_owned(),
        (Kind::Bytes, name) => format!("{}_{name}", column.name),
        (Kind::ByteRate, name) => format!("{}_{name}/s", column.name),
        _ => column.name.to_owned(),
    }
}

pub(super) fn cell(column: &Column, value: &Value, options: &Options) -> String {
    match (value, column.kind) {
        (Value::Absent, _) => "-".to_owned(),
        (Value::Text(text), _) => printable(text),
        (Value::Number(n), Kind::Bytes | Kind::ByteRate) if options.exact => exact(*n),
        (Value::Number(n), Kind::Bytes | Kind::ByteRate) => options.unit.text(*n),
        (Value::Number(n), Kind::Kibi(_)) if options.exact => exact(n / 1024.0),
        (Value::Number(n), Kind::Kibi(decimals)) => decimal(n / 1024.0, decimals),
        (Value::Number(n), _) if options.exact => exact(*n),
        (Value::Number(n), Kind::Number(decimals)) => decimal(*n, decimals),
        (Value::Number(n), Kind::Text) => exact(*n),
    }
}

/// Escapes control characters: file names may contain anything, such as cursor movements and line
/// ends.
pub fn printable(text: &str) -> String {
    if text.chars().all(|c| !c.is_control()) {
        return text.to_owned();
    }
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

pub(super) fn json(value: Option<&Value>) -> Json {
    match value {
        None | Some(Value::Absent) => Json::Null,
        Some(Value::Text(text)) => json!(text),
        Some(Value::Number(n)) => {
            let text = exact(*n);
            match text.parse::<i64>() {
                Ok(whole) => json!(whole),
                Err(_) => text.parse::<f64>().map_or(Json::Null, |n| json!(n)),
            }
        }
    }
}
