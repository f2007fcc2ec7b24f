//! The intent log of a dataset: changes acknowledged as durable since the last synced txg.
//!
//! ```text
//!   head of the log (in the root block) -> log block -> log block -> ... -> a block reserved and not yet written: the end
//!                                          └ records
//! ```
//! `pending` keeps the changes of open txgs in memory; a commit `pack`s the ones it needs into log
//! blocks; `chain` reads them back.
//!
//! What applies when a property changes while the dataset is in use:
//!
//! | property | effect on the log |
//! |---|---|
//! | `sync` | counts from when the command returns. Changes made under `disabled` have no record; the first commit after it waits for their txg. A call that was under way promises what either value does |
//! | `logbias` | none: records hold their data, and are written to log devices if there are any |
//! | `xattr`, `acltype` | a record says where an attribute goes, so replay asks neither property. Setting one is one group, in either place |
//! | `aclmode` | replay refuses no mode; one that was set changes the access list as the property says then. Set-id bits that a write cleared leave the list alone |
//! | `recordsize`, `dnodesize` | replay writes with what they are then; contents are the same, sizes of blocks and dnodes as for new files (a created dnode has the size that its record says) |
//! | `compression`, `checksum`, `copies`, `dedup` | none: they concern data blocks. Log blocks are not compressed and carry their own checksum |
//! | keys | log blocks are sealed with the master key, which `zfs change-key` does not change. `unload-key` refuses while the dataset is open; a log of a dataset without key waits, claimed |
//! | `readonly` | replay does not ask: what was acknowledged before it was set is replayed |
//! | `quota`, `refquota`, `userquota` and others | those of users do not count in replay; where a dataset is full, replay stops, keeps the log and tries again when it is opened |
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
mod pack;
mod pending;
mod replay;
mod skipped;
mod summary;

pub use crate::live::SyncMode;
pub use claim::{Claim, claim_chain, find_claim};
pub use commit::{Encoded, Ground, Log, Reach};
pub use figures::LogFigures;
pub use import::claim_logs;
pub(crate) use import::put_header;
pub(crate) use replay::ClosedLog;
pub use replay::Replayed;
pub use skipped::{NAMED_MAX, Skipped};
pub(crate) use skipped::{Unsynced, forget_skipped, skipped_numbers};
pub use summary::{LogEntry, LogSummary, has_skipped, has_unread, needs_replay, read};
