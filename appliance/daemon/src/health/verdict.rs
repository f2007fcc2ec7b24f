//! The verdict: inputs in, reasons out. No clock, no files, no locks.
//!
//! Invariants:
//!   * an input that is absent gives no reason
//!   * the verdict is the severity of the most severe reason, and `good` without reasons

mod devices;
mod disks;
#[cfg(test)]
mod tests;

use super::inputs::{Inputs, LastScan, PoolInput, StreamRecord, Validity};
use super::limits::*;
use super::reason::{page_of, reason};
use api::{Alert, HealthKind, HealthReason, HealthVerdict, JobKind, SystemHealth};
use dataset::property::format::nice_bytes;
pub use disks::slow_disks;
use serve::nfs::Refusal;
use std::cmp::Reverse;

const DAY: u64 = 86_400;

/// The verdict on everything.
pub fn assess(inputs: &Inputs) -> SystemHealth {
    let mut reasons: Vec<HealthReason> = inputs.closed.iter().map(|name| closed(name)).collect();
    for pool in &inputs.pools {
        devices::add(pool, &mut reasons);
        reasons.extend(space(pool));
        reasons.extend(slow_disks(&pool.disks).iter().map(|slow| disks::reason(&pool.pool.name, slow)));
        reasons.extend(scrub(pool, inputs.now));
    }
    reasons.extend(inputs.streams.iter().filter_map(|stream| replication(stream, inputs.now)));
    reasons.extend(inputs.certificate.and_then(|validity| certificate(validity, inputs.now)));
    reasons.extend(clients(&inputs.refusals, inputs.now));
    let found: Vec<HealthKind> = reasons.iter().map(|reason| reason.kind).collect();
    reasons.extend(inputs.alerts.iter().filter_map(|one| alert(one, &found, inputs.now)));
    reasons.sort_by_key(|reason| Reverse(reason.severity));
    let verdict = reasons.first().map_or(HealthVerdict::Good, |reason| reason.severity);
    SystemHealth { verdict, reasons }
}

fn days(seconds: u64) -> String {
    match seconds / DAY {
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

fn closed(name: &str) -> HealthReason {
    let what = "The pool is imported, but could not be opened. Its data is not served.".to_owned();
    let action = Some("The log of the daemon gives the reason. Connect missing devices, then restart it.".to_owned());
    HealthReason { action, ..reason(HealthVerdict::Serious, HealthKind::Pool, name, what, "/pools".to_owned()) }
}

/// Used space in percent of what datasets can use, without the slop space; `None` if the pool has
/// none, or its space is not known.
pub fn percent_used(pool: &api::Pool) -> Option<u64> {
    let usable = u128::from(pool.used_bytes) + u128::from(pool.available_bytes);
    let percent = (u128::from(pool.used_bytes) * 100).checked_div(usable)?;
    u64::try_from(percent).ok()
}

fn space(input: &PoolInput) -> Option<HealthReason> {
    let pool = &input.pool;
    // A pool that is imported read-only cannot become fuller, and nothing can be destroyed in it.
    let percent = percent_used(pool).filter(|percent| !pool.read_only && *percent > SPACE_ATTENTION_PERCENT)?;
    let (severity, consequence) = match () {
        () if percent > SPACE_CRITICAL_PERCENT => (HealthVerdict::Serious, "Writes fail when nothing is available."),
        () if percent > SPACE_SERIOUS_PERCENT => {
            (HealthVerdict::Serious, "Writes become slow, because free space is fragmented.")
        }
        () => (HealthVerdict::Attention, "Writes become slower as a pool fills."),
    };
    let what = format!(
        "{percent} % of the usable space is used, {} are available. {consequence}",
        nice_bytes(pool.available_bytes)
    );
    let action = Some("Destroy snapshots or data that are not needed, or add devices.".to_owned());
    Some(HealthReason { action, ..reason(severity, HealthKind::Space, &pool.name, what, page_of(&pool.name)) })
}

fn scrub(input: &PoolInput, now: u64) -> Option<HealthReason> {
    let since = input.scan.unscrubbed_since()?;
    let age = now.checked_sub(since).filter(|age| *age > SCRUB_DAYS * DAY && !input.pool.read_only)?;
    let what = match input.scan {
        LastScan::Finished(_) => format!("The last scrub finished {} ago.", days(age)),
        LastScan::NoneSince(_) => format!("The pool was created {} ago and never scrubbed.", days(age)),
        LastScan::OtherEnded(_) | LastScan::Unknown => format!("No scrub has finished for {}.", days(age)),
    };
    let what = format!("{what} Damage to data that is not read stays unnoticed.");
    let (name, link) = (&input.pool.name, page_of(&input.pool.name));
    let action = Some("Start a scrub, best every month.".to_owned());
    let since = Some(since);
    Some(HealthReason { action, since, ..reason(HealthVerdict::Attention, HealthKind::Scrub, name, what, link) })
}

/// A failure of a dataset that was replicated before: a first attempt is not replication yet.
fn replication(stream: &StreamRecord, now: u64) -> Option<HealthReason> {
    let (success, (time, why)) = (stream.last_success?, stream.failure.as_ref()?);
    if now.saturating_sub(*time) > STREAM_DAYS * DAY {
        return None;
    }
    let verb = if stream.kind == JobKind::Receive { "receive" } else { "send" };
    let age = match now.saturating_sub(success) / 3600 {
        hours @ 0..48 => format!("{hours} h"),
        _ => days(now.saturating_sub(success)),
    };
    let what = format!("The last {verb} failed: {why}. The last successful one ended {age} ago.");
    let action = Some("Check the other system and the network, then replicate again.".to_owned());
    let made = reason(HealthVerdict::Attention, HealthKind::Replication, &stream.dataset, what, "/jobs".to_owned());
    Some(HealthReason { action, since: Some(*time), ..made })
}

fn certificate(validity: Validity, now: u64) -> Option<HealthReason> {
    let lifetime = validity.not_after.saturating_sub(validity.not_before);
    let left = validity.not_after.saturating_sub(now);
    let limit = |days: u64| (days * DAY).min(lifetime / CERTIFICATE_LAST_PART);
    let (severity, what) = match left {
        0 => (HealthVerdict::Serious, "The certificate has expired. Browsers and programs refuse it.".to_owned()),
        _ if left > limit(CERTIFICATE_ATTENTION_DAYS) => return None,
        _ => {
            let serious = left <= limit(CERTIFICATE_SERIOUS_DAYS);
            let severity = if serious { HealthVerdict::Serious } else { HealthVerdict::Attention };
            let time = if left < DAY { format!("{} h", left / 3600) } else { days(left) };
            (severity, format!("The certificate expires in {time}. Browsers and programs then refuse it."))
        }
    };
    let action = Some("Renew the file that api.certificate names, then reload the configuration.".to_owned());
    let since = (left == 0).then_some(validity.not_after);
    Some(HealthReason {
        action,
        since,
        ..reason(severity, HealthKind::Certificate, "HTTPS", what, "/system".to_owned())
    })
}

fn clients(refusals: &[(Refusal, u64, u64)], now: u64) -> Option<HealthReason> {
    let recent: Vec<_> = refusals
        .iter()
        .filter(|(_, count, last)| *count > 0 && *last > 0 && now.saturating_sub(*last) <= REFUSED_SECONDS)
        .collect();
    let last = recent.iter().map(|(.., last)| *last).max()?;
    let tables: Vec<String> =
        recent.iter().map(|(table, count, _)| format!("{} ({count} times)", words(*table))).collect();
    let what = format!(
        "Clients were refused, because the server holds as many as it can of: {}. Their mounts or operations wait.",
        tables.join(", ")
    );
    let action = Some("Unmount what is not used, or look for a client that opens more and more.".to_owned());
    let made = reason(HealthVerdict::Attention, HealthKind::Clients, "NFS", what, "/clients".to_owned());
    Some(HealthReason { action, since: Some(last), ..made })
}

fn words(table: Refusal) -> &'static str {
    match table {
        Refusal::Clients => "NFSv4 clients",
        Refusal::Sessions => "NFSv4.1 sessions",
        Refusal::Owners => "NFSv4.0 open and lock owners",
        Refusal::Opens => "NFSv4 opens and locks",
        Refusal::Connections => "connections",
    }
}

/// A firing alert. A built-in one adds nothing if its condition is a reason already.
fn alert(alert: &Alert, found: &[HealthKind], now: u64) -> Option<HealthReason> {
    let since = alert.firing_since?;
    if alert.rule.suspended || alert.rule.is_silent(now) || alert.builtin.is_some_and(|kind| found.contains(&kind)) {
        return None;
    }
    let unit = &alert.unit;
    let side = if alert.rule.side == api::AlertSide::Above { "above" } else { "below" };
    let value = alert.last_value.map_or_else(String::new, |value| format!(": {value} {unit}"));
    let what = format!("The alert fires{value}, {side} {} {unit}.", alert.rule.limit);
    let made =
        reason(HealthVerdict::Attention, HealthKind::Alert, &alert.rule.title, what, "/analytics/alerts".to_owned());
    Some(HealthReason { since: Some(since), ..made })
}
