//! Threads. They run on the machine of the thread that starts them.

use crate::machine::{Entered, Machine};
use std::cell::RefCell;
use std::io;
use std::time::Duration;

/// Suspends the calling thread.
pub fn sleep(duration: Duration) {
    match Machine::simulated() {
        None => std::thread::sleep(duration),
        Some(machine) => machine.threads.sleep(duration),
    }
}

/// Starts a thread on the caller's machine. Fails if the system cannot start one.
pub fn spawn<T, F>(name: &str, work: F) -> io::Result<JoinHandle<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    spawn_by(std::thread::Builder::new(), name, work)
}

/// The same, with the stack that `builder` has.
pub(crate) fn spawn_by<T, F>(builder: std::thread::Builder, name: &str, work: F) -> io::Result<JoinHandle<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let place = Place::announce(name);
    let (number, here) = (place.number(), place.clone());
    let thread = builder.name(name.to_owned()).spawn(move || here.run(work));
    match thread {
        Ok(thread) => Ok(JoinHandle { thread, simulated: number }),
        Err(error) => {
            place.cancel();
            Err(error)
        }
    }
}

/// A thread that was started.
pub struct JoinHandle<T> {
    thread: std::thread::JoinHandle<T>,
    simulated: Option<(Machine, u64)>,
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the thread. Returns its result; an error if it panicked.
    pub fn join(self) -> std::thread::Result<T> {
        if let Some((machine, number)) = &self.simulated {
            machine.threads.join(*number);
        }
        self.thread.join()
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        match &self.simulated {
            None => self.thread.is_finished(),
            Some((machine, number)) => machine.threads.has_ended(*number),
        }
    }

    /// Whether the calling thread is this one.
    pub fn is_current(&self) -> bool {
        self.thread.thread().id() == std::thread::current().id()
    }
}

/// A new thread's place on the machine of the thread that starts it.
#[derive(Clone)]
struct Place(Option<(Machine, u64)>);

impl Place {
    fn announce(name: &str) -> Self {
        Self(Machine::simulated().map(|machine| {
            let number = machine.threads.announce(name);
            (machine, number)
        }))
    }

    fn number(&self) -> Option<(Machine, u64)> {
        self.0.clone()
    }

    /// The thread could not be started.
    fn cancel(&self) {
        if let Some((machine, number)) = &self.0 {
            machine.threads.end(*number);
        }
    }

    /// Called on the new thread. On a simulated machine, waits for its turn before `work`.
    fn run<T>(self, work: impl FnOnce() -> T) -> T {
        let _turn = self.0.map(|(machine, number)| {
            machine.threads.begin(number);
            let entered = machine.enter();
            Turn { _entered: entered, machine, number }
        });
        work()
    }
}

/// Ends a simulated thread, even if it panics.
struct Turn {
    _entered: Entered,
    machine: Machine,
    number: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.machine.threads.end(self.number);
    }
}

/// Threads that may borrow: see [`scope`].
pub struct Scope<'scope, 'env: 'scope> {
    inner: &'scope std::thread::Scope<'scope, 'env>,
    /// Those of a simulated machine.
    started: RefCell<Vec<(Machine, u64)>>,
}

/// Calls `work`, whose threads end before this returns. They may borrow what the caller owns. A
/// panic of a thread that was not joined is one of the caller.
pub fn scope<'env, F, T>(work: F) -> T
where
    F: for<'scope> FnOnce(&Scope<'scope, 'env>) -> T,
{
    std::thread::scope(|inner| work(&Scope { inner, started: RefCell::default() }))
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread. Panics if it cannot start.
    pub fn spawn<F, T>(&self, work: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.try_spawn(work).expect("the system starts a thread")
    }

    /// Starts a thread, or returns the system's error.
    pub fn try_spawn<F, T>(&self, work: F) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let place = Place::announce("scope");
        let (number, here) = (place.number(), place.clone());
        match std::thread::Builder::new().spawn_scoped(self.inner, move || here.run(work)) {
            Ok(thread) => {
                self.started.borrow_mut().extend(number.clone());
                Ok(ScopedJoinHandle { thread, simulated: number })
            }
            Err(error) => {
                place.cancel();
                Err(error)
            }
        }
    }
}

impl Drop for Scope<'_, '_> {
    /// The scope around this one waits too, but a simulated machine does not know of that.
    fn drop(&mut self) {
        for (machine, number) in self.started.get_mut() {
            machine.threads.join(*number);
        }
    }
}

/// A thread of a [`Scope`].
pub struct ScopedJoinHandle<'scope, T> {
    thread: std::thread::ScopedJoinHandle<'scope, T>,
    simulated: Option<(Machine, u64)>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// As [`JoinHandle::join`].
    pub fn join(self) -> std::thread::Result<T> {
        if let Some((machine, number)) = &self.simulated {
            machine.threads.join(*number);
        }
        self.thread.join()
    }
}
