//! Watches the pools: reports changes of their state, and sends their status to subscribers.

use crate::events::Happening;
use crate::jobs::Finished;
use crate::scan_job;
use crate::service::{ReadPool, Service};
use admin::OwnedPool;
use admin::latest::{Found, Latest};
use api::{Device, EventKind, JobKind, LiveMessage, Pool, State};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Interval while there are subscribers.
const LISTENED: Duration = Duration::from_secs(2);
/// Interval while there are none.
const ALONE: Duration = Duration::from_secs(10);

/// Interval at which the progress of freeing is updated.
const FREEING: Duration = Duration::from_millis(500);

/// Last observed state of a pool.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    state: State,
    errors: u64,
    /// By path or name: state of each device, and its number of errors.
    devices: BTreeMap<String, (State, u64)>,
}

/// Object of a piece of upkeep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UpkeepTarget {
    Pool(u64),
    Smb,
    Nfs,
}

/// Work that waits for devices. A pool target devices do not respond delays only its own work.
#[derive(Default)]
struct Upkeep(BTreeMap<UpkeepTarget, Latest<()>>);

impl Upkeep {
    fn of(&mut self, target: UpkeepTarget, work: impl FnOnce() + Send + 'static) {
        let done = self.0.entry(target).or_default().get(move || {
            work();
            Ok(())
        });
        match done {
            Ok(Found::Fresh(())) => {}
            Ok(_) => tracing::debug!(?target, "devices do not answer: maintenance is postponed"),
            Err(error) => tracing::warn!(?target, error = %format!("{error:#}"), "maintenance failed"),
        }
    }

    fn keep_only(&mut self, pools: &[Arc<OwnedPool>]) {
        self.0.retain(|target, _| match target {
            UpkeepTarget::Pool(guid) => pools.iter().any(|pool| pool.guid() == *guid),
            UpkeepTarget::Smb | UpkeepTarget::Nfs => true,
        });
    }
}

/// Watches until [`crate::wake::Wake::end`], in a thread of its own.
pub fn watch(service: &Arc<Service>) {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let mut published: Vec<Pool> = Vec::new();
    let mut upkeep = Upkeep::default();
    let mut judged = None;
    loop {
        let longest = if service.events.heard() { LISTENED } else { ALONE };
        if !service.signals.watch.wait(longest) {
            return;
        }
        if !service.owner.is_ready() {
            continue;
        }
        let refreshing = service.clone();
        upkeep.of(UpkeepTarget::Smb, move || refreshing.servers.smb.refresh(&refreshing.settings.now().smb));
        let read = service.read_pools();
        let now: BTreeMap<String, Seen> = read.iter().map(|read| (read.pool.name.clone(), look(read))).collect();
        let open = service.owner.house.list();
        upkeep.keep_only(&open);
        for pool in open {
            let service = service.clone();
            upkeep.of(UpkeepTarget::Pool(pool.guid()), move || {
                freeing(&service, &pool);
                scan_job::show(&service.jobs, &pool);
                other_devices(&pool);
                spares(&pool);
                cache_file(&service, &pool);
            });
        }
        for happening in differences(&seen, &now) {
            service.events.post(happening);
        }
        if seen.keys().ne(now.keys()) {
            service.servers.exports.changed();
        }
        // Removed shares are dropped without waiting for a client's call: their pool may be closed.
        let refreshing = service.clone();
        upkeep.of(UpkeepTarget::Nfs, move || refreshing.servers.refresh_nfs());
        seen = now;
        let health = service.health.assess(service, &read);
        let pools: Vec<Pool> = read.into_iter().map(|read| read.pool).collect();
        if !same(&pools, &published) {
            service.events.pass(LiveMessage::Pools { pools: pools.clone() });
            published = pools;
        }
        if judged.as_ref() != Some(&health) {
            service.events.pass(LiveMessage::Health { health: health.clone() });
            judged = Some(health);
        }
        let clients = service.servers.clients();
        if !clients.is_empty() && service.events.heard() {
            service.events.pass(LiveMessage::Clients { clients });
        }
    }
}

/// Expands devices that became larger, and replaces missing devices with new ones in the same
/// place, if the properties `autoexpand` and `autoreplace` are on.
fn other_devices(pool: &OwnedPool) {
    let Some(writable) = pool.writable() else { return };
    match writable.writer().autoexpand() {
        Ok(true) => tracing::info!(pool = pool.name(), "devices became larger, and the pool was expanded"),
        Ok(false) => {}
        Err(error) => tracing::debug!(pool = pool.name(), %error, "cannot expand devices"),
    }
    match admin::autoreplace::replace(writable) {
        Ok(paths) => paths.iter().for_each(|device| {
            tracing::warn!(pool = pool.name(), device, "a device was replaced automatically");
        }),
        Err(error) => {
            tracing::debug!(pool = pool.name(), error = %format!("{error:#}"), "automatic replacement failed")
        }
    }
}

/// Replaces lost devices with hot spares.
fn spares(pool: &OwnedPool) {
    let Some(writable) = pool.writable() else { return };
    match admin::spares::step_in(writable) {
        Ok(pairs) => pairs.iter().for_each(|(lost, spare)| {
            tracing::warn!(pool = pool.name(), lost, spare, "a hot spare replaces a device");
        }),
        Err(error) => tracing::debug!(pool = pool.name(), error = %format!("{error:#}"), "no hot spare can be used"),
    }
}

/// Notes devices that changed in the background in the pool's cache file.
fn cache_file(service: &Service, pool: &OwnedPool) {
    let Some(writable) = pool.writable() else { return };
    if let Err(error) = admin::cache_file::refresh(service.owner.house.state(), &pool.record(), writable) {
        tracing::debug!(pool = pool.name(), error = %format!("{error:#}"), "cannot be noted in its cache file");
    }
}

/// Bytes of destroyed datasets that the pool has not freed yet.
fn left(pool: &OwnedPool) -> u64 {
    pool.pool().and_then(|pool| Ok(pool.freeing_bytes()?)).unwrap_or(0)
}

/// Shows the freeing of destroyed datasets as a job. The pool itself does it.
fn freeing(service: &Arc<Service>, pool: &Arc<OwnedPool>) {
    let name = pool.name();
    let is_shown = || service.jobs.running_on(&[JobKind::Destroy], &name).is_some();
    if pool.writable().is_none() || left(pool) == 0 || is_shown() {
        return;
    }
    let pool = pool.clone();
    let started = service.jobs.start(JobKind::Destroy, &name, "the pool", move |running| {
        let mut most = 0;
        loop {
            let left = left(&pool);
            most = most.max(left);
            running.progress("freeing destroyed datasets", most - left, most);
            if left == 0 {
                let message = Some("all space of destroyed datasets is free".to_owned());
                return Ok(Finished { message, verification: None });
            }
            if running.is_cancelled() {
                return Ok(Finished::default());
            }
            std::thread::sleep(FREEING);
        }
    });
    if let Err(why) = started {
        tracing::debug!(pool = name, why, "cannot show freeing");
    }
}

/// Whether both are equal, ignoring the newest txg, which always changes.
fn same(a: &[Pool], b: &[Pool]) -> bool {
    let still = |pool: &Pool| Pool { txg: 0, ..pool.clone() };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| still(a) == still(b))
}

fn look(read: &ReadPool) -> Seen {
    fn leaves(device: &Device, found: &mut BTreeMap<String, (State, u64)>) {
        device.children.iter().for_each(|child| leaves(child, found));
        if device.children.is_empty() && !matches!(device.kind.as_str(), "hole" | "indirect" | "root") {
            let name = device.path.clone().unwrap_or_else(|| device.name.clone());
            found.insert(name, (device.state, device.read_errors + device.write_errors + device.checksum_errors));
        }
    }
    let mut found = BTreeMap::new();
    read.devices().chain(read.spares()).for_each(|device| leaves(&device, &mut found));
    Seen { state: read.pool.state, errors: read.pool.error_count, devices: found }
}

/// The changes, in sentences.
fn differences(before: &BTreeMap<String, Seen>, now: &BTreeMap<String, Seen>) -> Vec<Happening> {
    let mut happenings = Vec::new();
    for (name, pool) in now {
        let Some(had) = before.get(name) else {
            let state = pool.state;
            let happening = match pool.state {
                State::Online => Happening::info(EventKind::Pool, format!("the pool is imported, {state}")),
                _ => Happening::warning(EventKind::Pool, format!("the pool is imported, {state}")),
            };
            happenings.push(happening.about(name));
            continue;
        };
        if had.state != pool.state {
            let message = format!("the pool is {}, it was {}", pool.state, had.state);
            let happening = match pool.state {
                State::Online => Happening::info(EventKind::Pool, message),
                State::Degraded | State::Offline => Happening::warning(EventKind::Pool, message),
                _ => Happening::error(EventKind::Pool, message),
            };
            happenings.push(happening.about(name));
        }
        if pool.errors > had.errors {
            let message = format!("{} blocks of files or of the pool itself are damaged", pool.errors);
            happenings.push(Happening::error(EventKind::Pool, message).about(name));
        }
        for (device, (state, errors)) in &pool.devices {
            let Some((state_before, errors_before)) = had.devices.get(device) else { continue };
            if state != state_before {
                let message = format!("{device} is {}, it was {}", state, state_before);
                happenings.push(
                    match state {
                        State::Online | State::Avail | State::Inuse => Happening::info(EventKind::Device, message),
                        _ => Happening::warning(EventKind::Device, message),
                    }
                    .about(name),
                );
            } else if errors > errors_before {
                let message = format!("{device} had {} new errors", errors - errors_before);
                happenings.push(Happening::warning(EventKind::Device, message).about(name));
            }
        }
    }
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        happenings.push(Happening::info(EventKind::Pool, "the pool is no longer imported").about(name));
    }
    happenings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Sight;
    use crate::events::Events;

    fn seen(state: State, errors: u64, device: (State, u64)) -> BTreeMap<String, Seen> {
        let devices = BTreeMap::from([("/d1".to_owned(), device)]);
        BTreeMap::from([("tank".to_owned(), Seen { state, errors, devices })])
    }

    fn messages(before: &BTreeMap<String, Seen>, now: &BTreeMap<String, Seen>) -> Vec<String> {
        let events = Events::default();
        differences(before, now).into_iter().for_each(|h| events.post(h));
        events.after(None, 100, Sight { files: true }).0.into_iter().map(|e| e.message).collect()
    }

    #[test]
    fn changes_are_reported_once() {
        let good = seen(State::Online, 0, (State::Online, 0));
        let bad = seen(State::Degraded, 3, (State::Removed, 0));
        assert_eq!(messages(&BTreeMap::new(), &good), ["the pool is imported, ONLINE"]);
        assert_eq!(messages(&good, &good), Vec::<String>::new());
        assert_eq!(
            messages(&good, &bad),
            [
                "the pool is DEGRADED, it was ONLINE",
                "3 blocks of files or of the pool itself are damaged",
                "/d1 is REMOVED, it was ONLINE"
            ]
        );
        assert_eq!(messages(&good, &seen(State::Online, 0, (State::Online, 2))), ["/d1 had 2 new errors"]);
        assert_eq!(messages(&bad, &BTreeMap::new()), ["the pool is no longer imported"]);
    }
}
