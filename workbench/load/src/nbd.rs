//! An NBD client: fixed newstyle handshake, simple replies, several requests in flight.
//!
//! Protocol: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. The constants
//! are defined independently of the server's, so that each checks the other.

use crate::target::{Nbd, Place};
use anyhow::{Context, Result, bail, ensure};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const GO: u32 = 7;
const ACK: u32 = 1;
const INFO: u32 = 3;
const CAN_FLUSH: u16 = 4;
const CAN_FUA: u16 = 8;
const READ_ONLY: u16 = 2;
/// Maximum length of an option reply. Guessed.
const ANSWER_BYTES_MAX: u32 = 64 << 10;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn both(&mut self) -> &mut dyn ReadWrite {
        match self {
            Self::Tcp(s) => s,
            Self::Unix(s) => s,
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// A connection with a negotiated export.
pub(crate) struct Connection {
    stream: Stream,
    /// Size of the export in bytes.
    pub size: u64,
    flags: u16,
    out: Vec<u8>,
    input: Vec<u8>,
    /// Start and end of the unprocessed part of `input`.
    filled: (usize, usize),
}

/// A reply: the cookie of its request, the error number, and the number of data bytes.
pub(crate) struct Answer {
    pub cookie: u64,
    pub error: u32,
    pub bytes: u64,
}

impl Connection {
    pub fn open(nbd: &Nbd) -> Result<Self> {
        let mut stream = match &nbd.server {
            Place::Tcp(address) => {
                let s = TcpStream::connect(address).with_context(|| address.to_string())?;
                s.set_nodelay(true)?;
                s.set_read_timeout(Some(crate::nfs::PATIENCE))?;
                Stream::Tcp(s)
            }
            Place::Unix(path) => {
                let s = UnixStream::connect(path).with_context(|| path.display().to_string())?;
                s.set_read_timeout(Some(crate::nfs::PATIENCE))?;
                Stream::Unix(s)
            }
        };
        let (size, flags) = greet(stream.both(), &nbd.export)?;
        Ok(Self { stream, size, flags, out: Vec::new(), input: vec![0; 256 << 10], filled: (0, 0) })
    }

    /// Whether writes are rejected.
    pub fn is_read_only(&self) -> bool {
        self.flags & READ_ONLY != 0
    }

    /// Whether the server supports stable writes.
    pub fn can_sync(&self) -> bool {
        self.flags & CAN_FLUSH != 0 && self.flags & CAN_FUA != 0
    }

    fn put(&mut self, command: u16, flags: u16, cookie: u64, (offset, length): (u64, u32)) {
        self.out.extend(REQUEST_MAGIC.to_be_bytes());
        self.out.extend(flags.to_be_bytes());
        self.out.extend(command.to_be_bytes());
        self.out.extend(cookie.to_be_bytes());
        self.out.extend(offset.to_be_bytes());
        self.out.extend(length.to_be_bytes());
    }

    pub fn read(&mut self, cookie: u64, offset: u64, length: u32) {
        self.put(0, 0, cookie, (offset, length));
    }

    pub fn write(&mut self, cookie: u64, offset: u64, bytes: &[u8], stable: bool) {
        self.put(1, u16::from(stable), cookie, (offset, bytes.len() as u32));
        self.out.extend_from_slice(bytes);
    }

    pub fn flush(&mut self, cookie: u64) {
        self.put(3, 0, cookie, (0, 0));
    }

    /// Sends the queued requests.
    pub fn send(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.stream.both().write_all(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Whether a reply is available; waits for up to `patience`.
    pub fn is_answered(&self, patience: Duration) -> io::Result<bool> {
        if self.filled.1 > self.filled.0 {
            return Ok(true);
        }
        match &self.stream {
            Stream::Tcp(s) => crate::nfs::is_readable(s.as_fd(), patience),
            Stream::Unix(s) => crate::nfs::is_readable(s.as_fd(), patience),
        }
    }

    fn need(&mut self, len: usize) -> io::Result<()> {
        while self.filled.1 - self.filled.0 < len {
            if self.filled.0 == self.filled.1 {
                self.filled = (0, 0);
            }
            if self.filled.1 == self.input.len() {
                self.input.copy_within(self.filled.0..self.filled.1, 0);
                self.filled = (0, self.filled.1 - self.filled.0);
            }
            let got = match self.stream.both().read(&mut self.input[self.filled.1..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
            };
            self.filled.1 += got;
        }
        Ok(())
    }

    /// Receives the next reply; `expected` returns the number of data bytes in the reply to a
    /// cookie.
    pub fn receive(&mut self, expected: impl FnOnce(u64) -> u64) -> io::Result<Answer> {
        self.need(16)?;
        let head = &self.input[self.filled.0..self.filled.0 + 16];
        let number = |at: usize| head[at..at + 4].iter().fold(0u32, |n, b| n << 8 | u32::from(*b));
        let (magic, error) = (number(0), number(4));
        let cookie = u64::from(number(8)) << 32 | u64::from(number(12));
        if magic != REPLY_MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a reply starts with {magic:08x}")));
        }
        self.filled.0 += 16;
        let bytes = if error == 0 { expected(cookie) } else { 0 };
        let mut left = bytes;
        while left > 0 {
            self.need(1)?;
            let here = left.min((self.filled.1 - self.filled.0) as u64);
            self.filled.0 += here as usize;
            left -= here;
        }
        Ok(Answer { cookie, error, bytes })
    }
}

fn number<const N: usize>(stream: &mut dyn ReadWrite) -> io::Result<u64> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
}

/// Negotiates an export. Returns its size and flags.
fn greet(stream: &mut dyn ReadWrite, export: &str) -> Result<(u64, u16)> {
    let mut greeting = [0; 16];
    stream.read_exact(&mut greeting).context("not an NBD greeting")?;
    ensure!(&greeting == b"NBDMAGICIHAVEOPT", "not an NBD server (fixed newstyle): its greeting is {greeting:02x?}");
    let flags = number::<2>(stream)?;
    ensure!(flags & 1 != 0, "the server is older than the fixed newstyle of NBD");
    stream.write_all(&((flags & 3) as u32).to_be_bytes())?;
    let mut option = OPTION_MAGIC.to_be_bytes().to_vec();
    option.extend(GO.to_be_bytes());
    option.extend((export.len() as u32 + 6).to_be_bytes());
    option.extend((export.len() as u32).to_be_bytes());
    option.extend(export.as_bytes());
    option.extend(0u16.to_be_bytes());
    stream.write_all(&option)?;
    let mut agreed = None;
    loop {
        let (magic, of, kind) = (number::<8>(stream)?, number::<4>(stream)?, number::<4>(stream)? as u32);
        let length = number::<4>(stream)? as u32;
        ensure!(magic == OPTION_REPLY_MAGIC && of == u64::from(GO), "a reply to an option that was not sent");
        ensure!(length <= ANSWER_BYTES_MAX, "a reply of {length} bytes");
        let mut data = vec![0; length as usize];
        stream.read_exact(&mut data)?;
        match kind {
            ACK => return agreed.context("the server does not report the size of the export"),
            INFO if data.starts_with(&[0, 0]) && data.len() >= 12 => {
                let value =
                    |range: std::ops::Range<usize>| data[range].iter().fold(0u64, |n, b| n << 8 | u64::from(*b));
                agreed = Some((value(2..10), value(10..12) as u16));
            }
            INFO => {}
            error => bail!("export '{export}': the server returned {} ({error:#x})", String::from_utf8_lossy(&data)),
        }
    }
}
