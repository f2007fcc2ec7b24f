//! Space as datasets are charged for it: without parity, and with blocks that several of them
//! share.

use super::deflate::Deflate;
use crate::clones::Clones;
use crate::dedup::Dedup;
use host::sync::Mutex;
use ondisk::BlkPtr;
use std::sync::Arc;

/// What translates allocated bytes to bytes of datasets.
pub(crate) struct Accounting {
    /// Deflate ratios by number of the top-level device.
    pub deflate: Arc<Deflate>,
    /// Blocks that are referenced more than once because of cloning (BRT).
    pub clones: Arc<Clones>,
    /// Dedup tables (DDT).
    pub dedup: Arc<Dedup>,
    mos: Mutex<MosSpace>,
}

/// Bytes by which the MOS grew since its DSL directory was last updated: used, compressed,
/// uncompressed.
pub(crate) type MosSpace = (i64, i64, i64);

impl Accounting {
    pub fn new(deflate: Arc<Deflate>, clones: Arc<Clones>, dedup: Arc<Dedup>) -> Self {
        Self { deflate, clones, dedup, mos: Mutex::default() }
    }

    /// Space of a block without parity, in bytes (`bp_get_dsize`).
    pub fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        self.deflate.space_bytes(bp)
    }

    /// Bytes saved by dedup and cloning.
    pub fn saved_bytes(&self) -> u64 {
        self.dedup.saved_bytes().saturating_add(self.clones.saved_bytes())
    }

    /// Counts space of the MOS that is not yet counted in its DSL directory.
    pub fn add_mos(&self, (used, compressed, uncompressed): MosSpace) {
        let mut space = self.mos.lock();
        *space = (space.0 + used, space.1 + compressed, space.2 + uncompressed);
    }

    /// Takes the space of the MOS that is not yet counted. The caller counts it in the DSL
    /// directory.
    pub fn take_mos(&self) -> MosSpace {
        std::mem::take(&mut self.mos.lock())
    }
}
