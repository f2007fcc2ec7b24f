//! Opens a pool from the result of a search, in the state of its last synced txg or an earlier one.
//!
//! ```text
//!   labels -> best uberblock -> devices from the labels -> MOS -> configuration in the MOS
//!          -> devices from the configuration -> MOS again -> removed devices
//!          -> features, salt, DTLs
//! ```
//! Nothing is replayed and nothing is written: the intent logs keep their contents.
//!
//! Below: `search`, `build`. Above: [`crate::Pool`].

use super::build::{self, Context, Devices};
use super::search::FoundPool;
use crate::config::VdevConfig;
use crate::feature;
use block::Store;
use block::vdev::raidz::{Moving, Reflow};
use block::vdev::{Aux, Leaf, Tree, Vdev};
use errors::{Error, Place, Result};
use object::zap::Zap;
use object::{Object, ObjectSet};
use ondisk::ObjsetKind;
use ondisk::nvlist::{Nvlist, Packed};
use ondisk::pool_dir::{config, directory};
use ondisk::uberblock::Uberblock;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// How to open a pool.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Limit for the bytes of block contents in the cache.
    pub cache_bytes: u64,
    /// Newest txg to open; `None`: the last one synced.
    pub txg: Option<u64>,
    /// Try older uberblocks if the pool cannot be read from the newest one.
    pub rewind: bool,
    /// Name for the pool in this process; `None`: the name in its configuration.
    pub name: Option<String>,
    /// `name` is temporary: it is not written to the pool.
    pub temporary_name: bool,
    /// Open the pool in the state of its checkpoint. When opened for writing, the pool is rewound
    /// to it for good.
    pub checkpoint: bool,
    /// Guids of devices that must not be used, because they were taken offline until the next
    /// import.
    pub offline: Vec<u64>,
    /// What an earlier look for other hosts found, which saves another wait.
    pub unchanged: Option<crate::mmp::Unchanged>,
    /// The pool has just been created by this process for this host.
    pub created: Option<Created>,
}

/// What is known of a pool that was just created.
#[derive(Debug, Clone)]
pub struct Created {
    /// Its blocks, which need not be read.
    pub blocks: block::arc::Contents,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            txg: None,
            rewind: false,
            name: None,
            temporary_name: false,
            checkpoint: false,
            offline: Vec::new(),
            unchanged: None,
            created: None,
        }
    }
}

/// Number of uberblocks tried when rewinding: a ring with 512-byte sectors holds no more.
const REWIND_MAX: usize = 128;
/// Limit for the bytes of a packed configuration.
const CONFIG_MAX: u64 = 16 << 20;
/// The last version before feature flags, and the version with them.
const VERSIONS: (u64, u64) = (28, 5000);

/// Error text: the pool has no checkpoint (`EZFS_NO_CHECKPOINT`).
pub(crate) const NO_CHECKPOINT: &str = "checkpoint does not exist";

/// Result of opening, from which a [`crate::Pool`] is made.
pub struct Opened {
    /// The devices and their blocks.
    pub store: Arc<Store>,
    /// The pool's own object set.
    pub mos: Arc<ObjectSet>,
    /// The uberblock in use.
    pub uberblock: Uberblock,
    /// The configuration in the MOS.
    pub config: Nvlist,
    /// The root of the device tree, as configured.
    pub root: VdevConfig,
    /// Hot spares, as configured.
    pub spares: Vec<VdevConfig>,
    /// Cache devices, as configured.
    pub caches: Vec<VdevConfig>,
    /// Features with their reference counts.
    pub features: feature::Features,
    /// The object directory of the MOS.
    pub directory: Zap,
    /// Problems that the user should know, such as missing devices and skipped uberblocks.
    pub warnings: Vec<String>,
}

/// All valid uberblocks of the pool's devices, best first, without duplicates.
pub fn uberblocks(found: &FoundPool) -> Vec<Uberblock> {
    let mut all: Vec<Uberblock> =
        found.devices.iter().flat_map(|d| d.labels.uberblocks.iter().map(|u| u.uberblock.clone())).collect();
    all.sort_by(|a, b| b.compare(a));
    all.dedup_by(|a, b| a.txg == b.txg && a.timestamp == b.timestamp);
    all
}

/// Opens the pool. Fails with `Unsupported` for unknown versions and features.
pub fn open(found: &FoundPool, options: &OpenOptions) -> Result<Opened> {
    let name = found.name().to_owned();
    let version = found.config().get_u64(config::VERSION).unwrap_or(0);
    if !(1..=VERSIONS.0).contains(&version) && version != VERSIONS.1 {
        return Err(Error::unsupported(
            name,
            format!("pool version {version} (known: 1 to {}, {})", VERSIONS.0, VERSIONS.1),
        ));
    }
    feature::check_label(found.config()).at(&name)?;
    let all = uberblocks(found);
    let candidates: Vec<&Uberblock> = match options.txg {
        Some(txg) => all.iter().filter(|u| u.txg.0 <= txg).collect(),
        None => all.iter().collect(),
    };
    if candidates.is_empty() {
        let what = match options.txg {
            Some(txg) => format!("no uberblock of txg {txg} or before is left"),
            None => "no uberblock with a valid checksum on any device".into(),
        };
        return Err(Error::corrupt(name, what));
    }
    let tries = if options.rewind { REWIND_MAX } else { 1 };
    let mut warnings = Vec::new();
    let mut first_error = None;
    for u in candidates.into_iter().take(tries) {
        let opened = open_at(found, u, options).and_then(|opened| match options.checkpoint {
            true => open_at(found, &wound_back(&opened)?, options),
            false => Ok(opened),
        });
        match opened {
            Ok(mut opened) => {
                opened.warnings.splice(0..0, warnings);
                return Ok(opened);
            }
            Err(e) => {
                warnings.push(format!("txg {} cannot be opened: {e}", u.txg));
                first_error.get_or_insert(e);
            }
        }
    }
    Err(first_error.expect("there was at least one candidate"))
}

/// The uberblock of the pool's checkpoint, if there is one.
pub(crate) fn checkpoint(directory: &Zap) -> Result<Option<Uberblock>> {
    let words = directory.lookup(directory::ZPOOL_CHECKPOINT)?;
    words.map(|value| Ok(Uberblock::from_words(&value.ints)?)).transpose()
}

/// The checkpoint's uberblock with a new txg, so that it becomes the pool's newest.
fn wound_back(opened: &Opened) -> Result<Uberblock> {
    let name = || opened.store.name();
    let checkpoint = checkpoint(&opened.directory)?.ok_or_else(|| Error::invalid(name(), NO_CHECKPOINT))?;
    if checkpoint.txg >= opened.uberblock.txg {
        let what = format!("a checkpoint of txg {}, in txg {}", checkpoint.txg, opened.uberblock.txg);
        return Err(Error::corrupt(name(), what));
    }
    let txg = ondisk::Txg(opened.uberblock.txg.0.saturating_add(1));
    Ok(Uberblock { txg, timestamp: host::clock::seconds(), checkpoint_txg: checkpoint.txg, ..checkpoint })
}

fn open_at(found: &FoundPool, uberblock: &Uberblock, options: &OpenOptions) -> Result<Opened> {
    // Dataset names begin with this name.
    let name = options.name.clone().unwrap_or_else(|| found.name().to_owned());
    let mut devices = devices_by_guid(found);
    let warnings = Vec::new();

    // First with the labels: each of them describes only its own top-level device.
    let tops = tops_from_labels(found, uberblock.txg.0)?;
    let missing = |e: Error| add_missing(e, &tops, &devices);
    let tree = assemble(&name, &tops, &devices, uberblock, options).map_err(missing)?;
    let store = Store::new(name.clone(), tree, options.cache_bytes);
    if let Some(created) = &options.created {
        store.cache().fill(&created.blocks);
    }
    // Blocks on devices that the labels do not describe cannot be read yet, which is no event.
    store.reporter().set_quiet(true);
    let mos = open_mos(&store, uberblock).map_err(missing)?;
    super::warm::warm(&mos);
    let directory = Zap::open(mos.object(ondisk::pool_dir::DIRECTORY_OBJECT)?)?;
    let mos_config = read_config(&mos, &directory).at_with(|| format!("{name}: configuration"))?;
    let root = VdevConfig::parse(
        mos_config
            .get_nvlist(config::VDEV_TREE)
            .ok_or_else(|| Error::corrupt(name.clone(), "the configuration has no vdev_tree"))?,
    )
    .at(&name)?;

    if options.txg.is_some() {
        add_former(&mut devices, found, &root);
    }
    // Then with the complete configuration in the MOS: holes, removed devices, spares, cache
    // devices. The lists of spares and cache devices may be stored on a removed device.
    drop(directory);
    let tree = assemble(&name, &root.children, &devices, uberblock, options)?;
    store.change_tree(|_| tree);
    store.reporter().set_quiet(false);
    if options.created.is_some() {
        // Nothing else reads from the devices before the first write.
        store.tree().measure();
    }
    super::indirect_mapping::load_mappings(&store, &mos, &root).at(&name)?;
    let directory = Zap::open(mos.object(ondisk::pool_dir::DIRECTORY_OBJECT)?)?;
    let spares = auxiliary(&mos, &directory, directory::SPARES, config::SPARES)?;
    let caches = auxiliary(&mos, &directory, directory::L2CACHE, config::L2CACHE)?;
    drop(directory);
    if !spares.is_empty() || !caches.is_empty() {
        let known = HashMap::new();
        let cx = context(&root.children, &devices, &known, uberblock);
        let (spares, caches) = (build_all(&spares, &cx).at(&name)?, build_all(&caches, &cx).at(&name)?);
        close_offline(options, spares.iter().chain(&caches).flat_map(|v| v.leaves()));
        store.change_tree(|tree| Tree { tops: tree.tops.clone(), spares, caches });
    }
    let opened = finish(&store, mos, uberblock, warnings).at(&name)?;
    if let Some(value) = opened.directory.lookup(directory::CHECKSUM_SALT)? {
        let bytes = value.as_bytes().unwrap_or_default();
        let salt = bytes
            .first_chunk::<32>()
            .ok_or_else(|| Error::corrupt(name.clone(), "the checksum salt is not 32 bytes"))?;
        store.set_salt(salt);
    }
    opened.features.check_readable(&name)?;
    let Opened { mut warnings, .. } = opened;
    super::stale::load(&store, &opened.mos, &root, &mut warnings);
    Ok(Opened { warnings, ..opened })
}

/// Opens the pool at `uberblock`, on devices that are already open.
pub(crate) fn at(store: &Arc<Store>, uberblock: &Uberblock, warnings: Vec<String>) -> Result<Opened> {
    let mos = ObjectSet::open(store.clone(), &uberblock.root, 0, None)?;
    finish(store, mos, uberblock, warnings)
}

/// The pool whose own objects are `mos`.
pub(crate) fn finish(
    store: &Arc<Store>,
    mos: Arc<ObjectSet>,
    uberblock: &Uberblock,
    warnings: Vec<String>,
) -> Result<Opened> {
    let directory = Zap::open(mos.object(ondisk::pool_dir::DIRECTORY_OBJECT)?)?;
    let config = read_config(&mos, &directory).at("configuration")?;
    let root = config
        .get_nvlist(config::VDEV_TREE)
        .ok_or_else(|| Error::corrupt("", "the configuration has no vdev_tree"))
        .and_then(VdevConfig::parse)?;
    Ok(Opened {
        spares: auxiliary(&mos, &directory, directory::SPARES, config::SPARES)?,
        caches: auxiliary(&mos, &directory, directory::L2CACHE, config::L2CACHE)?,
        features: feature::Features::load(&mos, &directory)?,
        store: store.clone(),
        uberblock: uberblock.clone(),
        mos,
        config,
        root,
        directory,
        warnings,
    })
}

fn devices_by_guid(found: &FoundPool) -> Devices {
    let mut newest: HashMap<u64, (u64, Arc<dyn host::device::Device>)> = HashMap::new();
    for d in found.devices.iter().chain(&found.auxiliary) {
        // A device may get another guid (the last side of a mirror takes the mirror's), and power
        // may fail before all of its labels have it.
        let others = d.labels.configs().filter(|c| c.get_u64(config::POOL_GUID) == Some(found.guid));
        let others = others.filter_map(|c| Some((c.get_u64(config::GUID)?, c.get_u64(config::POOL_TXG)?)));
        for (guid, txg) in others.filter(|(_, txg)| *txg > 0).chain([(d.guid, d.txg())]) {
            if newest.get(&guid).is_none_or(|(known, _)| *known < txg) {
                newest.insert(guid, (txg, d.device.clone()));
            }
        }
    }
    newest.into_iter().map(|(guid, (_, device))| (guid, device)).collect()
}

/// Adds devices for the leaves of an older configuration: those that left the pool since, and those
/// whose guid changed, when they became or ceased to be the only side of a mirror. Such a device is
/// known by its path, as in OpenZFS (vdev_open, vdev_validate).
fn add_former(devices: &mut Devices, found: &FoundPool, root: &VdevConfig) {
    for left in &found.departed {
        devices.entry(left.guid).or_insert_with(|| left.device.clone());
    }
    let leaves: Vec<&VdevConfig> = root.children.iter().flat_map(VdevConfig::leaves).collect();
    let unclaimed: Vec<_> = found.devices.iter().filter(|d| leaves.iter().all(|leaf| leaf.guid != d.guid)).collect();
    for leaf in leaves {
        let is_there = |path: &str| unclaimed.iter().find(|d| d.device.name() == path);
        if let Some(found) = leaf.path.as_deref().and_then(is_there) {
            devices.entry(leaf.guid).or_insert_with(|| found.device.clone());
        }
    }
}

/// The top-level devices as the labels describe them. A device that no label describes is `missing`
/// or a hole.
fn tops_from_labels(found: &FoundPool, txg: u64) -> Result<Vec<VdevConfig>> {
    let mut best: BTreeMap<u64, (u64, &Nvlist)> = BTreeMap::new();
    let (mut count, mut holes) = (0, Vec::new());
    let mut newest = 0;
    for c in found.devices.iter().flat_map(|d| d.labels.configs()) {
        let label_txg = c.get_u64(config::POOL_TXG).unwrap_or(0);
        let Some(tree) = c.get_nvlist(config::VDEV_TREE) else { continue };
        let id = tree.get_u64(config::ID).unwrap_or(0);
        // A label newer than the uberblock describes the devices as they became later. The newest
        // label that is not newer than the uberblock is the right one.
        let rank =
            if label_txg <= txg { label_txg.saturating_add(1 << 62) } else { (1 << 61) - label_txg.min(1 << 61) };
        if best.get(&id).is_none_or(|(r, _)| rank > *r) {
            best.insert(id, (rank, tree));
        }
        if rank >= newest {
            newest = rank;
            count = c.get_u64(config::VDEV_CHILDREN).unwrap_or(1);
            holes = c.get_u64_array(config::HOLE_ARRAY).unwrap_or_default().to_vec();
        }
    }
    let count = count.max(best.keys().max().map_or(0, |id| id.saturating_add(1)));
    if count > 1 << 16 {
        return Err(Error::corrupt(found.name(), format!("{count} top-level devices, expected at most 65536")));
    }
    (0..count)
        .map(|id| match best.get(&id) {
            Some((_, tree)) => VdevConfig::parse(tree).at(found.name()),
            None => {
                let kind = if holes.contains(&id) { "hole" } else { "missing" };
                Ok(VdevConfig { kind: kind.into(), id, ..VdevConfig::default() })
            }
        })
        .collect()
}

/// Context from which the devices of a pool are built.
fn context<'a>(
    tops: &[VdevConfig],
    devices: &'a Devices,
    known: &'a HashMap<u64, Leaf>,
    uberblock: &Uberblock,
) -> Context<'a> {
    let top_ids = tops.iter().map(|t| (t.guid, t.id)).collect();
    let moving = Some(Arc::new(Moving::new(Reflow::from_uberblock(uberblock.raidz_reflow))));
    Context { devices, known, top_ids, moving }
}

fn build_all(list: &[VdevConfig], cx: &Context<'_>) -> Result<Vec<Arc<Vdev>>> {
    list.iter().map(|c| build::vdev(c, cx).map(Arc::new)).collect()
}

/// Closes the leaves that must stay offline.
fn close_offline<'a>(options: &OpenOptions, leaves: impl Iterator<Item = &'a Leaf>) {
    leaves.filter(|leaf| options.offline.contains(&leaf.guid)).for_each(|leaf| leaf.close(Aux::Offline));
}

fn assemble(
    name: &str,
    tops: &[VdevConfig],
    devices: &Devices,
    uberblock: &Uberblock,
    options: &OpenOptions,
) -> Result<Tree> {
    let known = HashMap::new();
    let cx = context(tops, devices, &known, uberblock);
    let mut tree = Tree { tops: build_all(tops, &cx).at(name)?, spares: Vec::new(), caches: Vec::new() };
    tree.tops.sort_by_key(|v| v.id);
    if let Some((i, v)) = tree.tops.iter().enumerate().find(|(i, v)| v.id != *i as u64) {
        return Err(Error::corrupt(name, format!("top-level device {} is at index {i}", v.id)));
    }
    close_offline(options, tree.leaves().into_iter());
    Ok(tree)
}

fn open_mos(store: &Arc<Store>, uberblock: &Uberblock) -> Result<Arc<ObjectSet>> {
    let mos = ObjectSet::open(store.clone(), &uberblock.root, 0, None)?;
    if mos.phys().kind != ObjsetKind::Meta {
        return Err(Error::corrupt(
            store.name(),
            format!("the root object set is of kind {:?}, expected Meta", mos.phys().kind),
        ));
    }
    Ok(mos)
}

/// If the MOS cannot be read because devices are missing, makes the error name all of them, not
/// only the first one found.
fn add_missing(e: Error, tops: &[VdevConfig], devices: &Devices) -> Error {
    let missing: Vec<String> = tops
        .iter()
        .flat_map(VdevConfig::leaves)
        .filter(|l| l.kind == "missing" || (l.is_leaf() && !devices.contains_key(&l.guid)))
        .map(|l| {
            if l.kind == "missing" {
                format!("top-level device {} (not described by any label)", l.id)
            } else {
                l.display_name()
            }
        })
        .collect();
    match (&e, missing.is_empty()) {
        (Error::Corrupt { place, .. } | Error::Missing { place, .. }, false) => {
            Error::missing(place.clone(), missing.join(", "))
        }
        _ => e,
    }
}

/// Reads a packed nvlist from the MOS. Its length in bytes is in the bonus buffer.
pub fn packed_list(mos: &ObjectSet, id: u64) -> Result<Nvlist> {
    let object: Object = mos.object(id)?;
    let size = match object.bonus() {
        b if b.len() >= 8 => object.endian().u64(b),
        b => {
            return Err(Error::corrupt(
                object.place(),
                format!("the bonus has {} bytes, expected the length of a packed list", b.len()),
            ));
        }
    };
    let holds = object.max_block_id().saturating_add(1).saturating_mul(object.block_bytes());
    if size > CONFIG_MAX.min(holds) {
        return Err(Error::corrupt(object.place(), format!("a packed list of {size} bytes in {holds}")));
    }
    let bytes = object.read_vec(0, size as usize)?;
    Packed::parse(&bytes).map(|p| p.list).at_with(|| object.place())
}

fn read_config(mos: &ObjectSet, dir: &Zap) -> Result<Nvlist> {
    let id =
        dir.lookup_u64(directory::CONFIG)?.ok_or_else(|| Error::corrupt("", "the object directory has no config"))?;
    packed_list(mos, id)
}

fn auxiliary(mos: &ObjectSet, dir: &Zap, entry: &str, key: &str) -> Result<Vec<VdevConfig>> {
    match dir.lookup_u64(entry)? {
        None | Some(0) => Ok(Vec::new()),
        Some(id) => packed_list(mos, id)?.get_nvlist_array(key).iter().map(VdevConfig::parse).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::search::FoundDevice;
    use block::label::Labels;
    use host::device::MemoryDevice;

    /// A pool with a side of a mirror that was detached (`c`, now elsewhere), and another device
    /// whose guid has changed since (`b`).
    #[test]
    fn an_older_configuration_finds_devices_that_left_or_changed_their_guid() {
        let device = |name: &str, guid| FoundDevice {
            device: Arc::new(MemoryDevice::new(name, Vec::new())),
            labels: Labels { labels: Vec::new(), uberblocks: Vec::new() },
            guid,
            config: Nvlist::new(),
        };
        let leaf = |path: &str, guid| VdevConfig {
            kind: "file".into(),
            guid,
            path: Some(path.into()),
            ..VdevConfig::default()
        };
        let found = FoundPool {
            guid: 7,
            devices: vec![device("a", 1), device("b", 9)],
            auxiliary: Vec::new(),
            departed: vec![device("moved", 3)],
        };
        let root = VdevConfig { children: vec![leaf("b", 1), leaf("b", 2), leaf("c", 3)], ..leaf("", 7) };
        let mut devices = devices_by_guid(&found);
        add_former(&mut devices, &found, &root);
        let name = |guid: u64| devices.get(&guid).map(|device| device.name().to_owned());
        let names: Vec<_> = [1, 2, 3, 4].into_iter().filter_map(name).collect();
        assert_eq!(names, ["a", "b", "moved"], "a device with the right guid is not replaced by its path");
    }
}
