//! Whose turn it is to write. Batches are prepared one at a time, since the blocks of the chain
//! and the numbers of the records follow each other; several prepared ones are written at the same
//! time.
//!
//! Invariants:
//!   * a batch is answered after all batches before it: replay ends at the first missing block
//!   * if a batch is not in the log, those that were prepared behind it count as missing too
//!   * from then on, no batch is prepared before [`Turns::wait_txg`] is known
//!   * whenever a batch may be prepared and a request waits for one, a thread that waits for the
//!     next batch is woken, or is awake
//!
//! ZFS names: zl_issuer_lock, lwb states.

use host::clock::Stopwatch;
#[cfg(not(test))]
use host::sync::{Condvar, Mutex};
#[cfg(test)]
use rig::schedule::{Condvar, Mutex};
use std::collections::VecDeque;

/// Number of batches whose mean duration decides whether several at once pay.
const SAMPLES: u64 = 16;
/// After that decision went against it, several at once are tried again after so many batches.
/// Guessed.
const RETRY_BATCHES: u64 = 512;

/// Whether the devices write several batches at once. Some accept one write at a time: then fewer
/// and fuller blocks are faster.
#[derive(Debug, Default)]
struct Depth {
    /// Recent mean duration of batches that began alone, in nanoseconds; 0: unknown.
    alone_ns: u64,
    /// Sum and number of the durations of batches that began beside others.
    beside_ns: u64,
    beside: u64,
    /// Batches to write one at a time before trying again; 0: several at once.
    singles: u64,
}

impl Depth {
    fn note(&mut self, is_alone: bool, ns: u64) {
        if is_alone {
            self.alone_ns = if self.alone_ns == 0 { ns } else { (7 * self.alone_ns + ns) / 8 };
            self.singles = self.singles.saturating_sub(1);
            return;
        }
        self.beside_ns += ns;
        self.beside += 1;
        if self.beside == SAMPLES {
            // 1.5 times as long: of two batches, the second one waited for half of the first.
            if self.alone_ns > 0 && self.beside_ns * 2 > 3 * SAMPLES * self.alone_ns {
                self.singles = RETRY_BATCHES;
            }
            (self.beside_ns, self.beside) = (0, 0);
        }
    }
}

/// Groups of waiting threads: more than batches that can be in flight, and the next one.
const GROUPS: usize = 8;

/// A batch that is being prepared or written.
#[derive(Debug)]
struct Flight {
    /// Number of the batch.
    number: usize,
    /// It answers requests up to this number.
    serves: u64,
    /// Newest txg of its records.
    max_txg: u64,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct State {
    is_preparing: bool,
    /// Batches that were prepared so far.
    batches: usize,
    /// Requests up to this number are in a batch.
    taken: u64,
    /// Requests up to this number are answered.
    answered: u64,
    /// Oldest first.
    flights: VecDeque<Flight>,
    wait_txg: u64,
    /// Batches that may be in flight, as the last request said.
    flights_max: usize,
    depth: Depth,
}

impl State {
    /// Whether the next batch may be prepared.
    fn may_prepare(&self) -> bool {
        let flights_max = if self.depth.singles > 0 { 1 } else { self.flights_max };
        !self.is_preparing && self.flights.len() < flights_max
    }

    /// Number of the batch that answers `ticket`.
    fn batch(&self, ticket: u64) -> usize {
        let flight = self.flights.iter().find(|flight| flight.serves >= ticket);
        flight.map_or(self.batches + 1, |flight| flight.number)
    }
}

/// The order of the batches of a log.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    /// Threads that wait for batch n are in group n modulo [`GROUPS`], so that the end of a batch
    /// wakes those that it answers.
    groups: [Condvar; GROUPS],
    /// Threads in [`Turns::pause`].
    idle: Condvar,
}

impl Turns {
    /// Waits until request `ticket` is answered, which is `None`, or until the caller has to
    /// prepare the next batch. `flights_max`: so many batches may be in flight with that one,
    /// unless the devices turn out to write them one after the other.
    pub fn lead(&self, ticket: u64, flights_max: usize) -> Option<Lead<'_>> {
        let mut state = self.state.lock();
        state.flights_max = flights_max;
        while state.answered < ticket {
            if state.taken < ticket && state.may_prepare() {
                state.is_preparing = true;
                return Some(Lead { turns: self, serves: None, is_preparing: true, written: None });
            }
            let batch = state.batch(ticket);
            self.groups[batch % GROUPS].wait(&mut state);
        }
        None
    }

    /// Waits until no batch is prepared or written, and prevents it for as long as the result
    /// exists.
    pub fn pause(&self) -> Lead<'_> {
        let mut state = self.state.lock();
        while state.is_preparing || !state.flights.is_empty() {
            self.idle.wait(&mut state);
        }
        state.is_preparing = true;
        Lead { turns: self, serves: None, is_preparing: true, written: None }
    }

    /// Records up to this txg should have been logged but were not: only a synced txg makes them
    /// durable.
    pub fn wait_txg(&self) -> u64 {
        self.state.lock().wait_txg
    }

    /// Changes the state; then wakes a thread that may lead, and those that are answered.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        let first = state.flights.front().map_or(state.batches + 1, |flight| flight.number);
        change(&mut state);
        let left = state.flights.front().map_or(state.batches + 1, |flight| flight.number);
        let next = state.may_prepare().then_some(state.batches + 1);
        drop(state);
        for answered in first..left {
            self.groups[answered % GROUPS].notify_all();
        }
        if let Some(next) = next {
            self.groups[next % GROUPS].notify_one();
            self.idle.notify_all();
        }
    }
}

/// The right to prepare a batch, and then the batch until it is written. Dropped before its end,
/// because of a panic, it is not in the log.
pub(super) struct Lead<'t> {
    turns: &'t Turns,
    /// What [`Lead::take`] was called with.
    serves: Option<u64>,
    is_preparing: bool,
    /// When writing began, and whether no other batch was being written.
    written: Option<(Stopwatch, bool)>,
}

impl Lead<'_> {
    /// The batch answers requests up to `serves`; its newest record is of `max_txg`.
    pub fn take(&mut self, serves: u64, max_txg: u64) {
        let mut state = self.turns.state.lock();
        assert!(self.is_preparing && self.serves.is_none(), "a batch is taken twice");
        assert!(state.taken < serves, "requests up to {serves} are taken after {}", state.taken);
        state.taken = serves;
        state.batches += 1;
        let number = state.batches;
        assert!(state.flights.len() < GROUPS - 1, "{} batches are in flight", state.flights.len());
        state.flights.push_back(Flight { number, serves, max_txg, has_ended: false });
        self.serves = Some(serves);
    }

    /// Blocks and numbers of this batch are settled: the next one may be prepared.
    pub fn prepared(&mut self) {
        self.is_preparing = false;
        self.turns.change(|state| {
            state.is_preparing = false;
            let is_alone = state.flights.iter().filter(|flight| !flight.has_ended).count() == 1;
            self.written = Some((Stopwatch::start(), is_alone));
        });
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
            if let Some((clock, is_alone)) = self.written.take().filter(|_| is_logged) {
                state.depth.note(is_alone, clock.ns());
            }
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

    #[test]
    fn devices_that_write_one_batch_at_a_time_get_one_at_a_time() {
        const ALONE: u64 = 5_000_000;
        let mut depth = Depth::default();
        depth.note(true, ALONE);
        (0..SAMPLES).for_each(|_| depth.note(false, ALONE * 5 / 4));
        assert_eq!(depth.singles, 0);
        (0..SAMPLES).for_each(|_| depth.note(false, ALONE * 2));
        assert_eq!(depth.singles, RETRY_BATCHES);
        (1..RETRY_BATCHES).for_each(|_| depth.note(true, ALONE));
        assert_eq!(depth.singles, 1);
        depth.note(true, ALONE);
        assert_eq!((depth.singles, depth.alone_ns), (0, ALONE));
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
