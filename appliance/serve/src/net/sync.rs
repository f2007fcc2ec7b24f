//! Locks, atomic values and threads of the servers. Tests can order them in every possible way,
//! with those of `rig::schedule`.

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(test)]
pub(crate) use rig::schedule::{Condvar, Mutex, atomic, start};
#[cfg(not(test))]
pub(crate) use std::sync::atomic;

use rustix::event::{Timespec, epoll};
use rustix::fd::AsFd;
use rustix::io::Errno;

/// Starts a thread that is not joined.
#[cfg(not(test))]
pub(crate) fn start(thread: std::thread::Builder, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread.spawn(run).map(drop)
}

/// Waits for an event, at most `limit`.
pub(crate) fn wait(poll: impl AsFd, limit: Option<&Timespec>) -> Result<Option<epoll::Event>, Errno> {
    // A wait in the operating system would stop all explored threads: this one looks again after
    // others ran.
    #[cfg(test)]
    let limit = match rig::schedule::is_exploring() {
        true => {
            rig::schedule::yield_now();
            Some(&Timespec { tv_sec: 0, tv_nsec: 0 })
        }
        false => limit,
    };
    let mut events = Vec::with_capacity(1);
    epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), limit)?;
    Ok(events.pop())
}
