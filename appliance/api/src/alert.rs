//! Alerts: thresholds on statistics, and who is notified.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Value of each second that is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertReduction {
    /// All of it: operations or bytes a second, a size, a percentage.
    Total,
    /// Of a heat map: the average of what is broken down.
    Average,
    /// Of a heat map: a percentile, rounded down to the beginning of its row.
    Percentile,
}

/// On which side of the limit it fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertSide {
    /// Above it.
    Above,
    /// Below it.
    Below,
}

/// Receiver of notifications when an alert fires and when it clears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AlertAction {
    /// An HTTP server: a POST with an `AlertNotice` as JSON. Redirections are not followed.
    Webhook {
        /// `https://…` or `http://…`.
        url: String,
    },
    /// People, by the command `alerts.mail_command` of the configuration.
    Mail {
        /// Their addresses.
        to: Vec<String>,
    },
    /// The system log that `alerts.syslog` of the configuration names.
    Syslog,
}

/// Definition of an alert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertRule {
    /// For people: 1 to 200 characters.
    pub title: String,
    /// Such as `nfs3.ops[op=read][latency]`. It is counted as long as there is the alert.
    pub statistic: String,
    /// Value compared each second.
    pub reduction: AlertReduction,
    /// Which percentile, more than 0 and at most 100; only for `percentile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentile: Option<f64>,
    /// On which side of the limit it fires.
    pub side: AlertSide,
    /// The limit, in the unit of the statistic; for `average` and `percentile`, in the unit of the
    /// breakdown (nanoseconds, bytes).
    pub limit: f64,
    /// It fires after so many seconds in a row, 1 to 86,400.
    #[serde(default = "minute")]
    pub for_seconds: u32,
    /// It clears after so many seconds in a row, 1 to 86,400.
    #[serde(default = "minute")]
    pub clear_seconds: u32,
    /// Whether it is not looked at.
    #[serde(default)]
    pub suspended: bool,
    /// Receivers of notifications, besides the daemon's events: at most 8.
    #[serde(default)]
    pub actions: Vec<AlertAction>,
}

fn minute() -> u32 {
    60
}

/// An alert, as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// Number.
    pub id: u32,
    /// Statistic that it watches.
    pub rule: AlertRule,
    /// User who created it or changed it last.
    pub owner: String,
    /// Since when it fires: seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firing_since: Option<u64>,
    /// The value of the last second that had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_value: Option<f64>,
    /// Notices that are still to be delivered.
    pub waiting: u64,
    /// Error of the last notification that could not be delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// All alerts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertList {
    /// They.
    pub items: Vec<Alert>,
}

/// Body of a webhook request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertNotice {
    /// Number of the alert.
    pub alert: u32,
    /// Its title.
    pub title: String,
    /// `firing` or `cleared`.
    pub state: AlertState,
    /// When that was: seconds since 1970.
    pub second: u64,
    /// Statistic that is watched.
    pub statistic: String,
    /// The value at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The limit.
    pub limit: f64,
    /// Unit of value and limit.
    pub unit: String,
    /// The machine.
    pub host: String,
    /// All of it, in a sentence.
    pub message: String,
}

/// Action of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// It fires.
    Firing,
    /// It does not any more.
    Cleared,
}
