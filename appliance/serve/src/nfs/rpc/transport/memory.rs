//! Memory for calls and answers, and the connections that wait for it.

use super::super::connection::{Budgets, Connection};
use super::super::framer::{Framer, SPARE_MIN};
use crate::net::budget::Client;
use crate::net::sync::Mutex;
use crate::net::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of unused buffers for long records that are kept.
const BUFFERS_MAX: usize = 16;
/// Number of a client's connections that are resumed at once. Each of them may take the memory that
/// is there; the next ones are resumed when they are done. Guessed.
const FED_MAX: usize = 16;

/// See the module documentation.
pub(super) struct Memory {
    budgets: Budgets,
    /// Connections of each client that are paused until memory is released.
    starved: Mutex<HashMap<Client, Vec<Arc<Connection>>>>,
    starved_len: AtomicUsize,
    /// Memory was released while a thread looked for connections to resume.
    has_more: AtomicBool,
    /// Buffers of long records, for reuse.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl Memory {
    pub fn new(budgets: Budgets) -> Self {
        Self {
            budgets,
            starved: Mutex::default(),
            starved_len: AtomicUsize::new(0),
            has_more: AtomicBool::new(false),
            buffers: Mutex::default(),
        }
    }

    /// Shared with the connections, which charge them.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Bytes that calls and answers use, in total.
    pub fn used(&self) -> usize {
        self.budgets.calls.used() + self.budgets.answers.used()
    }

    /// Pauses a connection until memory is available. The caller then calls
    /// [`Self::feed_starved`], because it may be available already.
    pub fn starve(&self, connection: &Arc<Connection>) {
        if connection.reading.starve() {
            let mut starved = self.starved.lock();
            starved.entry(connection.client()).or_default().push(connection.clone());
            self.starved_len.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether a connection waits for memory.
    pub fn has_starved(&self) -> bool {
        self.starved_len.load(Ordering::SeqCst) > 0
    }

    /// Calls `resume` for starved connections for which there is memory now, after ending their
    /// pause. If another thread is doing this, that one looks once more.
    pub fn feed_starved(&self, resume: impl Fn(&Arc<Connection>)) {
        if !self.has_starved() {
            return;
        }
        self.has_more.store(true, Ordering::SeqCst);
        while let Some(mut starved) = self.starved.try_lock() {
            self.has_more.store(false, Ordering::SeqCst);
            starved.retain(|_, connections| {
                let fed: Vec<_> = connections.extract_if(.., |c| c.has_memory() || c.is_cut()).take(FED_MAX).collect();
                for connection in &fed {
                    connection.reading.feed();
                    resume(connection);
                }
                self.starved_len.fetch_sub(fed.len(), Ordering::SeqCst);
                !connections.is_empty()
            });
            drop(starved);
            if !self.has_more.load(Ordering::SeqCst) {
                return;
            }
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
