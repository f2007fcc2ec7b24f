//! The conversation with the kernel through /dev/fuse: what both sides can do is agreed on first, then threads take requests.
//!
//! Below: the device, opened and tied to a mount by [`super::attach`]. Above: whoever answers ([`super::server`]).
//!
//! Each thread has a connection of its own where it may (`FUSE_DEV_IOC_CLONE`), so that they do not wait for each other.

use super::reply::Reply;
use super::ring::Rings;
use super::wire::{self, Header, MAJOR, MINOR, Op};
use super::{attr::put, sys};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Largest request: what Linux allows without raising `fs.fuse.max_pages_limit`.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// The same, in pages of 4 KiB.
const REQUEST_PAGES_MAX: u32 = REQUEST_BYTES_MAX >> 12;
/// Room for the largest request with its header and structure.
const BUFFER_BYTES: usize = REQUEST_BYTES_MAX as usize + 4096;
/// Requests that the kernel may have under way for read-ahead and write-back. Guessed: two 1 MiB pieces for each of 32 streams.
const BACKGROUND_MAX: u16 = 64;
/// Beyond that, the kernel thinks twice before it adds another: three quarters, as it has it by itself.
const CONGESTED: u16 = BACKGROUND_MAX / 4 * 3;

/// What can be agreed on (`FUSE_INIT`), by bit.
pub(super) mod can {
    #![allow(missing_docs)] // As in fuse.h.
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// Answers requests.
pub(super) trait Answer: Send + Sync + 'static {
    /// Answers one, now or later.
    fn answer(&self, header: &Header, op: Op<'_>, reply: Reply);
}

/// A conversation that has begun.
pub(super) struct Session {
    device: Arc<File>,
    /// What was agreed on.
    agreed: u64,
    /// Where requests come by way of io_uring.
    rings: Option<Rings>,
}

enum Got {
    Request(usize),
    End,
}

fn receive(device: &File, buffer: &mut [u8]) -> io::Result<Got> {
    loop {
        match rustix::io::read(device, &mut *buffer) {
            Ok(bytes) => return Ok(Got::Request(bytes)),
            // A request that was withdrawn while it was handed out; a signal.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            // Unmounted; or the connection was cut, by an unmount that met a request on its way, or by an administrator.
            Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Got::End),
            Err(e) => return Err(e.into()),
        }
    }
}

impl Session {
    /// Answers the kernel's first request, asking for what is `wanted` of the abilities; io_uring with `threads_per_core`, if
    /// that is among them and both sides can.
    pub fn begin(device: Arc<File>, wanted: u64, threads_per_core: usize) -> io::Result<Self> {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let Got::Request(bytes) = receive(&device, &mut buffer)? else {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "unmounted before it began"));
            };
            let request = buffer.get(..bytes).and_then(|b| wire::parse(b, false));
            let Some((header, Op::Init { major, minor, read_ahead, flags })) = request else {
                return Err(io::Error::other("the kernel did not send FUSE_INIT first"));
            };
            let reply = Reply::new(device.clone(), header.unique);
            if major > MAJOR {
                // It asks again, in the older protocol.
                reply.data(&init_out(0, 0));
                continue;
            }
            // 7.31 is Linux 5.4; the ones before lack too much to be tried.
            if (major, minor) < (MAJOR, 31) {
                reply.error(Errno::PROTO);
                let what = format!("the kernel speaks FUSE {major}.{minor}, expected at least {MAJOR}.31");
                return Err(io::Error::new(io::ErrorKind::Unsupported, what));
            }
            let wanted =
                wanted | can::ASYNC_READ | can::BIG_WRITES | can::MAX_PAGES | can::SETXATTR_EXT | can::INIT_EXT;
            let mut agreed = wanted & flags;
            let rings = rings(wanted, flags, threads_per_core);
            if rings.is_none() {
                agreed &= !can::OVER_IO_URING;
            }
            tracing::debug!(minor, lacking = format_args!("{:#x}", wanted & !flags), "FUSE begins");
            reply.data(&init_out(read_ahead, agreed));
            return Ok(Self { device, agreed, rings });
        }
    }

    /// The device, for messages that the kernel did not ask for.
    pub fn device(&self) -> &Arc<File> {
        &self.device
    }

    /// Answers requests on as many threads until the file system is unmounted.
    pub fn serve(self, server: &Arc<impl Answer>, threads: usize) -> io::Result<()> {
        let extended = self.agreed & can::SETXATTR_EXT != 0;
        let (mut running, threads) = match self.rings {
            // What does not come that way are forgets and interrupts.
            Some(rings) => (rings.serve(&self.device, server, extended)?, 1),
            None => (Vec::new(), threads),
        };
        for number in 0..threads {
            // Whoever mounts by way of fusermount3 may not open the device himself: then all share one connection.
            let own = (number > 0).then(|| sys::clone_device(&self.device).ok()).flatten();
            let device = own.map_or_else(|| self.device.clone(), Arc::new);
            let server = server.clone();
            let serve = move || serve_one(&device, &*server, extended);
            running.push(std::thread::Builder::new().name(format!("weir-fuse-{number}")).spawn(serve)?);
        }
        let panicked = || Err(io::Error::other("a serving thread panicked"));
        running.into_iter().map(|t| t.join().unwrap_or_else(|_| panicked())).fold(Ok(()), Result::and)
    }
}

/// What is needed for io_uring, if that is wanted and possible.
fn rings(wanted: u64, flags: u64, threads_per_core: usize) -> Option<Rings> {
    if wanted & can::OVER_IO_URING == 0 {
        return None;
    }
    if flags & can::OVER_IO_URING == 0 {
        tracing::info!(
            "the kernel does not offer FUSE over io_uring, so requests come through /dev/fuse: Linux 6.14 and newer has it, \
             where /sys/module/fuse/parameters/enable_uring says Y"
        );
        return None;
    }
    match Rings::new(threads_per_core, REQUEST_BYTES_MAX as usize) {
        Ok(rings) => Some(rings),
        Err(error) => {
            tracing::info!(%error, "no io_uring here, so requests come through /dev/fuse");
            None
        }
    }
}

fn serve_one(device: &Arc<File>, server: &impl Answer, extended: bool) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Got::Request(bytes) = receive(device, &mut buffer)? {
        let request = buffer.get(..bytes).unwrap_or_default();
        match wire::parse(request, extended) {
            Some((header, Op::Destroy)) => {
                Reply::new(device.clone(), header.unique).empty(Ok(()));
                return Ok(());
            }
            Some((header, op)) => server.answer(&header, op, Reply::new(device.clone(), header.unique)),
            // An operation that has more to it than we know of: its number is where it always is.
            None => match request.get(8..16).and_then(|n| n.first_chunk().copied()) {
                Some(unique) => Reply::new(device.clone(), u64::from_ne_bytes(unique)).error(Errno::NOSYS),
                None => return Err(io::Error::other("a request shorter than its header")),
            },
        }
    }
    Ok(())
}

/// `struct fuse_init_out`.
fn init_out(read_ahead: u32, flags: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    for n in [MAJOR, MINOR, read_ahead, flags as u32] {
        put(&mut out, n);
    }
    out.extend_from_slice(&BACKGROUND_MAX.to_ne_bytes());
    out.extend_from_slice(&CONGESTED.to_ne_bytes());
    // Largest write, unit of times (nanoseconds).
    put(&mut out, REQUEST_BYTES_MAX);
    put(&mut out, 1_u32);
    out.extend_from_slice(&(REQUEST_PAGES_MAX as u16).to_ne_bytes());
    out.extend_from_slice(&[0; 2]);
    put(&mut out, (flags >> 32) as u32);
    out.resize(64, 0);
    out
}
