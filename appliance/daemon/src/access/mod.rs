//! Who may do what over TCP: users, their passwords and sessions, tokens, limits on guessing, and the log of what was done.
//!
//! Nothing here knows HTTP. On the Unix socket the kernel says who asks, and none of this is needed but the log.
//!
//! Invariants:
//!   * no password, token or session number is kept: only what one can be checked with
//!   * there is no password that nobody has set: the first administrator is made with a link that is shown once
//!   * memory that somebody who is not known can make us use is bounded

pub mod accounts;
pub mod audit;
pub mod limits;
pub mod password;
pub mod refusals;
pub mod secret;
pub mod sessions;
pub mod setup;

pub use accounts::Accounts;
pub use audit::AuditLog;
pub use limits::Limits;
pub use refusals::Refusals;
pub use sessions::Sessions;
pub use setup::SetupLink;

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
