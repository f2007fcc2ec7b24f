//! Single operations: of the recorder, and as they come.
//!
//! Invariant: memory is bounded, whatever passes: a list keeps the newest, and who follows too slowly is told how many he missed.

use super::{Describer, Engine, Error, Inner, SECOND};
use crate::name::Name;
use crate::operation::Operation;
use crate::tally::Tally;
use observe::event::Event;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Operations that wait for who follows them.
const WAITING: usize = 10_000;
/// Who may follow at once: each looks at every operation.
const FOLLOWERS: usize = 16;

/// Those who follow.
#[derive(Default)]
pub struct Followers(Mutex<Vec<Weak<Mutex<Queue>>>>);

struct Queue {
    tally: Tally,
    slower_than: u64,
    waiting: VecDeque<Event>,
    missed: u64,
}

impl Followers {
    /// Passes on what has come.
    pub fn offer(&self, events: &[Event], inner: &Inner) {
        let mut all = self.0.lock();
        if all.is_empty() {
            return;
        }
        let names = Describer(inner);
        all.retain(|follower| {
            let Some(queue) = follower.upgrade() else { return false };
            let queue = &mut *queue.lock();
            for event in events {
                if event.latency <= queue.slower_than || !queue.tally.takes(event, &names) {
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
}

/// Operations of a statistic as they come.
pub struct Follower {
    engine: Engine,
    queue: Arc<Mutex<Queue>>,
}

impl Follower {
    /// What has come since the last time, and how many more there was no room for.
    pub fn take(&self) -> (Vec<Operation>, u64) {
        let (events, missed) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.waiting), std::mem::take(&mut queue.missed))
        };
        let names = Describer(&self.engine.0);
        (events.iter().map(|e| Operation::of(e, &names)).collect(), missed)
    }
}

/// Lets operations of a statistic through, whatever it is broken down by.
fn raw(name: &Name) -> Result<Tally, Error> {
    Tally::new(&Name { breakdown: None, ..name.clone() })?.ok_or(Error::NotRecorded)
}

impl Engine {
    /// Shows the operations of the recorder that a statistic counts and that ended in a time (seconds since 1970).
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

    /// The newest `limit` of them that took longer than `slower_than` nanoseconds, by when they ended.
    pub fn newest(
        &self,
        name: &Name,
        (from, to): (u64, u64),
        slower_than: u64,
        limit: usize,
    ) -> Result<Vec<Operation>, Error> {
        let mut newest: VecDeque<Event> = VecDeque::new();
        self.operations(name, from, to, |event| {
            // What takes no time at all is slower than nothing was asked for.
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

    /// Follows the operations that a statistic counts and that take longer than `slower_than` nanoseconds, from now on.
    pub fn follow(&self, name: &Name, slower_than: u64) -> Result<Follower, Error> {
        let queue = Queue { tally: raw(name)?, slower_than, waiting: VecDeque::new(), missed: 0 };
        let queue = Arc::new(Mutex::new(queue));
        let mut all = self.0.followers.0.lock();
        all.retain(|follower| follower.strong_count() > 0);
        if all.len() >= FOLLOWERS {
            return Err(Error::Followed(FOLLOWERS));
        }
        all.push(Arc::downgrade(&queue));
        Ok(Follower { engine: self.clone(), queue })
    }
}
