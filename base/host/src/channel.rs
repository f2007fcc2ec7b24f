//! Channels, which wait on the machine of the calling thread.

use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// The other side is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnected;

struct Shared<T> {
    state: Mutex<State<T>>,
    came: Condvar,
    left: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    room: usize,
    senders: usize,
    receivers: usize,
}

/// Sends to a channel. A clone sends to the same.
pub struct Sender<T>(Arc<Shared<T>>);

/// Receives from a channel. Each value goes to one of its clones.
pub struct Receiver<T>(Arc<Shared<T>>);

/// A channel in which at most `room` values wait; at least one.
pub fn bounded<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    let state = State { waiting: VecDeque::new(), room: room.max(1), senders: 1, receivers: 1 };
    let shared = Arc::new(Shared { state: Mutex::new(state), came: Condvar::new(), left: Condvar::new() });
    (Sender(shared.clone()), Receiver(shared))
}

/// A channel in which any number of values waits.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

impl<T> Sender<T> {
    /// Waits for room. Drops the value if there is no receiver.
    pub fn send(&self, value: T) -> Result<(), Disconnected> {
        let mut state = self.0.state.lock();
        while state.waiting.len() >= state.room && state.receivers > 0 {
            self.0.left.wait(&mut state);
        }
        if state.receivers == 0 {
            return Err(Disconnected);
        }
        state.waiting.push_back(value);
        drop(state);
        self.0.came.notify_one();
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Waits for a value. Fails when there is none and no sender.
    pub fn recv(&self) -> Result<T, Disconnected> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(value) = state.waiting.pop_front() {
                drop(state);
                self.0.left.notify_one();
                return Ok(value);
            }
            if state.senders == 0 {
                return Err(Disconnected);
            }
            self.0.came.wait(&mut state);
        }
    }

    /// The values until there is no sender.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.state.lock().receivers += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        if state.senders == 0 {
            drop(state);
            self.0.came.notify_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.receivers -= 1;
        if state.receivers == 0 {
            // Values that are not received may hold the other side of another channel.
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            drop(waiting);
            self.0.left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn values_arrive_once_and_in_order_until_there_is_no_sender() {
        let (sender, receiver) = bounded(3);
        threads::scope(|scope| {
            scope.spawn(move || (0..1000).for_each(|n| sender.send(n).unwrap()));
            assert!(receiver.iter().eq(0..1000));
        });
        assert_eq!(receiver.recv(), Err(Disconnected));
        let (sender, receiver) = unbounded();
        let total: u64 = threads::scope(|scope| {
            let sum = |receiver: Receiver<u64>| scope.spawn(move || receiver.iter().sum::<u64>());
            let sums = [receiver.clone(), receiver.clone(), receiver].map(sum);
            (0..1000).for_each(|n| sender.send(n).unwrap());
            drop(sender);
            sums.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 499_500);
    }

    #[test]
    fn a_sender_that_waits_for_room_learns_that_no_thread_receives() {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        threads::scope(|scope| {
            let waiting = scope.spawn(|| sender.send(2));
            drop(receiver);
            assert_eq!(waiting.join().unwrap(), Err(Disconnected));
        });
        assert_eq!(sender.send(3), Err(Disconnected));
    }
}
