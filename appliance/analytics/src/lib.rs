//! Analytics: what passes over the weir, second by second, told apart by who, what, which file, how long.
//!
//! ```text
//!   observe::Events ─> engine ─┬─ tally, sampled   counts of one second, as a statistic's name asks
//!                              ├─ ring             each operation of the last minutes, for questions after the fact
//!                              ├─ archive          columns of seconds, minutes, hours, for weeks
//!                              └─ explain          what is special about the operations in a rectangle
//!   name (grammar), catalogue (what there is), scheme (rows of heat maps), fold (fewer), column, block (their bytes), picture, alert
//! ```
//!
//! Invariant: whatever an operation is told apart by, it is counted once, so all views of a second add up to the same.

pub mod alert;
pub mod archive;
pub mod block;
pub mod catalogue;
pub mod column;
pub mod engine;
pub mod explain;
pub mod fold;
pub mod name;
pub mod operation;
pub mod picture;
pub mod ring;
pub mod sampled;
pub mod scheme;
pub mod tally;
