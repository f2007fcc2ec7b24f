//! The cross product of all properties that determine how a block is stored: is what was written
//! read back unchanged?
//!
//! ```text
//!   plan (seed) -> pool of one layout, a dataset for each case, files of each content
//!               -> export -> import -> every byte compared -> export
//!               -> verify: every copy, every block decrypted and decompressed
//!               -> zdb -bcc, zdb, zdb -r: OpenZFS's own code reads files back
//! ```
//! Background: gzip-1 corrupted data for as long as it was available. Each compression test began
//! with fresh state and one kind of contents, each judge compared checksums, and no test wrote
//! compressible contents after incompressible ones.
//!
//! Invariants:
//!   * all random choices derive from one seed, which is printed before the first step
//!   * a file's contents follow only from the plan: expected values are never read from the pool

pub mod case;
pub mod contents;
pub mod run;

pub use case::{Arrangement, Case, Group, everything, slice};
pub use run::{Judges, Outcome, run};
