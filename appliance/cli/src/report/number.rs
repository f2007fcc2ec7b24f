//! Formats numbers without floating-point residue.

use super::{Column, Kind, Options, Value};
use crate::number::nice_bytes;
use serde_json::{Value as Json, json};

/// A number with this many decimals; `0` if it would show only zeros.
pub fn decimal(x: f64, decimals: usize) -> String {
    if !x.is_finite() {
        return "-".to_owned();
    }
    if x.abs() < 0.5 / 10f64.powi(i32::try_from(decimals).unwrap_or(0)) {
        return "0".to_owned();
    }
    format!("{x:.decimals$}")
}

/// At most three decimals, without trailing zeros.
pub fn exact(x: f64) -> String {
    let text = decimal(x, 3);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Unit of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Chosen for each number: for people, not for graphs.
    Auto,
    /// 1024 to this power.
    Power(u32),
}

impl Unit {
    /// The unit with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "auto" => Some(Self::Auto),
            "b" => Some(Self::Power(0)),
            "k" | "kib" => Some(Self::Power(1)),
            "m" | "mib" => Some(Self::Power(2)),
            "g" | "gib" => Some(Self::Power(3)),
            "t" | "tib" => Some(Self::Power(4)),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "",
            Self::Power(n) => ["B", "KiB", "MiB", "GiB", "TiB"].get(n as usize).copied().unwrap_or("B"),
        }
    }

    fn text(self, bytes: f64) -> String {
        match self {
            Self::Auto => nice_bytes(bytes.max(0.0).round() as u64),
            Self::Power(0) => decimal(bytes, 0),
            Self::Power(n) => decimal(bytes / 1024f64.powi(n as i32), n as usize),
        }
    }
}

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
