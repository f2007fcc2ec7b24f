//! ONC RPC: programs, and the delivery of calls to them over TCP and UDP.
//!
//! ```text
//!   socket ─ server (epoll, threads) ─ record marking ─> Registry::answer
//!     ├ duplicates: non-idempotent calls are executed once
//!     └ message ─> Program::call ─> results after the header
//! ```
//!
//! A [`Program`] implements one version of one program number. Many threads call it at once, and it
//! may block. The reply is what it writes.

mod backlog;
mod connection;
mod duplicates;
mod framer;
pub mod message;
mod peer;
mod progress;
mod registry;
#[cfg(test)]
mod tests;
mod transport;

pub use message::{CallHeader, Credential, SysCredential};
pub use peer::{Peer, Sender, Transport};
pub use registry::{Received, Registry};
pub(crate) use transport::Engine;
pub use transport::Limits;

use super::xdr::{Malformed, Reader, Writer};
use host::clock::Stopwatch;

/// Passes the records of a stream to `sink`, until `sink` fails or the stream is malformed.
pub(crate) fn records(
    mut bytes: &[u8],
    record_bytes_max: usize,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut framer = framer::Framer::new(record_bytes_max);
    while let Some(record) = framer.feed(&mut bytes)? {
        sink(record.bytes())?;
    }
    Ok(())
}

/// Why a call has no results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The arguments cannot be decoded.
    GarbageArguments,
    /// The procedure does not exist.
    ProcedureUnavailable,
    /// Internal error for which the protocol has no better status.
    SystemError,
    /// Authentication is missing or too weak; one of [`message::auth`].
    Auth(u32),
    /// No answer: the client will retransmit.
    Drop,
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Self {
        Self::GarbageArguments
    }
}

/// A call as a program sees it.
#[derive(Debug)]
pub struct Call<'a> {
    /// What was called, and by whom.
    pub header: CallHeader,
    pub peer: &'a Peer,
    /// Started when the last byte of the call arrived.
    pub arrived: Stopwatch,
}

/// Whether a call waits before it is answered, which would delay calls that were read together with
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It waits only for data that it reads.
    No,
    /// It waits if changes exceed what the devices can write.
    Maybe,
    /// It waits for devices to write.
    Yes,
}

/// One version of a program.
pub trait Program: Send + Sync {
    /// RPC program number, such as 100003 for NFS.
    fn number(&self) -> u32;
    fn version(&self) -> u32;
    /// Name in statistics, such as `nfs4`.
    fn name(&self) -> &'static str;
    /// Names of the procedures by number, for statistics.
    fn procedures(&self) -> &'static [&'static str];
    /// Executes a procedure: reads the arguments and writes the results. If it fails, its output is
    /// discarded.
    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault>;
    /// Whether the procedure is not idempotent, so that a retransmitted call must get the original
    /// answer. NFSv4.1 does this itself, in its sessions.
    fn changes(&self, procedure: u32) -> bool {
        let _ = procedure;
        false
    }
    /// Whether calls of this procedure may wait. If so, [`Program::waits`] decides for each call.
    fn may_wait(&self, procedure: u32) -> bool {
        let _ = procedure;
        false
    }
    /// Whether a call with these arguments waits before it is answered.
    fn waits(&self, procedure: u32, args: &mut Reader<'_>) -> Wait {
        let _ = (procedure, args);
        Wait::No
    }
    /// Handles the reply to a call that was sent with [`Peer::send`]. Returns true if the call was
    /// ours. `results` starts after the XID.
    fn reply(&self, peer: &Peer, xid: u32, results: &mut Reader<'_>) -> bool {
        let _ = (peer, xid, results);
        false
    }
    /// A connection was closed.
    fn closed(&self, peer: &Peer) {
        let _ = peer;
    }
}
