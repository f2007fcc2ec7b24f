//! Whose turn it is to write. Batches are prepared one at a time, since the blocks of the chain and
//! the numbers of the records follow each other; several prepared ones are written at the same time.
//!
//! Invariants:
//!   * a batch is answered after all batches before it: replay ends at the first missing block
//!   * if a batch is not in the log, those that were prepared behind it count as missing too
//!   * from then on, no batch is prepared before [`Turns::wait_txg`] is known
//!
//! ZFS names: zl_issuer_lock, lwb states.

use host::sync::{Condvar, Mutex};
use std::collections::VecDeque;

/// A batch that is being prepared or written.
#[derive(Debug)]
struct Flight {
    /// It answers requests up to this number.
    serves: u64,
    /// Newest txg of its records.
    max_txg: u64,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct State {
    is_preparing: bool,
    /// Requests up to this number are in a batch.
    taken: u64,
    /// Requests up to this number are answered.
    answered: u64,
    /// Oldest first.
    flights: VecDeque<Flight>,
    wait_txg: u64,
}

/// The order of the batches of a log.
#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

impl Turns {
    /// Waits until request `ticket` is answered, which is `None`, or until the caller has to prepare
    /// the next batch. `flights_max`: so many batches may be in flight with that one.
    pub fn lead(&self, ticket: u64, flights_max: usize) -> Option<Lead<'_>> {
        let mut state = self.state.lock();
        while state.answered < ticket {
            if state.taken < ticket && !state.is_preparing && state.flights.len() < flights_max {
                state.is_preparing = true;
                return Some(Lead { turns: self, serves: None, is_preparing: true });
            }
            self.changed.wait(&mut state);
        }
        None
    }

    /// Waits until no batch is prepared or written, and prevents it for as long as the result
    /// exists.
    pub fn pause(&self) -> Lead<'_> {
        let mut state = self.state.lock();
        while state.is_preparing || !state.flights.is_empty() {
            self.changed.wait(&mut state);
        }
        state.is_preparing = true;
        Lead { turns: self, serves: None, is_preparing: true }
    }

    /// Records up to this txg should have been logged but were not: only a synced txg makes them
    /// durable.
    pub fn wait_txg(&self) -> u64 {
        self.state.lock().wait_txg
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }
}

/// The right to prepare a batch, and then the batch until it is written. Dropped before its end,
/// because of a panic, it is not in the log.
pub(super) struct Lead<'t> {
    turns: &'t Turns,
    /// What [`Lead::take`] was called with.
    serves: Option<u64>,
    is_preparing: bool,
}

impl Lead<'_> {
    /// The batch answers requests up to `serves`; its newest record is of `max_txg`.
    pub fn take(&mut self, serves: u64, max_txg: u64) {
        let mut state = self.turns.state.lock();
        assert!(self.is_preparing && self.serves.is_none(), "a batch is taken twice");
        assert!(state.taken < serves, "requests up to {serves} are taken after {}", state.taken);
        state.taken = serves;
        state.flights.push_back(Flight { serves, max_txg, has_ended: false });
        self.serves = Some(serves);
    }

    /// Blocks and numbers of this batch are settled: the next one may be prepared.
    pub fn prepared(&mut self) {
        self.is_preparing = false;
        self.turns.change(|state| state.is_preparing = false);
    }

    /// The batch is in the log, or there was nothing to log.
    pub fn logged(mut self) {
        self.end(true);
    }

    fn end(&mut self, is_logged: bool) {
        let was_preparing = std::mem::take(&mut self.is_preparing);
        let serves = self.serves.take();
        self.turns.change(|state| {
            state.is_preparing &= !was_preparing;
            let Some(serves) = serves else { return };
            let from = state.flights.partition_point(|flight| flight.serves < serves);
            state.flights[from].has_ended = true;
            if !is_logged {
                let lost = state.flights.range(from..).map(|flight| flight.max_txg).max();
                state.wait_txg = state.wait_txg.max(lost.unwrap_or(0));
            }
            while state.flights.front().is_some_and(|flight| flight.has_ended) {
                state.answered = state.flights.pop_front().map_or(state.answered, |flight| flight.serves);
            }
        });
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if self.is_preparing || self.serves.is_some() {
            self.end(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests up to which number are answered, and the txg to wait for.
    fn seen(turns: &Turns) -> (u64, u64) {
        let state = turns.state.lock();
        (state.answered, state.wait_txg)
    }

    #[test]
    fn batches_are_answered_in_order() {
        let turns = Turns::default();
        let mut batches: Vec<_> = (1..=3u64)
            .map(|n| {
                let mut batch = turns.lead(n, 3).unwrap();
                batch.take(n, 10 + n);
                batch.prepared();
                batch
            })
            .collect();
        batches.pop().unwrap().logged();
        assert_eq!(turns.state.lock().answered, 0);
        batches.remove(0).logged();
        assert_eq!(turns.state.lock().answered, 1);
        assert!(turns.lead(1, 3).is_none());
        batches.pop().unwrap().logged();
        assert_eq!(seen(&turns), (3, 0));
    }

    #[test]
    fn batches_behind_one_that_failed_wait_for_their_txgs() {
        let turns = Turns::default();
        let [first, second, third, fourth] = [1, 2, 3, 4u64].map(|n| {
            let mut batch = turns.lead(n, 9).unwrap();
            batch.take(n, 10 * n);
            batch.prepared();
            batch
        });
        third.logged();
        drop(second);
        assert_eq!(seen(&turns), (0, 40));
        first.logged();
        assert_eq!(turns.state.lock().answered, 3);
        fourth.logged();
        assert_eq!(seen(&turns), (4, 40));
    }

    #[test]
    fn one_that_panics_while_it_prepares_lets_the_next_one_lead() {
        let turns = Turns::default();
        drop(turns.lead(1, 1));
        assert_eq!(seen(&turns), (0, 0));
        let mut batch = turns.lead(1, 1).unwrap();
        batch.take(1, 7);
        drop(batch);
        assert_eq!(seen(&turns), (1, 7));
        drop(turns.pause());
        assert!(turns.lead(2, 1).is_some());
    }

    /// Four threads commit; one batch of each fails. None is answered before what it requested is
    /// logged, together with everything before it, or its txg is awaited.
    #[test]
    fn no_request_is_answered_too_early_under_every_schedule() {
        use rig::schedule::{explore, spawn};
        use std::sync::Arc;
        explore(300, || {
            let (turns, requests) = (Arc::new(Turns::default()), Arc::new(Mutex::new(0u64)));
            // Numbers up to which requests are in the log without a gap, or lost.
            let written: Arc<Mutex<Vec<(u64, bool)>>> = Arc::default();
            let threads: Vec<_> = (0..4u64)
                .map(|thread| {
                    let (turns, requests, written) = (turns.clone(), requests.clone(), written.clone());
                    spawn(move || {
                        for round in 0..3 {
                            let ticket = {
                                let mut requests = requests.lock();
                                *requests += 1;
                                *requests
                            };
                            if let Some(mut lead) = turns.lead(ticket, 2) {
                                let serves = *requests.lock();
                                lead.take(serves, serves);
                                lead.prepared();
                                let fails = round == 1 && thread % 2 == 0;
                                written.lock().push((serves, fails));
                                match fails {
                                    true => drop(lead),
                                    false => lead.logged(),
                                }
                                // It may be behind another one.
                                assert!(turns.lead(ticket, 2).is_none());
                            }
                            let written = written.lock();
                            let batch = written.iter().filter(|(serves, _)| *serves >= ticket).min().copied();
                            let (serves, fails) = batch.expect("it was in a batch");
                            assert!(!fails || turns.wait_txg() >= serves);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(turns.state.lock().flights.len(), 0);
        });
    }
}
