//! ONC RPC: programs, and how calls get to them over TCP and UDP.
//!
//! ```text
//!   socket ─ server (epoll, threads) ─ record marking ─> Registry::answer ─ message ─> Program::call ─> results behind the header
//!                                                          └ duplicates: what changes something is done once
//! ```
//!
//! A [`Program`] serves one version of one program number. It is called by many threads at once and may block; the reply is what it wrote.

mod connection;
mod duplicates;
mod framer;
pub mod message;
mod peer;
mod registry;
#[cfg(test)]
mod tests;
mod transport;

pub use message::{CallHeader, Credential, SysCredential};
pub use peer::{Peer, Sender, Transport};
pub use registry::Registry;
pub(crate) use transport::Engine;
pub use transport::Limits;

use super::xdr::{Malformed, Reader, Writer};
use host::clock::Stopwatch;

/// Gives the records of a stream to `sink`, until it fails or the stream is no stream of records.
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
    /// The arguments cannot be read.
    GarbageArguments,
    /// There is no such procedure.
    ProcedureUnavailable,
    /// It failed here, and the protocol has no better word.
    SystemError,
    /// The caller must say who he is, or better; a reason of [`message::auth`].
    Auth(u32),
    /// No answer at all: the client will ask again.
    Drop,
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Self {
        Self::GarbageArguments
    }
}

/// One call, as a program sees it.
#[derive(Debug)]
pub struct Call<'a> {
    /// What was called, by whom.
    pub header: CallHeader<'a>,
    /// From where.
    pub peer: &'a Peer,
    /// Runs since its last byte came.
    pub arrived: Stopwatch,
}

/// Whether a call waits before it is answered, as what was read with it should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Only for what it reads.
    No,
    /// Where more is changed than devices take.
    Maybe,
    /// For devices that write.
    Yes,
}

/// One version of a program.
pub trait Program: Send + Sync {
    /// Its number.
    fn number(&self) -> u32;
    /// Its version.
    fn version(&self) -> u32;
    /// Its name, for figures.
    fn name(&self) -> &'static str;
    /// Names of its procedures by number, for figures.
    fn procedures(&self) -> &'static [&'static str];
    /// Does a procedure: reads arguments, writes results. What it wrote before it returned an error is taken back.
    fn call(&self, call: &Call<'_>, args: &mut Reader<'_>, out: &mut Writer) -> Result<(), Fault>;
    /// Whether doing it twice does harm, so that a call that comes again gets the answer it got. NFSv4.1 remembers by itself.
    fn changes(&self, procedure: u32) -> bool {
        let _ = procedure;
        false
    }
    /// Whether calls of this procedure may wait; of those, [`Program::waits`] is asked.
    fn may_wait(&self, procedure: u32) -> bool {
        let _ = procedure;
        false
    }
    /// Whether a call with these arguments waits before it is answered.
    fn waits(&self, procedure: u32, args: &mut Reader<'_>) -> Wait {
        let _ = (procedure, args);
        Wait::No
    }
    /// The answer to a call that was sent over a connection by [`Peer::send`]; true if it was ours. `results` begins behind the XID.
    fn reply(&self, peer: &Peer, xid: u32, results: &mut Reader<'_>) -> bool {
        let _ = (peer, xid, results);
        false
    }
    /// A connection is gone.
    fn closed(&self, peer: &Peer) {
        let _ = peer;
    }
}
