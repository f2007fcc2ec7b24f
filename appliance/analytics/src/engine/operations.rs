//! Single operations: from the recorder, and live.
//!
//! Invariant: memory is bounded: a list keeps the newest operations, and a slow follower is
//! notified of the number it missed.

use super::Engine;
use super::error::Error;
use super::followers::Queue;
use super::state::{Describer, SECOND};
use crate::name::Name;
use crate::operation::Operation;
use crate::tally::Tally;
use observe::event::Event;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// A live stream of a statistic's operations.
pub struct Follower {
    engine: Engine,
    queue: Arc<Mutex<Queue>>,
}

impl Follower {
    /// The operations since the last call, and the number of those that did not fit.
    pub fn take(&self) -> (Vec<Operation>, u64) {
        let (events, missed) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.waiting), std::mem::take(&mut queue.missed))
        };
        let names = Describer(&self.engine.0);
        (events.iter().map(|e| Operation::of(e, &names)).collect(), missed)
    }
}

/// A tally that matches the operations of a statistic, whatever its breakdown.
fn raw(name: &Name) -> Result<Tally, Error> {
    Tally::new(&Name { breakdown: None, ..name.clone() })?.ok_or(Error::NotRecorded)
}

impl Engine {
    /// Calls `each` for the recorded operations of a statistic that ended in `from..to` (seconds
    /// since 1970).
    pub fn operations(&self, name: &Name, from: u64, to: u64, mut each: impl FnMut(&Event)) -> Result<(), Error> {
        let mut tally = raw(name)?;
        let names = Describer(&self.0);
        let ring = self.0.ring.as_ref().ok_or(Error::NotRecorded)?;
        ring.read(from.saturating_mul(SECOND), to.saturating_mul(SECOND), |event| {
            if tally.takes(event, &names) {
                each(event);
            }
        })?;
        Ok(())
    }

    /// The newest `limit` of them that took longer than `slower_than` nanoseconds, sorted by
    /// completion.
    pub fn newest(
        &self,
        name: &Name,
        (from, to): (u64, u64),
        slower_than: u64,
        limit: usize,
    ) -> Result<Vec<Operation>, Error> {
        let mut newest: VecDeque<Event> = VecDeque::new();
        self.operations(name, from, to, |event| {
            // A limit of 0 includes operations with a latency of 0.
            if event.latency > slower_than || slower_than == 0 {
                if newest.len() >= limit {
                    newest.pop_front();
                }
                newest.push_back(*event);
            }
        })?;
        newest.make_contiguous().sort_by_key(|e| e.done);
        let names = Describer(&self.0);
        Ok(newest.iter().map(|e| Operation::of(e, &names)).collect())
    }

    /// Follows the operations of a statistic that take longer than `slower_than` nanoseconds,
    /// starting now.
    pub fn follow(&self, name: &Name, slower_than: u64) -> Result<Follower, Error> {
        let queue = Queue { tally: raw(name)?, slower_than, waiting: VecDeque::new(), missed: 0 };
        let queue = Arc::new(Mutex::new(queue));
        self.0.followers.add(&queue)?;
        Ok(Follower { engine: self.clone(), queue })
    }
}
