//! The dataset tree of a pool.
//!
//! Below: `pool::Pool`. Directories are opened on demand and cached; snapshots are found by name
//! without reading the others. A full list reads each dataset's own object once.

use crate::bookmark::Bookmark;
use crate::dataset::{Dataset, DatasetKind, Inner};
use crate::dir::{Dir, open_zap};
use crate::name::{DatasetName, Tail, is_hidden, listing_order};
use errors::{Error, Place, Result};
use object::ObjectSet;
use parking_lot::Mutex;
use pool::Pool;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Maximum length of a snapshot chain; a longer one counts as a loop.
pub(crate) const CHAIN_MAX: usize = 1 << 20;

/// The datasets of a pool.
pub struct Datasets {
    pool: Arc<Pool>,
    root: Arc<Dir>,
    dirs: Mutex<HashMap<u64, Arc<Dir>>>,
    heads: Mutex<HashMap<u64, Arc<Inner>>>,
    origin: OnceLock<Option<u64>>,
    pub(crate) available_to_root: OnceLock<u64>,
}

/// A dataset or a bookmark.
#[derive(Clone)]
pub enum Entry {
    /// A file system, volume or snapshot.
    Dataset(Dataset),
    Bookmark(Bookmark),
}

impl Entry {
    /// Full name.
    pub fn name(&self) -> &str {
        match self {
            Self::Dataset(d) => d.name(),
            Self::Bookmark(b) => b.name(),
        }
    }

    pub fn kind(&self) -> Result<DatasetKind> {
        match self {
            Self::Dataset(d) => d.kind(),
            Self::Bookmark(_) => Ok(DatasetKind::Bookmark),
        }
    }

    /// Creation txg: orders snapshots.
    pub fn creation_txg(&self) -> u64 {
        match self {
            Self::Dataset(d) => d.phys().creation_txg.0,
            Self::Bookmark(b) => b.phys().creation_txg.0,
        }
    }

    /// The dataset, unless this is a bookmark.
    pub fn dataset(&self) -> Option<&Dataset> {
        match self {
            Self::Dataset(d) => Some(d),
            Self::Bookmark(_) => None,
        }
    }
}

/// What to list.
#[derive(Debug, Clone, Copy)]
pub struct ListOptions {
    pub filesystems: bool,
    pub volumes: bool,
    pub snapshots: bool,
    pub bookmarks: bool,
    /// Maximum depth below each root; 0: only the roots; `None`: unlimited.
    pub depth: Option<usize>,
    /// Includes datasets that OpenZFS omits from lists, such as `$ORIGIN`.
    pub hidden: bool,
}

impl ListOptions {
    /// Everything below.
    pub fn all() -> Self {
        Self { filesystems: true, volumes: true, snapshots: true, bookmarks: true, depth: None, hidden: false }
    }

    /// All file systems and volumes.
    pub fn heads() -> Self {
        Self { snapshots: false, bookmarks: false, ..Self::all() }
    }

    fn wants(&self, kind: DatasetKind) -> bool {
        match kind {
            DatasetKind::FileSystem => self.filesystems,
            DatasetKind::Volume => self.volumes,
            DatasetKind::Snapshot => self.snapshots,
            DatasetKind::Bookmark => self.bookmarks,
        }
    }
}

/// A list, and the errors of entries that could not be read.
#[derive(Default)]
pub struct Listing {
    /// Entries in the order of `zfs list`.
    pub entries: Vec<Entry>,
    /// Errors from damaged entries missing from the list.
    pub errors: Vec<Error>,
}

impl Datasets {
    /// The datasets of `pool`.
    pub fn open(pool: Arc<Pool>) -> Result<Arc<Self>> {
        let root = Dir::open(pool.mos(), pool.root_dir()?, pool.name(), None)?;
        let dirs = Mutex::new(HashMap::from([(root.id(), root.clone())]));
        let (heads, origin, available_to_root) = (Mutex::default(), OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Self { pool, root, dirs, heads, origin, available_to_root }))
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The pool's meta object set.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        self.pool.mos()
    }

    /// The directory of the pool's root file system.
    pub fn root(&self) -> &Arc<Dir> {
        &self.root
    }

    /// Directory `name`, such as `tank/home`.
    pub fn dir(&self, name: &str) -> Result<Arc<Dir>> {
        let mut components = name.split('/');
        let mut dir = self.root.clone();
        let missing = || Error::not_found(name, "the dataset");
        if components.next() != Some(self.pool.name()) {
            return Err(missing());
        }
        for component in components {
            if dir.phys().children_zap == 0 {
                return Err(missing());
            }
            let zap = open_zap(self.mos(), dir.phys().children_zap).at(dir.name())?;
            let id = zap.lookup_u64(component).at(dir.name())?.ok_or_else(missing)?;
            dir = self.child(&dir, component, id)?;
        }
        Ok(dir)
    }

    pub(crate) fn child(&self, parent: &Arc<Dir>, component: &str, id: u64) -> Result<Arc<Dir>> {
        if let Some(dir) = self.dirs.lock().get(&id)
            && dir.parent().is_some_and(|p| p.id() == parent.id())
            && dir.component() == component
        {
            return Ok(dir.clone());
        }
        let dir = Dir::open(self.mos(), id, component, Some(parent))?;
        if dir.phys().parent != parent.id() {
            let what = format!("dd_parent_obj is {}, expected {}", dir.phys().parent, parent.id());
            return Err(Error::corrupt(dir.name(), what));
        }
        self.dirs.lock().insert(id, dir.clone());
        Ok(dir)
    }

    /// The children of `dir`, sorted by name, without the hidden ones.
    pub fn children(&self, dir: &Arc<Dir>) -> Result<Vec<Arc<Dir>>> {
        let mut children = self.children_ids(dir, false)?;
        children.drain(..).map(|(name, id)| self.child(dir, &name, id)).collect()
    }

    fn children_ids(&self, dir: &Arc<Dir>, hidden: bool) -> Result<Vec<(String, u64)>> {
        let mut children = dir.child_ids(self.mos())?;
        children.retain(|(name, _)| hidden || !is_hidden(name));
        children.sort();
        // A directory has one name. If one had two, below another with two, it would be listed
        // 2^depth times.
        let mut seen = HashSet::new();
        children.retain(|(_, id)| seen.insert(*id));
        Ok(children)
    }

    /// Opens directory `id`. Its name is found by following parents to the root.
    pub fn dir_by_id(&self, id: u64) -> Result<Arc<Dir>> {
        let (mut path, mut at) = (Vec::new(), id);
        let mut dir = loop {
            if let Some(dir) = self.dirs.lock().get(&at) {
                break dir.clone();
            }
            if path.len() > 160 {
                return Err(Error::corrupt(self.pool.name(), format!("directory {id} is too deep, or above itself")));
            }
            let object = self.mos().object(at).at(self.pool.name())?;
            let phys = ondisk::DslDir::parse(object.bonus(), object.endian()).at(self.pool.name())?;
            path.push(at);
            at = phys.parent;
        };
        for id in path.into_iter().rev() {
            let children = dir.child_ids(self.mos())?;
            let Some((name, _)) = children.into_iter().find(|(_, child)| *child == id) else {
                return Err(Error::corrupt(dir.name(), format!("directory {id} is not among those below its parent")));
            };
            dir = self.child(&dir, &name, id)?;
        }
        Ok(dir)
    }

    pub fn head(self: &Arc<Self>, dir: &Arc<Dir>) -> Result<Dataset> {
        if let Some(head) = self.heads.lock().get(&dir.id()) {
            return Ok(Dataset::from_kept(head.clone(), self));
        }
        if dir.phys().head_dataset == 0 {
            return Err(Error::not_found(dir.name(), "the head: this directory only keeps accounts, and a dataset"));
        }
        let head = Dataset::open(self, dir, dir.phys().head_dataset, None)?;
        self.heads.lock().insert(dir.id(), head.to_keep());
        Ok(head)
    }

    /// Opens dataset `id`, whatever its name.
    pub fn dataset_by_id(self: &Arc<Self>, id: u64) -> Result<Dataset> {
        let place = || format!("{} dataset {id}", self.pool.name());
        let object = self.mos().object(id).at_with(place)?;
        let phys = ondisk::DslDataset::parse(object.bonus(), object.endian()).at_with(place)?;
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

    /// Opens the file system, volume or snapshot `name`.
    pub fn dataset(self: &Arc<Self>, name: &str) -> Result<Dataset> {
        match self.entry(name)? {
            Entry::Dataset(dataset) => Ok(dataset),
            Entry::Bookmark(_) => Err(Error::invalid(name, "a bookmark has no contents")),
        }
    }

    /// Opens the file system, volume, snapshot or bookmark `name`.
    pub fn entry(self: &Arc<Self>, name: &str) -> Result<Entry> {
        let parsed = DatasetName::parse(name)?;
        let head = self.head(&self.dir(parsed.dir)?)?;
        Ok(match parsed.tail {
            Tail::Head => Entry::Dataset(head),
            Tail::Snapshot(snapshot) => Entry::Dataset(head.snapshot(snapshot)?),
            Tail::Bookmark(bookmark) => Entry::Bookmark(head.bookmark(bookmark)?),
        })
    }

    /// Object of `$ORIGIN@$ORIGIN`, the empty snapshot that is the origin of every dataset that is
    /// not a clone (from version 11).
    pub fn origin_snapshot(&self) -> Result<Option<u64>> {
        if let Some(origin) = self.origin.get() {
            return Ok(*origin);
        }
        let name = format!("{}/$ORIGIN", self.pool.name());
        let origin = match self.dir(&name) {
            Ok(dir) => {
                let object = self.mos().object(dir.phys().head_dataset).at(&name)?;
                let head = ondisk::DslDataset::parse(object.bonus(), object.endian()).at(&name)?;
                Some(head.prev_snap).filter(|id| *id != 0)
            }
            Err(Error::NotFound { .. }) => None,
            Err(e) => return Err(e),
        };
        Ok(*self.origin.get_or_init(|| origin))
    }

    /// Lists `roots` and their descendants as `options` select; with no roots, the whole pool.
    /// Damaged entries are omitted and reported with the list.
    pub fn list(self: &Arc<Self>, roots: &[&str], options: &ListOptions) -> Result<Listing> {
        let mut found = Listing::default();
        let roots = match roots {
            [] => vec![Entry::Dataset(self.head(&self.root)?)],
            names => names.iter().map(|name| self.entry(name)).collect::<Result<_>>()?,
        };
        for root in roots {
            self.list_below(root, 0, options, &mut found);
        }
        found.entries.sort_by(|a, b| listing_order((a.name(), a.creation_txg()), (b.name(), b.creation_txg())));
        found.entries.dedup_by(|a, b| a.name() == b.name());
        Ok(found)
    }

    fn list_below(self: &Arc<Self>, entry: Entry, depth: usize, options: &ListOptions, found: &mut Listing) {
        let kind = match entry.kind() {
            Ok(kind) => kind,
            Err(e) => {
                found.errors.push(e);
                DatasetKind::FileSystem
            }
        };
        if options.wants(kind) {
            found.entries.push(entry.clone());
        }
        let Entry::Dataset(dataset) = entry else { return };
        if dataset.is_snapshot() || options.depth.is_some_and(|limit| depth >= limit) {
            return;
        }
        if options.snapshots {
            match dataset.snapshot_names() {
                Ok(names) => {
                    for (name, id) in names.iter() {
                        match Dataset::open(self, dataset.dir(), id, Some(name)) {
                            Ok(snapshot) => found.entries.push(Entry::Dataset(snapshot)),
                            Err(e) => found.errors.push(e),
                        }
                    }
                }
                Err(e) => found.errors.push(e),
            }
        }
        if options.bookmarks {
            match dataset.bookmarks() {
                Ok(bookmarks) => found.entries.extend(bookmarks.into_iter().map(Entry::Bookmark)),
                Err(e) => found.errors.push(e),
            }
        }
        match self.children_ids(dataset.dir(), options.hidden) {
            Ok(children) => {
                for (name, id) in children {
                    match self.child(dataset.dir(), &name, id) {
                        Ok(dir) if dir.phys().head_dataset == 0 => {}
                        Ok(dir) => match self.head(&dir) {
                            Ok(head) => self.list_below(Entry::Dataset(head), depth + 1, options, found),
                            Err(e) => found.errors.push(e),
                        },
                        Err(e) => found.errors.push(e),
                    }
                }
            }
            Err(e) => found.errors.push(e),
        }
    }
}
