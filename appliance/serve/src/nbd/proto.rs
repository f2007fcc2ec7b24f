//! Constants and messages of the protocol. All numbers are big-endian.

/// The two magic numbers with which a server starts.
pub const GREETING: [u8; 16] = *b"NBDMAGICIHAVEOPT";
/// Magic number of each option of a client.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the same for both sides.
pub mod handshake {
    /// Fixed newstyle: every option is answered.
    pub const FIXED_NEWSTYLE: u32 = 1;
    /// The 124 zero bytes are omitted.
    pub const NO_ZEROES: u32 = 2;
}

/// Options of the client (`NBD_OPT_*`).
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to options (`NBD_REP_*`).
pub mod answer {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub const UNSUPPORTED: u32 = ERROR | 1;
    pub const POLICY: u32 = ERROR | 2;
    pub const INVALID: u32 = ERROR | 3;
    pub const TLS_REQUIRED: u32 = ERROR | 5;
    pub const UNKNOWN: u32 = ERROR | 6;
}

/// Types of information about an export.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: the capabilities of an export.
pub mod can {
    pub const HAS_FLAGS: u16 = 1;
    pub const READ_ONLY: u16 = 2;
    pub const FLUSH: u16 = 4;
    pub const FUA: u16 = 8;
    pub const TRIM: u16 = 1 << 5;
    pub const WRITE_ZEROES: u16 = 1 << 6;
    pub const DONT_FRAGMENT: u16 = 1 << 7;
    pub const MULTI_CONN: u16 = 1 << 8;
    pub const CACHE: u16 = 1 << 10;
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Command flags (`NBD_CMD_FLAG_*`).
pub mod flag {
    pub const FUA: u16 = 1;
    pub const NO_HOLE: u16 = 2;
    pub const DONT_FRAGMENT: u16 = 4;
    pub const ONE_EXTENT: u16 = 8;
    pub const FAST_ZERO: u16 = 16;
}

/// A command of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
    BlockStatus,
    /// Unknown command, with its number.
    Other(u16),
}

impl Command {
    fn of(number: u16) -> Self {
        use Command::{BlockStatus, Cache, Disconnect, Flush, Other, Read, Trim, Write, WriteZeroes};
        [Read, Write, Disconnect, Flush, Trim, Cache, WriteZeroes, BlockStatus]
            .get(usize::from(number))
            .copied()
            .unwrap_or(Other(number))
    }

    /// Flags that are valid with the command.
    pub fn flags(self) -> u16 {
        match self {
            Self::Read => flag::DONT_FRAGMENT | flag::FUA,
            Self::Write | Self::Trim => flag::FUA,
            Self::WriteZeroes => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
            Self::BlockStatus => flag::ONE_EXTENT | flag::FUA,
            Self::Flush | Self::Cache => flag::FUA,
            Self::Disconnect | Self::Other(_) => 0,
        }
    }

    /// Index of the command in the operations of [`observe::Layer::Nbd`].
    pub fn code(self) -> u8 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 2,
            Self::Trim => 3,
            Self::WriteZeroes => 4,
            Self::BlockStatus => 5,
            Self::Cache | Self::Disconnect | Self::Other(_) => 6,
        }
    }
}

/// A request without the data of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// See [`flag`].
    pub flags: u16,
    pub command: Command,
    /// Identifies the request in its reply.
    pub cookie: u64,
    /// In bytes.
    pub offset: u64,
    /// In bytes.
    pub length: u32,
}

impl Request {
    pub const BYTES: usize = 28;

    /// `None` if the magic number is wrong; then the start of the next request cannot be found.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut at = Reader::new(bytes);
        if at.u32()? != REQUEST_MAGIC {
            return None;
        }
        let (flags, command) = (at.u16()?, Command::of(at.u16()?));
        Some(Self { flags, command, cookie: at.u64()?, offset: at.u64()?, length: at.u32()? })
    }
}

/// The header of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHead {
    /// See [`option`].
    pub option: u32,
    /// Number of bytes that follow.
    pub length: u32,
}

impl OptionHead {
    pub const BYTES: usize = 16;

    /// `None` if the magic number is wrong.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let mut at = Reader::new(bytes);
        if at.u64()? != OPTION_MAGIC {
            return None;
        }
        Some(Self { option: at.u32()?, length: at.u32()? })
    }
}

/// Appends a reply to an option.
pub fn put_answer(out: &mut Vec<u8>, option: u32, answer: u32, data: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(answer.to_be_bytes());
    out.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(data);
}

/// Encodes the header of a simple reply.
pub fn simple_reply(cookie: u64, error: u32) -> [u8; 16] {
    let mut out = [0; 16];
    out[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    out[4..8].copy_from_slice(&error.to_be_bytes());
    out[8..].copy_from_slice(&cookie.to_be_bytes());
    out
}

/// Types of structured reply chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Chunk {
    Data = 1,
    Hole = 2,
    BlockStatus = 5,
    Error = 1 << 15 | 1,
}

/// Encodes the header of a chunk with `length` bytes of payload.
pub fn chunk(cookie: u64, kind: Chunk, is_last: bool, length: u32) -> [u8; 20] {
    let mut out = [0; 20];
    out[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
    out[4..6].copy_from_slice(&u16::from(is_last).to_be_bytes());
    out[6..8].copy_from_slice(&(kind as u16).to_be_bytes());
    out[8..16].copy_from_slice(&cookie.to_be_bytes());
    out[16..].copy_from_slice(&length.to_be_bytes());
    out
}

/// Decodes consecutive numbers and bytes.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `n` bytes; `None` if fewer remain.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(front)
    }

    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A length-prefixed UTF-8 string.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    /// Whether all bytes were read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
