//! The simulator: a pool on devices that lose power, written by a workload whose every step is
//! known.
//!
//! ```text
//!   workload (seed) -> files::Vfs -> engine -> SimDevice (volatile cache)
//!     │                                          └ at chosen operations: the result of a power cut
//!     └ model: what was done, acknowledged           └ image -> import, replay, compare with the
//!                                                               model, verify
//! ```
//! A run is the life of one process, with cuts at many operations: a cut copies what the media
//! would contain and lets the run continue. All random choices derive from one seed. Threads and
//! the clock are the system's, or those of a [`simulation`], which derive from the seed too.
//!
//! Invariants:
//!   * what was flushed survives every cut; anything else may survive completely, partially, or not
//!     at all, in any order
//!   * a sector of 512 bytes is old or new, never a mixture

pub mod admin;
pub mod device;
pub mod failing;
pub mod model;
pub mod pages;
pub mod rig;
pub mod run;
pub mod simulation;
pub mod workload;

pub use device::{Cut, Faults, Machine, SimDevice};
