//! Takes requests from /dev/fuse, and has them answered.

use super::reply::Reply;
use super::wire::{self, Header, Op};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Largest request: what Linux allows without raising `fs.fuse.max_pages_limit`.
pub(super) const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// The same in pages of 4 KiB.
pub(super) const REQUEST_PAGES_MAX: u32 = REQUEST_BYTES_MAX >> 12;
/// Space for the largest request with its header and structure.
pub(super) const BUFFER_BYTES: usize = REQUEST_BYTES_MAX as usize + 4096;

/// Implemented by the code that answers requests.
pub(super) trait Answer: Send + Sync + 'static {
    /// Answers one request, now or later.
    fn answer(&self, header: &Header, op: Op<'_>, reply: Reply);
}

pub(super) enum Got {
    Request(usize),
    End,
}

/// Waits for a request.
pub(super) fn receive(device: &File, buffer: &mut [u8]) -> io::Result<Got> {
    loop {
        match rustix::io::read(device, &mut *buffer) {
            Ok(bytes) => return Ok(Got::Request(bytes)),
            // The request was withdrawn while it was handed out, or a signal arrived.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            // Unmounted, or the connection was aborted: by an unmount during a request, or by an
            // administrator.
            Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Got::End),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Answers requests until the file system is unmounted, or `turn` returns false. `turn` is called
/// with its size in bytes when a request has arrived, and with `None` when it was answered or
/// handed on.
pub(super) fn serve_until(
    device: &Arc<File>,
    server: &impl Answer,
    extended: bool,
    turn: impl Fn(Option<usize>) -> bool,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Got::Request(bytes) = receive(device, &mut buffer)? {
        if !turn(Some(bytes)) {
            return Ok(());
        }
        let request = buffer.get(..bytes).unwrap_or_default();
        match wire::parse(request, extended) {
            Some((header, Op::Destroy)) => {
                Reply::new(device.clone(), header.unique).empty(Ok(()));
                return Ok(());
            }
            Some((header, op)) => server.answer(&header, op, Reply::new(device.clone(), header.unique)),
            // An operation whose structure is unknown: the request number is at a fixed offset.
            None => match request.get(8..16).and_then(|n| n.first_chunk().copied()) {
                Some(unique) => Reply::new(device.clone(), u64::from_ne_bytes(unique)).error(Errno::NOSYS),
                None => return Err(io::Error::other("a request shorter than its header")),
            },
        }
        if !turn(None) {
            return Ok(());
        }
    }
    Ok(())
}
