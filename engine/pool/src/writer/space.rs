//! Space of the pool for datasets, from the current state of the allocator and the live MOS.

use super::spa::{Shared, Writer};
use crate::SpaceCheck;
use errors::Result;
use object::zap::Zap;
use ondisk::pool_dir::{DIRECTORY_OBJECT, directory};
use ondisk::{BlkPtr, DslDir};

impl Writer {
    /// Bytes saved by dedup and cloning.
    pub fn saved_bytes(&self) -> u64 {
        self.shared.saved_bytes()
    }

    /// Bytes that all datasets together may use, including savings by dedup and cloning. Deferred
    /// frees count as free.
    pub fn usable_bytes(&self, check: SpaceCheck) -> u64 {
        self.shared.usable_bytes(check)
    }
}

impl Shared {
    /// Space of a block without parity, in bytes (`bp_get_dsize`).
    pub(crate) fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        self.accounting.space_bytes(bp)
    }

    /// Bytes that all datasets together may use, including savings by dedup and cloning.
    pub(crate) fn usable_bytes(&self, check: SpaceCheck) -> u64 {
        self.allocator.totals().usable_bytes(check).saturating_add(self.saved_bytes())
    }

    pub(crate) fn saved_bytes(&self) -> u64 {
        self.accounting.saved_bytes()
    }

    /// Bytes that all datasets together use, from the live MOS.
    pub(crate) fn used_bytes(&self) -> Result<u64> {
        let objects = Zap::open(self.mos.object(DIRECTORY_OBJECT)?)?;
        let root = objects.lookup_u64(directory::ROOT_DATASET)?.unwrap_or(0);
        let root = self.mos.object(root)?;
        Ok(DslDir::parse(root.bonus(), root.endian())?.used_bytes)
    }
}
