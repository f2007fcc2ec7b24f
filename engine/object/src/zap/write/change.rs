//! A change to an entry of a ZAP.

use ondisk::zap::{Key, Value as ZapValue};

/// What to do if the entry exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Refuse with [`Refusal::Exists`].
    Insert,
    /// Set the new value.
    Update,
}

/// An entry to add or update.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub hash: u64,
    /// Collision number, given if an existing entry moves.
    pub cd: Option<u32>,
    pub key: Key<'a>,
    pub value: &'a ZapValue,
}
