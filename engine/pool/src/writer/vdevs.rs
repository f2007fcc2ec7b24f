//! Devices that become part of a pool: their configuration, their first labels, and the objects
//! that the pool keeps for each.
//!
//! Above: `create` and `add`. Facts: vdev_label_init, vdev_construct_zaps (module/zfs); the entries
//! in the lists of spares and cache devices are those in pools of OpenZFS.
//!
//! Invariants:
//!   * until the first uberblock that knows of a device is written, the device has empty rings and
//!     labels of txg 0, which a search ignores

use super::config::{ACTIVE, Identity};
use super::maps::with_maps;
use super::spa::SyncTx;
use crate::config::VdevConfig;
use crate::devices;
use crate::import::build::{self, Context};
use crate::space::alloc::{NewDevice, Shape, metaslab_shift};
use block::Class;
use block::vdev::raidz::Moving;
use block::vdev::{Leaf, Vdev, draid};
use errors::{Error, Result};
use host::device::Device;
use object::NewObject;
use object::zap::{Zap, ZapSpec};
use ondisk::label::{END_BYTES, START_BYTES, usable_bytes};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::{allocation_bias as bias, config, directory, vdev_top, vdev_type as kind};
use ondisk::zap::Value as ZapValue;
use ondisk::{Endian, ObjectType, l2arc, version};
use std::collections::HashMap;
use std::sync::Arc;

/// Block size of a packed list (`SPA_CONFIG_BLOCKSIZE`).
pub(crate) const LIST_BLOCK_BYTES: u32 = 16 << 10;
/// Pool states in labels (`POOL_STATE_*`) of spares and cache devices.
pub(crate) const SPARE: u64 = 3;
const L2CACHE: u64 = 4;

/// A device that is to become part of a pool.
#[derive(Clone)]
pub struct NewVdev {
    /// `disk`, `file`, `mirror`, `raidz` or `draid`.
    pub kind: &'static str,
    /// Parity of a raidz or draid.
    pub parity: u64,
    /// Layout of a draid.
    pub draid: Option<NewDraid>,
    /// Allocation class of a top-level device.
    pub class: Class,
    /// Path of a leaf, and the device, open for writing.
    pub leaf: Option<(String, Arc<dyn Device>)>,
    /// log2 of the allocation unit in bytes, of a top-level device.
    pub ashift: u8,
    pub children: Vec<NewVdev>,
}

/// Layout of a draid besides its children and parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewDraid {
    /// Data columns of a group.
    pub data: u64,
    /// Number of distributed spares.
    pub spares: u64,
}

impl NewDraid {
    /// Groups in a slice, for this number of children: the smallest number for which groups fill
    /// whole rows.
    pub fn groups(self, parity: u64, children: u64) -> u64 {
        let (columns, disks) = (self.data + parity, children.saturating_sub(self.spares).max(1));
        (1..=disks).find(|groups| (groups * columns).is_multiple_of(disks)).unwrap_or(disks)
    }
}

/// A hot spare or a level-2 cache device.
#[derive(Clone)]
pub struct NewAuxiliary {
    /// `disk` or `file`.
    pub kind: &'static str,
    pub path: String,
    /// The device, open for writing.
    pub device: Arc<dyn Device>,
    /// log2 of the sector size in bytes.
    pub ashift: u8,
}

/// Devices to add to a pool.
#[derive(Clone, Default)]
pub struct NewDevices {
    pub tops: Vec<NewVdev>,
    pub spares: Vec<NewAuxiliary>,
    /// Level-2 cache devices.
    pub caches: Vec<NewAuxiliary>,
}

/// Devices by guid.
pub(crate) type ByGuid = HashMap<u64, Arc<dyn Device>>;

pub(crate) fn new_guid() -> u64 {
    loop {
        // 0 and all ones have special meanings.
        let guid = host::random::u64();
        if guid != 0 && guid != u64::MAX {
            return guid;
        }
    }
}

fn check_size(path: &str, device: &dyn Device) -> Result<()> {
    if devices::is_too_small(device.size_bytes()) {
        return Err(Error::invalid(path, "device is too small: less than 64 MiB"));
    }
    Ok(())
}

/// The configuration of a top-level device that joins in `txg`, with new guids and the sizes of its
/// devices.
pub(crate) fn top_config(new: &NewVdev, id: u64, txg: u64, devices: &mut ByGuid) -> Result<VdevConfig> {
    let mut top = vdev_config(new, id, txg, devices)?;
    let asize = asize(new)?;
    top.all.put(config::METASLAB_ARRAY, 0u64);
    top.all.put(config::METASLAB_SHIFT, u64::from(metaslab_shift(asize)));
    top.all.put(config::ASHIFT, u64::from(new.ashift));
    top.all.put(config::ASIZE, asize);
    top.all.put(config::IS_LOG, u64::from(new.class == Class::Log));
    Ok(top)
}

fn vdev_config(new: &NewVdev, id: u64, txg: u64, devices: &mut ByGuid) -> Result<VdevConfig> {
    let guid = new_guid();
    let children: Vec<VdevConfig> =
        new.children.iter().zip(0..).map(|(c, i)| vdev_config(c, i, txg, devices)).collect::<Result<_>>()?;
    let mut all = Nvlist::new();
    all.put(config::TYPE, new.kind);
    all.put(config::ID, id);
    all.put(config::GUID, guid);
    let mut path = None;
    if let Some((leaf_path, device)) = &new.leaf {
        check_size(leaf_path, device.as_ref())?;
        path = Some(leaf_path.clone());
        all.put(config::PATH, leaf_path.as_str());
        if new.kind == "disk" {
            all.put(config::WHOLE_DISK, 0u64);
        }
        devices.insert(guid, device.clone());
    }
    if matches!(new.kind, "raidz" | "draid") {
        all.put(config::NPARITY, new.parity);
    }
    if let Some(draid) = new.draid {
        all.put(config::DRAID_NDATA, draid.data);
        all.put(config::DRAID_NSPARES, draid.spares);
        all.put(config::DRAID_NGROUPS, draid.groups(new.parity, new.children.len() as u64));
    }
    all.put(config::CREATE_TXG, txg);
    Ok(VdevConfig { kind: new.kind.into(), id, guid, path, all, children })
}

/// Allocatable bytes of a device, including parity.
fn asize(new: &NewVdev) -> Result<u64> {
    let leaf = new.leaf.as_ref().map(|(_, d)| usable_bytes(d.size_bytes()).saturating_sub(START_BYTES + END_BYTES));
    let children = new.children.iter().map(asize).collect::<Result<Vec<_>>>()?.into_iter().min().unwrap_or(0);
    let width = new.children.len();
    Ok(match (new.kind, new.draid) {
        ("raidz", _) => (children >> new.ashift << new.ashift) * width as u64,
        ("draid", Some(draid)) => {
            let shape = draid::Shape {
                ashift: new.ashift,
                width,
                children: width,
                parity: new.parity as usize,
                data: draid.data as usize,
                spares: draid.spares as usize,
                groups: draid.groups(new.parity, width as u64) as usize,
            };
            draid::Geometry::new(shape)?.capacity_bytes(children)
        }
        _ => leaf.unwrap_or(children),
    })
}

/// Builds the devices that `configs` describe, in the pool whose root is `root`.
pub(crate) fn build(configs: &[VdevConfig], root: &VdevConfig, devices: &ByGuid) -> Result<Vec<Vdev>> {
    build_with(configs, root, devices, &HashMap::new(), None)
}

/// The same, reusing the leaves in `known`; `moving` is the progress of a raidz expansion.
pub(crate) fn build_with(
    configs: &[VdevConfig],
    root: &VdevConfig,
    devices: &ByGuid,
    known: &HashMap<u64, Leaf>,
    moving: Option<Arc<Moving>>,
) -> Result<Vec<Vdev>> {
    let top_ids = root.children.iter().map(|t| (t.guid, t.id)).collect();
    let cx = Context { devices, known, top_ids, moving };
    configs.iter().map(|c| build::vdev(c, &cx)).collect()
}

/// Writes the first labels of the leaves of `tops`.
pub(crate) fn initialize(identity: &Identity, root_guid: u64, tops: &[VdevConfig], devices: &ByGuid) -> Result<()> {
    let leaves: Vec<_> =
        tops.iter().flat_map(|top| top.leaves().into_iter().map(move |leaf| (top, leaf.guid))).collect();
    let results = host::work::each(leaves.len(), |number| {
        let (top, guid) = leaves[number];
        initialize_leaf(identity, root_guid, top, guid, devices)
    });
    results.into_iter().collect()
}

/// Writes the first labels of one leaf below `top`.
pub(crate) fn initialize_leaf(
    identity: &Identity,
    root_guid: u64,
    top: &VdevConfig,
    guid: u64,
    devices: &ByGuid,
) -> Result<()> {
    let mut list = first_label(identity, root_guid, top.guid, guid);
    list.put(config::CREATE_TXG, top.find(guid).map_or(0, |leaf| leaf.number(config::CREATE_TXG)));
    let device = &devices[&guid];
    block::label::initialize(device.as_ref(), &list).map_err(|e| Error::io(device.name(), e))
}

/// A label of txg 0, for a device that is not part of the pool yet.
fn first_label(identity: &Identity, root_guid: u64, top_guid: u64, guid: u64) -> Nvlist {
    let mut list = Nvlist::new();
    list.put(config::VERSION, identity.version);
    list.put(config::POOL_NAME, identity.label_name.as_str());
    list.put(config::POOL_STATE, ACTIVE);
    list.put(config::POOL_TXG, 0u64);
    list.put(config::POOL_GUID, root_guid);
    list.put(config::TOP_GUID, top_guid);
    list.put(config::GUID, guid);
    list
}

/// Data of a top-level device for the allocator.
pub(crate) fn for_allocator(new: &NewVdev, top: &VdevConfig, device: &Vdev) -> Result<NewDevice> {
    let no_blocks = || Error::invalid(device.name.clone(), "a device that holds no blocks");
    Ok(NewDevice {
        vdev: top.id as u32,
        name: device.name.clone(),
        class: new.class,
        shape: Shape::of(&device.kind).ok_or_else(no_blocks)?,
        ashift: new.ashift,
        asize_bytes: top.number(config::ASIZE),
        metaslab_shift: top.number(config::METASLAB_SHIFT) as u8,
        top_zap: top.number(config::VDEV_TOP_ZAP),
    })
}

/// Creates the arrays of space maps for the top-level devices that have none.
pub(crate) fn make_arrays(cx: &SyncTx<'_>) -> Result<()> {
    let holds_none = |top: &VdevConfig| matches!(top.kind.as_str(), "hole" | "indirect");
    let lacks = |top: &&VdevConfig| !holds_none(top) && top.all.get_u64(config::METASLAB_ARRAY) == Some(0);
    let ids: Vec<u64> = cx.shared.config.root.lock().children.iter().filter(lacks).map(|top| top.id).collect();
    for id in ids {
        let array = with_maps(cx, |maps| cx.shared.allocator.metaslab_array(id as u32, maps))?;
        let mut root = cx.shared.config.root.lock();
        if let Some(top) = root.children.iter_mut().find(|top| top.id == id) {
            top.all.put(config::METASLAB_ARRAY, array);
        }
    }
    Ok(())
}

/// Creates ZAPs for all devices that have none and for the root, for properties and the state of
/// background work. `class` returns the allocation class of a new top-level device by number.
pub(crate) fn make_zaps(cx: &SyncTx<'_>, root: &mut VdevConfig, class: &dyn Fn(u64) -> Option<Class>) -> Result<()> {
    let (mos, tx) = (cx.mos(), cx.tx());
    let spec = ZapSpec::new(ObjectType::OTN_ZAP_METADATA);
    let all = match cx.directory_entry(directory::VDEV_ZAP_MAP)? {
        Some(id) => Zap::open(mos.object(id)?)?,
        None => Zap::create_linked(mos, tx, &spec, &cx.directory()?, directory::VDEV_ZAP_MAP)?,
    };
    let make = || -> Result<Zap> {
        let zap = Zap::create(mos, tx, &spec)?;
        all.insert_u64(tx, format!("{:x}", zap.id()), zap.id())?;
        Ok(zap)
    };
    if cx.feature_enabled("vdev_zaps_v2") && root.number(config::VDEV_ROOT_ZAP) == 0 {
        if !cx.feature_active("vdev_zaps_v2") {
            cx.feature_increment("vdev_zaps_v2")?;
        }
        root.all.put(config::VDEV_ROOT_ZAP, make()?.id());
    }
    for top in root.children.iter_mut().filter(|top| !matches!(top.kind.as_str(), "hole" | "missing" | "indirect")) {
        if top.number(config::VDEV_TOP_ZAP) == 0 {
            let zap = make()?;
            top.all.put(config::VDEV_TOP_ZAP, zap.id());
            if let Some(class) = class(top.id) {
                note_class(cx, &zap, class)?;
            }
        }
        leaf_zaps(top, &make)?;
    }
    Ok(())
}

fn note_class(cx: &SyncTx<'_>, zap: &Zap, class: Class) -> Result<()> {
    let text = match class {
        Class::Normal => return Ok(()),
        Class::Log => bias::LOG,
        Class::Special => bias::SPECIAL,
        Class::Dedup => bias::DEDUP,
    };
    let ints = text.bytes().chain([0]).map(u64::from).collect();
    zap.update(cx.tx(), vdev_top::ALLOCATION_BIAS, &ZapValue { int_bytes: 1, ints })?;
    if matches!(class, Class::Special | Class::Dedup) {
        // Once for each such device.
        cx.feature_increment("allocation_classes")?;
    }
    Ok(())
}

fn leaf_zaps(vdev: &mut VdevConfig, make: &impl Fn() -> Result<Zap>) -> Result<()> {
    if vdev.is_leaf() && vdev.number(config::VDEV_LEAF_ZAP) == 0 {
        vdev.all.put(config::VDEV_LEAF_ZAP, make()?.id());
    }
    vdev.children.iter_mut().try_for_each(|child| leaf_zaps(child, make))
}

/// Refuses special and dedup devices, and draids, if the required feature is not enabled.
pub(crate) fn check_classes(new: &NewDevices, is_enabled: impl Fn(&str) -> bool) -> Result<()> {
    if new.tops.iter().any(|top| top.draid.is_some()) && !is_enabled("draid") {
        return Err(Error::invalid("draid devices", "need feature@draid"));
    }
    let is_special = |top: &NewVdev| matches!(top.class, Class::Special | Class::Dedup);
    if new.tops.iter().any(is_special) && !is_enabled("allocation_classes") {
        return Err(Error::invalid("special and dedup devices", "need feature@allocation_classes"));
    }
    Ok(())
}

/// Refuses devices that pools of `version` cannot have.
pub(crate) fn check_version(new: &NewDevices, version: u64) -> Result<()> {
    fn parity(vdev: &NewVdev) -> u64 {
        vdev.children.iter().map(parity).fold(vdev.parity, u64::max)
    }
    let parity = new.tops.iter().map(parity).max().unwrap_or(0);
    let has_logs = new.tops.iter().any(|top| top.class == Class::Log);
    let needs = [
        (parity == 2, version::RAIDZ2, "raidz2 devices"),
        (parity > 2, version::RAIDZ3, "raidz3 devices"),
        (!new.spares.is_empty(), version::SPARES, "spares"),
        (has_logs, version::LOGS, "log devices"),
        (!new.caches.is_empty(), version::CACHES, "cache devices"),
    ];
    match needs.into_iter().find(|(is_there, needed, _)| *is_there && version < *needed) {
        None => Ok(()),
        Some((_, needed, what)) => {
            Err(Error::unsupported("", format!("{what} in pools before version {needed} (this is {version})")))
        }
    }
}

/// A list of devices that hold no data of the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Spares,
    Caches,
}

impl List {
    /// Its name in the object directory, and in the packed list there.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Spares => (directory::SPARES, config::SPARES),
            Self::Caches => (directory::L2CACHE, config::L2CACHE),
        }
    }
}

/// Configurations of new spares or cache devices.
pub(crate) fn auxiliary_configs(new: &[NewAuxiliary], list: List, devices: &mut ByGuid) -> Result<Vec<VdevConfig>> {
    let one = |aux: &NewAuxiliary| {
        check_size(&aux.path, aux.device.as_ref())?;
        // Two copies of one device are two devices.
        let guid = spare_guid(list, aux).filter(|guid| !devices.contains_key(guid)).unwrap_or_else(new_guid);
        let mut all = Nvlist::new();
        all.put(config::TYPE, aux.kind);
        all.put(config::GUID, guid);
        all.put(config::PATH, aux.path.as_str());
        if aux.kind == "disk" {
            all.put(config::WHOLE_DISK, 0u64);
        }
        if list == List::Spares {
            all.put(config::IS_SPARE, 1u64);
        }
        all.put(config::ASHIFT, u64::from(aux.ashift));
        devices.insert(guid, aux.device.clone());
        Ok(VdevConfig { kind: aux.kind.into(), id: 0, guid, path: Some(aux.path.clone()), all, children: Vec::new() })
    };
    new.iter().map(one).collect()
}

/// The guid of a device that is a spare already: pools that share a spare know it by one guid.
/// Facts: vdev_label_init.
fn spare_guid(list: List, aux: &NewAuxiliary) -> Option<u64> {
    if list != List::Spares {
        return None;
    }
    let labels = block::label::read(aux.device.as_ref(), false);
    let spare = labels.configs().find(|label| label.get_u64(config::POOL_STATE) == Some(SPARE))?;
    spare.get_u64(config::GUID)
}

/// Writes the labels of spares or cache devices, which name no pool.
pub(crate) fn initialize_auxiliary(version: u64, configs: &[VdevConfig], list: List, devices: &ByGuid) -> Result<()> {
    for c in configs {
        let label = auxiliary_label(version, c, list);
        let device = &devices[&c.guid];
        if list == List::Caches {
            // Invalidates what another pool has cached there.
            let empty = [0; l2arc::Header::SIZE_BYTES];
            device.write_at(START_BYTES, &empty).map_err(|e| Error::io(device.name(), e))?;
        }
        block::label::initialize(device.as_ref(), &label).map_err(|e| Error::io(device.name(), e))?;
    }
    Ok(())
}

/// The label of a spare or cache device.
pub(crate) fn auxiliary_label(version: u64, c: &VdevConfig, list: List) -> Nvlist {
    let mut label = Nvlist::new();
    label.put(config::VERSION, version);
    label.put(config::POOL_STATE, if list == List::Spares { SPARE } else { L2CACHE });
    label.put(config::GUID, c.guid);
    if list == List::Caches {
        label.put(config::ASHIFT, c.number(config::ASHIFT));
    }
    label.put(config::PATH, c.path.as_deref().unwrap_or_default());
    label
}

/// Removes a device from one of the pool's lists. Returns its configuration there.
pub(crate) fn unlist_auxiliary(cx: &SyncTx<'_>, guid: u64, list: List) -> Result<Option<VdevConfig>> {
    let (entry, key) = list.names();
    let Some(id) = cx.directory_entry(entry)?.filter(|id| *id != 0) else { return Ok(None) };
    let mut all = crate::import::open::packed_list(cx.mos(), id)?.get_nvlist_array(key).to_vec();
    let Some(at) = all.iter().position(|c| c.get_u64(config::GUID) == Some(guid)) else { return Ok(None) };
    let gone = VdevConfig::parse(&all.remove(at))?;
    write_list(cx, id, key, all)?;
    Ok(Some(gone))
}

fn write_list(cx: &SyncTx<'_>, id: u64, key: &str, all: Vec<Nvlist>) -> Result<()> {
    let mut packed = Nvlist::new();
    packed.put(key, all);
    let packed = packed.to_xdr(Endian::Little);
    let object = cx.mos().object(id)?;
    object.write_at(cx.tx(), 0, &packed)?;
    object.set_bonus(cx.tx(), (packed.len() as u64).to_le_bytes().to_vec())
}

/// Destroys the ZAP of a device that leaves; 0: it has none.
pub(crate) fn free_zap(cx: &SyncTx<'_>, id: u64) -> Result<()> {
    if id == 0 {
        return Ok(());
    }
    if let Some(all) = cx.directory_entry(directory::VDEV_ZAP_MAP)? {
        Zap::open(cx.mos().object(all)?)?.remove(cx.tx(), format!("{id:x}").as_bytes())?;
    }
    cx.mos().free_object(cx.tx(), id)
}

/// The ZAP of a top-level device.
pub(crate) fn top_zap(cx: &SyncTx<'_>, vdev: u64) -> Result<Zap> {
    let id = {
        let root = cx.shared.config.root.lock();
        root.children.iter().find(|top| top.id == vdev).map_or(0, |top| top.number(config::VDEV_TOP_ZAP))
    };
    if id == 0 {
        return Err(Error::unsupported(cx.store().name(), "changes of devices without objects of their own"));
    }
    Zap::open(cx.mos().object(id)?)
}

/// The distributed spares of the draids among new top-level devices. They have no device of their
/// own.
pub(crate) fn distributed_spares(tops: &[VdevConfig]) -> Vec<VdevConfig> {
    let of_top = |top: &VdevConfig| -> Vec<VdevConfig> {
        let one = |spare: u64| {
            let guid = new_guid();
            let path = format!("draid{}-{}-{spare}", top.number(config::NPARITY), top.id);
            let mut all = Nvlist::new();
            all.put(config::TYPE, kind::DRAID_SPARE);
            all.put(config::GUID, guid);
            all.put(config::PATH, path.as_str());
            all.put(config::TOP_GUID, top.guid);
            all.put(config::SPARE_ID, spare);
            all.put(config::WHOLE_DISK, 1u64);
            all.put(config::IS_SPARE, 1u64);
            all.put(config::ASHIFT, top.number(config::ASHIFT));
            VdevConfig { kind: kind::DRAID_SPARE.into(), id: 0, guid, path: Some(path), all, children: Vec::new() }
        };
        (0..top.number(config::DRAID_NSPARES)).map(one).collect()
    };
    tops.iter().filter(|top| top.kind == kind::DRAID).flat_map(of_top).collect()
}

/// Increments the feature's reference count for each draid among new top-level devices.
pub(crate) fn count_draids(cx: &SyncTx<'_>, tops: &[VdevConfig]) -> Result<()> {
    tops.iter().filter(|top| top.kind == kind::DRAID).try_for_each(|_| cx.feature_increment("draid"))
}

/// Appends devices to one of the pool's lists.
pub(crate) fn list_auxiliary(cx: &SyncTx<'_>, configs: &[VdevConfig], list: List) -> Result<()> {
    if configs.is_empty() {
        return Ok(());
    }
    let (entry, key) = list.names();
    let (id, mut all) = match cx.directory_entry(entry)?.filter(|id| *id != 0) {
        Some(id) => {
            let there = crate::import::open::packed_list(cx.mos(), id)?;
            (id, there.get_nvlist_array(key).to_vec())
        }
        None => {
            let new = NewObject::new(ObjectType::PACKED_NVLIST, LIST_BLOCK_BYTES)
                .with_bonus(ObjectType::PACKED_NVLIST_SIZE, vec![0; 8]);
            let id = cx.mos().create_object(cx.tx(), &new)?.id();
            cx.directory()?.update_u64(cx.tx(), entry.as_bytes(), id)?;
            (id, Vec::new())
        }
    };
    all.extend(configs.iter().map(|c| c.all.clone()));
    write_list(cx, id, key, all)
}
