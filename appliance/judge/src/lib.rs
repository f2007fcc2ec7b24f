//! Judges benchmarks: facts of a run go in, verdicts with their arithmetic come out. No files, no clocks, no sockets.
//!
//! ```text
//!   Facts ─> twelve checks, each PASS, WARN or REFUSE, with what was held against what ─> Judgement (the worst of them, labels)
//!   two sets of runs ─> compare: what differs in their configuration, the difference and its interval
//!   a latency that may not be exceeded ─> limits: which rate to try next
//! ```
//!
//! Invariants:
//!   * what is not known is never taken for good: a check that lacks a fact says which one, and warns
//!   * a verdict tells the numbers that it was made of

mod checks;
pub mod compare;
mod facts;
pub mod limits;
pub mod statistics;

pub use checks::{Check, judge};
pub use facts::{Claim, Client, Disk, Facts, Link, Load, Second, Server};

use serde::{Deserialize, Serialize};

/// What a check says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Nothing speaks against the number.
    Pass,
    /// It may be told with what is said here beside it.
    Warn,
    /// It may not be told.
    Refuse,
}

impl Verdict {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Warn => "WARN",
            Self::Refuse => "REFUSE",
        }
    }
}

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Which.
    pub check: Check,
    /// Its verdict.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub reason: String,
    /// What was held against what, a line each.
    pub arithmetic: Vec<String>,
}

/// What all checks found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst of all.
    pub verdict: Verdict,
    /// What the result has to be called by: `cache`, `disk`, `client-bound` …
    pub labels: Vec<String>,
    /// Each check, in order.
    pub findings: Vec<Finding>,
}

/// What stands in front of each line of a result that was refused and is told all the same.
pub const UNVERIFIED: &str = "UNVERIFIED";

impl Judgement {
    /// The finding of a check.
    pub fn of(&self, check: Check) -> Option<&Finding> {
        self.findings.iter().find(|f| f.check == check)
    }

    /// For people: each check with its arithmetic.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (n, finding) in self.findings.iter().enumerate() {
            text +=
                &format!("{:>2} {:<6} {}: {}\n", n + 1, finding.verdict.name(), finding.check.name(), finding.reason);
            for line in &finding.arithmetic {
                text += &format!("          {line}\n");
            }
        }
        if !self.labels.is_empty() {
            text += &format!("labels: {}\n", self.labels.join(", "));
        }
        text + self.verdict.name() + "\n"
    }
}

/// A text with `UNVERIFIED` in front of each line.
pub fn stamped(text: &str) -> String {
    text.lines().map(|line| format!("{UNVERIFIED} {line}\n")).collect()
}

#[cfg(test)]
mod tests;
