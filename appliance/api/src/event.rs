//! Events, and who caused them.

use crate::{Client, Job, Pool, SystemHealth};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The daemon started, stopped, or read its configuration.
    Service,
    /// A pool was imported, exported, created or destroyed, or its state changed.
    Pool,
    /// A device failed or returned.
    Device,
    /// A dataset was created, changed or destroyed.
    Dataset,
    /// A share was created, changed or removed.
    Share,
    /// A job started or ended.
    Job,
    /// A user logged in or out, or an attempt failed.
    Login,
    /// A command was run.
    Command,
    /// Users or tokens were changed.
    Account,
    /// An alert fired, cleared, or could not be delivered.
    Alert,
}

/// How urgent an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Informational: nothing needs to be done.
    Info,
    /// A warning that needs attention.
    Warning,
    /// A problem that needs action.
    Error,
}

/// An event of the daemon or its pools. The last 10,000 are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Sequence number, which continues after a restart.
    pub id: u64,
    /// Time of the event, in milliseconds since 1970.
    pub time_ms: u64,
    /// What the event is about.
    pub kind: EventKind,
    /// How urgent it is.
    pub severity: Severity,
    /// Subject: a pool, dataset, device or user. Absent if the event concerns the whole daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The event in words, for people.
    pub message: String,
    /// User who caused it; absent if no user caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// One message of the live stream: `data:` of a server-sent event. `event:` is the `type`; `id:` is
/// that of the last event, so that a client that reconnects gets the events that it missed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LiveMessage {
    /// A new event.
    Event {
        /// The event, as `GET /v1/events` lists it.
        event: Event,
    },
    /// Events were dropped before this client received them: load all data again.
    Missed,
    /// All pools in their current state. Sent at the beginning and after changes.
    Pools {
        /// All imported pools; it replaces what was sent before.
        pools: Vec<Pool>,
    },
    /// The verdict on everything. Sent at the beginning and after changes.
    Health {
        /// The verdict with all its reasons; it replaces what was sent before.
        health: SystemHealth,
    },
    /// The current state of a job. Sent for each job at the beginning and, at most once a second,
    /// when it has changed.
    Job {
        /// The job with its current progress.
        job: Job,
    },
    /// Datasets have changed: request those of this pool again.
    Datasets {
        /// Name of the pool.
        pool: String,
    },
    /// Clients of the file servers with their rates. Sent every 2 s while there are any.
    Clients {
        /// All clients; it replaces what was sent before.
        clients: Vec<Client>,
    },
}

/// A request that changed something, or was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Time of the request, in milliseconds since 1970.
    pub time_ms: u64,
    /// Caller: a user, `token NAME of USER`, `uid 0` of a local process, or `-` if unknown.
    pub who: String,
    /// Origin: an IP address, `local process PID`, or `local`.
    pub from: String,
    /// Operation, or command with its arguments, without secrets.
    pub what: String,
    /// Pool, dataset, user or settings that it was about; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Whether it succeeded.
    pub outcome: Outcome,
    /// Why it failed or was refused; absent if it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It succeeded.
    Ok,
    /// It was permitted, but failed.
    Failed,
    /// Refused: the caller lacks permission.
    Denied,
}
