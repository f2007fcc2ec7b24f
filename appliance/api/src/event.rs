//! Events, and who caused them.

use crate::{Client, Job, Pool};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The process started, stopped, or read its configuration.
    Service,
    /// A pool was imported, exported, created or destroyed, or its state changed.
    Pool,
    /// A device failed or came back.
    Device,
    /// A dataset was created, changed or destroyed.
    Dataset,
    /// A share was created, changed or removed.
    Share,
    /// A job started or ended.
    Job,
    /// A login, or an attempt.
    Login,
    /// A command was run.
    Command,
    /// Users or tokens were changed.
    Account,
    /// An alert fires, clears, or could not be delivered.
    Alert,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing to do.
    Info,
    /// A warning that needs attention.
    Warning,
    /// A problem that needs action.
    Error,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Sequence number, which continues after a restart.
    pub id: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// What kind.
    pub kind: EventKind,
    /// How much it matters.
    pub severity: Severity,
    /// Subject: a pool, dataset, device or user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Description of the event.
    pub message: String,
    /// Author of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// One message of the live stream: `data:` of a server-sent event. `event:` is the `type`; `id:` is
/// that of the last event, so that a client that reconnects gets the events that it missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveMessage {
    /// Something happened.
    Event {
        /// It.
        event: Event,
    },
    /// Events were dropped before this client got them: load everything again.
    Missed,
    /// All pools as they are now. Sent at the beginning and when one has changed.
    Pools {
        /// They.
        pools: Vec<Pool>,
    },
    /// The current state of a job. Sent for each job at the beginning and, at most once a second,
    /// when it has changed.
    Job {
        /// It.
        job: Job,
    },
    /// Datasets have changed: what is shown of this pool's should be asked for again.
    Datasets {
        /// The pool.
        pool: String,
    },
    /// Clients of the file servers with their rates. Sent every 2 s while there are any.
    Clients {
        /// They.
        clients: Vec<Client>,
    },
}

/// A request that changed something, or was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// User, `token NAME of USER`, `uid 0` of a local process, or `-` if unknown.
    pub who: String,
    /// From where: an address, or `local` with the process's number.
    pub from: String,
    /// The operation, or the command with its arguments, without secrets.
    pub what: String,
    /// To which pool, dataset or user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether it was done.
    pub outcome: Outcome,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Ok,
    /// Tried, and failed.
    Failed,
    /// Refused: the caller lacks permission.
    Denied,
}
