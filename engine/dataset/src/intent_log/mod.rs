//! The intent log of a dataset: what was promised to be kept since the last synced txg.
//!
//! ```text
//!   head of the log (in the root block) -> log block -> log block -> ... -> a block reserved and not yet written: the end
//!                                          └ records
//! ```
//! `pending` holds in memory what open txgs did; a commit `pack`s what it needs into log blocks; `chain` finds them again.
//!
//! Below: `object`. Above: `files`, which writes records and replays them. Format: `ondisk::zil`. ZFS name: zil.
//!
//! Invariants:
//!   * a block belongs to the chain only if its own checksum holds and its number is the next one
//!   * a record is forgotten only when its txg is synced, and a log block is freed only when that holds for all in it

mod chain;
mod claim;
mod commit;
mod figures;
mod import;
mod pack;
mod pending;
mod replay;
mod summary;

pub use crate::live::SyncMode;
pub use claim::{Claim, claim_chain, find_claim};
pub use commit::{Encoded, Ground, Log, Reach};
pub use figures::LogFigures;
pub use import::claim_logs;
pub(crate) use import::put_header;
pub(crate) use replay::ClosedLog;
pub use replay::Replayed;
pub use summary::{LogEntry, LogSummary, needs_replay, read};
