//! Written data, and buffers for it.

use super::Settings;

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
