//! The verbs of zfs(8).

pub mod allow;
pub mod bookmark;
pub mod create;
mod dependents;
pub mod destroy;
pub mod hold;
pub mod inherit;
pub mod keys;
pub mod program;
pub mod promote;
pub mod redact;
pub mod rename;
pub mod rollback;
pub mod set;
pub mod snapshot;
pub mod upgrade;
