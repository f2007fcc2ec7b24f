//! What `weir mount` has mounted, seen from other commands: taking it away, and waiting until its process let go of the pool.

use crate::state::{Imported, State};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time that is waited for what was written to reach the disks.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// How often is looked. Guessed: not noticed by people, and cheap.
const SYNC_POLL: Duration = Duration::from_millis(20);

/// The pool of a dataset.
pub fn pool_of(dataset: &str) -> &str {
    dataset.split(['/', '@', '#']).next().unwrap_or(dataset)
}

/// Where a running `weir mount` of this state folder has mounted datasets of the pool. Another pool of the same name, which
/// somebody else has mounted, is not meant.
fn places(state: &State, record: &Imported) -> Vec<PathBuf> {
    let document = crate::figures::read(state.folder(), &record.name).ok().flatten();
    let mounted = crate::zfs::mount::mounted();
    let is_mounted = |place: &PathBuf| mounted.iter().any(|(_, p)| Path::new(p) == place);
    document.map(|d| d.places).unwrap_or_default().into_iter().filter(is_mounted).collect()
}

/// Unmounts all datasets of a pool. The error is the sentence of OpenZFS.
pub fn release(state: &State, record: &Imported, force: bool) -> Result<(), String> {
    let mounted = places(state, record);
    for place in &mounted {
        // One that lay beneath another is gone with it.
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

/// Waits until the process that had the pool mounted has brought everything to disk and let go of it, so that the next command
/// finds it free. Not if something of it is mounted still.
pub fn wait_for(state: &State, record: &Imported) {
    if !places(state, record).is_empty() {
        return;
    }
    let Ok(found) = admin::import::find(&crate::zpool::pools::request(record)) else { return };
    let deadline = Instant::now() + SYNC_MAX;
    let is_locked = || found.devices.iter().any(|d| admin::write::lock_owner(Path::new(d.device.name())).is_some());
    while is_locked() && Instant::now() < deadline {
        std::thread::sleep(SYNC_POLL);
    }
}
