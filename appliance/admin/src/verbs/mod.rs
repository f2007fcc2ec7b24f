//! The verbs of zpool(8) and zfs(8) that change pools or datasets, one file each: a request in, an
//! outcome or a refusal out. Everything that a verb decides is decided here: which datasets it
//! concerns, in which order they are unmounted, changed and mounted again, and what prevents it.
//!
//! ```text
//!   argv ── cli ──┐                                      ┌── cli ── OpenZFS's text and exit codes
//!                 ├─> Request ─> verb ─> Outcome ────────┤
//!   JSON ── web ──┘                      or Refusal      └── web ── JSON, ErrorCode
//! ```
//!
//! Below: `dataset::write`, `pool::Writer`, the rest of this crate. An [`Invocation`] says in which
//! process a verb runs, for whom, and which line it leaves in the history of the pool.
//!
//! Invariants:
//!   * a refusal's kind comes from the type of the error, never from its text
//!   * the changes of a verb are on disk before it ends; its line in the pool's history may reach
//!     the disk one txg later
//!   * a verb that was refused as a whole is not in the history
//!   * callers other than the owner of the pools do what was delegated to them, and nothing else
//!     ([`authority`])

mod authority;
mod invocation;
mod line;
mod lookup;
mod refusal;
mod tally;
pub mod zfs;
pub mod zpool;

pub use authority::{Caller, Unprivileged};
pub use invocation::{CheckShare, Invocation, PoolLease};
pub use lookup::{Found, ReadPool, cannot_open, heads, in_listing_order, pool_of};
pub use refusal::{Kind, Reason, Refusal};
