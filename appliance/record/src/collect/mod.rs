//! What is read at each row, and from where.
//!
//! Below: /proc and /sys of Linux, and whatever tells figures in Prometheus' text format. Above: `recorder`.
//! The names of the columns are listed in docs/design/record.md.

pub mod daemon;
pub mod disks;
pub mod machine;
pub mod network;
pub mod processors;

use crate::format::{Column, Kind, Unit};

/// Numbers of one row.
#[derive(Debug, Default)]
pub struct Sample {
    /// Columns and their numbers.
    pub values: Vec<(Column, f64)>,
}

impl Sample {
    /// A number that only grows.
    pub fn total(&mut self, name: &str, labels: &[(&str, &str)], unit: Unit, value: f64) {
        self.values.push((Column::new(name, labels, unit, Kind::Total), value));
    }

    /// A number of this moment.
    pub fn level(&mut self, name: &str, labels: &[(&str, &str)], unit: Unit, value: f64) {
        self.values.push((Column::new(name, labels, unit, Kind::Level), value));
    }
}

/// Something that tells numbers.
pub trait Source: Send {
    /// What it is called when it fails.
    fn name(&self) -> &str;
    /// Tells its numbers of now; what it cannot tell is left out, and why is the error.
    fn sample(&mut self, into: &mut Sample) -> Result<(), String>;
}

/// All of the machine.
pub fn machine() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(processors::Processors),
        Box::new(machine::Memory),
        Box::new(disks::Disks),
        Box::new(network::Network),
    ]
}

/// A file of the system.
fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))
}

/// A number after a word at the begin of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
