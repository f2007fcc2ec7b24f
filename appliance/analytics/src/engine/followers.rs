//! Queues of operations for the followers of a statistic.

use super::error::Error;
use crate::tally::{Describe, Tally};
use observe::event::Event;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Maximum number of operations waiting for a follower.
const WAITING: usize = 10_000;

/// Maximum number of followers: each examines every operation.
const FOLLOWERS: usize = 16;

/// Queues of the followers; a follower that is dropped ends its queue.
#[derive(Default)]
pub struct Followers(Mutex<Vec<Weak<Mutex<Queue>>>>);

/// The operations that wait for one follower.
pub struct Queue {
    pub tally: Tally,
    pub slower_than: u64,
    pub waiting: VecDeque<Event>,
    pub missed: u64,
}

impl Followers {
    /// Passes new events to the followers.
    pub fn offer(&self, events: &[Event], names: &dyn Describe) {
        let mut all = self.0.lock();
        if all.is_empty() {
            return;
        }
        all.retain(|follower| {
            let Some(queue) = follower.upgrade() else { return false };
            let queue = &mut *queue.lock();
            for event in events {
                if event.latency <= queue.slower_than || !queue.tally.takes(event, names) {
                    continue;
                }
                if queue.waiting.len() < WAITING {
                    queue.waiting.push_back(*event);
                } else {
                    queue.missed += 1;
                }
            }
            queue.tally.forget_names();
            true
        });
    }

    /// Adds a follower, which holds `queue`. Fails with [`Error::Followed`] if there are too many.
    pub fn add(&self, queue: &Arc<Mutex<Queue>>) -> Result<(), Error> {
        let mut all = self.0.lock();
        all.retain(|follower| follower.strong_count() > 0);
        if all.len() >= FOLLOWERS {
            return Err(Error::Followed(FOLLOWERS));
        }
        all.push(Arc::downgrade(queue));
        Ok(())
    }
}
