//! Mounts of `weir mount`, as seen from other commands: unmounting them, and waiting until their
//! process has closed the pool.

use crate::context::Context;
use admin::mounts::{Mounted, NotUnmounted, PoolMounts, cannot_unmount};
use admin::state::{Imported, State};
use daemon::Owner;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Limit for the time to wait until written data reaches the disks.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// Interval of checks. Guessed: not noticed by people, and cheap.
const SYNC_POLL: Duration = Duration::from_millis(20);

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
    let record = records.iter().find(|r| r.name == admin::verbs::pool_of(dataset));
    // For a pool that is only read, nothing is recorded.
    record.is_some_and(|r| r.readonly || places(&cx.state, r).iter().any(|p| p == Path::new(place)))
}

/// Unmounts all datasets of a pool. The error is OpenZFS's message.
pub fn release(cx: &Context<'_>, record: &Imported, force: bool) -> Result<(), String> {
    cx.invocation(String::new()).unmount_all(record, force).map_err(|e| cannot_unmount(&e))
}

/// The mounts of a pool that this process owns.
pub fn of<'a>(owner: &'a Arc<Owner>, record: &'a Imported) -> PoolMounts<'a> {
    PoolMounts::new(&**owner, &owner.house, record)
}

/// Unmounts a dataset and its descendants in this process. The error is OpenZFS's message.
pub fn unmount_below(owner: &Arc<Owner>, record: &Imported, dataset: &str, force: bool) -> Result<(), String> {
    of(owner, record).unmount_below(dataset, force).map(drop).map_err(|e| cannot_unmount(&e))
}

/// The same for datasets mounted according to their properties. Either all are unmounted or none.
/// Returns their names.
pub fn unmount_placed(
    owner: &Arc<Owner>,
    record: &Imported,
    dataset: &str,
    force: bool,
) -> Result<Vec<String>, String> {
    let unmounted = of(owner, record).unmount_placed(dataset, force).map_err(|e| cannot_unmount(&e))?;
    Ok(unmounted.into_iter().map(|m| m.dataset).collect())
}

/// Mounts datasets that were unmounted for a change, according to their current properties. Reports
/// failures and returns the exit code.
pub fn mount_again(cx: &mut Context<'_>, owner: &Arc<Owner>, record: &Imported, names: &[String]) -> u8 {
    let report = of(owner, record).mount_again(names);
    cx.report(report)
}

/// Unmounts a pool that another process has mounted, and waits until that process has closed it.
pub fn release_elsewhere(state: &State, record: &Imported, force: bool) -> Result<(), NotUnmounted> {
    let mounted = places(state, record);
    for place in &mounted {
        // A mount below another one disappears with it.
        if let Err(error) = serve::fuse::unmount_below(place, force)
            && places(state, record).contains(place)
        {
            return Err((place.clone(), error));
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
    let Ok(found) = admin::import::find(&admin::house::request(record)) else { return };
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
