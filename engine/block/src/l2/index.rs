//! The index of the cache devices: where each block is.

use super::figures::Counts;
use host::sync::RwLock;
use ondisk::BlkPtr;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// Identity of a block, as in OpenZFS: both words of the first address, and the birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Address(pub u64, pub u64, pub u64);

impl Address {
    /// `None` for a block that cannot be on a cache device: a hole, an embedded or redacted block,
    /// or a gang block.
    pub fn of(bp: &BlkPtr) -> Option<Self> {
        if bp.is_hole() || bp.is_embedded() || bp.is_gang() || bp.is_redacted() {
            return None;
        }
        let (w0, w1) = bp.dva(0).to_words();
        Some(Self(w0, w1, bp.physical_birth().0))
    }
}

/// Position of a block on the cache devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub device: u32,
    pub offset_bytes: u64,
    pub lsize_bytes: u32,
    pub psize_bytes: u32,
}

/// Memory per index entry, in bytes, including the entry in the device's own list. Measured once,
/// rounded up.
const ENTRY_BYTES: u64 = 160;

/// The places of all blocks on the cache devices, and the counters of the L2ARC.
#[derive(Default)]
pub(super) struct Index {
    places: RwLock<HashMap<Address, Place>>,
    pub counts: Counts,
}

impl Index {
    pub fn find(&self, address: &Address) -> Option<Place> {
        self.places.read().get(address).copied()
    }

    /// Memory that the index takes, in bytes.
    pub fn bytes(&self) -> u64 {
        self.places.read().len() as u64 * ENTRY_BYTES
    }

    /// Adds a block, or gives it another place.
    pub fn remember(&self, address: Address, place: Place) {
        let before = self.places.write().insert(address, place);
        if let Some(before) = before {
            self.count_out(before);
        }
        self.counts.size_bytes.fetch_add(place.lsize_bytes.into(), Ordering::Relaxed);
        self.counts.stored_bytes.fetch_add(place.psize_bytes.into(), Ordering::Relaxed);
    }

    /// Removes a block from the index, unless it has another place by now.
    pub fn forget(&self, address: &Address, place: Place) {
        let mut places = self.places.write();
        if places.get(address) == Some(&place) {
            places.remove(address);
            self.count_out(place);
        }
    }

    fn count_out(&self, place: Place) {
        self.counts.size_bytes.fetch_sub(place.lsize_bytes.into(), Ordering::Relaxed);
        self.counts.stored_bytes.fetch_sub(place.psize_bytes.into(), Ordering::Relaxed);
    }

    pub fn knows(&self, address: &Address) -> bool {
        self.places.read().contains_key(address)
    }

    /// Removes the blocks on these devices.
    pub fn forget_devices(&self, gone: &[u32]) {
        self.places.write().retain(|_, place| {
            let stays = !gone.contains(&place.device);
            if !stays {
                self.count_out(*place);
            }
            stays
        });
    }
}
