//! Recorded runs: what the system and Weir did, second by second, in one file; and charts of it.
//!
//! ```text
//! /proc, /sys ──┐                                                     ┌─> chart ─> SVG, PNG
//! /metrics ─────┼─ collect ─> recorder ─> format (one file per run) ─> series
//! a generator ──┘                      └─> twins (text)               ^
//! vmstat, iostat, nicstat, zpool iostat, arcstat, fio, vdbench ── import ┘
//! ```
//!
//! **Invariant: a number has a name, a unit and a time span; what was not measured is a gap, never
//! a zero.**
//!
//! The file is described in docs/design/record.md, the charts in docs/operating/graph.md.

pub mod chart;
pub mod collect;
pub mod folder;
pub mod format;
pub mod import;
pub mod recorder;
pub mod series;
pub mod show;
pub mod twins;

pub use format::{Column, ColumnId, Kind, Meta, Run, Stamp, Unit, Writer};
pub use recorder::Recorder;
pub use series::{Series, Span};
