//! Jobs: work that takes longer than a request.

use crate::Verification;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Kinds of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Reads everything in a pool and compares it with its checksums; changes nothing.
    Verify,
    /// Frees the space of destroyed datasets. Starts automatically, cannot be stopped, and
    /// continues after a restart.
    Destroy,
    /// Reads all copies and all parity, and repairs damage. Includes scrubs that a command started
    /// or that resumed after a restart.
    Scrub,
    /// Resilvers devices. Starts automatically and cannot be stopped.
    Resilver,
    /// A stream or package that a command sends. Listed once it takes longer than a second.
    Send,
    /// The same, received.
    Receive,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It runs.
    Running,
    /// It is being stopped.
    Cancelling,
    /// It finished; see the result.
    Done,
    /// It failed.
    Failed,
    /// It was stopped by a user.
    Cancelled,
    /// The process ended before it did.
    Interrupted,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Number; never given twice.
    pub id: u64,
    /// What it does.
    pub kind: JobKind,
    /// Target: a pool or dataset.
    pub target: String,
    /// How far it is.
    pub state: JobState,
    /// User who started it.
    pub started_by: String,
    /// When.
    pub started: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// How much is done.
    pub progress: JobProgress,
    /// Current step, or the reason for its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Result of the verification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

/// How much of a job is done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JobProgress {
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes to do; an estimate that may grow.
    pub total_bytes: u64,
    /// Done part of the total.
    pub percent: f64,
    /// Recent bytes per second.
    pub bytes_per_second: f64,
    /// Estimated seconds until it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}

/// Starts a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartJob {
    /// Recommended action.
    pub kind: JobKind,
    /// To which pool or dataset.
    pub target: String,
}
