//! The intent log of a dataset: what was promised to be kept since the last synced txg.
//!
//! ```text
//!   head of the log (in the root block) -> log block -> log block -> ... -> a block reserved and not yet written: the end
//!                                          └ records
//! ```
//! `chain` finds the blocks.
//!
//! Nothing is replayed here. Below: `object`. Format: `ondisk::zil`. ZFS name: zil.
//!
//! Invariants:
//!   * a block belongs to the chain only if its own checksum holds and its number is the next one

mod chain;
mod summary;

pub use summary::{LogEntry, LogSummary, read};
