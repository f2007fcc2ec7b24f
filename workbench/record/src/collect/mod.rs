//! The sources that are sampled for each row.
//!
//! Below: /proc and /sys of Linux, and any endpoint with Prometheus' text format. Above:
//! `recorder`. The names of the columns are listed in docs/design/record.md.

pub mod daemon;
pub mod disks;
pub mod machine;
pub mod network;
pub mod processors;
mod sample;

pub use sample::{Sample, Source};

/// All sources of the machine.
pub fn machine() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(processors::Processors),
        Box::new(machine::Memory),
        Box::new(disks::Disks),
        Box::new(network::Network),
    ]
}

#[cfg(test)]
mod tests;
