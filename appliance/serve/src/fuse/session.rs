//! The session with the kernel through /dev/fuse: negotiates capabilities, then threads serve
//! requests.
//!
//! Below: the device, opened and mounted by [`super::attach`]. Above: an implementation of
//! [`Answer`] ([`super::server`]).
//!
//! Each thread has its own connection where that is permitted (`FUSE_DEV_IOC_CLONE`), so that
//! threads do not wait for each other.

use super::reply::Reply;
use super::requests::{Answer, BUFFER_BYTES, Got, REQUEST_BYTES_MAX, REQUEST_PAGES_MAX, receive, serve_until};
use super::ring::Rings;
use super::wire::{self, MAJOR, MINOR, Op};
use super::{attr::put, threads};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Maximum number of read-ahead and write-back requests in flight. Guessed: two 1 MiB requests for
/// each of 32 streams.
const BACKGROUND_MAX: u16 = 64;
/// Above this number the kernel considers the mount congested: three quarters, the kernel's own
/// ratio.
const CONGESTED: u16 = BACKGROUND_MAX / 4 * 3;

/// Capability flags of `FUSE_INIT`.
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

/// A session that was negotiated.
pub(super) struct Session {
    device: Arc<File>,
    /// Bits of [`can`]: what the server requests and the kernel offers.
    agreed: u64,
    /// Set if io_uring is used.
    rings: Option<Rings>,
}

impl Session {
    /// Answers `FUSE_INIT`, requesting the capabilities in `wanted`. Uses io_uring with
    /// `threads_per_core` threads if that is among them and both sides support it.
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
                // The kernel sends `FUSE_INIT` again, with the older protocol.
                reply.data(&init_out(0, 0));
                continue;
            }
            // 7.31 is Linux 5.4. Older versions lack too much to be supported.
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

    /// The device, for sending notifications.
    pub fn device(&self) -> &Arc<File> {
        &self.device
    }

    /// Answers requests until the file system is unmounted, on `threads` threads, and on more while
    /// all of them wait for devices.
    pub fn serve(self, server: &Arc<impl Answer>, threads: usize) -> io::Result<()> {
        let extended = self.agreed & can::SETXATTR_EXT != 0;
        let Some(rings) = self.rings else { return threads::serve(&self.device, server, extended, threads) };
        let mut running = rings.serve(&self.device, server, extended)?;
        // Forgets and interrupts still come through the device.
        let (device, server) = (self.device.clone(), server.clone());
        let serve = move || serve_until(&device, &*server, extended, |_| true);
        running.push(std::thread::Builder::new().name("weir-fuse-0".to_owned()).spawn(serve)?);
        let panicked = || Err(io::Error::other("a serving thread panicked"));
        running.into_iter().map(|t| t.join().unwrap_or_else(|_| panicked())).fold(Ok(()), Result::and)
    }
}

/// The rings for io_uring, if it is requested and possible.
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
            tracing::info!(%error, "io_uring is not available, so requests come through /dev/fuse");
            None
        }
    }
}

/// Encodes `struct fuse_init_out`.
fn init_out(read_ahead: u32, flags: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    for n in [MAJOR, MINOR, read_ahead, flags as u32] {
        put(&mut out, n);
    }
    out.extend_from_slice(&BACKGROUND_MAX.to_ne_bytes());
    out.extend_from_slice(&CONGESTED.to_ne_bytes());
    // Largest write, then the time granularity (1 ns).
    put(&mut out, REQUEST_BYTES_MAX);
    put(&mut out, 1_u32);
    out.extend_from_slice(&(REQUEST_PAGES_MAX as u16).to_ne_bytes());
    out.extend_from_slice(&[0; 2]);
    put(&mut out, (flags >> 32) as u32);
    out.resize(64, 0);
    out
}
