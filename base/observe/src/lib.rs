//! Metrics: counters, gauges, histograms, and a registry that exporters read.
//!
//! A component owns its metrics as plain fields and reports them as a [`Source`]. A [`Registry`]
//! holds weak references to the sources of a process, so that a pool's metrics disappear with the
//! pool. Above: `/metrics`, `inspect txgs`, analytics.
//!
//! ```text
//! Counter, Gauge, Histogram in the engine's own structures
//!   ── Source::collect ──> Collector ──> Vec<Family> ──> text, native ── /metrics ──> scrape
//! ```
//!
//! Invariants:
//!   * nothing here is global: a test that creates its own metrics sees only those
//!   * counting never blocks, never allocates, and takes a few nanoseconds (`cargo run --release
//!     --example cost -p weir-observe`)
//!   * a value read during concurrent updates is between the values before and after them; a
//!     counter never decreases

mod counter;
pub mod event;
pub mod exponential;
mod histogram;
mod native;
mod registry;
pub mod scrape;
mod text;

pub use counter::{Counter, Gauge};
pub use event::{Event, Events, Layer};
pub use histogram::{Histogram, Spread};
pub use native::prometheus_protobuf;
pub use registry::{Collector, Family, Info, Kind, Labels, Registry, Series, Source, Unit, Value};
pub use text::prometheus;
