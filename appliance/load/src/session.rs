//! Sessions, which execute operations: on a local file, or on a connection to a server with several
//! in flight.

mod file;
pub(crate) mod remote;
mod volume;

use crate::pattern::Op;
use crate::target::Target;
use anyhow::Result;
use std::time::Duration;

/// A completed operation: its tag, and the bytes moved or the error.
pub(crate) type Done = (u64, Result<u64, String>);

/// A session; see the module. An error of a method means that the session is broken; the failure of
/// a single operation is its result.
pub(crate) trait Session {
    /// Starts an operation.
    fn begin(&mut self, tag: u64, op: Op) -> Result<()>;
    /// The next completed operation; waits for up to `patience`.
    fn done(&mut self, patience: Duration) -> Result<Option<Done>>;
}

/// Parameters of sessions.
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

/// A buffer aligned for direct I/O.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

/// Alignment in bytes that suffices for every device.
const ALIGNMENT: usize = 4096;

impl Aligned {
    pub fn new(len: usize) -> Self {
        let bytes = vec![0u8; len + ALIGNMENT];
        let from = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, from, len }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

impl Target {
    /// Opens the target. A file is created and extended to `file_size` if it is shorter. Returns
    /// its length.
    pub(crate) fn prepare(&self, file_size: u64, meta: bool, settings: Settings) -> Result<u64> {
        match self {
            Self::Path(path) => file::prepare(path, file_size, meta, settings),
            Self::Nfs(nfs) => remote::prepare(nfs, file_size, meta, settings),
            Self::Nbd(nbd) => volume::prepare(nbd, file_size, meta, settings),
        }
    }

    pub(crate) fn open(&self, meta: bool, writes: bool, settings: Settings) -> Result<Box<dyn Session>> {
        Ok(match self {
            Self::Path(path) => Box::new(file::Local::open(path, meta, writes, settings)?),
            Self::Nfs(nfs) => Box::new(remote::Remote::open(nfs, meta, settings)?),
            Self::Nbd(nbd) => Box::new(volume::Volume::open(nbd, writes, settings)?),
        })
    }
}

/// Written data: no 4 KiB block is repeated; `zeros` percent of each are zeros.
pub(crate) struct Content {
    bytes: Aligned,
    turn: u64,
    /// Whether blocks are stamped; data that must be all zeros is not.
    stamped: bool,
}

/// Size of these blocks in bytes.
const STAMPED: usize = 4096;

impl Content {
    pub fn new(settings: Settings) -> Self {
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        let mut bytes = Aligned::new(settings.size);
        for block in bytes.chunks_mut(STAMPED) {
            let random = block.len() * (100 - usize::from(settings.zeros.min(100))) / 100;
            rng.fill(&mut block[..random]);
        }
        Self { bytes, turn: settings.seed << 32, stamped: settings.zeros < 100 }
    }

    /// The data for an operation at offset `at`.
    pub fn at(&mut self, at: u64) -> &[u8] {
        self.turn += 1;
        if !self.stamped {
            return &self.bytes;
        }
        for (i, block) in self.bytes.chunks_mut(STAMPED).enumerate() {
            let stamp = [(at + (i * STAMPED) as u64).to_le_bytes(), self.turn.to_le_bytes()].concat();
            let len = stamp.len().min(block.len());
            block[..len].copy_from_slice(&stamp[..len]);
        }
        &self.bytes
    }
}

/// Name of a file of [`crate::Kind::Meta`].
pub(crate) fn name_of(number: u64) -> String {
    format!("load-{number:x}")
}
