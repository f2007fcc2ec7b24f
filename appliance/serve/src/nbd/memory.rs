//! Memory for the requests in progress of all connections. A request that needs more than is
//! available waits.

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module documentation.
pub(super) struct Memory {
    max: usize,
    used: Mutex<usize>,
    freed: Condvar,
    waiting: AtomicUsize,
}

/// A reservation, until it is dropped.
pub(super) struct Share {
    of: Arc<Memory>,
    bytes: usize,
}

impl Memory {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: Mutex::new(0), freed: Condvar::new(), waiting: AtomicUsize::new(0) })
    }

    /// Reserves `bytes` bytes, at most the maximum. Waits until they are available.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Share {
        let bytes = bytes.min(self.max);
        let mut used = self.used.lock();
        if *used + bytes > self.max {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while *used + bytes > self.max {
                self.freed.wait(&mut used);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        *used += bytes;
        Share { of: self.clone(), bytes }
    }

    /// Whether a request waits for memory.
    pub fn is_short(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    pub fn used(&self) -> usize {
        *self.used.lock()
    }
}

/// Outgoing bytes with their reservation, which is kept until the client has read them.
struct Held {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Share {
    /// Ties `pieces` to the reservation.
    pub fn hold(self: &Arc<Self>, pieces: Vec<Bytes>) -> Vec<Bytes> {
        let held = |bytes| Bytes::from_owner(Held { bytes, _share: self.clone() });
        match self.bytes {
            0 => pieces,
            _ => pieces.into_iter().map(held).collect(),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        *self.of.used.lock() -= self.bytes;
        self.of.freed.notify_all();
    }
}
