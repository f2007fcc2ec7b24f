//! What the property `sync` guarantees while it changes.
//!
//! The value of `sync` determines what an acknowledgement means. An acknowledgement counts only if
//! `sync` had the same value before and after the call, and was not being changed.

use rig::Chance;
use std::sync::atomic::{AtomicU64, Ordering};

/// Guarantee of a value of `sync`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Synchronous operations are durable when acknowledged (`standard`).
    Asked,
    /// All operations are (`always`).
    All,
    /// None are (`disabled`).
    Nothing,
}

/// The current value of `sync`, and how often it was changed.
pub struct Promises {
    /// The number of changes times 8, plus 4 while it is being changed, plus the index in
    /// [`KINDS`].
    state: AtomicU64,
}

/// One reading of [`Promises`].
#[derive(Clone, Copy)]
pub struct Seen(u64);

const KINDS: [(Promise, &str); 3] =
    [(Promise::Asked, "standard"), (Promise::All, "always"), (Promise::Nothing, "disabled")];

impl Promises {
    /// The initial value, as set when the dataset was created.
    pub fn new(sync: &str) -> Self {
        let kind = KINDS.iter().position(|(_, name)| *name == sync).unwrap_or(0);
        Self { state: AtomicU64::new(kind as u64) }
    }

    /// Reads the value before a call.
    pub fn look(&self) -> Seen {
        Seen(self.state.load(Ordering::SeqCst))
    }

    /// The guarantee of a call that began at `before`; `Nothing` if `sync` was changed meanwhile.
    pub fn since(&self, before: Seen) -> Promise {
        let is_changing = before.0 & 4 != 0;
        match !is_changing && self.look().0 == before.0 {
            true => KINDS[(before.0 & 3) as usize].0,
            false => Promise::Nothing,
        }
    }

    /// Changes the value with `set`.
    pub fn change<E>(&self, chance: &mut Chance, set: impl FnOnce(&str) -> Result<(), E>) -> Result<(), E> {
        // From `disabled`, usually change back to a guarantee, so that there is something to check.
        let now = self.look().0 & 3;
        let kind = match (now, chance.below(4)) {
            (2, 0..3) => chance.below(2),
            (_, 0) => (now + 1) % 3,
            (_, 1) => (now + 2) % 3,
            _ => 2 * u64::from(now != 2),
        };
        self.state.fetch_add(4, Ordering::SeqCst);
        let result = set(KINDS[kind as usize].1);
        let counter = (self.look().0 & !7) + 8;
        self.state.store(counter | kind, Ordering::SeqCst);
        result
    }
}
