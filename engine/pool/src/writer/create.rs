//! Creates a pool.
//!
//! Facts: spa_create, vdev_construct_zaps, vdev_metaslab_set_size (module/zfs).
//!
//! Invariants:
//!   * until the first uberblock is written, the uberblock rings are empty and no pool can be found
//!     on the devices

use super::accounting::Accounting;
use super::config::{ACTIVE, Identity};
use super::deflate::Deflate;
use super::features::LiveFeatures;
use super::label;
use super::live_config::LiveConfig;
use super::spa::{Shared, SyncTx, Txgs, WriteOptions, Writer};
use super::vdevs::{self, ByGuid, List, NewDevices, NewVdev, new_guid};
use super::version::{copies_max, is_version};
use super::view_cache::Views;
use crate::clones::Clones;
use crate::config::VdevConfig;
use crate::dedup::Dedup;
use crate::feature::can_write;
use crate::import::open::{Created, OpenOptions};
use crate::import::search::search_devices;
use crate::space::Allocator;
use crate::space::alloc::Options;
use crate::txg::FIRST_TXG;
use crate::txg::gate::Gate;
use crate::txg::sync;
use block::vdev::Tree;
use block::{Store, WriteStore};
use errors::{Error, Place, Result};
use host::sync::Mutex;
use object::bpobj_write::new_header;
use object::zap::{Zap, ZapSpec};
use object::{NewObject, ObjectSet};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::{DIRECTORY_OBJECT, config, directory};
use ondisk::uberblock::{Multihost, Uberblock, VERSION_FEATURES};
use ondisk::zap::Value as ZapValue;
use ondisk::{BlkPtr, Compression, Endian, ObjectType, ObjsetKind, Txg, feature, version};
use std::sync::Arc;

/// A pool to be created.
pub struct CreatePool {
    pub name: String,
    /// On-disk version; see [`is_version`].
    pub version: u64,
    pub tops: Vec<NewVdev>,
    /// Names of the features to enable.
    pub features: Vec<String>,
    /// Value of the property `comment`.
    pub comment: Option<String>,
    /// Value of the property `compatibility`.
    pub compatibility: Option<String>,
}

impl Writer {
    /// Creates the pool. `datasets` runs in its first txg, after the MOS was created, and creates
    /// all other objects.
    pub fn create(
        new: &CreatePool,
        open: &OpenOptions,
        options: &WriteOptions,
        datasets: impl FnOnce(&SyncTx<'_>) -> Result<()>,
    ) -> Result<Arc<Self>> {
        let place = || new.name.clone();
        if !is_version(new.version) || new.version < VERSION_FEATURES && !new.features.is_empty() {
            let what = format!("version {} with {} features", new.version, new.features.len());
            return Err(Error::invalid(place(), what));
        }
        let joining = NewDevices { tops: new.tops.clone(), ..NewDevices::default() };
        vdevs::check_version(&joining, new.version).at_with(place)?;
        let mut devices = ByGuid::new();
        let root = root(new, &mut devices).at_with(place)?;
        let tops = vdevs::build(&root.children, &root, &devices).at_with(place)?;
        let store = Store::new(new.name.clone(), Tree::of(tops), open.cache_bytes);
        store.tree().measure();
        let enabled = |name: &str| new.features.iter().any(|f| f == name);
        // The objects that log space maps need do not exist in the first txg; from the second on
        // the pool is like any other.
        let space =
            Options { two_words: enabled("spacemap_v2"), histograms: enabled("spacemap_histogram"), logs: false };
        let allocator = Allocator::new(&new.name, space);
        for (spec, top) in new.tops.iter().zip(&root.children) {
            let device = store.tree().tops[top.id as usize].clone();
            allocator.add_device(&vdevs::for_allocator(spec, top, &device).at_with(place)?)?;
        }
        let store = WriteStore::new(store, allocator.clone());
        allocator.publish_units(&store);
        store.set_copies_max(copies_max(new.version));
        store.set_hole_births(new.version >= VERSION_FEATURES);
        let salt = host::random::bytes::<32>();
        store.set_salt(&salt);
        let shared = shared(new, &store, allocator, root, options)?;
        {
            let (identity, root) = (shared.config.identity.lock(), shared.config.root.lock());
            vdevs::initialize(&identity, root.guid, &root.children, &devices)?;
        }
        sync::first(&shared, |cx| {
            objects(cx, new, &salt)?;
            datasets(cx)
        })
        .at_with(place)?;
        let mos_space = shared.accounting.take_mos();
        let created = Some(Created { blocks: store.cache().contents() });
        drop(shared);
        drop(store);
        // The new pool is opened like any other, so that its state in memory comes from its blocks.
        let found = search_devices(devices.into_values()).pools.into_iter().next();
        let found = found.ok_or_else(|| Error::corrupt(place(), "has no label after it was created"))?;
        let writer = Self::open(&found, &OpenOptions { created, ..open.clone() }, options)?;
        // The first objects are counted like all others: otherwise the space of `$MOS` would become
        // negative when they shrink.
        writer.shared.accounting.add_mos(mos_space);
        Ok(writer)
    }
}

fn shared(
    new: &CreatePool,
    store: &Arc<WriteStore>,
    allocator: Arc<Allocator>,
    root: VdevConfig,
    options: &WriteOptions,
) -> Result<Arc<Shared>> {
    let (hostid, hostname) = options.this_host();
    let identity = Identity {
        name: new.name.clone(),
        label_name: new.name.clone(),
        version: new.version,
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
        multihost: Some(Multihost::OFF),
        checkpoint_txg: Txg(0),
        raidz_reflow: 0,
        endian: Endian::Little,
    };
    let deflates = new.version >= version::RAIDZ_DEFLATE;
    let ratio = |top| if deflates { crate::usable::deflate_ratio(top) } else { 512 };
    let deflate = root.children.iter().map(ratio).collect();
    let config = LiveConfig::new(identity, root, uberblock);
    config.mark_dirty();
    let gate = Gate::new(FIRST_TXG, store.waiting_bytes().clone(), options.dirty_bytes(u64::MAX));
    Ok(Arc::new(Shared {
        txgs: Txgs::new(FIRST_TXG - 1, gate, Vec::new()),
        mos: ObjectSet::open_live(store, None, 0, None, ObjsetKind::Meta)?,
        allocator,
        features: LiveFeatures::new(Default::default()),
        config,
        accounting: Accounting::new(Arc::new(Deflate::new(deflate)), Clones::none(), Dedup::none()),
        background: Default::default(),
        farewells: Mutex::default(),
        views: Views::new(None),
        states: Default::default(),
        options: options.clone(),
        store: store.clone(),
    }))
}

/// The device tree, with new guids and the sizes of the devices.
fn root(new: &CreatePool, devices: &mut ByGuid) -> Result<VdevConfig> {
    let guid = new_guid();
    let mut all = Nvlist::new();
    all.put(config::TYPE, "root");
    all.put(config::ID, 0u64);
    all.put(config::GUID, guid);
    all.put(config::CREATE_TXG, FIRST_TXG);
    let children = new
        .tops
        .iter()
        .zip(0..)
        .map(|(top, id)| vdevs::top_config(top, id, FIRST_TXG, devices))
        .collect::<Result<_>>()?;
    Ok(VdevConfig { kind: "root".into(), id: 0, guid, path: None, all, children })
}

/// Creates the MOS without datasets.
fn objects(cx: &SyncTx<'_>, new: &CreatePool, salt: &[u8; 32]) -> Result<()> {
    let (mos, tx) = (cx.mos(), cx.tx());
    if new.version < version::USERSPACE {
        mos.use_small_root()?;
    }
    let spec = ZapSpec { id: Some(DIRECTORY_OBJECT), ..ZapSpec::new(ObjectType::OBJECT_DIRECTORY) };
    let dir = Zap::create(mos, tx, &spec)?;
    if new.version >= VERSION_FEATURES {
        LiveFeatures::create_zaps(mos, tx)?;
    }
    // Comes first, because it records when features are enabled.
    for name in ["enabled_txg"].into_iter().chain(new.features.iter().map(String::as_str)) {
        if new.features.iter().any(|f| f == name) {
            cx.feature_enable(name)?;
        }
    }
    dir.update_u64(tx, directory::CREATION_VERSION, cx.version())?;
    if new.version >= version::RAIDZ_DEFLATE {
        dir.update_u64(tx, directory::DEFLATE, 1)?;
    }
    if new.version >= version::DEADLISTS {
        let free = empty_bpobj(cx, 128 << 10, 0)?;
        dir.update_u64(tx, directory::FREE_BPOBJ, free)?;
    }
    let deferred = empty_bpobj(cx, 16 << 10, Compression::Off.to_raw())?;
    dir.update_u64(tx, directory::SYNC_BPOBJ, deferred)?;
    let salt = ZapValue { int_bytes: 1, ints: salt.iter().map(|b| u64::from(*b)).collect() };
    dir.update(tx, directory::CHECKSUM_SALT, &salt)?;

    let joining = NewDevices { tops: new.tops.clone(), ..NewDevices::default() };
    vdevs::check_classes(&joining, |name| cx.feature_enabled(name))?;
    let mut root = cx.shared.config.root.lock().clone();
    vdevs::make_zaps(cx, &mut root, &|id| new.tops.get(id as usize).map(|top| top.class))?;
    *cx.shared.config.root.lock() = root;
    let tops = cx.shared.config.root.lock().children.clone();
    vdevs::count_draids(cx, &tops)?;
    vdevs::list_auxiliary(cx, &vdevs::distributed_spares(&tops), List::Spares)?;
    vdevs::make_arrays(cx)?;
    cx.history(
        "create",
        None,
        &format!("pool version {}; software version weir/{}", cx.version(), env!("CARGO_PKG_VERSION")),
    )
}

fn empty_bpobj(cx: &SyncTx<'_>, block_bytes: u32, compression: u8) -> Result<u64> {
    let header = new_header(cx.version(), false).to_bytes(Endian::Little);
    let new = NewObject { compression, ..NewObject::new(ObjectType::BPOBJ, block_bytes) };
    Ok(cx.mos().create_object(cx.tx(), &new.with_bonus(ObjectType::BPOBJ_HDR, header))?.id())
}

/// Checks that all features in `names` are known and can be written.
pub fn check_features<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    for name in names {
        if feature::by_name(name).is_none() {
            return Err(Error::invalid(format!("feature@{name}"), "is no feature"));
        }
        if !can_write(name) {
            return Err(Error::unsupported("writing", format!("feature@{name}")));
        }
    }
    Ok(())
}
