//! A value that is gathered from devices, for callers that must not wait for devices indefinitely.
//!
//! One thread gathers at a time. A caller gets the result of a gathering that began after the call.
//! If that takes longer than the caller's patience, the caller gets the last value that was found,
//! with its age.
//!
//! Invariants:
//!   * however many callers there are, only one thread waits for the devices
//!   * a value returned in time is not older than the call

use anyhow::Result;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long commands and requests wait for a pool's status. Guessed: longer than a busy disk takes
/// for the few blocks.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A job that runs on its own thread.
type Job = Box<dyn FnOnce() + Send>;

/// See the module documentation.
pub struct Latest<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

struct State<T> {
    /// Number of gatherings that have begun, and when the current one began.
    begun: u64,
    since: Option<Instant>,
    /// Result of the last gathering that ended.
    result: Option<(u64, Result<T>)>,
    /// The last good value.
    last: Option<(Instant, T)>,
}

/// The result for a caller.
#[derive(Debug, Clone)]
pub enum Found<T> {
    /// The value is not older than the call.
    Fresh(T),
    /// Devices do not answer: the last value and its age.
    Old(T, Duration),
    /// Devices do not answer, and there is no last value.
    Nothing,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        let state = State { begun: 0, since: None, result: None, last: None };
        Self(Arc::new(Shared { state: Mutex::new(state), ended: Condvar::new() }))
    }
}

impl<T: Clone + Send + 'static> Latest<T> {
    /// Runs `gather` on its own thread, unless another gathering that begins after this call can be
    /// used, and waits at most [`PATIENCE`].
    pub fn get(&self, gather: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Found<T>> {
        self.get_within(PATIENCE, gather)
    }

    fn get_within(&self, patience: Duration, gather: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Found<T>> {
        self.get_by(patience, gather, |job| {
            std::thread::Builder::new().name("pool-facts".to_owned()).spawn(job).map(drop)
        })
    }

    fn get_by(
        &self,
        patience: Duration,
        gather: impl FnOnce() -> Result<T> + Send + 'static,
        start: impl FnOnce(Job) -> std::io::Result<()> + Copy,
    ) -> Result<Found<T>> {
        let deadline = Instant::now() + patience;
        let mut gather = Some(gather);
        let mut state = self.0.state.lock();
        let wanted = state.begun + 1;
        loop {
            if let Some((_, result)) = state.result.as_ref().filter(|(number, _)| *number >= wanted) {
                return match result {
                    Ok(value) => Ok(Found::Fresh(value.clone())),
                    // Keep the context: printing the error shows the whole chain.
                    Err(error) => Err(anyhow::anyhow!("{error:#}")),
                };
            }
            // A gathering that has been waiting for devices longer than this is not waited for
            // again.
            let is_stuck = state.since.is_some_and(|since| since.elapsed() >= patience);
            if state.since.is_none() && state.begun < wanted {
                let gather = gather.take().expect("a number is begun once");
                let (number, shared) = (state.begun + 1, self.0.clone());
                // The thread creates the end marker: if the thread cannot be started, the job is
                // dropped here, and its end marker would deadlock on the lock held here.
                start(Box::new(move || {
                    let mut ending = Ending { shared, number, result: None };
                    ending.result = Some(gather());
                }))?;
                state.begun = number;
                state.since = Some(Instant::now());
            }
            if is_stuck || self.0.ended.wait_until(&mut state, deadline).timed_out() {
                return Ok(match &state.last {
                    Some((found, value)) => Found::Old(value.clone(), found.elapsed()),
                    None => Found::Nothing,
                });
            }
        }
    }
}

/// Marks the end of a gathering, even if it panics.
struct Ending<T: Clone> {
    shared: Arc<Shared<T>>,
    number: u64,
    result: Option<Result<T>>,
}

impl<T: Clone> Drop for Ending<T> {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| Err(anyhow::anyhow!("internal error; see the log")));
        let mut state = self.shared.state.lock();
        state.since = None;
        if let Ok(value) = &result {
            state.last = Some((Instant::now(), value.clone()));
        }
        state.result = Some((self.number, result));
        drop(state);
        self.shared.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc::channel;

    const SHORT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn one_thread_computes_a_value_after_the_call_for_all_waiting_threads() {
        let (latest, runs) = (Arc::new(Latest::default()), Arc::new(AtomicU32::new(0)));
        let (go, wait) = channel::<()>();
        let first = {
            let latest = latest.clone();
            std::thread::spawn(move || latest.get_within(LONG, move || Ok(wait.recv().map(|()| 0)?)))
        };
        while latest.0.state.lock().since.is_none() {
            std::thread::yield_now();
        }
        let later: Vec<_> = (0..20)
            .map(|_| {
                let (latest, runs) = (latest.clone(), runs.clone());
                std::thread::spawn(move || {
                    latest.get_within(LONG, move || Ok(runs.fetch_add(1, Ordering::SeqCst) as i32 + 1))
                })
            })
            .collect();
        std::thread::sleep(SHORT);
        go.send(()).expect("it waits");
        assert!(matches!(first.join().expect("no panic"), Ok(Found::Fresh(0))));
        for thread in later {
            // The first result may have been read before these calls.
            assert!(matches!(thread.join().expect("no panic"), Ok(Found::Fresh(1..))));
        }
        assert!(runs.load(Ordering::SeqCst) < 20, "waiting threads share the result");
    }

    #[test]
    fn while_devices_do_not_answer_there_is_the_last_value_and_no_further_thread() {
        let latest = Latest::default();
        let (go, wait) = channel::<i32>();
        assert!(matches!(latest.get_within(SHORT, move || Ok(wait.recv()?)), Ok(Found::Nothing)));
        let begun = Instant::now();
        for _ in 0..100 {
            assert!(matches!(latest.get_within(SHORT, || panic!("one is waiting")), Ok(Found::Nothing)));
        }
        assert!(begun.elapsed() < LONG / 10, "a stuck computation is not waited for again");
        go.send(1).expect("it waits");
        assert!(matches!(latest.get_within(LONG, || Ok(2)), Ok(Found::Fresh(2))));
        let (_hold, wait) = channel::<i32>();
        assert!(matches!(latest.get_within(SHORT, move || Ok(wait.recv()?)), Ok(Found::Old(2, _))));
    }

    #[test]
    fn an_error_is_returned_to_waiting_threads_and_the_next_call_retries() {
        let latest = Latest::default();
        let failed =
            latest.get_within(LONG, || Err(anyhow::anyhow!("label").context("disk-3"))).map(|_: Found<i32>| ());
        assert_eq!(failed.expect_err("it fails").to_string(), "disk-3: label");
        assert!(latest.get_within(LONG, || panic!("meant")).is_err());
        assert!(matches!(latest.get_within(LONG, || Ok(3)), Ok(Found::Fresh(3))));
    }
    /// Dropping the job took the lock that its caller held, and every later caller waited forever.
    #[test]
    fn a_thread_that_cannot_be_started_is_an_error_and_the_next_call_tries_again() {
        let latest = Latest::default();
        let none_left = |_: Job| Err(std::io::ErrorKind::WouldBlock.into());
        let failed = latest.get_by(LONG, || Ok(1), none_left);
        assert!(failed.is_err(), "{failed:?}");
        assert!(matches!(latest.get_within(LONG, || Ok(2)), Ok(Found::Fresh(2))));
    }
}
