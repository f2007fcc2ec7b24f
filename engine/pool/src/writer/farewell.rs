//! The last write to a device that leaves the pool.

use block::vdev::{Aux, Leaf};
use ondisk::nvlist::Nvlist;

/// A detached leaf, with the label that it gets when the txg without it is on disk.
pub(crate) struct Farewell {
    pub leaf: Leaf,
    pub label: Nvlist,
}

impl Farewell {
    /// Writes the final label, after the txg without the device is on disk. If it cannot be
    /// written, the device keeps its old ones, which are older than the pool's.
    pub fn bid(self) {
        let Self { leaf, label } = self;
        if let Some(device) = leaf.device().filter(|_| !leaf.has_failed())
            && let Err(error) = block::label::initialize(device.as_ref(), &label)
        {
            tracing::warn!(device = leaf.path, %error, "it left the pool, and its labels could not be changed");
        }
        leaf.close(Aux::Removed);
    }
}
