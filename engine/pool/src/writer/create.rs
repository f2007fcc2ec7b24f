//! Making a pool.
//!
//! Facts: spa_create, vdev_construct_zaps, vdev_metaslab_set_size (module/zfs).
//!
//! Invariants:
//!   * until the first uberblock is there, a device has empty rings and no pool can be found on it

use super::config::{Identity, this_host};
use super::features::LiveFeatures;
use super::gate::Gate;
use super::maps::with_maps;
use super::tx::SyncTx;
use super::{ACTIVE, Progress, Shared, WriteOptions, Writer, history, label, sync};
use crate::config::VdevConfig;
use crate::import::build::{self, Context};
use crate::import::search::search_devices;
use crate::space::Allocator;
use crate::space::alloc::{NewDevice, Options, Shape, metaslab_shift};
use crate::{Error, OpenOptions, Place, Result};
use block::vdev::Tree;
use block::{Class, Store};
use host::device::Device;
use object::zap::{Zap, ZapSpec};
use object::{NewObject, ObjectSet, ZapValue};
use ondisk::label::{END_BYTES, MIN_DEVICE_BYTES, START_BYTES, usable_bytes};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::{DIRECTORY_OBJECT, allocation_bias as bias, config, directory, vdev_top};
use ondisk::uberblock::{Multihost, Uberblock};
use ondisk::{BlkPtr, Compression, Endian, ObjectType, ObjsetKind, Txg, feature};
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;

/// The first txg of a pool (`TXG_INITIAL`).
pub const FIRST_TXG: u64 = 4;

/// A device of a pool to be made.
#[derive(Clone)]
pub struct NewVdev {
    /// `disk`, `file`, `mirror` or `raidz`.
    pub kind: &'static str,
    /// Parity of a raidz.
    pub parity: u64,
    /// What a top-level device is for.
    pub class: Class,
    /// Of a leaf: its path and the device, open for writing.
    pub leaf: Option<(String, Arc<dyn Device>)>,
    /// log2 of the unit of allocation, of a top-level device.
    pub ashift: u8,
    /// Members.
    pub children: Vec<NewVdev>,
}

/// A pool to be made.
pub struct CreatePool {
    /// Its name.
    pub name: String,
    /// Its top-level devices.
    pub tops: Vec<NewVdev>,
    /// Names of the features to enable.
    pub features: Vec<String>,
    /// `comment`.
    pub comment: Option<String>,
    /// `compatibility`.
    pub compatibility: Option<String>,
}

impl Writer {
    /// Makes the pool. `datasets` runs in its first txg, when the pool's own objects are there, and makes what else has to be.
    pub fn create(
        new: &CreatePool,
        open: &OpenOptions,
        options: &WriteOptions,
        datasets: impl FnOnce(&SyncTx<'_>) -> Result<()>,
    ) -> Result<Arc<Self>> {
        let place = || new.name.clone();
        let mut devices = HashMap::new();
        let root = root(new, &mut devices).at_with(place)?;
        let top_ids = root.children.iter().map(|t| (t.guid, t.id)).collect();
        let cx = Context { devices: &devices, top_ids, reflow: 0 };
        let tops = root.children.iter().map(|c| build::vdev(c, &cx)).collect::<Result<Vec<_>>>().at_with(place)?;
        let store = Store::new(new.name.clone(), Tree { tops, ..Tree::default() }, open.cache_bytes);
        let enabled = |name: &str| new.features.iter().any(|f| f == name);
        let space = Options { two_words: enabled("spacemap_v2"), histograms: enabled("spacemap_histogram") };
        let allocator = Allocator::new(&new.name, space);
        for (spec, top) in new.tops.iter().zip(&root.children) {
            let device = &store.tree().tops[top.id as usize];
            allocator.add_device(&NewDevice {
                vdev: top.id as u32,
                name: device.name.clone(),
                class: spec.class,
                shape: Shape::of(&device.kind)
                    .ok_or_else(|| Error::invalid(place(), "a device that holds no blocks"))?,
                ashift: spec.ashift,
                asize_bytes: top.number(config::ASIZE),
                metaslab_shift: top.number(config::METASLAB_SHIFT) as u8,
                top_zap: 0,
            })?;
        }
        store.set_allocator(allocator.clone());
        let salt = host::random::bytes::<32>();
        store.set_salt(&salt);
        for leaf in root.leaves() {
            let top = root.children.iter().find(|t| t.find(leaf.guid).is_some()).expect("a leaf has a top");
            let blank = blank_label(new, &root, top, leaf.guid);
            let device = &devices[&leaf.guid];
            block::label::initialize(device.as_ref(), &blank).map_err(|e| Error::io(device.name(), e))?;
        }

        let shared = shared(new, &store, allocator, root, options)?;
        sync::first(&shared, |cx| {
            objects(cx, new, &salt)?;
            datasets(cx)
        })
        .at_with(place)?;
        let mos_space = *shared.mos_space.lock();
        drop(shared);
        drop(store);
        // What was made is opened as any other pool is: nothing stays in memory that the disk does not say.
        let found = search_devices(devices.into_values()).pools.into_iter().next();
        let found = found.ok_or_else(|| Error::corrupt(place(), "has no label after it was made"))?;
        let writer = Self::open(&found, open, options)?;
        // The first objects are counted where all others are: else the directory `$MOS` falls below zero when they shrink.
        let mut counted = writer.shared.mos_space.lock();
        let (used, compressed, uncompressed) = mos_space;
        *counted = (counted.0 + used, counted.1 + compressed, counted.2 + uncompressed);
        drop(counted);
        Ok(writer)
    }
}

fn shared(
    new: &CreatePool,
    store: &Arc<Store>,
    allocator: Arc<Allocator>,
    root: VdevConfig,
    options: &WriteOptions,
) -> Result<Arc<Shared>> {
    let (hostid, hostname) = this_host();
    let identity = Identity {
        name: new.name.clone(),
        version: ondisk::uberblock::VERSION_FEATURES,
        guid: root.guid,
        state: ACTIVE,
        hostid,
        hostname,
        comment: new.comment.clone(),
        compatibility: new.compatibility.clone(),
        errata: 0,
    };
    let uberblock = Uberblock {
        version: identity.version,
        txg: Txg(FIRST_TXG - 1),
        guid_sum: label::guid_sum(&root),
        timestamp: 0,
        root: BlkPtr::HOLE,
        software_version: identity.version,
        multihost: Some(Multihost { delay_ns: 0, config: 0 }),
        checkpoint_txg: Txg(0),
        raidz_reflow: 0,
        endian: Endian::Little,
    };
    let deflate = root.children.iter().map(crate::usable::deflate_ratio).collect();
    Ok(Arc::new(Shared {
        gate: Gate::new(FIRST_TXG, store.waiting_bytes().clone(), options.dirty_max_bytes),
        mos: ObjectSet::open_live(store.clone(), None, 0, None, ObjsetKind::Meta)?,
        allocator,
        features: LiveFeatures::new(Default::default()),
        identity: Mutex::new(identity),
        root: Mutex::new(root),
        uberblock: Mutex::new(uberblock),
        progress: Mutex::new(Progress::new(FIRST_TXG - 1)),
        wake: Condvar::new(),
        done: Condvar::new(),
        participants: Mutex::default(),
        jobs: Mutex::default(),
        config_dirty: true.into(),
        mos_space: Mutex::default(),
        deflate,
        base: None,
        published: Mutex::new(None),
        stats: Default::default(),
        interval: options.interval,
        early_bytes: u64::MAX,
        store: store.clone(),
    }))
}

/// The device tree with new identities, and sizes as the devices have them.
fn root(new: &CreatePool, devices: &mut HashMap<u64, Arc<dyn Device>>) -> Result<VdevConfig> {
    let guid = new_guid();
    let mut all = Nvlist::new();
    all.put(config::TYPE, "root");
    all.put(config::ID, 0u64);
    all.put(config::GUID, guid);
    all.put(config::CREATE_TXG, FIRST_TXG);
    let children =
        new.tops.iter().enumerate().map(|(id, top)| vdev(top, id as u64, true, devices)).collect::<Result<_>>()?;
    Ok(VdevConfig { kind: "root".into(), id: 0, guid, path: None, all, children })
}

fn new_guid() -> u64 {
    loop {
        // 0 and all ones mean something else in places.
        let guid = host::random::u64();
        if guid != 0 && guid != u64::MAX {
            return guid;
        }
    }
}

fn vdev(new: &NewVdev, id: u64, is_top: bool, devices: &mut HashMap<u64, Arc<dyn Device>>) -> Result<VdevConfig> {
    let guid = new_guid();
    let children: Vec<VdevConfig> =
        new.children.iter().enumerate().map(|(i, c)| vdev(c, i as u64, false, devices)).collect::<Result<_>>()?;
    let mut all = Nvlist::new();
    all.put(config::TYPE, new.kind);
    all.put(config::ID, id);
    all.put(config::GUID, guid);
    let mut path = None;
    if let Some((leaf_path, device)) = &new.leaf {
        if device.size_bytes() < MIN_DEVICE_BYTES {
            return Err(Error::invalid(leaf_path.clone(), "device is too small: less than 64 MiB"));
        }
        path = Some(leaf_path.clone());
        all.put(config::PATH, leaf_path.as_str());
        if new.kind == "disk" {
            all.put(config::WHOLE_DISK, 0u64);
        }
        devices.insert(guid, device.clone());
    }
    if new.kind == "raidz" {
        all.put(config::NPARITY, new.parity);
    }
    if is_top {
        let asize = asize(new);
        all.put(config::METASLAB_ARRAY, 0u64);
        all.put(config::METASLAB_SHIFT, u64::from(metaslab_shift(asize)));
        all.put(config::ASHIFT, u64::from(new.ashift));
        all.put(config::ASIZE, asize);
        all.put(config::IS_LOG, u64::from(new.class == Class::Log));
    }
    all.put(config::CREATE_TXG, FIRST_TXG);
    Ok(VdevConfig { kind: new.kind.into(), id, guid, path, all, children })
}

/// Bytes that can be allocated on a device, parity included.
fn asize(new: &NewVdev) -> u64 {
    let leaf = new.leaf.as_ref().map(|(_, d)| usable_bytes(d.size_bytes()).saturating_sub(START_BYTES + END_BYTES));
    let children = || new.children.iter().map(asize).min().unwrap_or(0);
    match new.kind {
        "raidz" => (children() >> new.ashift << new.ashift) * new.children.len() as u64,
        _ => leaf.unwrap_or_else(children),
    }
}

/// What a device says of itself before the first txg: to whom it will belong.
fn blank_label(new: &CreatePool, root: &VdevConfig, top: &VdevConfig, guid: u64) -> Nvlist {
    let mut list = Nvlist::new();
    list.put(config::VERSION, ondisk::uberblock::VERSION_FEATURES);
    list.put(config::POOL_NAME, new.name.as_str());
    list.put(config::POOL_STATE, ACTIVE);
    list.put(config::POOL_TXG, 0u64);
    list.put(config::POOL_GUID, root.guid);
    list.put(config::TOP_GUID, top.guid);
    list.put(config::GUID, guid);
    list.put(config::CREATE_TXG, FIRST_TXG);
    list
}

/// The pool's own objects, without datasets.
fn objects(cx: &SyncTx<'_>, new: &CreatePool, salt: &[u8; 32]) -> Result<()> {
    let (mos, tx) = (cx.mos(), cx.tx());
    let spec = ZapSpec { id: Some(DIRECTORY_OBJECT), ..ZapSpec::new(ObjectType::OBJECT_DIRECTORY) };
    let dir = Zap::create(mos, tx, &spec)?;
    LiveFeatures::create_zaps(mos, tx)?;
    // What enabling writes down of itself comes first.
    for name in ["enabled_txg"].into_iter().chain(new.features.iter().map(String::as_str)) {
        if new.features.iter().any(|f| f == name) {
            cx.feature_enable(name)?;
        }
    }
    dir.update_u64(tx, directory::CREATION_VERSION, cx.version())?;
    dir.update_u64(tx, directory::DEFLATE, 1)?;
    let free = empty_bpobj(cx, 128 << 10, 0)?;
    dir.update_u64(tx, directory::FREE_BPOBJ, free)?;
    let deferred = empty_bpobj(cx, 16 << 10, Compression::Off.to_raw())?;
    dir.update_u64(tx, directory::SYNC_BPOBJ, deferred)?;
    let salt = ZapValue { int_bytes: 1, ints: salt.iter().map(|b| u64::from(*b)).collect() };
    dir.update(tx, directory::CHECKSUM_SALT, &salt)?;

    vdev_zaps(cx, &dir, new)?;
    let ids: Vec<u64> = cx.shared.root.lock().children.iter().map(|top| top.id).collect();
    for id in ids {
        let array = with_maps(cx, |maps| cx.shared.allocator.metaslab_array(id as u32, maps))?;
        let mut root = cx.shared.root.lock();
        if let Some(top) = root.children.iter_mut().find(|top| top.id == id) {
            top.all.put(config::METASLAB_ARRAY, array);
        }
    }
    let normal = cx.shared.allocator.totals();
    history::create(cx, normal.class(Class::Normal).deflated_size_bytes)?;
    cx.history(
        "create",
        None,
        &format!("pool version {}; software version weir/{}", cx.version(), env!("CARGO_PKG_VERSION")),
    )
}

fn empty_bpobj(cx: &SyncTx<'_>, block_bytes: u32, compression: u8) -> Result<u64> {
    let header = vec![0; ondisk::bpobj::Header::SIZE_V2_BYTES];
    let new = NewObject { compression, ..NewObject::new(ObjectType::BPOBJ, block_bytes) };
    Ok(cx.mos().create_object(cx.tx(), &new.with_bonus(ObjectType::BPOBJ_HDR, header))?.id())
}

/// A ZAP for the pool, each top-level device and each leaf, for properties and the state of what runs on them.
fn vdev_zaps(cx: &SyncTx<'_>, dir: &Zap, new: &CreatePool) -> Result<()> {
    let (mos, tx) = (cx.mos(), cx.tx());
    let spec = ZapSpec::new(ObjectType::OTN_ZAP_METADATA);
    let all = Zap::create_linked(mos, tx, &spec, dir, directory::VDEV_ZAP_MAP)?;
    let make = || -> Result<Zap> {
        let zap = Zap::create(mos, tx, &spec)?;
        all.insert_u64(tx, format!("{:x}", zap.id()), zap.id())?;
        Ok(zap)
    };
    let mut root = cx.shared.root.lock().clone();
    if cx.feature_enabled("vdev_zaps_v2") {
        cx.feature_increment("vdev_zaps_v2")?;
        root.all.put(config::VDEV_ROOT_ZAP, make()?.id());
    }
    for (top, new) in root.children.iter_mut().zip(&new.tops) {
        let zap = make()?;
        let class = match new.class {
            Class::Normal => None,
            Class::Log => Some(bias::LOG),
            Class::Special => Some(bias::SPECIAL),
            Class::Dedup => Some(bias::DEDUP),
        };
        if let Some(text) = class {
            let ints = text.bytes().chain([0]).map(u64::from).collect();
            zap.update(tx, vdev_top::ALLOCATION_BIAS, &ZapValue { int_bytes: 1, ints })?;
        }
        if matches!(new.class, Class::Special | Class::Dedup) {
            if !cx.feature_enabled("allocation_classes") {
                return Err(Error::invalid("special and dedup devices", "need feature@allocation_classes"));
            }
            if !cx.feature_active("allocation_classes") {
                cx.feature_increment("allocation_classes")?;
            }
        }
        top.all.put(config::VDEV_TOP_ZAP, zap.id());
        leaf_zaps(top, &make)?;
    }
    *cx.shared.root.lock() = root;
    Ok(())
}

fn leaf_zaps(vdev: &mut VdevConfig, make: &impl Fn() -> Result<Zap>) -> Result<()> {
    if vdev.is_leaf() {
        vdev.all.put(config::VDEV_LEAF_ZAP, make()?.id());
    }
    vdev.children.iter_mut().try_for_each(|child| leaf_zaps(child, make))
}

/// Features by name that `compatibility` files and options leave on; unknown names are refused.
pub fn check_features<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    for name in names {
        if feature::by_name(name).is_none() {
            return Err(Error::invalid(format!("feature@{name}"), "is no feature"));
        }
        if !super::open::can_write(name) {
            return Err(Error::unsupported("writing", format!("feature@{name}")));
        }
    }
    Ok(())
}
