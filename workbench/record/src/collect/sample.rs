//! The values of a row, and what provides them.

use crate::format::{Column, Kind, Unit};

/// The values of one row.
#[derive(Debug, Default)]
pub struct Sample {
    /// Columns and their values.
    pub values: Vec<(Column, f64)>,
}

impl Sample {
    /// Adds a number that only grows.
    pub fn total(&mut self, name: &str, labels: &[(&str, &str)], unit: Unit, value: f64) {
        self.values.push((Column::new(name, labels, unit, Kind::Total), value));
    }

    /// Adds the current value of a number.
    pub fn level(&mut self, name: &str, labels: &[(&str, &str)], unit: Unit, value: f64) {
        self.values.push((Column::new(name, labels, unit, Kind::Level), value));
    }
}

/// A source of values.
pub trait Source: Send {
    /// Name for error messages.
    fn name(&self) -> &str;
    /// Adds the current values. Values that cannot be read are omitted and reported as an error.
    fn sample(&mut self, into: &mut Sample) -> Result<(), String>;
}

/// Reads a system file.
pub(super) fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))
}
