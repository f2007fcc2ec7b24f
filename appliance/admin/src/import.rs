//! `zpool import`: finds importable pools, and opens one.
//!
//! A candidate is opened read-only to determine its status. If that fails, the status comes from
//! its labels.
//!
//! Invariants:
//!   * nothing is written

use anyhow::Result;
use errors::{Error, Refusal};
use pool::config::VdevConfig;
use pool::mmp::{self, Activity, Owner, Unchanged};
use pool::status::{PoolStatus, VdevAux, VdevClass, VdevState, VdevStatus};
use pool::{FoundPool, OpenOptions, Pool, PoolState};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A pool that was found.
pub struct Candidate {
    /// The devices that were found, with their labels.
    pub found: FoundPool,
    pub status: PoolStatus,
    /// State in the labels.
    pub label_state: PoolState,
    /// Why it cannot be opened.
    pub problem: Option<Error>,
    /// The other host that writes to it.
    pub owner: Option<Owner>,
}

/// Options for opening a pool.
#[derive(Debug, Clone, Default)]
pub struct OpenRequest {
    /// Guid of the pool.
    pub guid: u64,
    /// Folders and devices to search.
    pub places: Vec<PathBuf>,
    /// Latest txg to show; `None` for the newest.
    pub txg: Option<u64>,
    /// Whether older uberblocks may be tried.
    pub rewind: bool,
    /// Open the state of the checkpoint; for writing, rewind the pool to it.
    pub checkpoint: bool,
    /// Name to import the pool under; `None` keeps its own.
    pub name: Option<String>,
    /// Whether `name` is not written to the pool.
    pub temporary_name: bool,
    /// Guids of devices that must not be used.
    pub offline: Vec<u64>,
    /// That no other host wrote to the pool for a while: what [`watch`] found.
    pub unchanged: Option<Unchanged>,
}

/// The identity of one import: a random number that no other import shares.
pub fn load_guid() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Finds all pools in these places.
pub fn search(places: &[PathBuf]) -> Vec<FoundPool> {
    pool::search(places).pools
}

/// Finds the pool of the request. Fails with [`Error::Missing`] if there is none.
pub fn find(request: &OpenRequest) -> Result<FoundPool> {
    let found = search(&request.places).into_iter().find(|p| p.guid == request.guid);
    let place = || request.name.clone().unwrap_or_else(|| request.guid.to_string());
    Ok(found.ok_or_else(|| {
        let places: Vec<String> = request.places.iter().map(|p| p.display().to_string()).collect();
        Error::missing(place(), format!("every device; looked in {}", places.join(", ")))
    })?)
}

/// Opens the pool of the request, read-only.
pub fn open(request: &OpenRequest) -> Result<Arc<Pool>> {
    open_found(&find(request)?, request)
}

/// Opens a found pool, read-only.
pub fn open_found(found: &FoundPool, request: &OpenRequest) -> Result<Arc<Pool>> {
    Ok(Pool::open(found, &options(request))?)
}

/// Options for opening the pool of a request.
pub(crate) fn options(request: &OpenRequest) -> OpenOptions {
    OpenOptions {
        txg: request.txg,
        rewind: request.rewind,
        checkpoint: request.checkpoint,
        name: request.name.clone(),
        temporary_name: request.temporary_name,
        offline: request.offline.clone(),
        unchanged: request.unchanged,
        ..OpenOptions::default()
    }
}

/// Why a pool must not be imported here: another host uses it, or may do so without being noticed.
pub struct NotAlone {
    pub why: Error,
    /// The other host.
    pub owner: Option<Owner>,
}

/// Finds out whether another host uses a found pool, and waits for that as long as necessary, as
/// OpenZFS does before it opens a pool. `is_gone` ends the wait.
pub fn watch(found: &FoundPool, is_gone: &dyn Fn() -> bool) -> Result<Option<Unchanged>, NotAlone> {
    let refused = |why: Refusal, owner| Err(NotAlone { why: why.at(found.name()), owner });
    match mmp::check(found, own_hostid(), None, is_gone) {
        Ok(Activity::NotRequired) => Ok(None),
        Ok(Activity::None(unchanged)) => Ok(Some(unchanged)),
        Ok(Activity::Active(owner)) => refused(Refusal::ImportedElsewhere, Some(owner)),
        Ok(Activity::NoHostId) => refused(Refusal::NoHostId, None),
        Err(why) => Err(NotAlone { why, owner: None }),
    }
}

/// Determines the status of a found pool, also if another host uses it.
pub fn examine_shared(found: FoundPool, request: &OpenRequest, is_gone: &dyn Fn() -> bool) -> Candidate {
    match watch(&found, is_gone) {
        Ok(_) => examine(found, request),
        Err(NotAlone { why, owner }) => {
            let (label_state, status) = (found.state(), status_from_labels(&found, &why));
            Candidate { found, status, label_state, problem: Some(why), owner }
        }
    }
}

/// Fails if the pool's `multihost` is on and this host has no ID: it could not be seen by others.
pub fn check_hostid(pool: &Pool) -> Result<(), Error> {
    match pool.is_on("multihost")? && own_hostid() == 0 {
        true => Err(Refusal::NoHostId.at(pool.name())),
        false => Ok(()),
    }
}

/// Number of top-level devices that may be missing when a pool is imported read-only.
static MISSING_MAX: AtomicU64 = AtomicU64::new(0);

/// Lets pools be imported read-only without that many of their top-level devices, log devices not
/// counted: what was on them cannot be read. One value for the whole process, 0 by default; OpenZFS
/// calls it `zfs_max_missing_tvds`.
pub fn set_missing_max(count: u64) {
    MISSING_MAX.store(count, Ordering::Relaxed);
}

/// Of a pool that is or will be imported read-only: calls it degraded if no more of its top-level
/// devices are missing than may be.
pub(crate) fn tolerate_missing(status: &mut PoolStatus) {
    let is_missing = |top: &&VdevStatus| top.class != VdevClass::Log && top.state < VdevState::Degraded;
    let missing = status.root.children.iter().filter(is_missing).count() as u64;
    if (1..=MISSING_MAX.load(Ordering::Relaxed)).contains(&missing) && status.root.aux == VdevAux::NoReplicas {
        (status.root.state, status.root.aux) = (VdevState::Degraded, VdevAux::None);
    }
}

/// Determines the status of a found pool.
pub fn examine(found: FoundPool, request: &OpenRequest) -> Candidate {
    let label_state = found.state();
    let opened = Pool::open(&found, &options(request)).and_then(|pool| {
        check_hostid(&pool)?;
        let mut status = pool.status()?;
        as_labelled(&mut status.root, pool.root_vdev());
        Ok(status)
    });
    let (status, problem) = match opened {
        Ok(status) => (status, None),
        Err(error) => (status_from_labels(&found, &error), Some(error)),
    };
    Candidate { found, status, label_state, problem, owner: None }
}

/// Before an import, a missing leaf is shown by its path, unless it was already missing when the
/// labels were written.
fn as_labelled(vdev: &mut VdevStatus, config: &VdevConfig) {
    vdev.not_present &= config.number("not_present") != 0;
    for child in &mut vdev.children {
        if let Some(c) = config.children.iter().find(|c| c.guid == child.guid) {
            as_labelled(child, c);
        }
    }
}

/// Hostid and hostname in the labels.
pub fn last_host(found: &FoundPool) -> (u64, String) {
    let config = found.config();
    (config.get_u64("hostid").unwrap_or(0), config.get_str("hostname").unwrap_or("<unknown>").to_owned())
}

/// This system's hostid, as OpenZFS determines it, or 0.
pub fn own_hostid() -> u64 {
    mmp::this_host_id()
}

/// Whether the pool was in use by another system and never exported.
pub fn needs_force(found: &FoundPool) -> bool {
    found.state() != PoolState::Exported && found.state() != PoolState::Destroyed && last_host(found).0 != own_hostid()
}

/// The pool status according to the labels alone.
fn status_from_labels(found: &FoundPool, error: &Error) -> PoolStatus {
    let config = found.config();
    let present: HashMap<u64, String> =
        found.devices.iter().chain(&found.auxiliary).map(|d| (d.guid, d.device.name().to_owned())).collect();
    let mut tops: BTreeMap<u64, (u64, VdevConfig)> = BTreeMap::new();
    for device in &found.devices {
        let Some(tree) = device.config.get_nvlist("vdev_tree") else { continue };
        let Ok(top) = VdevConfig::parse(tree) else { continue };
        if tops.get(&top.id).is_none_or(|(txg, _)| device.txg() >= *txg) {
            tops.insert(top.id, (device.txg(), top));
        }
    }
    let children: Vec<VdevStatus> = tops.values().map(|(_, top)| labelled(top, &present)).collect();
    let count = config.get_u64("vdev_children").unwrap_or(0);
    let holes = config.get_u64_array("hole_array").map_or(0, |h| h.len() as u64);
    let lost = children.iter().any(|c| c.state == VdevState::CantOpen);
    let version = config.get_u64("version").unwrap_or(0);
    let aux = match error {
        Error::Refused { why: Refusal::ImportedElsewhere | Refusal::NoHostId, .. } => VdevAux::Active,
        _ if !lost && !matches!(version, 1..=28 | 5000) => VdevAux::VersionNewer,
        Error::Unsupported { .. } if !lost => VdevAux::UnsupFeat,
        _ if lost => VdevAux::NoReplicas,
        _ if (children.len() as u64).saturating_add(holes) < count => VdevAux::BadGuidSum,
        _ => VdevAux::CorruptData,
    };
    let root = VdevStatus {
        name: found.name().to_owned(),
        kind: "root".into(),
        guid: found.guid,
        state: VdevState::CantOpen,
        aux,
        children,
        ..VdevStatus::default()
    };
    PoolStatus {
        name: found.name().to_owned(),
        guid: found.guid,
        version,
        comment: config.get_str("comment").map(str::to_owned),
        root,
        ..PoolStatus::default()
    }
}

fn labelled(config: &VdevConfig, present: &HashMap<u64, String>) -> VdevStatus {
    let children: Vec<VdevStatus> = config.children.iter().map(|c| labelled(c, present)).collect();
    let good = |c: &&VdevStatus| matches!(c.state, VdevState::Healthy | VdevState::Degraded);
    let working = children.iter().filter(good).count();
    let spare_columns = match config.kind.as_str() {
        "mirror" | "replacing" | "spare" => children.len().saturating_sub(1),
        "raidz" | "draid" => usize::try_from(config.number("nparity").max(1)).unwrap_or(0),
        _ => 0,
    };
    let found = present.get(&config.guid);
    let (state, aux) = match children.len() {
        0 if config.is_leaf() && config.kind != "dspare" && found.is_none() => {
            (VdevState::CantOpen, VdevAux::OpenFailed)
        }
        n if n > 0 && working + spare_columns < n => (VdevState::CantOpen, VdevAux::NoReplicas),
        n if working < n => (VdevState::Degraded, VdevAux::None),
        _ => (VdevState::Healthy, VdevAux::None),
    };
    VdevStatus {
        name: config.display_name(),
        kind: config.kind.clone(),
        guid: config.guid,
        id: config.id,
        class: if config.number("is_log") != 0 { VdevClass::Log } else { class(config) },
        state,
        aux,
        path: found.cloned().or_else(|| config.path.clone()),
        not_present: found.is_none() && config.number("not_present") != 0,
        children,
        ..VdevStatus::default()
    }
}

fn class(config: &VdevConfig) -> VdevClass {
    match config.all.get_str("alloc_bias") {
        Some("log") => VdevClass::Log,
        Some("special") => VdevClass::Special,
        Some("dedup") => VdevClass::Dedup,
        _ => VdevClass::Normal,
    }
}
