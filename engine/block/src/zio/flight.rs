//! Blocks of a txg on their way to slow devices.
//!
//! ```text
//!   Store::write ── begin ──> devices ── end ──┐
//!   Store::flush ── wait for all <─────────────┘── those that failed: the pool is suspended, then again
//! ```
//! Invariants:
//!   * [`Flight::wait`] returns after every write that began before it has ended
//!   * bytes in flight are bounded: see [`BYTES_MAX`]

use crate::vdev::Failure;
use bytes::Bytes;
use ondisk::Dva;
use parking_lot::{Condvar, Mutex};

/// Bytes in flight above which a writer waits; with their parity and joined into runs they take up
/// to three times this in memory. With devices that take 5 ms, 16 MiB give 3 GB/s.
const BYTES_MAX: u64 = 16 << 20;

/// A write that failed: not enough devices took the block.
pub(crate) struct Failed {
    pub dva: Dva,
    pub stored: Bytes,
    pub txg: u64,
    pub failure: Failure,
}

#[derive(Default)]
struct State {
    bytes: u64,
    count: u64,
    failed: Vec<Failed>,
}

/// The writes of a store that were begun, until a flush waits for them.
#[derive(Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
}

impl Flight {
    /// Counts a write of `bytes`. Waits while there are too many.
    pub fn begin(&self, bytes: u64) {
        let mut state = self.state.lock();
        while state.bytes > BYTES_MAX {
            self.ended.wait(&mut state);
        }
        state.bytes += bytes;
        state.count += 1;
    }

    /// The write has ended.
    pub fn end(&self, bytes: u64, failed: Option<Failed>) {
        let mut state = self.state.lock();
        state.bytes -= bytes;
        state.count -= 1;
        state.failed.extend(failed);
        drop(state);
        self.ended.notify_all();
    }

    /// Waits for all writes. Returns those that failed.
    pub fn wait(&self) -> Vec<Failed> {
        let mut state = self.state.lock();
        while state.count > 0 {
            self.ended.wait(&mut state);
        }
        std::mem::take(&mut state.failed)
    }
}
