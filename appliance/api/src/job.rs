//! Jobs: work that takes longer than a request.

use crate::Verification;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a job does.
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
    /// Sends a stream or stream package, started by a command. Listed once it takes longer than a
    /// second.
    Send,
    /// Receives a stream or stream package, started by a command. Listed once it takes longer than
    /// a second.
    Receive,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It is running.
    Running,
    /// It is running, but will stop soon: a user has cancelled it.
    Cancelling,
    /// It finished. `message` and `verification` have the result.
    Done,
    /// It failed. `message` has the reason.
    Failed,
    /// It was stopped by a user.
    Cancelled,
    /// The daemon stopped before the job ended.
    Interrupted,
}

/// A job: work that continues after its request. The last 100 ended ones are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Number of the job; never reused.
    pub id: u64,
    /// Type of work.
    pub kind: JobKind,
    /// Pool or dataset that it works on.
    pub target: String,
    /// Whether it runs, and how it ended.
    pub state: JobState,
    /// User who started it, as in the audit log.
    pub started_by: String,
    /// Start time, in seconds since 1970.
    pub started: u64,
    /// End time, in seconds since 1970; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// Bytes done, rate and estimated time left.
    pub progress: JobProgress,
    /// While it runs, the current step; later its result or the reason for its failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Result of a verification; absent for other jobs and while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
}

/// Progress of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct JobProgress {
    /// Bytes processed so far.
    pub done_bytes: u64,
    /// Bytes to process in total: an estimate that may grow. 0 if unknown.
    pub total_bytes: u64,
    /// `done_bytes` in percent of `total_bytes`, 0 to 100.
    pub percent: f64,
    /// Average rate over the last 10 seconds; 0 after the end.
    pub bytes_per_second: f64,
    /// Estimated seconds until the end; absent if no rate or total is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
}

/// A job to start. Fails with `conflict` if one of this kind is running on the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartJob {
    /// `verify` or `scrub`. Other kinds start automatically or by their command, and are refused.
    pub kind: JobKind,
    /// Name of an imported pool.
    pub target: String,
}
