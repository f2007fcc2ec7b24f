//! Statistics of the conditions behind the verdict on the whole system.

use super::statistic::{Shown, Statistic, sampled};
use crate::name::Field;

const fn level(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    fields: &'static [Field],
    help: &'static str,
) -> Statistic {
    sampled(name, "Health", title, unit, Shown::Level, fields, help)
}

pub const REASONS: Statistic = level(
    "health.reasons",
    "Health: reasons",
    "reasons",
    &[Field::Component],
    "Reasons why the verdict on the system is not good, by condition.",
);
pub const DEVICES: Statistic = level(
    "health.devices",
    "Health: devices that need attention",
    "devices",
    &[Field::Pool],
    "Devices that are not in service or had errors.",
);
pub const SLOW_DISKS: Statistic = level(
    "health.slowdisks",
    "Health: slow disks",
    "disks",
    &[Field::Pool, Field::Disk],
    "Devices whose 99th percentile of latency, over 10 minutes, is at least 5 times that of their siblings.",
);
pub const SCRUB_DAYS: Statistic = level(
    "health.scrubdays",
    "Health: days since the last scrub",
    "days",
    &[Field::Pool],
    "Days since a scrub finished or, without one, since the pool was created. Not recorded if it is not known.",
);
pub const REPLICATION_HOURS: Statistic = level(
    "health.replicationhours",
    "Health: hours since the last replication",
    "hours",
    &[Field::Share],
    "Hours since the last successful send or receive of a dataset. Not recorded if there was none.",
);
pub const CERTIFICATE_DAYS: Statistic = level(
    "health.certificatedays",
    "Health: days until the certificate expires",
    "days",
    &[],
    "Days until the certificate for HTTPS expires; 0 if it has expired. Not recorded without HTTPS.",
);
