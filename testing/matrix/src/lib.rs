//! The cross product of everything that decides how a block is stored: does what was written come back?
//!
//! ```text
//!   plan (seed) -> pool of one layout, a dataset for each case, files of each content
//!               -> export -> import -> every byte compared -> export
//!               -> verify: every copy, every block decrypted and decompressed
//!               -> zdb -bcc, zdb, zdb -r: OpenZFS's own code reads files back
//! ```
//! The story: gzip-1 destroyed data for as long as it could be chosen. Each test of compression began with fresh state and one kind of
//! contents, each judge compared checksums, and no test put contents that compress behind contents that do not.
//!
//! Invariants:
//!   * everything random comes from one seed, which is printed before the first step
//!   * a file's contents follow from the plan alone: what is compared was never read from the pool

pub mod case;
pub mod contents;
pub mod run;

pub use case::{Arrangement, Case, Group, everything, slice};
pub use run::{Judges, Outcome, run};
