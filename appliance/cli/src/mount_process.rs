//! The process of a `weir mount`, as seen from other processes: where it has mounted a pool,
//! unmounting that, and waiting until it has closed the pool.

use admin::mounts::NotUnmounted;
use admin::state::{Imported, State};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Limit for the time to wait until written data reaches the disks.
const SYNC_MAX: Duration = Duration::from_secs(60);

/// Interval of checks. Guessed: not noticed by people, and cheap.
const SYNC_POLL: Duration = Duration::from_millis(20);

/// Mount points of the pool's datasets in a running `weir mount` of this state directory. Mounts of
/// another pool with the same name, by another user, are not included.
pub fn places(state: &State, record: &Imported) -> Vec<PathBuf> {
    let document = crate::figures::read(state.folder(), &record.name).ok().flatten();
    let mounted = crate::mount_table::mounted();
    let is_mounted = |place: &PathBuf| mounted.iter().any(|(_, p)| Path::new(p) == place);
    document.map(|d| d.places).unwrap_or_default().into_iter().filter(is_mounted).collect()
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
