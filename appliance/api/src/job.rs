//! Work that takes longer than a request.

use crate::Verification;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Kinds of job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Reads everything in a pool and compares it with its checksums; changes nothing.
    Verify,
    /// Frees the space of datasets that were destroyed. Begins by itself, cannot be stopped, and goes on after a restart.
    Destroy,
    /// Reads every copy of everything and all parity, and repairs what is wrong. Also one that was begun by a command, or went on after a restart.
    Scrub,
    /// Brings devices what they missed, or all of it. Begins by itself and cannot be stopped.
    Resilver,
    /// A stream, or a package of them, that a command sends. Begins with the command, when it takes longer than a second.
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
    /// It came to its end; the result says what was found.
    Done,
    /// It could not go on.
    Failed,
    /// It was stopped by somebody.
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
    /// What it does it to: a pool or dataset.
    pub target: String,
    /// How far it is.
    pub state: JobState,
    /// Who started it.
    pub started_by: String,
    /// When.
    pub started: u64,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// How much is done.
    pub progress: JobProgress,
    /// What it is doing, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What verifying found.
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
    /// Bytes a second, lately.
    pub bytes_per_second: f64,
    /// Seconds until it is done, if it goes on like this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}

/// Starts a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartJob {
    /// What to do.
    pub kind: JobKind,
    /// To which pool or dataset.
    pub target: String,
}
