//! A dataset: the head of a file system or volume, or a snapshot of it.
//!
//! Below: the MOS. ZFS name: dsl_dataset. Cheap to clone. Its contents are read through
//! [`Dataset::objset`].

use crate::dir::{Dir, SnapshotNames};
use crate::property::def::Kinds;
use crate::property::set::PropertySet;
use crate::tree::{DatasetState, Datasets};
use crate::zap::{fields_of, open_zap};
use errors::{Error, Place, Result};
use object::ObjectSet;
use ondisk::dsl_dataset::{FIELD_IVSET_GUID, FIELD_REDACTED_DATASETS};
use ondisk::dsl_dir::{FIELD_CRYPTO_KEY_OBJ, FIELD_SNAPSHOTS_CHANGED};
use ondisk::zap::Value as ZapValue;
use ondisk::{DslDataset, ObjsetKind};
use std::sync::{Arc, OnceLock};

/// The kind of a dataset or bookmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DatasetKind {
    /// The head of a file system.
    FileSystem,
    /// The head of a volume.
    Volume,
    /// A snapshot of either.
    Snapshot,
    Bookmark,
}

impl DatasetKind {
    /// The name that `zfs list -o type` prints.
    pub fn name(self) -> &'static str {
        match self {
            Self::FileSystem => "filesystem",
            Self::Volume => "volume",
            Self::Snapshot => "snapshot",
            Self::Bookmark => "bookmark",
        }
    }

    /// The set with only this kind.
    pub fn kinds(self) -> Kinds {
        match self {
            Self::FileSystem => Kinds::FILESYSTEM,
            Self::Volume => Kinds::VOLUME,
            Self::Snapshot => Kinds::SNAPSHOT,
            Self::Bookmark => Kinds::BOOKMARK,
        }
    }
}

/// A hold that keeps a snapshot from being destroyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub tag: String,
    /// Creation time, seconds since 1970.
    pub time: u64,
}

/// A head or snapshot.
#[derive(Clone)]
pub struct Dataset(Arc<DatasetState>, Arc<Datasets>);

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dataset({})", self.0.name)
    }
}

impl Datasets {
    /// The file system or volume of directory `dir`.
    pub fn head(self: &Arc<Self>, dir: &Arc<Dir>) -> Result<Dataset> {
        if let Some(head) = self.cached_head(dir.id()) {
            return Ok(Dataset(head, self.clone()));
        }
        if dir.phys().head_dataset == 0 {
            return Err(Error::not_found(dir.name(), "the head: this directory only keeps accounts, and a dataset"));
        }
        let head = Dataset::open(self, dir, dir.phys().head_dataset, None)?;
        self.cache_head(dir.id(), head.0.clone());
        Ok(head)
    }

    /// Opens dataset `id`, whatever its name.
    pub fn dataset_by_id(self: &Arc<Self>, id: u64) -> Result<Dataset> {
        let place = || format!("{} dataset {id}", self.pool().name());
        let object = self.mos().object(id).at_with(place)?;
        let phys = DslDataset::parse(object.bonus(), object.endian()).at_with(place)?;
        let dir = self.dir_by_id(phys.dir)?;
        if !phys.is_snapshot() {
            return Dataset::open(self, &dir, id, None);
        }
        let names = self.head(&dir)?.snapshot_names()?;
        let name = names.name(id).ok_or_else(|| {
            Error::corrupt(dir.name(), format!("snapshot {id} is not among the names of its head's snapshots"))
        })?;
        Dataset::open(self, &dir, id, Some(name))
    }
}

impl Dataset {
    /// Opens dataset `id`, which must belong to `dir`; `snapshot` is the name after the `@`.
    pub(crate) fn open(tree: &Arc<Datasets>, dir: &Arc<Dir>, id: u64, snapshot: Option<&str>) -> Result<Self> {
        let name = match snapshot {
            Some(snapshot) => format!("{}@{snapshot}", dir.name()),
            None => dir.name().to_owned(),
        };
        let object = tree.mos().object(id).at(&name)?;
        let phys = DslDataset::parse(object.bonus(), object.endian()).at(&name)?;
        if phys.dir != dir.id() {
            return Err(Error::corrupt(name, format!("ds_dir_obj is {}, expected {}", phys.dir, dir.id())));
        }
        let fields = fields_of(&object).at(&name)?;
        let (tree, dir) = (tree.clone(), dir.clone());
        let (contents, own_props) = (OnceLock::new(), OnceLock::new());
        Ok(Self(Arc::new(DatasetState { dir, id, name, phys, fields, contents, own_props }), tree))
    }

    /// Full name, such as `tank/home@monday`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// For a snapshot, the name after the `@`.
    pub fn snapshot_name(&self) -> Option<&str> {
        self.0.name.split_once('@').map(|(_, snapshot)| snapshot)
    }

    /// Object number in the MOS; `objsetid`.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// As read when the dataset was opened.
    pub fn phys(&self) -> &DslDataset {
        &self.0.phys
    }

    pub fn dir(&self) -> &Arc<Dir> {
        &self.0.dir
    }

    /// Whether its contents are incomplete: a stream is being received into it, or it is being
    /// destroyed.
    pub fn is_inconsistent(&self) -> bool {
        self.phys().has(DslDataset::FLAG_INCONSISTENT)
    }

    /// All datasets of the pool, from which this one was opened.
    pub fn tree(&self) -> &Arc<Datasets> {
        &self.1
    }

    pub(crate) fn mos(&self) -> &Arc<ObjectSet> {
        self.1.mos()
    }

    pub fn is_snapshot(&self) -> bool {
        self.0.phys.is_snapshot()
    }

    /// Whether names of files and snapshots in it are case-insensitive.
    pub fn ignores_case(&self) -> bool {
        self.0.phys.has(DslDataset::FLAG_CI_DATASET)
    }

    /// The type of its contents. The first call reads the root block, which needs no key.
    pub fn contents(&self) -> Result<ObjsetKind> {
        match self.0.phys.bp.is_hole() {
            true => Ok(ObjsetKind::None),
            false => Ok(self.objset_without_keys()?.phys().kind),
        }
    }

    /// Whether it is a volume, or a snapshot of one.
    pub fn has_volume(&self) -> Result<bool> {
        Ok(self.contents()? == ObjsetKind::Volume)
    }

    /// The properties that are set on the snapshot itself.
    pub(crate) fn own_props(&self) -> Result<Arc<PropertySet>> {
        if let Some(props) = self.0.own_props.get() {
            return Ok(props.clone());
        }
        let id = if self.is_snapshot() { self.0.phys.props_zap } else { 0 };
        let props = Arc::new(PropertySet::load(self.mos(), id).at(self.name())?);
        Ok(self.0.own_props.get_or_init(|| props).clone())
    }

    pub fn kind(&self) -> Result<DatasetKind> {
        if self.is_snapshot() {
            return Ok(DatasetKind::Snapshot);
        }
        Ok(match self.contents()? {
            ObjsetKind::Volume => DatasetKind::Volume,
            _ => DatasetKind::FileSystem,
        })
    }

    /// The contents, as far as they are readable without keys: everything, unless the dataset is
    /// encrypted.
    pub fn objset_without_keys(&self) -> Result<Arc<ObjectSet>> {
        if let Some(contents) = self.0.contents.get() {
            return Ok(contents.clone());
        }
        let store = self.1.mos().store().clone();
        let contents = ObjectSet::open(store, &self.0.phys.bp, self.0.id, None).at(self.name())?;
        Ok(self.0.contents.get_or_init(|| contents).clone())
    }

    /// The object with the wrapped key, if the dataset is encrypted.
    pub fn crypto_object(&self) -> Result<Option<u64>> {
        Ok(self.0.dir.field_u64(FIELD_CRYPTO_KEY_OBJ)?.filter(|id| *id != 0))
    }

    /// The value of a named field, if present.
    pub fn field(&self, name: &str) -> Result<Option<ZapValue>> {
        match &self.0.fields {
            Some(zap) => zap.lookup(name).at(self.name()),
            None => Ok(None),
        }
    }

    /// For a dataset that was received from a redacted stream, and so lacks blocks: guids of the
    /// snapshots with respect to which it is redacted.
    pub fn redacted_by(&self) -> Result<Option<Vec<u64>>> {
        Ok(self.field(FIELD_REDACTED_DATASETS)?.map(|guids| guids.ints))
    }

    /// The guid of a snapshot's set of IVs, which raw streams of it begin with. `None` if it is not
    /// encrypted, or is older than these guids.
    pub fn ivset_guid(&self) -> Result<Option<u64>> {
        self.field_u64(FIELD_IVSET_GUID)
    }

    /// A field that is a single number.
    pub fn field_u64(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.field(name)?.and_then(|v| v.ints.first().copied()))
    }

    /// Names and objects of the snapshots of this dataset's head.
    pub fn snapshot_names(&self) -> Result<Arc<SnapshotNames>> {
        if !self.is_snapshot() {
            return self.0.dir.snapshot_names(self.mos(), self.0.phys.snapnames_zap);
        }
        let head = self.1.head(&self.0.dir)?;
        self.0.dir.snapshot_names(self.mos(), head.0.phys.snapnames_zap)
    }

    /// When a snapshot of this dataset was last taken, renamed or destroyed: seconds since 1970 and
    /// nanoseconds. `None`: never, or the pool does not record it.
    pub fn snapshots_changed(&self) -> Result<Option<(u64, u64)>> {
        let at = self.dir().field(FIELD_SNAPSHOTS_CHANGED)?.map(|value| value.ints).unwrap_or_default();
        Ok(at.first().map(|seconds| (*seconds, at.get(1).copied().unwrap_or(0))))
    }

    /// The snapshots of a head, oldest first.
    pub fn snapshots(&self) -> Result<Vec<Dataset>> {
        let names = self.snapshot_names()?;
        let open = |(name, id)| Dataset::open(&self.1, &self.0.dir, id, Some(name));
        let mut all = names.iter().map(open).collect::<Result<Vec<_>>>()?;
        all.sort_by(|a, b| (a.0.phys.creation_txg.0, a.name()).cmp(&(b.0.phys.creation_txg.0, b.name())));
        Ok(all)
    }

    /// Snapshot `name` of this head.
    pub fn snapshot(&self, name: &str) -> Result<Dataset> {
        let zap = self.0.phys.snapnames_zap;
        let missing = || Error::not_found(format!("{}@{name}", self.name()), "the snapshot");
        if zap == 0 {
            return Err(missing());
        }
        let zap = open_zap(self.mos(), zap).at(self.name())?;
        let found = if self.ignores_case() {
            zap.lookup_normalised(name.as_bytes(), false).at(self.name())?
        } else {
            zap.lookup(name).at(self.name())?.map(|value| (value, name.as_bytes().to_vec()))
        };
        let (value, stored) = found.ok_or_else(missing)?;
        let id = value.as_u64().ok_or_else(missing)?;
        Dataset::open(&self.1, &self.0.dir, id, Some(&String::from_utf8_lossy(&stored)))
    }

    /// The state before this one: a snapshot of the same directory or the origin of a clone; `None`
    /// if there is none, or it is the empty `$ORIGIN`.
    pub fn previous(&self) -> Result<Option<Dataset>> {
        match self.0.phys.prev_snap {
            0 => Ok(None),
            id if Some(id) == self.1.origin_snapshot()? => Ok(None),
            id => self.1.dataset_by_id(id).map(Some),
        }
    }

    /// The latest snapshot of this directory before this state.
    pub fn previous_snapshot(&self) -> Result<Option<Dataset>> {
        Ok(self.previous()?.filter(|d| d.dir().id() == self.dir().id() || !self.is_snapshot()))
    }

    /// The snapshot that this dataset's directory is a clone of.
    pub fn origin(&self) -> Result<Option<Dataset>> {
        match self.0.dir.phys().origin {
            0 => Ok(None),
            id if Some(id) == self.1.origin_snapshot()? => Ok(None),
            id => self.1.dataset_by_id(id).map(Some),
        }
    }

    /// Heads cloned from this snapshot, in OpenZFS's order.
    pub fn clones(&self) -> Result<Vec<Dataset>> {
        let zap = self.0.phys.next_clones_zap;
        if zap == 0 || !self.is_snapshot() {
            return Ok(Vec::new());
        }
        let entries = open_zap(self.mos(), zap).and_then(|zap| zap.entries()).at(self.name())?;
        // Early versions lost entries, so such a list is unreliable.
        if entries.len() as u64 != self.0.phys.num_children.saturating_sub(1) {
            return Ok(Vec::new());
        }
        let ids = entries.iter().filter_map(|e| e.value.as_u64());
        let states = ids.map(|id| self.1.dataset_by_id(id)).collect::<Result<Vec<_>>>()?;
        states.iter().map(|state| self.1.head(state.dir())).collect()
    }

    /// The holds on a snapshot, by tag.
    pub fn holds(&self) -> Result<Vec<Hold>> {
        if self.0.phys.userrefs_zap == 0 {
            return Ok(Vec::new());
        }
        let entries = open_zap(self.mos(), self.0.phys.userrefs_zap).and_then(|zap| zap.entries()).at(self.name())?;
        let mut holds: Vec<Hold> = entries
            .into_iter()
            .filter_map(|e| Some(Hold { tag: String::from_utf8_lossy(&e.name).into_owned(), time: e.value.as_u64()? }))
            .collect();
        holds.sort_by(|a, b| a.tag.cmp(&b.tag));
        Ok(holds)
    }

    /// Number of holds; 0 for a head.
    pub fn hold_count(&self) -> Result<u64> {
        match self.0.phys.userrefs_zap {
            0 => Ok(0),
            id => open_zap(self.mos(), id).and_then(|zap| zap.count()).at(self.name()),
        }
    }
}
