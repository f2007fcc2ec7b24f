//! Blocks of a txg on their way to slow devices.
//!
//! ```text
//!   WriteStore::write ── begin ──> devices ── end ──┐
//!   WriteStore::flush ── wait for all <─────────────┘── those that failed: the pool is suspended, then again
//! ```
//! Invariants:
//!   * [`Flight::wait`] returns after every write that began before it has ended
//!   * a failed write is not repeated if a later one went to the same place: a block may be
//!     rewritten in place within its txg
//!   * bytes in flight are at most twice [`BYTES_MAX`], and one block more
//!   * a write that was begun ends once, also if the thread that performs it panics: then it failed

use crate::vdev::{Failure, Plug};
use bytes::Bytes;
#[cfg(not(test))]
use host::sync::{Condvar, Mutex, MutexGuard, unlocked};
use ondisk::Dva;
#[cfg(test)]
use rig::schedule::{Condvar, Mutex, MutexGuard, unlocked};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes in flight above which no writer is admitted; with their parity and joined into runs they
/// take up to three times this in memory. With devices that take 5 ms, 16 MiB give 3 GB/s.
const BYTES_MAX: u64 = 16 << 20;

/// A write that failed: not enough devices took the block.
pub(crate) struct Failed {
    /// From [`Flight::begin`].
    pub number: u64,
    pub dva: Dva,
    pub stored: Bytes,
    pub txg: u64,
    /// [`WriteStore::resumptions`](crate::WriteStore::resumptions) when it began.
    pub begun: u64,
    pub failure: Failure,
}

#[derive(Default)]
struct State {
    bytes: u64,
    count: u64,
    last_number: u64,
    /// The last write to each place since the last flush: its end and its number, by vdev and
    /// offset. No two of them overlap.
    latest: BTreeMap<(u32, u64), (u64, u64)>,
    failed: Vec<Failed>,
}

impl State {
    /// Forgets the earlier writes to this place.
    fn supersede(&mut self, dva: &Dva) -> u64 {
        let end = dva.offset_bytes.saturating_add(dva.asize_bytes);
        let before = (dva.vdev, 0)..(dva.vdev, end);
        while let Some((place, _)) =
            self.latest.range(before.clone()).next_back().filter(|(_, w)| w.0 > dva.offset_bytes)
        {
            let place = *place;
            self.latest.remove(&place);
        }
        end
    }
}

/// The writes of a store that were begun, until a flush waits for them.
#[derive(Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
    plug: Plug,
}

impl Flight {
    /// Where leaves that hold writes are noted.
    pub fn plug(&self) -> &Plug {
        &self.plug
    }

    /// Waits while there are too many bytes in flight. To be called before a block gets its place:
    /// a thread that waits with a place leaves a gap between its neighbours, which then cannot be
    /// joined.
    pub fn admit(&self) {
        self.wait_for_room(&mut self.state.lock(), BYTES_MAX);
    }

    fn wait_for_room(&self, state: &mut MutexGuard<'_, State>, max: u64) {
        if state.bytes <= max {
            return;
        }
        let waiting = unlocked(state, || self.plug.wait());
        while state.bytes > max {
            self.ended.wait(state);
        }
        drop(waiting);
    }

    /// Counts a write of `bytes` to `dva`, and returns its number. Waits while there are far too
    /// many: threads that were admitted together may exceed [`BYTES_MAX`].
    pub fn begin(&self, dva: &Dva, bytes: u64) -> u64 {
        let mut state = self.state.lock();
        self.wait_for_room(&mut state, 2 * BYTES_MAX);
        state.bytes += bytes;
        state.count += 1;
        state.last_number += 1;
        let number = state.last_number;
        let end = state.supersede(dva);
        state.latest.insert((dva.vdev, dva.offset_bytes), (end, number));
        number
    }

    /// Must be called before a write to `dva` that the flush does not wait for.
    pub fn supersede(&self, dva: &Dva) {
        self.state.lock().supersede(dva);
    }

    /// The write has ended.
    fn end(&self, bytes: u64, failed: Option<Failed>) {
        let mut state = self.state.lock();
        assert!(state.count > 0 && state.bytes >= bytes, "a write of {bytes} bytes ends that was not begun");
        state.bytes -= bytes;
        state.count -= 1;
        state.failed.extend(failed);
        drop(state);
        self.ended.notify_all();
    }

    /// Waits for all writes. Returns those that failed and were not superseded.
    pub fn wait(&self) -> Vec<Failed> {
        let _waiting = self.plug.wait();
        let mut state = self.state.lock();
        while state.count > 0 {
            self.ended.wait(&mut state);
        }
        let latest = std::mem::take(&mut state.latest);
        let mut failed = std::mem::take(&mut state.failed);
        failed.retain(|f| latest.get(&(f.dva.vdev, f.dva.offset_bytes)).is_some_and(|w| w.1 == f.number));
        failed
    }
}

/// A write from [`Flight::begin`]. If it is dropped before its end, it has failed.
pub(crate) struct Begun {
    flight: Arc<Flight>,
    bytes: u64,
    failed: Option<Failed>,
}

impl Begun {
    /// Begins the write `write`, which counts as failed until it ends.
    pub fn new(flight: &Arc<Flight>, write: impl FnOnce(u64) -> Failed, dva: &Dva, bytes: u64) -> Self {
        let number = flight.begin(dva, bytes);
        Self { flight: flight.clone(), bytes, failed: Some(write(number)) }
    }

    /// The write has ended.
    pub fn end(mut self, result: Result<(), Failure>) {
        match (result, &mut self.failed) {
            (Err(failure), Some(failed)) => failed.failure = failure,
            _ => self.failed = None,
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.flight.end(self.bytes, self.failed.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn dva(vdev: u32, offset_bytes: u64, asize_bytes: u64) -> Dva {
        Dva { vdev, offset_bytes, asize_bytes, ..Dva::default() }
    }

    #[test]
    fn a_failed_write_is_returned_unless_a_later_one_overlaps_it() {
        let flight = Flight::default();
        let begin = |dva: Dva| (dva, flight.begin(&dva, 512));
        let end = |(dva, number): (Dva, u64), fails: bool| {
            let failure = Failure::default();
            let failed = Failed { number, dva, stored: Bytes::new(), txg: 7, begun: 0, failure };
            flight.end(512, fails.then_some(failed));
        };
        // Rewritten in place before it fails, and after it failed.
        let early = begin(dva(0, 4096, 4096));
        let late = begin(dva(0, 8192, 4096));
        end(late, true);
        let over = [begin(dva(0, 4096, 4096)), begin(dva(0, 8192, 4096))];
        end(early, true);
        over.into_iter().for_each(|write| end(write, false));
        // Replaced by smaller and larger ones, and by a write that is not in flight.
        let parts = [begin(dva(1, 0, 8192)), begin(dva(1, 16384, 4096)), begin(dva(1, 20480, 4096))];
        let over = [begin(dva(1, 4096, 4096)), begin(dva(1, 16384, 8192))];
        let other = begin(dva(1, 32768, 4096));
        flight.supersede(&dva(1, 32768, 512));
        parts.into_iter().chain([other]).for_each(|write| end(write, true));
        over.into_iter().for_each(|write| end(write, false));
        // Neighbours, and the same offset on another vdev.
        let kept = [begin(dva(0, 0, 4096)), begin(dva(0, 12288, 4096)), begin(dva(2, 4096, 4096))];
        kept.iter().for_each(|write| end(*write, true));
        let failed: Vec<u64> = flight.wait().iter().map(|write| write.number).collect();
        assert_eq!(failed, kept.map(|(_, number)| number));
        assert!(flight.wait().is_empty());
    }

    #[test]
    fn a_write_whose_thread_panics_has_failed_and_no_thread_waits_for_it() {
        let flight = Arc::new(Flight::default());
        let write = |number| Failed {
            number,
            dva: dva(0, 4096, 4096),
            stored: Bytes::new(),
            txg: 7,
            begun: 0,
            failure: Failure::other("its thread panicked"),
        };
        let begun = Begun::new(&flight, write, &dva(0, 4096, 4096), 512);
        let panicking = std::thread::spawn(move || {
            let _begun = begun;
            panic!("before its end");
        });
        assert!(panicking.join().is_err());
        assert_eq!(flight.wait().len(), 1);
        Begun::new(&flight, write, &dva(0, 4096, 4096), 512).end(Ok(()));
        assert!(flight.wait().is_empty());
    }

    /// Three threads write, two devices end what was begun, and flushes wait: also while the bytes
    /// in flight are at their limit.
    #[test]
    fn a_flush_returns_after_all_writes_before_it_under_every_schedule() {
        use rig::schedule::{explore, spawn, yield_now};
        const BYTES: u64 = BYTES_MAX / 2 + 1;
        const WRITES: u64 = 6;
        explore(300, || {
            let flight = Arc::new(Flight::default());
            let device: Arc<Mutex<Vec<Begun>>> = Arc::default();
            let (begun, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let devices = (0..2).map(|_| {
                let (device, ended) = (device.clone(), ended.clone());
                spawn(move || {
                    while ended.load(Ordering::SeqCst) < WRITES {
                        let next = device.lock().pop();
                        match next {
                            Some(write) => {
                                ended.fetch_add(1, Ordering::SeqCst);
                                write.end(Ok(()));
                            }
                            None => yield_now(),
                        }
                    }
                })
            });
            let writers = (0..3u64).map(|n| {
                let (flight, device, begun) = (flight.clone(), device.clone(), begun.clone());
                spawn(move || {
                    for offset in [0, 4096] {
                        let place = dva(n as u32, offset, 4096);
                        let failure = || Failure::other("not ended");
                        let (stored, txg) = (Bytes::new(), 7);
                        let failed = |number| Failed { number, dva: place, stored, txg, begun: 0, failure: failure() };
                        let write = Begun::new(&flight, failed, &place, BYTES);
                        begun.fetch_add(1, Ordering::SeqCst);
                        device.lock().push(write);
                    }
                })
            });
            let threads: Vec<_> = devices.chain(writers).collect();
            for _ in 0..2 {
                let before = begun.load(Ordering::SeqCst);
                assert!(flight.wait().is_empty());
                assert!(ended.load(Ordering::SeqCst) >= before);
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(flight.wait().is_empty());
            assert_eq!(flight.state.lock().bytes, 0);
        });
    }

    #[test]
    #[should_panic(expected = "a write of 512 bytes ends that was not begun")]
    fn a_write_that_ends_without_a_beginning_panics() {
        Flight::default().end(512, None);
    }
}
