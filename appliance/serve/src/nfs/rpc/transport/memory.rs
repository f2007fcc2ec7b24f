//! Memory for calls and answers, and the connections that wait for it.

use super::super::connection::{Budget, Connection};
use super::super::framer::{Framer, SPARE_MIN};
use parking_lot::Mutex;
use std::sync::Arc;

/// Maximum number of unused buffers for long records that are kept.
const BUFFERS_MAX: usize = 16;

/// See the module documentation.
pub(super) struct Memory {
    budget: Arc<Budget>,
    /// Connections whose reading is paused until memory is released.
    starved: Mutex<Vec<Arc<Connection>>>,
    /// Buffers of long records, for reuse.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Memory {
    pub fn new(budget: Budget) -> Self {
        Self { budget: Arc::new(budget), starved: Mutex::default(), buffers: Mutex::default() }
    }

    /// Shared with the connections, which charge it.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Pauses reading from a connection until memory is available.
    pub fn starve(&self, connection: &Arc<Connection>) {
        if connection.reading.hold() {
            self.starved.lock().push(connection.clone());
        }
    }

    /// Calls `resume` for each starved connection if memory is available, after ending its pause.
    /// Does nothing if another thread is doing this.
    pub fn feed_starved(&self, resume: impl Fn(&Arc<Connection>)) {
        if self.budget.is_spent() {
            return;
        }
        let Some(mut starved) = self.starved.try_lock() else { return };
        for connection in starved.drain(..) {
            connection.reading.release();
            resume(&connection);
        }
    }

    /// Lends the framer a buffer if it expects a long record.
    pub fn lend(&self, framer: &mut Framer) {
        if framer.wants_spare()
            && let Some(buffer) = self.buffers.lock().pop()
        {
            framer.lend(buffer);
        }
    }

    /// Takes a buffer of a long record for reuse.
    pub fn take_back(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers.lock();
        if buffers.len() < BUFFERS_MAX && buffer.len() >= SPARE_MIN {
            buffers.push(buffer);
        }
    }
}
