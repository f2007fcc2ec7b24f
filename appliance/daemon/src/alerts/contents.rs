//! Contents of `alerts.json`.

use analytics::alert::Watch;
use api::{AlertAction, AlertNotice, AlertRule};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Contents of `alerts.json`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Stored {
    pub alerts: BTreeMap<u32, StoredAlert>,
    pub last_alert: u32,
    pub notices: BTreeMap<u64, Waiting>,
    pub last_notice: u64,
}

/// An alert, its evaluation, and the last failure to deliver one of its notices.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredAlert {
    pub rule: AlertRule,
    pub owner: String,
    pub watch: Watch,
    #[serde(default)]
    pub last_error: Option<String>,
    /// Which built-in alert it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<String>,
    /// It began to fire while it was silenced, and no receiver was notified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreported: bool,
}

impl StoredAlert {
    /// An alert whose evaluation begins now.
    pub fn new(rule: AlertRule, owner: &str) -> Self {
        let (watch, last_error) = Default::default();
        Self { rule, owner: owner.to_owned(), watch, last_error, builtin: None, unreported: false }
    }
}

/// A notice for one receiver.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waiting {
    pub action: AlertAction,
    pub notice: AlertNotice,
    pub attempts: u32,
    /// Earliest time of delivery: seconds since 1970.
    pub due: u64,
    #[serde(skip)]
    pub under_way: bool,
}
