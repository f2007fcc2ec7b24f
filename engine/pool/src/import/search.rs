//! Finding pools: every device in the given places whose labels say that it belongs to one.
//!
//! Below: `block::label`, `host::device`. Above: `open`, `zpool import`. ZFS name: zutil_import.
//!
//! Invariants:
//!   * nothing is written, and a device that is not ours costs a few reads at most
//!   * a device is listed once, even when several paths lead to it

use block::label::{self, Labels};
use host::device::{Device, devices_in, open_with_partitions};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// State of a pool as its labels say (`pool_state_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolState {
    /// In use by some host, or not cleanly closed.
    Active,
    /// Exported.
    Exported,
    /// Destroyed.
    Destroyed,
    /// A hot spare.
    Spare,
    /// A level-2 cache device.
    Level2Cache,
    /// A value that we do not know.
    Other(u64),
}

impl PoolState {
    /// The number in a label.
    pub fn from_number(n: u64) -> Self {
        match n {
            0 => Self::Active,
            1 => Self::Exported,
            2 => Self::Destroyed,
            3 => Self::Spare,
            4 => Self::Level2Cache,
            n => Self::Other(n),
        }
    }
}

/// A device with the labels of a pool on it.
#[derive(Clone)]
pub struct FoundDevice {
    /// The device, opened read-only.
    pub device: Arc<dyn Device>,
    /// Its labels.
    pub labels: Labels,
    /// Identity of the device.
    pub guid: u64,
    /// The newest readable configuration.
    pub config: Nvlist,
}

impl FoundDevice {
    /// Txg of the newest configuration; 0 for spares and cache devices.
    pub fn txg(&self) -> u64 {
        self.config.get_u64(config::POOL_TXG).unwrap_or(0)
    }
}

/// A pool of which at least one device was found.
#[derive(Clone)]
pub struct FoundPool {
    /// Identity of the pool.
    pub guid: u64,
    /// Its devices, in no order that matters.
    pub devices: Vec<FoundDevice>,
    /// Spares and cache devices seen during the search, of whatever pool: their labels do not name one.
    pub auxiliary: Vec<FoundDevice>,
}

impl FoundPool {
    /// The newest configuration found.
    pub fn config(&self) -> &Nvlist {
        &self.devices.iter().max_by_key(|d| d.txg()).expect("a found pool has a device").config
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        self.config().get_str(config::POOL_NAME).unwrap_or("")
    }

    /// State as the newest label says.
    pub fn state(&self) -> PoolState {
        PoolState::from_number(self.config().get_u64(config::POOL_STATE).unwrap_or(u64::MAX))
    }
}

/// A place that could not be searched.
#[derive(Debug, Clone)]
pub struct Skipped {
    /// The path.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// What a search found.
#[derive(Default)]
pub struct Search {
    /// The pools, by guid.
    pub pools: Vec<FoundPool>,
    /// Places that do not exist or may not be looked at.
    pub skipped: Vec<Skipped>,
    /// Devices with something like a label of which no configuration is readable: path and what is wrong.
    pub damaged: Vec<Skipped>,
}

/// Searches files, block devices and folders of such, and the partitions on them.
pub fn search(places: &[PathBuf]) -> Search {
    let mut found = Search::default();
    let mut pools: BTreeMap<u64, Vec<FoundDevice>> = BTreeMap::new();
    let mut auxiliary = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for place in places {
        let paths = match devices_in(place) {
            Ok(paths) => paths,
            Err(e) => {
                found.skipped.push(Skipped { path: place.clone(), why: e.to_string() });
                continue;
            }
        };
        for path in paths {
            let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            if !seen.insert(real) {
                continue;
            }
            look_at(&path, &mut pools, &mut auxiliary, &mut found, path == *place);
        }
    }
    found.pools =
        pools.into_iter().map(|(guid, devices)| FoundPool { guid, devices, auxiliary: auxiliary.clone() }).collect();
    found
}

/// What a search that met exactly these devices would find: for devices that are no files, such as simulated ones.
pub fn search_devices(devices: impl IntoIterator<Item = Arc<dyn Device>>) -> Search {
    let mut found = Search::default();
    let (mut pools, mut auxiliary) = (BTreeMap::new(), Vec::new());
    for device in devices {
        classify(device, &mut pools, &mut auxiliary, &mut found);
    }
    found.pools =
        pools.into_iter().map(|(guid, devices)| FoundPool { guid, devices, auxiliary: auxiliary.clone() }).collect();
    found
}

fn look_at(
    path: &Path,
    pools: &mut BTreeMap<u64, Vec<FoundDevice>>,
    auxiliary: &mut Vec<FoundDevice>,
    found: &mut Search,
    named: bool,
) {
    let devices = match open_with_partitions(path) {
        Ok(devices) => devices,
        Err(e) => {
            // In a folder there are many things that may not be opened; a path that was named is another matter.
            if named {
                found.skipped.push(Skipped { path: path.to_owned(), why: e.to_string() });
            }
            return;
        }
    };
    for device in devices {
        classify(device, pools, auxiliary, found);
    }
}

/// The newest configuration in the labels of a device. A label of txg 0 says to which pool a device was to belong when the power
/// failed: the pool does not know of it.
pub(crate) fn newest(labels: &Labels) -> Option<Nvlist> {
    let txg = |c: &Nvlist| c.get_u64(config::POOL_TXG).unwrap_or(0);
    let is_auxiliary = |c: &Nvlist| {
        let state = PoolState::from_number(c.get_u64(config::POOL_STATE).unwrap_or(u64::MAX));
        matches!(state, PoolState::Spare | PoolState::Level2Cache)
    };
    labels.configs().filter(|c| txg(c) > 0 || is_auxiliary(c)).max_by_key(|c| txg(c)).cloned()
}

/// Puts a device where its labels say that it belongs.
fn classify(
    device: Arc<dyn Device>,
    pools: &mut BTreeMap<u64, Vec<FoundDevice>>,
    auxiliary: &mut Vec<FoundDevice>,
    found: &mut Search,
) {
    let labels = label::read(device.as_ref(), false);
    let Some(newest) = newest(&labels) else {
        let bad: Vec<String> = labels
            .labels
            .iter()
            .filter_map(|l| {
                l.config.as_ref().err().filter(|e| *e != "empty").map(|e| format!("label {}: {e}", l.index))
            })
            .collect();
        if !bad.is_empty() {
            found.damaged.push(Skipped { path: PathBuf::from(device.name()), why: bad.join(", ") });
        }
        return;
    };
    let Some(guid) = newest.get_u64(config::GUID) else { return };
    let state = PoolState::from_number(newest.get_u64(config::POOL_STATE).unwrap_or(u64::MAX));
    let device = FoundDevice { device, labels, guid, config: newest };
    match (state, device.config.get_u64(config::POOL_GUID)) {
        (PoolState::Spare | PoolState::Level2Cache, _) => auxiliary.push(device),
        (_, Some(pool)) => pools.entry(pool).or_default().push(device),
        (_, None) => {}
    }
}
