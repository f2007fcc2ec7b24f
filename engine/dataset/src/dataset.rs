//! A dataset: the head of a file system or volume, or a snapshot of it.
//!
//! Below: the MOS. ZFS name: dsl_dataset. Cheap to clone. Its contents are read through
//! [`Dataset::objset`].

use crate::bookmark::Bookmark;
use crate::dir::{Dir, SnapshotNames, fields_of, open_zap};
use crate::keys::KeyStore;
use crate::property::def::Kinds;
use crate::property::set::PropertySet;
use crate::tree::Datasets;
use errors::{Error, Place, Result};
use object::{ObjectSet, Zap};
use ondisk::dsl_dir::FIELD_CRYPTO_KEY_OBJ;
use ondisk::zap::Value as ZapValue;
use ondisk::{DslDataset, ObjsetKind};
use std::sync::{Arc, OnceLock};

/// The master node of a file system, and its entry for the list of unlinked files.
const MASTER_NODE: u64 = 1;
const DELETE_QUEUE: &str = "DELETE_QUEUE";

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
pub struct Dataset(Arc<Inner>, Arc<Datasets>);

/// The part of a head that the tree caches: it excludes the tree itself, which would otherwise
/// never be freed.
pub(crate) struct Inner {
    dir: Arc<Dir>,
    id: u64,
    name: String,
    phys: DslDataset,
    fields: Option<Zap>,
    /// The contents that can be opened without keys: property lookups use them repeatedly.
    contents: OnceLock<Arc<ObjectSet>>,
    own_props: OnceLock<Arc<PropertySet>>,
}

impl std::fmt::Debug for Dataset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dataset({})", self.0.name)
    }
}

impl Dataset {
    /// The dataset for the `inner` that `tree` cached.
    pub(crate) fn from_kept(inner: Arc<Inner>, tree: &Arc<Datasets>) -> Self {
        Self(inner, tree.clone())
    }

    /// The part that the tree may cache.
    pub(crate) fn to_keep(&self) -> Arc<Inner> {
        self.0.clone()
    }

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
        Ok(Self(Arc::new(Inner { dir, id, name, phys, fields, contents, own_props }), tree))
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

    /// The on-disk structure.
    pub fn phys(&self) -> &DslDataset {
        &self.0.phys
    }

    /// Its directory.
    pub fn dir(&self) -> &Arc<Dir> {
        &self.0.dir
    }

    /// Whether its contents are incomplete: a stream is being received into it, or it is being
    /// destroyed.
    pub fn is_inconsistent(&self) -> bool {
        self.phys().has(DslDataset::FLAG_INCONSISTENT)
    }

    /// Its tree.
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

    /// The contents. Returns [`Error::KeyUnavailable`] if they are encrypted and `keys` has no key
    /// for them.
    pub fn objset(&self, keys: &KeyStore) -> Result<Arc<ObjectSet>> {
        if self.0.phys.bp.is_hole() {
            return Err(Error::not_found(self.name(), "the contents: nothing was ever written, so the object set"));
        }
        match self.crypto_object()? {
            None => self.objset_without_keys(),
            Some(_) => {
                let keys = keys.dataset_keys(self)?;
                let store = self.1.mos().store().clone();
                ObjectSet::open(store, &self.0.phys.bp, self.0.id, Some(keys)).at(self.name())
            }
        }
    }

    /// Number of files of a file system that are unlinked but not yet freed: they are open, or were
    /// when a machine stopped.
    pub fn unlinked(&self, keys: &KeyStore) -> Result<u64> {
        let set = self.objset(keys)?;
        let master = Zap::open(set.object(MASTER_NODE).at(self.name())?).at(self.name())?;
        match master.lookup_u64(DELETE_QUEUE).at(self.name())? {
            Some(queue) => Zap::open(set.object(queue).at(self.name())?)?.count().at(self.name()),
            None => Ok(0),
        }
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

    pub fn bookmarks(&self) -> Result<Vec<Bookmark>> {
        if self.is_snapshot() { Ok(Vec::new()) } else { Bookmark::all(self) }
    }

    /// Bookmark `name` of a head.
    pub fn bookmark(&self, name: &str) -> Result<Bookmark> {
        Bookmark::open(self, name)
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

    /// Number of holds.
    pub fn hold_count(&self) -> Result<u64> {
        match self.0.phys.userrefs_zap {
            0 => Ok(0),
            id => open_zap(self.mos(), id).and_then(|zap| zap.count()).at(self.name()),
        }
    }
}
