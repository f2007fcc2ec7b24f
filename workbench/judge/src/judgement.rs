//! Checks, their findings, and the judgement that they add up to.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// No link, disk or clock exceeded its physical limit.
    Limits,
    /// Clients, server and wire counted the same.
    Counts,
    /// Operations were not served from the client's memory.
    ClientCache,
    /// The clients were not the bottleneck.
    ClientBound,
    /// The bottleneck is identified.
    Limiter,
    /// Whether memory or disks were measured.
    CacheOrDisk,
    /// The pool layout is known.
    Profile,
    /// Caches were warm, and records matched the operation size.
    WarmUp,
    /// Writes requested as stable were stable.
    SyncWrites,
    /// The systems are documented, and nothing else was running.
    Documented,
    /// The data does not compress.
    Compressible,
    /// Long enough, steady, at the requested rate, and well described by one number.
    Steady,
}

impl Check {
    /// The name for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Counts => "counts",
            Self::ClientCache => "client cache",
            Self::ClientBound => "client bound",
            Self::Limiter => "limiter",
            Self::CacheOrDisk => "cache or disk",
            Self::Profile => "profile",
            Self::WarmUp => "warm-up",
            Self::SyncWrites => "sync writes",
            Self::Documented => "documented",
            Self::Compressible => "compressible data",
            Self::Steady => "steady state",
        }
    }
}

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
