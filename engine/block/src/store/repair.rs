//! Repairing blocks in place.

use super::{WriteStore, cache_key};
use crate::crypt::DatasetKeys;
use crate::vdev::{RepairPurpose, Repaired};
use crate::zevent::Reading;
use crate::{Bookmark, RawBlock, zio};
use errors::{Place, Result};
use ondisk::BlkPtr;

impl WriteStore {
    /// Reads every copy and every column of the block, and rewrites the bad ones that `what`
    /// selects with the right bytes. The caller ensures that the block is neither moved nor freed
    /// meanwhile: nothing else may be written to its place. A block whose reads fail by injection
    /// counts as unreadable.
    pub fn repair(&self, bp: &BlkPtr, at: &Bookmark, what: RepairPurpose) -> Repaired {
        if let Some(error) = self.injection().data_error(bp, at) {
            let error = error.to_string().trim_start_matches(": ").to_owned();
            return Repaired { error: Some(error), ..Repaired::default() };
        }
        let _reading = Reading::of(at);
        zio::repair(self, bp, what)
    }

    /// Overwrites all addresses of an unreadable block with its contents from elsewhere (corrective
    /// receive). Returns false, without writing, if `block` is not what the pointer describes or
    /// cannot be turned into it. The caller ensures that nothing frees the block meanwhile.
    pub fn heal(&self, bp: &BlkPtr, at: &Bookmark, block: &RawBlock, keys: Option<&DatasetKeys>) -> Result<bool> {
        let is_healed = zio::heal(self, bp, block, keys).at_with(|| self.place(at))?;
        if is_healed && let Some(key) = cache_key(bp) {
            self.cache.remove(&key);
        }
        Ok(is_healed)
    }
}
