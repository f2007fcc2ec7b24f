//! Frees that are deferred, because their device is being or was removed.

use host::sync::{Mutex, RwLock};
use ondisk::Dva;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// A deferred free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemovalFree {
    pub txg: u64,
    /// Txg in which the block was born.
    pub birth: u64,
    /// DVA on the removed device.
    pub dva: Dva,
}

#[derive(Default)]
pub(super) struct RemovalFrees {
    /// Whether there is any such device or free. Most pools have none.
    pub any: AtomicBool,
    pub devices: RwLock<BTreeSet<u32>>,
    pub deferred: Mutex<Vec<RemovalFree>>,
}

impl RemovalFrees {
    /// Defers the free if its device is being or was removed. Returns whether it did.
    pub fn defer(&self, txg: u64, birth: u64, dva: &Dva) -> bool {
        let is_one = self.any.load(Ordering::SeqCst) && self.devices.read().contains(&dva.vdev);
        if is_one {
            self.deferred.lock().push(RemovalFree { txg, birth, dva: *dva });
        }
        is_one
    }

    pub fn is_dirty(&self, txg: u64) -> bool {
        self.any.load(Ordering::SeqCst) && self.deferred.lock().iter().any(|gone| gone.txg <= txg)
    }
}
