//! Deflation: bytes on a device without parity.

use host::sync::RwLock;
use ondisk::{BlkPtr, Dva};

/// Deflate ratio by number of the top-level device, in 512ths. ZFS name: `vdev_deflate_ratio`.
pub(crate) struct Deflate(RwLock<Vec<u64>>);

impl Deflate {
    pub fn new(ratios: Vec<u64>) -> Self {
        Self(RwLock::new(ratios))
    }

    /// Adds the ratio of a new top-level device, whose number is the next one.
    pub fn push(&self, ratio: u64) {
        self.0.write().push(ratio);
    }

    /// Replaces the ratios of all top-level devices.
    pub fn replace(&self, ratios: Vec<u64>) {
        *self.0.write() = ratios;
    }

    /// Space of a block without parity, in bytes (`bp_get_dsize`).
    pub fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        if bp.is_embedded() {
            return 0;
        }
        let ratios = self.0.read();
        let of = |dva: Dva| {
            let ratio = ratios.get(dva.vdev as usize).copied().unwrap_or(512);
            (dva.asize_bytes >> 9).saturating_mul(ratio)
        };
        bp.dvas().map(of).sum()
    }
}
