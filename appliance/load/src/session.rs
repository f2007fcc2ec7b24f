//! Who does operations: a file of this machine, or a connection to a server, with several under way.

mod file;
pub(crate) mod remote;
mod volume;

use crate::pattern::Op;
use crate::target::Target;
use anyhow::Result;
use std::time::Duration;

/// An operation that is over: its tag, and the bytes that it moved or what went wrong.
pub(crate) type Done = (u64, Result<u64, String>);

/// See the module. What breaks the session fails; what one operation is refused is its result.
pub(crate) trait Session {
    /// Begins an operation.
    fn begin(&mut self, tag: u64, op: Op) -> Result<()>;
    /// One that is over, waiting for it up to `patience`.
    fn done(&mut self, patience: Duration) -> Result<Option<Done>>;
}

/// What sessions need to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Bytes of an operation.
    pub size: usize,
    /// Writes are on stable storage when they are answered.
    pub sync: bool,
    /// Of a hundred bytes written so many are zeros.
    pub zeros: u8,
    pub seed: u64,
    /// Past the memory of this machine.
    pub direct: bool,
}

/// Bytes that begin where a device can take them from and put them to.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

/// What every device wants at most.
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
    /// Opens it. A file is made and filled up to `file_size` where it is shorter; its length then.
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

/// What is written: never twice the same 4 KiB, of which `zeros` percent are zeros.
pub(crate) struct Content {
    bytes: Aligned,
    turn: u64,
    /// What is to be all zeros stays so.
    stamped: bool,
}

/// In blocks of so many bytes.
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

    /// Of an operation at `at`.
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

/// What a file of [`crate::Kind::Meta`] is called.
pub(crate) fn name_of(number: u64) -> String {
    format!("load-{number:x}")
}
