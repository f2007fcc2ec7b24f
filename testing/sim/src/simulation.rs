//! A machine whose clock, threads and randomness follow from a seed, so that a run can be repeated
//! exactly, whatever its threads do.
//!
//! ```text
//!   thread waits, sleeps, uses a device, ends ──> Core::next: one of those that can run, at random ──> its turn
//!                                                   └ none can run: the clock jumps to the first sleeper
//! ```
//! Its threads are threads of the system, of which all but one wait for their turn. Time passes
//! only when a thread reads the clock or when all of them wait.
//!
//! Threads may hash with keys that the system chose at random (`HashMap`), and the addresses of
//! memory differ from run to run. What depends on either is not reproducible, and the test that
//! compares two runs finds it.
//!
//! Invariants:
//!   * one thread runs at a time, from its turn until it calls a function of [`Threads`]
//!   * a thread that waits for a lock is tried again only after another one ran

use host::machine::{Clock, Machine, Random, Threads};
use parking_lot::{Condvar, Mutex};
use rig::Chance;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Duration between two readings of the clock.
const TICK: Duration = Duration::from_micros(1);
/// Time since 1970 at which each machine starts.
const START: Duration = Duration::from_secs(1_700_000_000);
/// Processors of each machine.
const PROCESSORS: usize = 4;
/// Number of the thread that runs the simulation.
const ROOT: u64 = 0;

/// Runs `work` on a machine that follows from `seed`, and waits for all threads that it started.
/// Panics if one of them never ends.
pub fn run<T>(seed: u64, work: impl FnOnce() -> T) -> T {
    let core = Arc::new(Core::new(seed));
    let random = Arc::new(SeededRandom(Mutex::new(Chance::of_case(seed, 1))));
    let machine = Machine { clock: core.clone(), threads: core.clone(), random };
    let result = {
        let _entered = machine.enter();
        work()
    };
    core.drain();
    result
}

struct SeededRandom(Mutex<Chance>);

impl Random for SeededRandom {
    fn fill(&self, out: &mut [u8]) {
        let bytes = self.0.lock().bytes(out.len());
        out.copy_from_slice(&bytes);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Runs, or can run.
    Ready,
    /// Sleeps until the simulated clock shows this time.
    Sleeping(Duration),
    /// Waits for this key to be woken, or for this time.
    Waiting(usize, Option<Duration>),
    /// Waits for a lock. It was held when threads had run that often.
    Contending(u64),
    /// Waits for the end of that thread.
    Joining(u64),
    /// Waits for the end of all others.
    Draining,
}

struct Thread {
    name: String,
    status: Status,
    /// Whether its last wait ended because it was woken.
    is_woken: bool,
    turn: Arc<Condvar>,
}

impl Thread {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), status: Status::Ready, is_woken: false, turn: Arc::default() }
    }
}

struct State {
    now: Duration,
    chance: Chance,
    threads: BTreeMap<u64, Thread>,
    running: u64,
    started: u64,
    /// How often threads ran that did not just find their lock held.
    runs: u64,
}

/// Clock and threads of a simulated machine.
struct Core(Mutex<State>);

impl Core {
    fn new(seed: u64) -> Self {
        Self(Mutex::new(State {
            now: Duration::ZERO,
            chance: Chance::of_case(seed, 0),
            threads: BTreeMap::from([(ROOT, Thread::new("root"))]),
            running: ROOT,
            started: ROOT,
            runs: 0,
        }))
    }

    /// The running thread continues when `status` is over. Returns whether it was woken.
    fn pause(&self, status: Status) -> bool {
        let mut state = self.0.lock();
        let me = state.running;
        let thread = state.thread(me);
        (thread.status, thread.is_woken) = (status, false);
        let turn = thread.turn.clone();
        if !matches!(status, Status::Contending(_)) {
            state.runs += 1;
        }
        state.next();
        while state.running != me {
            turn.wait(&mut state);
        }
        state.thread(me).is_woken
    }

    /// The root waits for all other threads.
    fn drain(&self) {
        while self.0.lock().threads.len() > 1 {
            self.pause(Status::Draining);
            let state = self.0.lock();
            assert!(state.threads.len() == 1, "threads that never end: {}", state.describe());
        }
    }
}

impl State {
    fn thread(&mut self, number: u64) -> &mut Thread {
        self.threads.get_mut(&number).expect("the thread was started and has not ended")
    }

    /// Gives a thread its turn.
    fn next(&mut self) {
        loop {
            let (now, runs, is_last) = (self.now, self.runs, self.threads.len() == 1);
            let can_run = |thread: &Thread| match thread.status {
                Status::Ready => true,
                Status::Sleeping(end) | Status::Waiting(_, Some(end)) => end <= now,
                Status::Contending(tried) => tried < runs,
                Status::Draining => is_last,
                Status::Waiting(_, None) | Status::Joining(_) => false,
            };
            let ready: Vec<u64> = self.threads.iter().filter(|(_, t)| can_run(t)).map(|(n, _)| *n).collect();
            if let Some(number) = self.chance.pick(&ready).copied() {
                self.running = number;
                let thread = self.thread(number);
                thread.status = Status::Ready;
                thread.turn.notify_one();
                return;
            }
            let ends = self.threads.values().filter_map(|thread| match thread.status {
                Status::Sleeping(end) | Status::Waiting(_, Some(end)) => Some(end),
                _ => None,
            });
            if let Some(end) = ends.min() {
                self.now = end;
            } else if self.threads.get(&ROOT).is_some_and(|root| root.status == Status::Draining) {
                // It reports the others.
                (self.running, self.thread(ROOT).status) = (ROOT, Status::Ready);
                self.thread(ROOT).turn.notify_one();
                return;
            } else {
                // Neither a panic nor an error would end those that wait.
                eprintln!("simulation: each thread waits for another: {}", self.describe());
                std::process::abort();
            }
        }
    }

    fn describe(&self) -> String {
        let line = |(number, thread): (&u64, &Thread)| format!("\n{number} {}: {:?}", thread.name, thread.status);
        self.threads.iter().map(line).collect()
    }
}

impl Clock for Core {
    fn monotonic(&self) -> Duration {
        let mut state = self.0.lock();
        state.now += TICK;
        state.now
    }

    fn wall(&self) -> Duration {
        START + self.monotonic()
    }
}

impl Threads for Core {
    fn processors(&self) -> usize {
        PROCESSORS
    }

    fn announce(&self, name: &str) -> u64 {
        let mut state = self.0.lock();
        state.started += 1;
        let number = state.started;
        state.threads.insert(number, Thread::new(name));
        number
    }

    fn begin(&self, number: u64) {
        let mut state = self.0.lock();
        let turn = state.thread(number).turn.clone();
        while state.running != number {
            turn.wait(&mut state);
        }
    }

    fn end(&self, number: u64) {
        let mut state = self.0.lock();
        state.threads.remove(&number);
        for thread in state.threads.values_mut().filter(|thread| thread.status == Status::Joining(number)) {
            thread.status = Status::Ready;
        }
        state.runs += 1;
        // Otherwise it could not be started.
        if state.running == number {
            state.next();
        }
    }

    fn has_ended(&self, number: u64) -> bool {
        !self.0.lock().threads.contains_key(&number)
    }

    fn join(&self, number: u64) {
        if !self.has_ended(number) {
            self.pause(Status::Joining(number));
        }
    }

    fn wait(&self, key: usize, longest: Option<Duration>) -> bool {
        let end = longest.map(|longest| self.0.lock().now.saturating_add(longest));
        self.pause(Status::Waiting(key, end))
    }

    fn wake(&self, key: usize, all: bool) {
        let mut state = self.0.lock();
        let waits = |thread: &Thread| matches!(thread.status, Status::Waiting(for_key, _) if for_key == key);
        let mut waiting: Vec<u64> = state.threads.iter().filter(|(_, t)| waits(t)).map(|(n, _)| *n).collect();
        if !all && waiting.len() > 1 {
            waiting = state.chance.pick(&waiting).copied().into_iter().collect();
        }
        for number in waiting {
            let thread = state.thread(number);
            (thread.status, thread.is_woken) = (Status::Ready, true);
        }
    }

    fn sleep(&self, duration: Duration) {
        let end = self.0.lock().now.saturating_add(duration);
        self.pause(Status::Sleeping(end));
    }

    fn contend(&self, try_lock: &mut dyn FnMut() -> bool) {
        self.0.lock().runs += 1;
        loop {
            let tried = self.0.lock().runs;
            self.pause(Status::Contending(tried));
            if try_lock() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::clock::Instant;
    use host::sync;
    use host::threads;

    /// The order in which four threads with a lock and a condition variable finish their steps.
    fn order(seed: u64) -> Vec<(usize, u32)> {
        run(seed, || {
            let (steps, changed) = (sync::Mutex::new(Vec::new()), sync::Condvar::new());
            threads::scope(|scope| {
                for worker in 0..4 {
                    let (steps, changed) = (&steps, &changed);
                    scope.spawn(move || {
                        for step in 0..50 {
                            let mut steps = steps.lock();
                            // With the lock, which the others want.
                            threads::sleep(Duration::from_micros(host::random::u64() % 3));
                            steps.push((worker, step));
                            changed.notify_all();
                            if step % 10 == 0 {
                                changed.wait_for(&mut steps, Duration::from_millis(1));
                            }
                        }
                    });
                }
            });
            steps.into_inner()
        })
    }

    #[test]
    fn a_seed_gives_the_same_order_of_threads_again() {
        assert_eq!(order(1).len(), 200);
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
    }

    #[test]
    fn an_hour_passes_at_once() {
        let begun = std::time::Instant::now();
        run(1, || {
            let begun = Instant::now();
            let sleeper = threads::spawn("sleeper", || threads::sleep(Duration::from_secs(3600))).unwrap();
            sleeper.join().unwrap();
            assert!(begun.elapsed() >= Duration::from_secs(3600));
        });
        assert!(begun.elapsed() < Duration::from_secs(600));
    }

    #[test]
    fn the_end_waits_for_all_threads() {
        let ended = Arc::new(sync::Mutex::new(0));
        run(1, || {
            for number in 0..10 {
                let ended = ended.clone();
                let work = move || {
                    threads::sleep(Duration::from_millis(number));
                    *ended.lock() += 1;
                };
                drop(threads::spawn("left alone", work).unwrap());
            }
        });
        assert_eq!(*ended.lock(), 10);
    }

    #[test]
    #[should_panic(expected = "waits forever")]
    fn a_thread_that_never_ends_is_reported() {
        run(1, || {
            let never = || {
                let (lock, changed) = (sync::Mutex::new(()), sync::Condvar::new());
                changed.wait(&mut lock.lock());
            };
            drop(threads::spawn("waits forever", never).unwrap());
        });
    }
}
