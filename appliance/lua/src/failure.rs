//! Why a program ended without a result.

/// Why a program has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It cannot be compiled.
    Syntax(String),
    /// An error in the program. A value that is not a message has only the place.
    Error(String),
    /// It returned something that cannot leave it.
    Result(String),
    Memory,
    /// The message, and the number of instructions.
    TimedOut(String, u64),
    /// The host ended it.
    Cancelled(String),
}
