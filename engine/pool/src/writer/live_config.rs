//! The pool's configuration in memory, as the next txg that changes it writes it to the MOS and to
//! the labels.

use super::config::Identity;
use crate::config::VdevConfig;
use host::sync::Mutex;
use ondisk::uberblock::Uberblock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Configuration, device tree and uberblock. A change of the first two reaches the disk with the
/// next txg after [`LiveConfig::mark_dirty`].
pub(crate) struct LiveConfig {
    pub identity: Mutex<Identity>,
    /// The device tree.
    pub root: Mutex<VdevConfig>,
    /// The uberblock of the last synced txg.
    pub uberblock: Mutex<Uberblock>,
    is_dirty: AtomicBool,
}

impl LiveConfig {
    pub fn new(identity: Identity, root: VdevConfig, uberblock: Uberblock) -> Self {
        Self {
            identity: Mutex::new(identity),
            root: Mutex::new(root),
            uberblock: Mutex::new(uberblock),
            is_dirty: false.into(),
        }
    }

    /// The next txg to be synced writes the configuration.
    pub fn mark_dirty(&self) {
        self.is_dirty.store(true, Ordering::SeqCst);
    }

    pub fn is_dirty(&self) -> bool {
        self.is_dirty.load(Ordering::SeqCst)
    }

    /// Whether the configuration must be written. The caller writes it.
    pub fn take_dirty(&self) -> bool {
        self.is_dirty.swap(false, Ordering::SeqCst)
    }
}
