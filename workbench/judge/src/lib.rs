//! Judges benchmarks: the facts of a run go in, verdicts with their arithmetic come out. No files,
//! clocks or sockets.
//!
//! ```text
//! Facts ─> twelve checks, each PASS, WARN or REFUSE, with its arithmetic
//!   ─> Judgement (the worst verdict, labels)
//! two sets of runs ─> compare: differences in configuration, gain and its interval
//! a latency limit ─> limits: which rate to try next
//! ```
//!
//! Invariants:
//!   * unknown facts never count as good: a check that lacks a fact names it and warns
//!   * a verdict includes the numbers it is based on

mod checks;
pub mod compare;
mod facts;
mod judgement;
pub mod limits;
pub mod statistics;

pub use checks::judge;
pub use facts::{Claim, Client, Disk, Facts, Link, Load, Second, Server};
pub use judgement::{Check, Finding, Judgement, Verdict};

/// Prefix for each line of a result that was refused but is printed anyway.
pub const UNVERIFIED: &str = "UNVERIFIED";

/// Prefixes each line of a text with `UNVERIFIED`.
pub fn stamped(text: &str) -> String {
    text.lines().map(|line| format!("{UNVERIFIED} {line}\n")).collect()
}

#[cfg(test)]
mod tests;
