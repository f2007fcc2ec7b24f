//! The clock of the state machine, which is an input.

/// Milliseconds of a monotonic clock.
pub(crate) type Millis = u64;
