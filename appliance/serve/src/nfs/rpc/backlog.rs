//! Calls of a connection that were read but not answered: those that other threads are to answer,
//! and those that are parked because the client does not take its answers, or because memory is
//! short.
//!
//! A parked call stays as it came, and is looked at when its turn comes.

use super::framer::Record;
use crate::net::budget::Account;
use crate::net::sync::Mutex;
use crate::net::sync::atomic::{AtomicUsize, Ordering};
use host::clock::Stopwatch;
use std::collections::VecDeque;
use std::sync::Arc;

/// A call, with a stopwatch started when it arrived.
pub(super) type Parked = (Record<'static>, Stopwatch);

/// See the module documentation.
pub(super) struct Unanswered {
    /// Bytes of all of them.
    bytes: AtomicUsize,
    account: Arc<Account>,
    parked: Mutex<VecDeque<Parked>>,
    /// Number of parked calls.
    parked_len: AtomicUsize,
}

impl Unanswered {
    /// Calls that are charged to `account`.
    pub fn new(account: Arc<Account>) -> Self {
        Self { bytes: AtomicUsize::new(0), account, parked: Mutex::default(), parked_len: AtomicUsize::new(0) }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Adds a call that another thread will answer.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.account.charge(bytes);
    }

    /// The answer of an added call is in the output.
    pub fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.account.release(bytes);
    }

    /// Parks a call that was added.
    pub fn park(&self, call: Parked) {
        let mut parked = self.parked.lock();
        parked.push_back(call);
        self.parked_len.store(parked.len(), Ordering::SeqCst);
    }

    pub fn has_parked(&self) -> bool {
        self.parked_len.load(Ordering::SeqCst) > 0
    }

    /// Takes at most `max` parked calls, the oldest first, and removes them.
    pub fn take(&self, max: usize) -> Vec<Parked> {
        if !self.has_parked() {
            return Vec::new();
        }
        let mut parked = self.parked.lock();
        let count = parked.len().min(max);
        let taken: Vec<_> = parked.drain(..count).collect();
        self.parked_len.store(parked.len(), Ordering::SeqCst);
        drop(parked);
        self.remove(taken.iter().map(|(record, _)| record.bytes().len()).sum());
        taken
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.account.release(*self.bytes.get_mut());
    }
}
