//! Finds pools: every device in the given places whose label says that it belongs to one.
//!
//! Below: `block::label`, `host::device`. Above: `open`, `zpool import`. ZFS name: zutil_import.
//!
//! Invariants:
//!   * nothing is written, and a device that belongs to no pool costs only a few reads
//!   * a device is listed once, even if several paths lead to it

use block::label::{self, Labels};
use host::device::{Device, devices_in, open_with_partitions};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::config;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// State of a pool in its labels (`pool_state_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolState {
    /// In use by some host, or not cleanly exported.
    Active,
    Exported,
    Destroyed,
    Spare,
    /// A level-2 cache device.
    Level2Cache,
    /// Any other number; OpenZFS writes none to labels.
    Other(u64),
}

impl PoolState {
    /// Converts the number in a label.
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

/// A device with the label of a pool.
#[derive(Clone)]
pub struct FoundDevice {
    /// The device, opened read-only.
    pub device: Arc<dyn Device>,
    pub labels: Labels,
    /// Guid of the device.
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
    /// Guid of the pool.
    pub guid: u64,
    /// Devices of the pool that were found, in no particular order.
    pub devices: Vec<FoundDevice>,
    /// All spares and cache devices found by the search. Their labels do not name a pool, so they
    /// may belong to another one.
    pub auxiliary: Vec<FoundDevice>,
    /// Devices that left the pool, or were about to join it: labels of txg 0 name it. An older
    /// state of the pool may have them.
    pub departed: Vec<FoundDevice>,
}

impl FoundPool {
    /// The newest configuration found.
    pub fn config(&self) -> &Nvlist {
        &self.devices.iter().max_by_key(|d| d.txg()).expect("a found pool has a device").config
    }

    /// Name of the pool in the newest configuration.
    pub fn name(&self) -> &str {
        self.config().get_str(config::POOL_NAME).unwrap_or("")
    }

    /// State of the pool in the newest configuration.
    pub fn state(&self) -> PoolState {
        PoolState::from_number(self.config().get_u64(config::POOL_STATE).unwrap_or(u64::MAX))
    }
}

/// A path that was skipped.
#[derive(Debug, Clone)]
pub struct Skipped {
    pub path: PathBuf,
    /// Why it was skipped.
    pub why: String,
}

/// Result of a search.
#[derive(Default)]
pub struct Search {
    /// The pools, by guid.
    pub pools: Vec<FoundPool>,
    /// Paths that do not exist or cannot be accessed.
    pub skipped: Vec<Skipped>,
    /// Devices with label-like contents of which no configuration is readable, with the error.
    pub damaged: Vec<Skipped>,
}

/// Searches files, block devices, directories of these, and the partitions on them.
pub fn search(places: &[PathBuf]) -> Search {
    let mut found = Search::default();
    let mut members = Members::default();
    let mut seen = std::collections::HashSet::new();
    let mut wanted = Vec::new();
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
            wanted.push((path == *place, path));
        }
    }
    let devices = host::work::each(wanted.len(), |number| look_at(&wanted[number].1));
    for ((named, path), result) in wanted.into_iter().zip(devices) {
        match result {
            Ok(devices) => {
                for (device, labels) in devices {
                    classify(device, labels, &mut members, &mut found);
                }
            }
            // A directory contains many files that cannot be opened; only an explicitly named path
            // is reported.
            Err(e) if named => found.skipped.push(Skipped { path, why: e.to_string() }),
            Err(_) => {}
        }
    }
    found.pools = members.into_pools();
    found
}

/// Searches exactly these devices, which need not be files: they may be simulated.
pub fn search_devices(devices: impl IntoIterator<Item = Arc<dyn Device>>) -> Search {
    let mut found = Search::default();
    let mut members = Members::default();
    let devices: Vec<Arc<dyn Device>> = devices.into_iter().collect();
    let labels = host::work::each(devices.len(), |number| label::read(devices[number].as_ref(), false));
    for (device, labels) in devices.into_iter().zip(labels) {
        classify(device, labels, &mut members, &mut found);
    }
    found.pools = members.into_pools();
    found
}

/// Opens a device and its partitions, and reads their labels.
fn look_at(path: &Path) -> std::io::Result<Vec<(Arc<dyn Device>, Labels)>> {
    let with_labels = |device: Arc<dyn Device>| {
        let labels = label::read(device.as_ref(), false);
        (device, labels)
    };
    Ok(open_with_partitions(path)?.into_iter().map(with_labels).collect())
}

/// The newest configuration in the labels of a device. A label of txg 0 names the pool that the
/// device was about to join when power failed: that pool does not know the device.
pub(crate) fn newest(labels: &Labels) -> Option<Nvlist> {
    let txg = |c: &Nvlist| c.get_u64(config::POOL_TXG).unwrap_or(0);
    let is_auxiliary = |c: &Nvlist| {
        let state = PoolState::from_number(c.get_u64(config::POOL_STATE).unwrap_or(u64::MAX));
        matches!(state, PoolState::Spare | PoolState::Level2Cache)
    };
    labels.configs().filter(|c| txg(c) > 0 || is_auxiliary(c)).max_by_key(|c| txg(c)).cloned()
}

/// Devices by what their labels say.
#[derive(Default)]
struct Members {
    /// By guid of the pool.
    pools: BTreeMap<u64, Vec<FoundDevice>>,
    auxiliary: Vec<FoundDevice>,
    /// Guid of a pool, and a device whose labels of txg 0 name it.
    departed: Vec<(u64, FoundDevice)>,
}

impl Members {
    fn into_pools(self) -> Vec<FoundPool> {
        let Self { pools, auxiliary, departed } = self;
        let of = |pool: u64| departed.iter().filter(move |(of, _)| *of == pool).map(|(_, device)| device.clone());
        let pool =
            |(guid, devices)| FoundPool { guid, devices, auxiliary: auxiliary.clone(), departed: of(guid).collect() };
        pools.into_iter().map(pool).collect()
    }
}

/// A device that left a pool, with the guid of the pool.
fn departed(device: &Arc<dyn Device>, labels: &Labels) -> Option<(u64, FoundDevice)> {
    let config = labels.configs().find(|config| config.get_u64(config::POOL_TXG) == Some(0))?.clone();
    let (pool, guid) = (config.get_u64(config::POOL_GUID)?, config.get_u64(config::GUID)?);
    Some((pool, FoundDevice { device: device.clone(), labels: labels.clone(), guid, config }))
}

/// Adds a device to the list where its labels say that it belongs.
fn classify(device: Arc<dyn Device>, labels: Labels, members: &mut Members, found: &mut Search) {
    let Some(newest) = newest(&labels) else {
        members.departed.extend(departed(&device, &labels));
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
        (PoolState::Spare | PoolState::Level2Cache, _) => members.auxiliary.push(device),
        (_, Some(pool)) => members.pools.entry(pool).or_default().push(device),
        (_, None) => {}
    }
}
