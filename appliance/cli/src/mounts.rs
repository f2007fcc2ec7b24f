//! Mounts of `weir mount`, as seen from other commands: unmounting them, and waiting until their
//! process has closed the pool.

use crate::context::Context;
use crate::state::{Imported, State};
use admin::OwnedPool;
use daemon::Owner;
use daemon::mounts::Mounted;
use daemon::rules::Plan;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit for the time to wait until written data reaches the disks.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// Interval of checks. Guessed: not noticed by people, and cheap.
const SYNC_POLL: Duration = Duration::from_millis(20);

/// Name of the pool that contains a dataset.
pub fn pool_of(dataset: &str) -> &str {
    dataset.split(['/', '@', '#']).next().unwrap_or(dataset)
}

/// Mount points of the pool's datasets in a running `weir mount` of this state directory. Mounts of
/// another pool with the same name, by another user, are not included.
pub fn places(state: &State, record: &Imported) -> Vec<PathBuf> {
    let document = crate::figures::read(state.folder(), &record.name).ok().flatten();
    let mounted = crate::zfs::mount::mounted();
    let is_mounted = |place: &PathBuf| mounted.iter().any(|(_, p)| Path::new(p) == place);
    document.map(|d| d.places).unwrap_or_default().into_iter().filter(is_mounted).collect()
}

/// The owner of the pool, if it is this process.
pub fn owner(cx: &Context<'_>, guid: u64) -> Option<Arc<Owner>> {
    cx.owner.clone().filter(|owner| owner.house.owns(guid))
}

/// Mounted datasets and their mount points: those of this process if it owns pools, else all of
/// Weir's.
pub fn mounted(cx: &Context<'_>) -> Vec<(String, String)> {
    match &cx.owner {
        Some(owner) => {
            let place = |m: Mounted| (m.dataset, m.place.display().to_string());
            owner.mounts.list().into_iter().map(place).collect()
        }
        None => crate::zfs::mount::mounted(),
    }
}

/// Whether a mount belongs to a pool of this state directory: another user may have mounted a pool
/// with the same name.
pub fn is_ours(cx: &Context<'_>, records: &[Imported], dataset: &str, place: &str) -> bool {
    if cx.owner.is_some() {
        return true;
    }
    let record = records.iter().find(|r| r.name == pool_of(dataset));
    // For a pool that is only read, nothing is recorded.
    record.is_some_and(|r| r.readonly || places(&cx.state, r).iter().any(|p| p == Path::new(place)))
}

/// Unmounts all datasets of a pool. The error is OpenZFS's message.
pub fn release(cx: &Context<'_>, record: &Imported, force: bool) -> Result<(), String> {
    match owner(cx, record.guid) {
        Some(owner) => unmount_below(&owner, record, &record.name, force).map(|_| ()),
        None => release_elsewhere(&cx.state, record, force),
    }
}

/// Whether a volume of the pool is in use: then the pool must not be exported, even by force.
pub fn has_used_volume(cx: &Context<'_>, record: &Imported) -> bool {
    let pool = owner(cx, record.guid).and_then(|owner| owner.house.opened(record.guid));
    pool.and_then(|pool| pool.writable()?.used_volume()).is_some()
}

/// Unmounts a dataset and its descendants in this process. Returns their names; the error is
/// OpenZFS's message.
pub fn unmount_below(owner: &Owner, record: &Imported, dataset: &str, force: bool) -> Result<Vec<String>, String> {
    if let Some(before) = owner.before_unmount.get() {
        before(dataset);
    }
    names(owner.mounts.unmount_below(record.guid, dataset, force))
}

/// The same for datasets mounted according to their properties. Either all are unmounted or none.
pub fn unmount_placed(owner: &Owner, record: &Imported, dataset: &str, force: bool) -> Result<Vec<String>, String> {
    if let Some(before) = owner.before_unmount.get() {
        before(dataset);
    }
    let before = owner.mounts.below(record.guid, dataset);
    let result = names(owner.mounts.unmount_placed(record.guid, dataset, force));
    if result.is_err()
        && let Ok(pool) = owner.house.import(record)
    {
        let still = owner.mounts.below(record.guid, dataset);
        let gone = before.into_iter().filter(|b| still.iter().all(|s| s.dataset != b.dataset));
        owner.mounts.mount_again(&pool, &gone.map(|m| m.dataset).collect::<Vec<_>>());
    }
    result
}

fn names(unmounted: Result<Vec<Mounted>, (PathBuf, std::io::Error)>) -> Result<Vec<String>, String> {
    let why = |(place, e): (PathBuf, _)| format!("cannot unmount '{}': {}", place.display(), daemon::mounts::text(&e));
    Ok(unmounted.map_err(why)?.into_iter().map(|m| m.dataset).collect())
}

/// Mounts all automatically mounted file systems of a pool and reports failures. The exit code is
/// then 1 for root. Other users cannot create most mount points, and can use their pools anyway.
pub fn mount_all(cx: &mut Context<'_>, pool: &OwnedPool) -> u8 {
    let Some(owner) = owner(cx, pool.guid()).filter(|o| o.mounts.is_automatic()) else { return 0 };
    let all = match daemon::rules::all(pool) {
        Ok(all) => all,
        Err(error) => {
            cx.complain(&format!("cannot mount '{}': {error:#}", pool.name()));
            return 1;
        }
    };
    let mut code = 0;
    for (dataset, plan) in all.iter().filter(|(dataset, _)| owner.mounts.of(dataset).is_none()) {
        if cx.client.is_gone() {
            return 1;
        }
        code |= mount_automatically(cx, &owner, pool, dataset, plan);
    }
    code
}

/// Mounts a dataset because it was created, or because its properties changed.
pub fn mount_automatically(cx: &mut Context<'_>, owner: &Owner, pool: &OwnedPool, dataset: &str, plan: &Plan) -> u8 {
    match owner.mounts.mount(pool, dataset, plan) {
        Ok(()) => 0,
        Err(error) if rustix::process::geteuid().is_root() => {
            cx.complain(&format!("cannot mount '{}': {}", plan.place.display(), daemon::mounts::text(&error)));
            1
        }
        Err(error) => {
            let place = plan.place.display();
            cx.complain(&format!("weir: '{dataset}' is not mounted at '{place}': {}", daemon::mounts::text(&error)));
            0
        }
    }
}

/// Mounts datasets that were unmounted for a change, according to their current properties. Reports
/// failures and returns the exit code.
pub fn mount_again(cx: &mut Context<'_>, owner: &Owner, record: &Imported, names: &[String]) -> u8 {
    let Ok(pool) = owner.house.import(record) else { return 1 };
    let failed = owner.mounts.mount_again(&pool, names);
    for (dataset, why) in &failed {
        cx.complain(&format!("cannot mount '{dataset}': {why}"));
    }
    u8::from(!failed.is_empty())
}

/// Properties that determine where and how a dataset is mounted.
const MOUNTING: [&str; 7] = ["mountpoint", "canmount", "readonly", "exec", "setuid", "devices", "sharenfs"];

/// Effect of a property change on mounts: prepared before it, completed after it.
pub struct Remount {
    /// Unmounted datasets, to be mounted at their new places.
    unmounted: Vec<String>,
    /// Datasets that were mounted and stayed so.
    below: Vec<Mounted>,
    /// Datasets without a mount point, which may get one: the dataset and those that inherit from
    /// it.
    placeless: Vec<String>,
}

impl Remount {
    /// Called before `properties` of `dataset` are set. `None`: they do not affect mounts, or this
    /// process has none. The error is OpenZFS's message.
    pub fn prepare(
        cx: &Context<'_>,
        record: &Imported,
        dataset: &str,
        properties: &[(&str, &str)],
    ) -> Result<Option<Self>, String> {
        let Some(owner) = owner(cx, record.guid).filter(|_| properties.iter().any(|(n, _)| MOUNTING.contains(n)))
        else {
            return Ok(None);
        };
        let mut this = Self { unmounted: Vec::new(), below: Vec::new(), placeless: Vec::new() };
        let moves = properties.iter().any(|(n, v)| *n == "mountpoint" || (*n, *v) == ("canmount", "off"));
        if moves {
            this.unmounted = unmount_placed(&owner, record, dataset, false)?;
            let pool = owner.house.import(record).map_err(|e| format!("{e:#}"))?;
            if owner.mounts.is_automatic() {
                this.placeless = daemon::rules::placeless(&pool, dataset).map_err(|e| format!("{e:#}"))?;
            }
        } else {
            this.below = owner.mounts.below(record.guid, dataset).into_iter().filter(|m| !m.by_hand).collect();
        }
        Ok(Some(this))
    }

    /// Called after they were set, or failed to be set. Returns the exit code.
    pub fn settle(self, cx: &mut Context<'_>, record: &Imported, dataset: &str) -> u8 {
        let Some(owner) = owner(cx, record.guid) else { return 0 };
        let Ok(pool) = owner.house.import(record) else { return 1 };
        let mut names = self.placeless;
        names.retain(|name| daemon::rules::plan(&pool, name).is_ok_and(|plan| !plan.by_name));
        names.extend(self.unmounted);
        let changed =
            self.below.iter().any(|m| daemon::rules::plan(&pool, &m.dataset).is_ok_and(|plan| plan != m.plan));
        if changed {
            match owner.mounts.unmount_placed(record.guid, dataset, false) {
                Ok(unmounted) => names.extend(unmounted.into_iter().map(|m| m.dataset)),
                Err((place, error)) => {
                    let why = daemon::mounts::text(&error);
                    cx.complain(&format!(
                        "weir: '{}' stays mounted as it was until it is unmounted: {why}",
                        place.display()
                    ));
                    // Those that were unmounted before the one that failed.
                    let still = owner.mounts.list();
                    let is_gone = |m: &&Mounted| still.iter().all(|s| s.dataset != m.dataset);
                    names.extend(self.below.iter().filter(is_gone).map(|m| m.dataset.clone()));
                }
            }
        }
        mount_again(cx, &owner, record, &names)
    }
}

fn release_elsewhere(state: &State, record: &Imported, force: bool) -> Result<(), String> {
    let mounted = places(state, record);
    for place in &mounted {
        // A mount below another one disappears with it.
        if let Err(error) = serve::fuse::unmount_below(place, force)
            && places(state, record).contains(place)
        {
            let why = match error.kind() {
                std::io::ErrorKind::ResourceBusy => "pool or dataset is busy".to_owned(),
                _ => error.to_string(),
            };
            return Err(format!("cannot unmount '{}': {why}", place.display()));
        }
    }
    if !mounted.is_empty() {
        wait_for(state, record);
    }
    Ok(())
}

/// Waits until the process that had the pool mounted has written everything to disk and closed the
/// pool, so that the next command finds it free. Does not wait if datasets are still mounted.
pub fn wait_for(state: &State, record: &Imported) {
    // The daemon syncs unmounted datasets itself, and keeps the pool.
    let is_served = matches!(daemon::socket::connect(&daemon::socket::of_daemon(state.folder())), Ok(Some(_)));
    if is_served || !places(state, record).is_empty() {
        return;
    }
    let Ok(found) = admin::import::find(&crate::zpool::pools::request(record)) else { return };
    let deadline = Instant::now() + SYNC_MAX;
    // Block devices show no lock; the process that has the pool does.
    let socket = daemon::socket::of_pool(state.folder(), record.guid);
    let is_owned = || daemon::socket::is_owned(&socket);
    let is_locked =
        || is_owned() || found.devices.iter().any(|d| admin::write::lock_owner(Path::new(d.device.name())).is_some());
    while is_locked() && Instant::now() < deadline {
        std::thread::sleep(SYNC_POLL);
    }
}
