//! Analytics: operations second by second, broken down by client, operation, file, latency and
//! other fields.
//!
//! ```text
//! observe::Events ─> engine ─┬─ tally, sampler  counts of one second, for each statistic
//!                            ├─ ring            each operation of the last minutes
//!                            ├─ archive         columns of seconds, minutes, hours, for weeks
//!                            └─ explain         what distinguishes the operations in a rectangle
//! name (grammar), catalogue (statistics), scheme (rows of heat maps), fold (fewer rows),
//! column, block (encodings), picture, alert
//! ```
//!
//! Invariant: whatever the breakdown, an operation is counted once, so all views of a second add up
//! to the same.

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
pub mod sampler;
pub mod scheme;
pub mod tally;
