//! What happened, and who asked for it.

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
    /// A dataset was made, changed or destroyed.
    Dataset,
    /// A share was made, changed or removed.
    Share,
    /// A job started or ended.
    Job,
    /// Somebody logged in, or tried to.
    Login,
    /// A command was run.
    Command,
    /// Users or tokens were changed.
    Account,
    /// An alert fires, has ended, or could not be told.
    Alert,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Nothing to do.
    Info,
    /// Somebody should know.
    Warning,
    /// Somebody should do something.
    Error,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Number; rises by one, and goes on after a restart.
    pub id: u64,
    /// When, in milliseconds since 1970.
    pub time_ms: u64,
    /// What kind.
    pub kind: EventKind,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: a pool, dataset, device or user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What happened, in a sentence.
    pub message: String,
    /// Who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// One message of the live stream: `data:` of a server-sent event. Its `event:` is the `type`; its `id:` that of the last
/// event, so that a client that comes back gets those that it missed.
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
    /// A job as it is now. Sent for each at the beginning and, at most once a second, when it has changed.
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
    /// Who: a user, `token NAME of USER`, `uid 0` of a local process, or `-` when that is not known.
    pub who: String,
    /// From where: an address, or `local` with the process's number.
    pub from: String,
    /// What: the operation, or the command with its arguments. Secrets are left out.
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
    /// Not tried: who asked may not.
    Denied,
}
