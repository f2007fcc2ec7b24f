//! An NBD connection with one request at a time.
//!
//! Protocol: <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>, simple replies.

use load::nfs::PATIENCE;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const GO: u32 = 7;
const ACK: u32 = 1;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// Command numbers (`NBD_CMD_*`).
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
}
/// The data must be durable when answered.
pub const FUA: u16 = 1;
/// Zeros must be allocated.
pub const NO_HOLE: u16 = 2;

pub struct Connection {
    stream: UnixStream,
    cookie: u64,
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Connection {
    pub fn open(socket: &Path, export: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        if &greeting[..16] != b"NBDMAGICIHAVEOPT" {
            return Err(bad(format!("it greets with {greeting:02x?}")));
        }
        // Fixed newstyle, no zeroes.
        stream.write_all(&3_u32.to_be_bytes())?;
        let mut option = b"IHAVEOPT".to_vec();
        option.extend(GO.to_be_bytes());
        option.extend((export.len() as u32 + 6).to_be_bytes());
        option.extend((export.len() as u32).to_be_bytes());
        option.extend(export.as_bytes());
        option.extend(0_u16.to_be_bytes());
        stream.write_all(&option)?;
        loop {
            let mut head = [0; 20];
            stream.read_exact(&mut head)?;
            let number = |at: usize| head[at..at + 4].iter().fold(0_u32, |n, b| n << 8 | u32::from(*b));
            let (kind, len) = (number(12), number(16));
            if len > 1 << 16 {
                return Err(bad(format!("an answer to an option of {len} bytes")));
            }
            stream.read_exact(&mut vec![0; len as usize])?;
            match kind {
                ACK => return Ok(Self { stream, cookie: 0 }),
                kind if kind >> 31 == 1 => return Err(bad(format!("{export} is refused: {kind:#x}"))),
                _ => {}
            }
        }
    }

    /// Sends one request and returns the data of a read.
    pub fn run(&mut self, command: u16, flags: u16, offset: u64, len: u32, data: &[u8]) -> io::Result<Vec<u8>> {
        self.cookie += 1;
        let mut request = REQUEST.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(self.cookie.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)?;
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        let number = |at: usize| head[at..at + 4].iter().fold(0_u32, |n, b| n << 8 | u32::from(*b));
        if number(0) != REPLY || head[8..] != self.cookie.to_be_bytes() {
            return Err(bad(format!("an answer begins with {head:02x?}")));
        }
        if number(4) != 0 {
            return Err(bad(format!("request {command} of {len} at {offset} returned {}", number(4))));
        }
        let mut read = vec![0; if command == command::READ { len as usize } else { 0 }];
        self.stream.read_exact(&mut read)?;
        Ok(read)
    }
}
