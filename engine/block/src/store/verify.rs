//! Verifying blocks.

use super::Store;
use crate::crypt::DatasetKeys;
use crate::vdev::BlockReport;
use crate::zio;
use ondisk::BlkPtr;

impl Store {
    /// Reads every copy and every parity column of the block, and reports which are wrong. Nothing
    /// is decompressed, decrypted or cached, because the checksum covers the stored bytes.
    pub fn verify(&self, bp: &BlkPtr) -> BlockReport {
        zio::verify(self, bp)
    }

    /// As [`Store::verify`], and also checks that the right bytes are valid contents: decrypts
    /// them, if `keys` are given, and decompresses them.
    pub fn verify_contents(&self, bp: &BlkPtr, keys: Option<&DatasetKeys>) -> BlockReport {
        zio::verify_contents(self, bp, keys)
    }

    /// Checks every copy of blocks that lie close together on one top-level vdev, with large reads.
    /// Returns for each block whether everything is right. `copies` are blocks and the index of the
    /// address to check. For a block that is not right,
    /// [`WriteStore::repair`](super::WriteStore::repair) gives the details. Gang blocks always
    /// return false.
    pub fn look_at_run(&self, copies: &[(&BlkPtr, usize)], read_bytes: &mut u64) -> Vec<bool> {
        zio::look_at_run(self, copies, read_bytes)
    }

    /// Whether some available device lacks part of the block because it was offline when the block
    /// was written (dtl).
    pub fn lacks(&self, bp: &BlkPtr) -> bool {
        let (size, birth) = (bp.psize_bytes(), bp.physical_birth().0);
        let tree = self.tree();
        bp.dvas().any(|dva| match dva.is_gang {
            // Gang members may be on any device.
            true => tree.logs().iter().any(|leaf| leaf.is_open() && leaf.is_stale(birth)),
            false => tree.lacks(&dva, size, birth),
        })
    }
}
