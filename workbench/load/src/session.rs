//! Sessions, which execute operations: on a local file, or on a connection to a server with several
//! in flight.

mod content;
mod file;
mod open;
pub(crate) mod remote;
mod volume;

pub(crate) use content::{Aligned, Content};

use crate::pattern::Op;
use anyhow::Result;
use std::time::Duration;

/// A completed operation: its tag, and the bytes moved or the error.
pub(crate) type Done = (u64, Result<u64, String>);

/// A session; see the module. An error of a method means that the session is broken; the failure of
/// a single operation is its result.
pub(crate) trait Session {
    /// Starts an operation. [`Self::done`] returns its result with this tag.
    fn begin(&mut self, tag: u64, op: Op) -> Result<()>;
    /// The next completed operation; waits for up to `patience`.
    fn done(&mut self, patience: Duration) -> Result<Option<Done>>;
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Size of an operation in bytes.
    pub size: usize,
    /// Whether writes are stable when acknowledged.
    pub sync: bool,
    /// Percentage of zero bytes in written data.
    pub zeros: u8,
    pub seed: u64,
    /// Whether direct I/O is used.
    pub direct: bool,
}

/// Name of a file of [`crate::Kind::Meta`].
pub(crate) fn name_of(number: u64) -> String {
    format!("load-{number:x}")
}
