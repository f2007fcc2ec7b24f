//! Names of the conditions.

use api::HealthKind;

/// Name of a condition, as in the API.
pub(super) fn kind_name(kind: HealthKind) -> &'static str {
    match kind {
        HealthKind::Pool => "pool",
        HealthKind::Device => "device",
        HealthKind::Space => "space",
        HealthKind::SlowDisk => "slow_disk",
        HealthKind::Scrub => "scrub",
        HealthKind::Replication => "replication",
        HealthKind::Certificate => "certificate",
        HealthKind::Clients => "clients",
        HealthKind::Alert => "alert",
    }
}
