//! Converts pools and devices to API types.

use admin::OwnedPool;
use admin::advice;
use admin::health::{self, Reason, state_name};
use admin::view::PoolView;
use anyhow::Result;
use api::{
    Device, Feature, FeatureState, Health, Io, Pool, PoolDetail, Property, PropertyDefinition, PropertyOf, Scan,
    Source, State, ValueKind,
};
use pool::property::{Kind, Property as PoolProperty, PropertyContext, Source as PoolSource, Value};
use pool::status::{PoolStatus, Progress, ScanKind, ScanStatus, VdevAux, VdevState, VdevStatus};
use std::sync::Arc;

/// Limit for the damaged files that are listed.
const NAMED: usize = 1_000;

/// The current view of a pool.
pub fn pool_view(pool: &Arc<OwnedPool>) -> Result<PoolView> {
    pool.view()
}

fn state(word: &str) -> State {
    match word {
        "ONLINE" => State::Online,
        "DEGRADED" => State::Degraded,
        "FAULTED" => State::Faulted,
        "OFFLINE" => State::Offline,
        "REMOVED" => State::Removed,
        "UNAVAIL" => State::Unavail,
        "SPLIT" => State::Split,
        _ => State::Unknown,
    }
}

/// Joins the lines into which the sentences of `zpool status` are broken for terminals.
fn unbroken(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Health of a pool, imported or importable.
pub fn health(reason: Reason) -> Health {
    let (status, action) = advice::imported(reason).unwrap_or_default();
    let some = |text: String| Some(unbroken(&text)).filter(|t| !t.is_empty());
    Health {
        ok: reason.is_healthy(),
        status: some(status),
        action: some(action),
        see: reason.message_id().map(|id| format!("https://openzfs.github.io/openzfs-docs/msg/{id}")),
    }
}

/// A pool, in short form.
pub fn pool(owned: &OwnedPool, view: &PoolView) -> Result<Pool> {
    let (status, stats) = (&view.status, &view.properties.stats);
    let mut health = health(health::reason(status, false));
    let mut shown = state(health::pool_state(status));
    if let Some(failure) = owned.writable().and_then(|w| w.writer().failure()) {
        shown = State::Suspended;
        health = Health {
            ok: false,
            status: Some(format!("Devices refuse writes: {failure}. Reads continue, changes wait.")),
            action: Some("Make sure the devices are connected, then run 'zpool clear'.".to_owned()),
            see: Some("https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-HC".to_owned()),
        };
    }
    if let (true, Some(silence)) = (health.ok, view.silence()) {
        health = Health { ok: false, status: Some(silence), action: None, see: None };
    }
    if let (true, Some(why)) = (health.ok, owned.why_read_only()) {
        health =
            Health { ok: false, status: Some(format!("The pool is open read-only: {why}")), action: None, see: None };
    }
    Ok(Pool {
        name: view.properties.name.clone(),
        guid: view.properties.guid.to_string(),
        state: shown,
        health,
        read_only: owned.writable().is_none(),
        size_bytes: stats.size_bytes,
        allocated_bytes: stats.allocated_bytes,
        free_bytes: stats.free_bytes,
        capacity_percent: stats.capacity_percent(),
        fragmentation_percent: stats.fragmentation_percent,
        used_bytes: view.used_bytes,
        available_bytes: view.available_bytes,
        dedup_ratio: stats.dedup_ratio as f64 / 100.0,
        altroot: view.properties.altroot.clone(),
        error_count: status.error_count,
        txg: view.txg,
        scan: status.scan.as_ref().and_then(scan),
    })
}

fn scan(scan: &ScanStatus) -> Option<Scan> {
    let kind = match scan.kind {
        ScanKind::Scrub => "scrub",
        ScanKind::Resilver => "resilver",
        ScanKind::None | ScanKind::ErrorScrub => return None,
    };
    let state = match scan.state {
        Progress::None => return None,
        Progress::Active if scan.pause_time != 0 => "paused",
        Progress::Active => "active",
        Progress::Finished => "finished",
        Progress::Cancelled => "cancelled",
    };
    Some(Scan {
        kind: kind.to_owned(),
        state: state.to_owned(),
        started: scan.start_time,
        ended: (scan.state != Progress::Active).then_some(scan.end_time),
        done_bytes: scan.issued_bytes(),
        total_bytes: scan.to_examine_bytes.saturating_sub(scan.skipped_bytes),
        repaired_bytes: scan.processed_bytes,
        errors: scan.errors,
    })
}

/// A pool with its devices.
pub fn pool_detail(owned: &Arc<OwnedPool>) -> Result<PoolDetail> {
    let view = pool_view(owned)?;
    let status = &view.status;
    let mut damaged_files = match status.error_count {
        0 => Vec::new(),
        _ => owned.damaged_files()?,
    };
    damaged_files.truncate(NAMED);
    Ok(PoolDetail {
        pool: pool(owned, &view)?,
        devices: device(&status.root, false),
        caches: status.caches.iter().map(|d| device(d, false)).collect(),
        spares: status.spares.iter().map(|d| device(d, true)).collect(),
        features: features(&view.properties),
        damaged_files,
        warnings: view.warnings.iter().cloned().chain(view.silence()).collect(),
        activity: activity(status),
    })
}

fn activity(status: &PoolStatus) -> Vec<String> {
    let percent = |done: u64, of: u64| 100.0 * done as f64 / of.max(1) as f64;
    let mut found = Vec::new();
    if let Some(r) = status.removal.as_ref().filter(|r| r.state == Progress::Active) {
        found.push(format!("A device is being removed: {:.1}% copied", percent(r.copied_bytes, r.to_copy_bytes)));
    }
    if let Some(c) = &status.checkpoint {
        found.push(match c.discarding {
            true => "The checkpoint is being discarded".to_owned(),
            false => format!("A checkpoint exists and holds {} bytes", c.space_bytes),
        });
    }
    if let Some(e) = status.expand.as_ref().filter(|e| e.state == Progress::Active) {
        found.push(format!(
            "A raidz device is being expanded: {:.1}% copied",
            percent(e.reflowed_bytes, e.to_reflow_bytes)
        ));
    }
    found
}

/// A device and all devices below it.
pub fn device(vdev: &VdevStatus, is_spare: bool) -> Device {
    let word = state_name(vdev.state, vdev.aux);
    let shown = match (is_spare, vdev.state, vdev.aux) {
        (true, VdevState::Healthy, _) => State::Avail,
        (true, _, VdevAux::Spared) => State::Inuse,
        _ => state(word),
    };
    Device {
        name: vdev.name.clone(),
        kind: vdev.kind.clone(),
        class: vdev.class.json_name().to_owned(),
        guid: vdev.guid.to_string(),
        state: shown,
        reason: (vdev.aux != VdevAux::None).then(|| vdev.aux.json_name().to_lowercase().replace('_', " ")),
        path: vdev.path.clone(),
        io: (vdev.phys_bytes > 0).then_some(if vdev.is_direct { Io::Direct } else { Io::Buffered }),
        read_errors: vdev.read_errors,
        write_errors: vdev.write_errors,
        checksum_errors: vdev.checksum_errors,
        slow_operations: vdev.slow_ios,
        self_healed_bytes: vdev.self_healed_bytes,
        read_operations: vdev.read_ops,
        read_bytes: vdev.read_bytes,
        write_operations: vdev.write_ops,
        write_bytes: vdev.write_bytes,
        size_bytes: vdev.space_bytes,
        allocated_bytes: vdev.alloc_bytes,
        fragmentation_percent: vdev.fragmentation_percent,
        children: vdev.children.iter().map(|d| device(d, is_spare)).collect(),
    }
}

fn features(context: &PropertyContext) -> Vec<Feature> {
    let features = context.all().into_iter().filter_map(|p| {
        let name = p.name.strip_prefix("feature@")?.to_owned();
        let Value::Text(word) = p.value else { return None };
        let state = match word.as_str() {
            "disabled" => FeatureState::Disabled,
            "enabled" => FeatureState::Enabled,
            _ => FeatureState::Active,
        };
        Some(Feature { name, state })
    });
    features.collect()
}

/// All properties of a pool.
pub fn pool_properties(context: &PropertyContext) -> Vec<Property> {
    context.all().iter().map(pool_property).collect()
}

fn pool_property(property: &PoolProperty) -> Property {
    let kind = property.def.map(|d| d.kind);
    let (value, text) = match (&property.value, kind) {
        (Value::Absent, _) => ("-".to_owned(), "-".to_owned()),
        (Value::Text(text), _) => (text.clone(), text.clone()),
        (Value::Number(n), Some(Kind::Bytes)) => (n.to_string(), dataset::property::format::nice_bytes(*n)),
        (Value::Number(n), Some(Kind::Percent)) => (n.to_string(), format!("{n}%")),
        (Value::Number(n), Some(Kind::Ratio)) => {
            let ratio = format!("{}.{:02}", n / 100, n % 100);
            (ratio.clone(), format!("{ratio}x"))
        }
        (Value::Number(n), _) => (n.to_string(), n.to_string()),
    };
    let source = match property.source {
        PoolSource::None => Source::None,
        PoolSource::Default => Source::Default,
        PoolSource::Local => Source::Local,
    };
    let editable = match property.def {
        Some(def) => !def.readonly,
        None => !property.name.starts_with("unsupported@") && value != "active",
    };
    Property { name: property.name.clone(), value, text, source, inherited_from: None, editable }
}

/// Definitions of the pool properties.
pub fn pool_definitions() -> impl Iterator<Item = PropertyDefinition> {
    pool::property::CATALOGUE.iter().filter(|d| d.listed).map(|def| PropertyDefinition {
        name: def.name.to_owned(),
        of: PropertyOf::Pool,
        kind: match def.kind {
            Kind::Bytes => ValueKind::Bytes,
            Kind::Id | Kind::Text => ValueKind::Text,
            Kind::Number | Kind::Percent => ValueKind::Number,
            Kind::Ratio => ValueKind::Ratio,
            Kind::Word(_) => ValueKind::Choice,
        },
        choices: match def.kind {
            Kind::Word(words) => words.iter().map(|w| (*w).to_owned()).collect(),
            _ => Vec::new(),
        },
        default: None,
        values: def.values.to_owned(),
        help: def.help.to_owned(),
        editable: !def.readonly,
        set_once: false,
        inheritable: false,
        kinds: Vec::new(),
    })
}
