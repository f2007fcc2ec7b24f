//! Built-in alerts: one for each condition of `health`. They exist from the first start. Users
//! change their limits and receivers, silence and suspend them.

use super::contents::{Stored, StoredAlert};
use crate::health::limits;
use api::{AlertReduction, AlertRule, AlertSide, HealthKind};

/// A built-in alert.
pub struct BuiltIn {
    /// Identifies it in `alerts.json`; never reused.
    pub id: &'static str,
    /// The condition that it reports.
    pub kind: HealthKind,
    title: &'static str,
    statistic: &'static str,
    reduction: AlertReduction,
    side: AlertSide,
    limit: f64,
    /// Seconds until it fires, and until it clears.
    seconds: (u32, u32),
    suspended: bool,
}

/// More than 0 of something for a minute.
const fn any(id: &'static str, kind: HealthKind, title: &'static str, statistic: &'static str) -> BuiltIn {
    let (reduction, side) = (AlertReduction::Total, AlertSide::Above);
    BuiltIn { id, kind, title, statistic, reduction, side, limit: 0.0, seconds: (60, 60), suspended: false }
}

const fn space(id: &'static str, title: &'static str, percent: u64) -> BuiltIn {
    let reduction = AlertReduction::Largest;
    BuiltIn { reduction, limit: percent as f64, ..any(id, HealthKind::Space, title, "cap.percentfull[pool]") }
}

/// The built-in alerts. Limits are those of the verdict.
pub const BUILT_IN: &[BuiltIn] = &[
    any("pool", HealthKind::Pool, "A pool is not open or has damage", "health.reasons[component=pool]"),
    any("device", HealthKind::Device, "Devices need attention", "health.devices"),
    space("space-80", "A pool is more than 80 % full", limits::SPACE_ATTENTION_PERCENT),
    space("space-90", "A pool is more than 90 % full", limits::SPACE_SERIOUS_PERCENT),
    space("space-95", "A pool is more than 95 % full", limits::SPACE_CRITICAL_PERCENT),
    any("slow-disk", HealthKind::SlowDisk, "A disk is slower than its siblings", "health.slowdisks"),
    BuiltIn {
        reduction: AlertReduction::Largest,
        limit: limits::SCRUB_DAYS as f64,
        ..any("scrub", HealthKind::Scrub, "A pool was not scrubbed", "health.scrubdays[pool]")
    },
    any("replication", HealthKind::Replication, "Replication failed", "health.reasons[component=replication]"),
    // How often datasets are replicated is not known: the limit fits once a day, and the alert is
    // for those who resume it.
    BuiltIn {
        reduction: AlertReduction::Largest,
        limit: 26.0,
        suspended: true,
        ..any(
            "replication-age",
            HealthKind::Replication,
            "A dataset was not replicated",
            "health.replicationhours[share]",
        )
    },
    BuiltIn {
        side: AlertSide::Below,
        limit: limits::CERTIFICATE_ATTENTION_DAYS as f64,
        ..any("certificate", HealthKind::Certificate, "The certificate expires", "health.certificatedays")
    },
    // Single requests are refused, and retried after a while.
    BuiltIn { seconds: (1, 3600), ..any("clients", HealthKind::Clients, "NFS clients are refused", "nfs.refused") },
];

impl BuiltIn {
    fn rule(&self) -> AlertRule {
        AlertRule {
            title: self.title.to_owned(),
            statistic: self.statistic.to_owned(),
            reduction: self.reduction,
            percentile: None,
            side: self.side,
            limit: self.limit,
            for_seconds: self.seconds.0,
            clear_seconds: self.seconds.1,
            suspended: self.suspended,
            silent_until: None,
            actions: Vec::new(),
        }
    }
}

/// The condition of a built-in alert.
pub fn kind(id: &str) -> Option<HealthKind> {
    BUILT_IN.iter().find(|one| one.id == id).map(|one| one.kind)
}

/// Adds the built-in alerts that are missing: all at the first start, new ones after an update.
pub fn add(kept: &mut Stored) {
    let missing = |one: &&BuiltIn| !kept.alerts.values().any(|alert| alert.builtin.as_deref() == Some(one.id));
    let missing: Vec<&BuiltIn> = BUILT_IN.iter().filter(missing).collect();
    for one in &missing {
        kept.last_alert += 1;
        let alert = StoredAlert { builtin: Some(one.id.to_owned()), ..StoredAlert::new(one.rule(), "weir") };
        kept.alerts.insert(kept.last_alert, alert);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Ready;
    use super::*;
    use crate::config::Config;

    #[test]
    fn built_in_rules_are_valid_and_added_once() {
        let mut kept = Stored::default();
        add(&mut kept);
        add(&mut kept);
        assert_eq!(kept.alerts.len(), BUILT_IN.len());
        for alert in kept.alerts.values() {
            let ready = Ready::new(&alert.rule, &Config::default().alerts).expect("valid");
            assert!(!ready.unit().is_empty(), "{}", alert.rule.title);
        }
        let ids: std::collections::BTreeSet<_> = BUILT_IN.iter().map(|one| one.id).collect();
        assert_eq!(ids.len(), BUILT_IN.len());
    }
}
