//! What happened and how often: counters, levels and distributions, and a list of them for whoever shows them.
//!
//! Whoever counts owns his figures as plain fields and tells them as a [`Source`]; a [`Registry`] knows the sources of a
//! process by weak reference, so that the figures of a pool go away with the pool. Above: `/metrics`, `inspect txgs`, analytics.
//!
//! ```text
//!   Counter, Gauge, Histogram in the engine's own structures ── Source::collect ──> Collector ──> Vec<Family> ──> text, native
//! ```
//!
//! Invariants:
//!   * nothing here is global: a test that makes its own figures sees its own figures
//!   * counting never waits, never allocates, and takes a few nanoseconds (`cargo run --release --example cost -p weir-observe`)
//!   * a value read while others count is somewhere between before and after; a counter never goes back

mod counter;
pub mod event;
pub mod exponential;
mod histogram;
mod native;
mod registry;
mod text;

pub use counter::{Counter, Gauge};
pub use event::{Event, Events, Layer};
pub use histogram::{Histogram, Spread};
pub use native::prometheus_protobuf;
pub use registry::{Collector, Family, Info, Kind, Labels, Registry, Series, Source, Unit, Value};
pub use text::prometheus;
