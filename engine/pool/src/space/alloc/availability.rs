//! Whether new blocks may go to a top-level device.

use std::sync::atomic::{AtomicBool, Ordering};

/// The conditions under which a device takes new blocks; all must hold.
pub(super) struct Availability {
    is_allocating: AtomicBool,
    is_writable: AtomicBool,
    is_new: AtomicBool,
}

impl Availability {
    /// A device that takes new blocks.
    pub fn new() -> Self {
        Self { is_allocating: true.into(), is_writable: true.into(), is_new: false.into() }
    }

    /// Whether blocks may be allocated there now.
    pub fn is_open(&self) -> bool {
        self.is_allocating() && self.is_writable.load(Ordering::Relaxed) && !self.is_new()
    }

    /// The device is configured to take new blocks.
    pub fn is_allocating(&self) -> bool {
        self.is_allocating.load(Ordering::Relaxed)
    }

    pub fn set_allocating(&self, yes: bool) {
        self.is_allocating.store(yes, Ordering::Relaxed);
    }

    /// Sets whether enough children are available to write to the device.
    pub fn set_writable(&self, yes: bool) {
        self.is_writable.store(yes, Ordering::Relaxed);
    }

    /// The device becomes part of the pool only in the next txg.
    pub fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    pub fn set_new(&self, yes: bool) {
        self.is_new.store(yes, Ordering::Relaxed);
    }
}

impl Clone for Availability {
    /// The same conditions, which change independently from then on.
    fn clone(&self) -> Self {
        let same = |flag: &AtomicBool| AtomicBool::new(flag.load(Ordering::Relaxed));
        Self {
            is_allocating: same(&self.is_allocating),
            is_writable: same(&self.is_writable),
            is_new: same(&self.is_new),
        }
    }
}
