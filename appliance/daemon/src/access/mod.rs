//! Access over TCP: users, passwords, sessions, tokens, limits on guessing, names of this machine,
//! who sees file names, and the audit log.
//!
//! This module does not know HTTP. On the Unix socket the kernel identifies the caller, and only
//! the audit log is used.
//!
//! Invariants:
//!   * no password, token or session number is stored, only a value to check it against
//!   * there is no default password: the first administrator is created with a link that is shown
//!     once
//!   * unauthenticated callers can only use a bounded amount of memory

pub mod accounts;
pub mod audit;
mod hosts;
pub mod limits;
pub mod password;
pub mod refusals;
pub mod secret;
pub mod sessions;
pub mod setup;
mod sight;

pub use accounts::Accounts;
pub use audit::AuditLog;
pub use hosts::Hosts;
pub use limits::Limits;
pub use refusals::Refusals;
pub use sessions::Sessions;
pub use setup::SetupLink;
pub use sight::Sight;

use std::time::{SystemTime, UNIX_EPOCH};

/// The current time in seconds since 1970; 0 if the clock is set before.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The current time in milliseconds since 1970; 0 if the clock is set before.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}
