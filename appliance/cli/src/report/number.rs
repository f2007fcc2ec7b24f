//! Formats numbers without floating-point residue.

use crate::number::nice_bytes;

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

/// Unit in which bytes are shown (`-u`).
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

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "",
            Self::Power(n) => ["B", "KiB", "MiB", "GiB", "TiB"].get(n as usize).copied().unwrap_or("B"),
        }
    }

    pub(super) fn text(self, bytes: f64) -> String {
        match self {
            Self::Auto => nice_bytes(bytes.max(0.0).round() as u64),
            Self::Power(0) => decimal(bytes, 0),
            Self::Power(n) => decimal(bytes / 1024f64.powi(n as i32), n as usize),
        }
    }
}
