//! The syncing txg as DSL operations use it: directories and datasets of the MOS, read, changed,
//! and written back.
//!
//! Below: `pool::SyncTx`. Everything else in `write` goes through this module, so that the lower
//! layers are used in one place.
//!
//! Invariants:
//!   * only code that runs in syncing context has a `Cx`
//!   * a changed node is written back before another one that may be the same is read

use crate::delegation::Credentials;
use block::WriteStore;
use errors::{Error, Place, Result};
use object::zap::Zap;
use object::zap::ZapSpec;
use object::{Bpobj, NewObject, Object, ObjectSet, Tx};
use ondisk::zap::NormFlags;
use ondisk::zap::Value as ZapValue;
use ondisk::{BlkPtr, DslDataset, DslDir, ObjectType, SpaceTriple, feature};
use pool::SyncTx;
use std::sync::Arc;

/// The feature that allows DSL objects to have named fields.
const EXTENSIBLE_DATASET: &str = "com.delphix:extensible_dataset";

/// The names for which an operation failed, and why. An empty name means the whole operation.
pub type Failures = Vec<(String, Error)>;

/// The parts of the syncing txg that operations need.
#[derive(Clone, Copy)]
pub(crate) struct Cx<'a> {
    pub(crate) sync: &'a SyncTx<'a>,
    /// The user for whom the task runs; `None`: the owner of the pools, whom nothing limits.
    pub(crate) user: Option<&'a Credentials>,
}

/// A directory, read from the MOS.
#[derive(Debug, Clone)]
pub(crate) struct DirNode {
    pub(crate) id: u64,
    pub(crate) phys: DslDir,
}

/// A head or snapshot, read from the MOS.
#[derive(Debug, Clone)]
pub(crate) struct DatasetNode {
    pub(crate) id: u64,
    pub(crate) phys: DslDataset,
}

/// Reads directory `id` from the pool's own objects.
pub(crate) fn read_dir(mos: &Arc<ObjectSet>, id: u64) -> Result<DslDir> {
    let object = mos.object(id)?;
    DslDir::parse(object.bonus(), object.endian()).at_with(|| object.place())
}

/// Reads head or snapshot `id` from the pool's own objects.
pub(crate) fn read_dataset(mos: &Arc<ObjectSet>, id: u64) -> Result<DslDataset> {
    let object = mos.object(id)?;
    DslDataset::parse(object.bonus(), object.endian()).at_with(|| object.place())
}

impl<'a> Cx<'a> {
    pub(crate) fn new(sync: &'a SyncTx<'a>) -> Self {
        Self { sync, user: None }
    }

    /// For a task that runs for `user`; `None`: for the owner of the pools.
    pub(crate) fn on_behalf(sync: &'a SyncTx<'a>, user: Option<&'a Credentials>) -> Self {
        Self { sync, user }
    }

    /// User and group of the creator of datasets.
    pub(crate) fn creator(&self) -> (u32, u32) {
        self.user.map_or_else(host::creator, |user| (user.uid, user.gid))
    }

    pub(crate) fn tx(&self) -> &'a Tx {
        self.sync.tx()
    }

    pub(crate) fn txg(&self) -> u64 {
        self.tx().txg()
    }

    pub(crate) fn mos(&self) -> &'a Arc<ObjectSet> {
        self.sync.mos()
    }

    pub(crate) fn store(&self) -> &'a Arc<WriteStore> {
        self.sync.store()
    }

    pub(crate) fn object(&self, id: u64) -> Result<Object> {
        self.mos().object(id)
    }

    pub(crate) fn zap(&self, id: u64) -> Result<Zap> {
        Zap::open(self.object(id)?)
    }

    /// The number under `name` in the object directory.
    pub(crate) fn directory(&self, name: &str) -> Result<Option<u64>> {
        self.zap(ondisk::pool_dir::DIRECTORY_OBJECT)?.lookup_u64(name)
    }

    /// Sets the number under `name` in the object directory.
    pub(crate) fn set_directory(&self, name: &str, value: u64) -> Result<()> {
        self.zap(ondisk::pool_dir::DIRECTORY_OBJECT)?.update_u64(self.tx(), name.as_bytes(), value)
    }

    /// Removes `name` from the object directory.
    pub(crate) fn unset_directory(&self, name: &str) -> Result<()> {
        self.zap(ondisk::pool_dir::DIRECTORY_OBJECT)?.remove(self.tx(), name.as_bytes())
    }

    /// Creates a ZAP of `object_type`.
    pub(crate) fn create_zap(&self, object_type: ObjectType) -> Result<u64> {
        self.create_zap_with(object_type, NormFlags::empty(), ObjectType::NONE, Vec::new())
    }

    pub(crate) fn create_zap_with(
        &self,
        object_type: ObjectType,
        norm_flags: NormFlags,
        bonus_type: ObjectType,
        bonus: Vec<u8>,
    ) -> Result<u64> {
        let spec = ZapSpec { norm_flags, bonus_type, bonus, ..ZapSpec::new(object_type) };
        let zap = Zap::create(self.mos(), self.tx(), &spec)?;
        zap.object().map(Object::id).ok_or_else(|| Error::invalid("zap", "it is in no object"))
    }

    pub(crate) fn create_object(
        &self,
        object_type: ObjectType,
        block_bytes: u32,
        bonus: (ObjectType, Vec<u8>),
    ) -> Result<Object> {
        let (bonus_type, bonus) = bonus;
        let new = NewObject::new(object_type, block_bytes).with_bonus(bonus_type, bonus);
        self.mos().create_object(self.tx(), &new)
    }

    pub(crate) fn free_object(&self, id: u64) -> Result<()> {
        self.mos().free_object(self.tx(), id)
    }

    /// Frees an object that may have named fields.
    pub(crate) fn free_with_fields(&self, id: u64) -> Result<()> {
        if self.object(id)?.dnode().object_type == ObjectType::OTN_ZAP_METADATA {
            self.feature_decrement(EXTENSIBLE_DATASET)?;
        }
        self.free_object(id)
    }

    pub(crate) fn dir(&self, id: u64) -> Result<DirNode> {
        Ok(DirNode { id, phys: read_dir(self.mos(), id)? })
    }

    pub(crate) fn put_dir(&self, dir: &DirNode) -> Result<()> {
        let object = self.object(dir.id)?;
        let mut bonus = object.bonus().to_vec();
        dir.phys.write(&mut bonus, object.endian()).at_with(|| object.place())?;
        object.set_bonus(self.tx(), bonus)
    }

    /// Reads directory `id`, applies `change` and writes it back.
    pub(crate) fn change_dir<R>(&self, id: u64, change: impl FnOnce(&mut DslDir) -> R) -> Result<R> {
        let mut dir = self.dir(id)?;
        let result = change(&mut dir.phys);
        self.put_dir(&dir)?;
        Ok(result)
    }

    pub(crate) fn dataset(&self, id: u64) -> Result<DatasetNode> {
        Ok(DatasetNode { id, phys: read_dataset(self.mos(), id)? })
    }

    pub(crate) fn put_dataset(&self, dataset: &DatasetNode) -> Result<()> {
        let object = self.object(dataset.id)?;
        let mut bonus = object.bonus().to_vec();
        dataset.phys.write(&mut bonus, object.endian()).at_with(|| object.place())?;
        object.set_bonus(self.tx(), bonus)
    }

    /// Reads dataset `id`, applies `change` and writes it back.
    pub(crate) fn change_dataset<R>(&self, id: u64, change: impl FnOnce(&mut DslDataset) -> R) -> Result<R> {
        let mut dataset = self.dataset(id)?;
        let result = change(&mut dataset.phys);
        self.put_dataset(&dataset)?;
        Ok(result)
    }

    fn has_fields(&self, id: u64) -> Result<bool> {
        Ok(self.object(id)?.dnode().object_type == ObjectType::OTN_ZAP_METADATA)
    }

    /// A named field of a directory or dataset.
    pub(crate) fn field(&self, id: u64, name: &str) -> Result<Option<ZapValue>> {
        if self.has_fields(id)? { self.zap(id)?.lookup(name) } else { Ok(None) }
    }

    /// A field that is a single number.
    pub(crate) fn field_u64(&self, id: u64, name: &str) -> Result<Option<u64>> {
        Ok(self.field(id, name)?.and_then(|v| v.as_u64()))
    }

    /// Sets a named field; the first one turns the object into a ZAP.
    pub(crate) fn set_field(&self, id: u64, name: &str, value: &ZapValue) -> Result<()> {
        if !self.has_fields(id)? {
            let object = self.object(id)?;
            object.set_type(self.tx(), ObjectType::OTN_ZAP_METADATA)?;
            Zap::create_in(object, self.tx(), NormFlags::empty())?;
            self.feature_increment(EXTENSIBLE_DATASET)?;
        }
        self.zap(id)?.update(self.tx(), name.as_bytes(), value)
    }

    /// Removes a named field.
    pub(crate) fn unset_field(&self, id: u64, name: &str) -> Result<()> {
        self.zap(id)?.remove(self.tx(), name.as_bytes())
    }

    /// Whether the feature with this guid is enabled.
    pub(crate) fn is_enabled(&self, guid: &str) -> bool {
        feature::by_guid(guid).is_some_and(|f| self.sync.feature_enabled(f.name))
    }

    /// Whether the feature is active.
    pub(crate) fn is_active(&self, guid: &str) -> bool {
        feature::by_guid(guid).is_some_and(|f| self.sync.feature_active(f.name))
    }

    /// Adds one use of the feature.
    pub(crate) fn feature_increment(&self, guid: &str) -> Result<()> {
        self.sync.feature_increment(feature::by_guid(guid).map_or(guid, |f| f.name))
    }

    /// Removes one use of the feature.
    pub(crate) fn feature_decrement(&self, guid: &str) -> Result<()> {
        self.sync.feature_decrement(feature::by_guid(guid).map_or(guid, |f| f.name))
    }

    /// Adds `delta` uses of the feature.
    pub(crate) fn feature_add(&self, guid: &str, delta: i64) -> Result<()> {
        self.sync.feature_add(feature::by_guid(guid).map_or(guid, |f| f.name), delta)
    }

    /// The pool's root directory.
    pub(crate) fn root_dir(&self) -> Result<u64> {
        self.directory(ondisk::pool_dir::directory::ROOT_DATASET)?
            .ok_or_else(|| Error::corrupt(self.mos().store().name(), "the object directory has no root_dataset"))
    }

    /// A directory directly below the root, such as `$FREE`.
    pub(crate) fn special_dir(&self, name: &str) -> Result<Option<u64>> {
        let root = self.dir(self.root_dir()?)?;
        self.zap(root.phys.children_zap)?.lookup_u64(name)
    }

    /// `$ORIGIN@$ORIGIN`; `None` in pools of versions before 11, and while it is being created.
    pub(crate) fn origin_snapshot(&self) -> Result<Option<u64>> {
        let Some(dir) = self.special_dir("$ORIGIN")? else { return Ok(None) };
        let head = self.dir(dir)?.phys.head_dataset;
        Ok(Some(self.dataset(head)?.phys.prev_snap).filter(|id| *id != 0))
    }

    /// Space of a block as datasets count it.
    pub(crate) fn space_of(&self, bp: &BlkPtr) -> SpaceTriple {
        crate::deadlist::space_of(bp, &|bp| self.sync.space_bytes(bp))
    }

    /// Opens a list of block pointers.
    pub(crate) fn bpobj(&self, id: u64) -> Result<Bpobj> {
        Bpobj::open(self.mos(), id)
    }

    /// Records a change of a dataset in the pool's history.
    pub(crate) fn history(&self, event: &str, dataset_name: &str, dataset: u64, text: &str) -> Result<()> {
        self.sync.history(event, Some((dataset_name, dataset)), text)
    }
}
