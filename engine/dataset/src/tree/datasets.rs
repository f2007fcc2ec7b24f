//! The directories of a pool, opened on demand and cached, and the heads that were opened.
//!
//! Below: `pool::Pool`, `dir`. Above: `dataset`.

use crate::dir::Dir;
use crate::name::is_hidden;
use crate::property::set::PropertySet;
use crate::zap::open_zap;
use errors::{Error, Place, Result};
use host::sync::Mutex;
use object::{ObjectSet, Zap};
use ondisk::DslDataset;
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
    heads: Mutex<HashMap<u64, Arc<DatasetState>>>,
    origin: OnceLock<Option<u64>>,
    pub(crate) available_to_root: OnceLock<u64>,
}

/// The part of a head that the tree caches: it excludes the tree itself, which would otherwise
/// never be freed.
pub(crate) struct DatasetState {
    pub(crate) dir: Arc<Dir>,
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) phys: DslDataset,
    pub(crate) fields: Option<Zap>,
    /// The contents that can be opened without keys: property lookups use them repeatedly.
    pub(crate) contents: OnceLock<Arc<ObjectSet>>,
    pub(crate) own_props: OnceLock<Arc<PropertySet>>,
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

    pub(super) fn children_ids(&self, dir: &Arc<Dir>, hidden: bool) -> Result<Vec<(String, u64)>> {
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

    /// The head of directory `dir`, if it was opened before.
    pub(crate) fn cached_head(&self, dir: u64) -> Option<Arc<DatasetState>> {
        self.heads.lock().get(&dir).cloned()
    }

    pub(crate) fn cache_head(&self, dir: u64, head: Arc<DatasetState>) {
        self.heads.lock().insert(dir, head);
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
}
