//! The verdict on everything that the daemon serves, with its reasons.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How well everything is, or how urgent a reason is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthVerdict {
    /// Nothing needs attention. No reason has this severity.
    Good,
    /// Something needs attention soon; clients are not affected yet.
    Attention,
    /// Data, redundancy or access is lost, or is about to be.
    Serious,
}

/// The condition that a reason is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthKind {
    /// A pool as a whole: it is not open, cannot write, or has damaged files.
    Pool,
    /// A device is not in service or had errors.
    Device,
    /// Usable space of a pool: 80, 90 or 95 % are used. The slop space is not usable.
    Space,
    /// A device is much slower than its siblings.
    SlowDisk,
    /// No scrub has finished for a long time.
    Scrub,
    /// The last replication of a dataset failed.
    Replication,
    /// The certificate for HTTPS expires soon or has expired.
    Certificate,
    /// Clients were refused because a table of the server was full.
    Clients,
    /// An alert fires.
    Alert,
}

/// A reason why not everything is good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthReason {
    /// How urgent it is: `attention` or `serious`.
    pub severity: HealthVerdict,
    /// The condition.
    pub kind: HealthKind,
    /// What it concerns: a pool, `POOL: DEVICE`, a dataset, the title of an alert, `HTTPS` or
    /// `NFS`.
    pub subject: String,
    /// The fact and its consequence, for people.
    pub what: String,
    /// What to do; absent if there is nothing to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Since when it is so, in seconds since 1970; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Path of the page that shows it, relative to the root of the server.
    pub link: String,
}

/// The verdict, which is that of the most severe reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SystemHealth {
    /// `good` if there are no reasons.
    pub verdict: HealthVerdict,
    /// The most severe ones first. Conditions that cannot be checked are no reasons: the age of the
    /// last scrub of a pool that records none, the certificate of a daemon without HTTPS.
    pub reasons: Vec<HealthReason>,
}
