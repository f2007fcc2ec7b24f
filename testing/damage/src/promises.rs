//! What the property `sync` promises while it changes.
//!
//! `sync` decides what an answer promises, so those who work learn from here what holds: a promise counts only when `sync` said the
//! same before the call and after it, and no command was changing it.

use crate::chance::Chance;
use std::sync::atomic::{AtomicU64, Ordering};

/// What `sync` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// What is asked for is safe when that is answered.
    Asked,
    /// Everything is.
    All,
    /// Nothing is.
    Nothing,
}

/// What `sync` says at the moment, and how often it was changed.
pub struct Promises {
    /// The number of changes times 8, 4 while it is being changed, and the index into [`KINDS`].
    state: AtomicU64,
}

/// One reading of [`Promises`].
#[derive(Clone, Copy)]
pub struct Seen(u64);

const KINDS: [(Promise, &str); 3] =
    [(Promise::Asked, "standard"), (Promise::All, "always"), (Promise::Nothing, "disabled")];

impl Promises {
    /// As the property was set when the dataset was made.
    pub fn new(sync: &str) -> Self {
        let kind = KINDS.iter().position(|(_, name)| *name == sync).unwrap_or(0);
        Self { state: AtomicU64::new(kind as u64) }
    }

    /// What it says, before a call.
    pub fn look(&self) -> Seen {
        Seen(self.state.load(Ordering::SeqCst))
    }

    /// What the call promised that began with this; `Nothing` when `sync` was changed meanwhile.
    pub fn since(&self, before: Seen) -> Promise {
        let is_changing = before.0 & 4 != 0;
        match !is_changing && self.look().0 == before.0 {
            true => KINDS[(before.0 & 3) as usize].0,
            false => Promise::Nothing,
        }
    }

    /// Changes it, with `set`.
    pub fn change<E>(&self, chance: &mut Chance, set: impl FnOnce(&str) -> Result<(), E>) -> Result<(), E> {
        // From nothing, back to a promise more often than not: what was left out must not be missed.
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
