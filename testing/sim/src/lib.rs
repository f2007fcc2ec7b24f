//! The simulator: a pool on devices that lose power, written by a workload whose every step is known.
//!
//! ```text
//!   workload (seed) -> files::Vfs -> engine -> SimDevice (volatile cache) -> at chosen operations: what a power cut leaves
//!        └ model: what was done, what was acknowledged      └ image -> import, replay, compare with the model, verify
//! ```
//! A run is one process life; it is cut at many operations at once: a cut takes a copy of what the media would hold
//! and lets the run go on. Everything random comes from one seed.
//!
//! Invariants:
//!   * what was flushed survives every cut; what was not, may survive whole, in part, or not, in any order
//!   * a sector of 512 bytes is old or new, never a mixture

pub mod admin;
pub mod device;
pub mod failing;
pub mod model;
pub mod pages;
pub mod rig;
pub mod run;
pub mod workload;

pub use damage::chance::Chance;
pub use device::{Cut, Faults, Machine, SimDevice};
