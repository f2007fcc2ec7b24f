//! Alerts: thresholds on statistics, and who is notified.

use crate::HealthKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Value of each second that is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertReduction {
    /// The whole value: operations or bytes per second, a size, a percentage.
    Total,
    /// Of a heat map: the average of the breakdown field, such as the latency.
    Average,
    /// Of a heat map: a percentile of the breakdown field, rounded down to the lower edge of its
    /// row.
    Percentile,
    /// Of a statistic that is broken down by something else than a number, such as
    /// `cap.percentfull[pool]`: the largest value of the breakdown.
    Largest,
}

/// Side of the limit on which the alert fires. A value equal to the limit does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertSide {
    /// Fires while values exceed the limit.
    Above,
    /// Fires while values are less than the limit.
    Below,
}

/// Receiver of notifications when an alert fires and when it clears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AlertAction {
    /// An HTTP server: a POST with an `AlertNotice` as JSON. Redirections are not followed.
    Webhook {
        /// URL of the server, which begins with `https://` or `http://`.
        url: String,
    },
    /// A mail, sent by the command `alerts.mail_command` of the configuration.
    Mail {
        /// Mail addresses of the recipients.
        to: Vec<String>,
    },
    /// The system log that `alerts.syslog` of the configuration names.
    Syslog,
}

/// Definition of an alert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertRule {
    /// Title, 1 to 200 characters.
    pub title: String,
    /// Name of the statistic, such as `nfs3.ops[op=read][latency]`. It is counted as long as the
    /// alert exists.
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
    /// Seconds in a row that values must be beyond the limit until the alert fires: 1 to 86,400,
    /// default 60.
    #[serde(default = "minute")]
    pub for_seconds: u32,
    /// Seconds in a row that values must not be beyond the limit until the alert clears: 1 to
    /// 86,400, default 60.
    #[serde(default = "minute")]
    pub clear_seconds: u32,
    /// Whether the alert is not evaluated. Default false.
    #[serde(default)]
    pub suspended: bool,
    /// Time until which the alert is silenced, in seconds since 1970; absent if it is not. It is
    /// evaluated and shown, but notifies no receiver, posts no event, and is no reason of
    /// `GET /v1/health`. Receivers are notified afterwards if it still fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_until: Option<u64>,
    /// Receivers of notifications, besides the daemon's events: at most 8.
    #[serde(default)]
    pub actions: Vec<AlertAction>,
}

impl AlertRule {
    /// Whether it is silenced at `now`, in seconds since 1970.
    pub fn is_silent(&self, now: u64) -> bool {
        self.silent_until.is_some_and(|until| until > now)
    }
}

fn minute() -> u32 {
    60
}

/// An alert: its definition and its current state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    /// Number of the alert, assigned at creation; used in paths.
    pub id: u32,
    /// Statistic, limit, times and receivers.
    pub rule: AlertRule,
    /// User who created it or changed it last.
    pub owner: String,
    /// The condition of `GET /v1/health` that this built-in alert reports; absent for alerts that
    /// users created. Built-in alerts can be changed, silenced and suspended, but not deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builtin: Option<HealthKind>,
    /// Unit of the limit and of the values, such as `ops/s`, `ns` or `percent`.
    pub unit: String,
    /// Time since which it has been firing, in seconds since 1970; absent if it does not fire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firing_since: Option<u64>,
    /// Value of the last second that had one, in the unit of the limit; absent if there was none
    /// yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_value: Option<f64>,
    /// Number of notifications that are not delivered yet.
    pub waiting: u64,
    /// Error of the last notification that could not be delivered; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// All alerts, in one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertList {
    /// Alerts that exist, including suspended ones.
    pub items: Vec<Alert>,
}

/// Body of a webhook request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AlertNotice {
    /// Number of the alert.
    pub alert: u32,
    /// Title of the alert.
    pub title: String,
    /// Whether the alert has begun to fire or has cleared.
    pub state: AlertState,
    /// Second in which it fired or cleared, since 1970.
    pub second: u64,
    /// Name of the statistic that is watched.
    pub statistic: String,
    /// Value in that second; absent if there was none, such as the average latency of no
    /// operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The limit from the definition of the alert.
    pub limit: f64,
    /// Unit of `value` and `limit`.
    pub unit: String,
    /// Host name of the machine that sends the notification.
    pub host: String,
    /// All of this in one sentence, for people.
    pub message: String,
}

/// Change of an alert that a notification reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AlertState {
    /// The values were beyond the limit for `for_seconds`.
    Firing,
    /// The values were not beyond the limit for `clear_seconds`.
    Cleared,
}
