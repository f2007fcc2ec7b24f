//! The intent log of a dataset: changes acknowledged as durable since the last synced txg.
//!
//! ```text
//!   head of the log (in the root block) -> log block -> ... -> reserved, unwritten block: the end
//!                                          └ records
//! ```
//! `pending` keeps the changes of open txgs in memory; a commit `pack`s the ones it needs into log
//! blocks; `chain` reads them back.
//!
//! What applies when a property changes while the dataset is in use:
//!
//! | property | effect on the log |
//! |---|---|
//! | `sync` | takes effect when the command returns. Changes made under `disabled` have no record; the first commit after it waits for their txg. A call in progress gives the guarantee of either value |
//! | `logbias` | none: records contain their data, and are written to log devices if the pool has any |
//! | `xattr`, `acltype` | a record names the location of an attribute, so replay reads neither property. Setting an attribute is one group of records, in either location |
//! | `aclmode` | replay rejects no mode; a recorded mode changes the access list according to the property at replay. Set-id bits cleared by a write do not change the list |
//! | `recordsize`, `dnodesize` | replay writes with the values at replay; contents are the same, block and dnode sizes are those of new files (a created dnode has the size in its record) |
//! | `compression`, `checksum`, `copies`, `dedup` | none: they apply to data blocks. Log blocks are not compressed and carry their own checksum |
//! | keys | log blocks are encrypted with the master key, which `zfs change-key` does not change. `unload-key` fails while the dataset is open; the log of a dataset without a loaded key waits, claimed |
//! | `readonly` | ignored by replay: changes acknowledged before it was set are replayed |
//! | `quota`, `refquota`, `userquota` and others | replay ignores user quotas; if a dataset is full, replay stops, keeps the log and retries on the next open |
//! | `volsize` | commits wait until a new size is on disk |
//!
//! Below: `object`. Above: `files`, which writes records and replays them. Format: `ondisk::zil`.
//! ZFS name: zil.
//!
//! Invariants:
//!   * a block belongs to the chain only if its own checksum is valid and its number is the next
//!     one
//!   * a record is dropped only when its txg is synced, and a log block is freed only when that
//!     applies to all its records

mod chain;
mod claim;
mod commit;
mod figures;
mod import;
mod missing;
mod old;
mod pack;
mod pending;
mod replay;
mod replay_skips;
mod summary;
mod turns;

pub use crate::live::SyncMode;
pub use chain::Unread;
pub use claim::{Claim, claim_chain, find_claim};
pub use commit::{Encoded, Ground, Log, Reach};
pub use figures::LogFigures;
pub use import::claim_logs;
pub(crate) use import::put_header;
pub(crate) use replay::ClosedLog;
pub use replay::Replayed;
pub use replay_skips::{NAMED_MAX, SkippedRecord};
pub(crate) use replay_skips::{UnsyncedSkips, forget_skipped, is_unread_reported, report_discarded, skipped_numbers};
pub use summary::{LogEntry, LogSummary, has_skipped, has_unread, needs_replay, read};
