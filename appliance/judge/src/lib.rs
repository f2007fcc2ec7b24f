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
pub mod limits;
pub mod statistics;

pub use checks::{Check, judge};
pub use facts::{Claim, Client, Disk, Facts, Link, Load, Second, Server};

use serde::{Deserialize, Serialize};

/// The verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Nothing calls the number into question.
    Pass,
    /// The number may be published together with this reason.
    Warn,
    /// The number must not be published.
    Refuse,
}

impl Verdict {
    /// The name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Warn => "WARN",
            Self::Refuse => "REFUSE",
        }
    }
}

/// The finding of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub check: Check,
    pub verdict: Verdict,
    /// The reason, as one sentence.
    pub reason: String,
    /// The numbers compared, one line each.
    pub arithmetic: Vec<String>,
}

/// The findings of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst verdict of all checks.
    pub verdict: Verdict,
    /// Labels that must accompany the result: `cache`, `disk`, `client-bound` …
    pub labels: Vec<String>,
    /// The findings, in the order of the checks.
    pub findings: Vec<Finding>,
}

/// Prefix for each line of a result that was refused but is printed anyway.
pub const UNVERIFIED: &str = "UNVERIFIED";

impl Judgement {
    /// The finding of one check.
    pub fn of(&self, check: Check) -> Option<&Finding> {
        self.findings.iter().find(|f| f.check == check)
    }

    /// The findings as text, with their arithmetic.
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

/// Prefixes each line of a text with `UNVERIFIED`.
pub fn stamped(text: &str) -> String {
    text.lines().map(|line| format!("{UNVERIFIED} {line}\n")).collect()
}

#[cfg(test)]
mod tests;
