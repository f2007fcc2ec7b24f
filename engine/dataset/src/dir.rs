//! A directory of the dataset tree: the name of a file system or volume, and everything that
//! applies to it as a whole.
//!
//! Below: the MOS. Above: `Dataset`. ZFS name: dsl_dir. A directory has one head dataset, snapshots
//! of it, properties, a quota and reservation, and child directories.

use crate::property::set::PropertySet;
use crate::zap::{fields_of, open_zap};
use errors::{Error, Place, Result};
use object::{ObjectSet, Zap};
use ondisk::DslDir;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Maximum depth: a name has at most 255 bytes, and a component with its slash at least two.
const DEPTH_MAX: usize = 160;

/// A directory of the dataset tree.
pub struct Dir {
    id: u64,
    name: String,
    parent: Option<Arc<Dir>>,
    depth: usize,
    phys: DslDir,
    /// Named fields, if the object is a ZAP.
    fields: Option<Zap>,
    props: OnceLock<Arc<PropertySet>>,
    snapshots: OnceLock<Arc<SnapshotNames>>,
}

/// The snapshots of a head, by name and by object.
#[derive(Default)]
pub struct SnapshotNames {
    by_name: HashMap<String, u64>,
    by_object: HashMap<u64, String>,
}

impl SnapshotNames {
    /// Object of the snapshot `name`.
    pub fn object(&self, name: &str) -> Option<u64> {
        self.by_name.get(name).copied()
    }

    /// Name of the snapshot whose object is `id`.
    pub fn name(&self, id: u64) -> Option<&str> {
        self.by_object.get(&id).map(String::as_str)
    }

    /// All snapshots, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_name.iter().map(|(name, id)| (name.as_str(), *id))
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

impl Dir {
    /// Opens directory `id`, named `component`, below `parent`.
    pub(crate) fn open(mos: &Arc<ObjectSet>, id: u64, component: &str, parent: Option<&Arc<Dir>>) -> Result<Arc<Self>> {
        let name = match parent {
            Some(parent) => format!("{}/{component}", parent.name),
            None => component.to_owned(),
        };
        let depth = parent.map_or(0, |p| p.depth + 1);
        if depth > DEPTH_MAX {
            return Err(Error::corrupt(
                name,
                format!("{depth} directories above one another, expected at most {DEPTH_MAX}"),
            ));
        }
        let object = mos.object(id).at(&name)?;
        let phys = DslDir::parse(object.bonus(), object.endian()).at(&name)?;
        let fields = fields_of(&object).at(&name)?;
        let parent = parent.cloned();
        Ok(Arc::new(Self { id, name, parent, depth, phys, fields, props: OnceLock::new(), snapshots: OnceLock::new() }))
    }

    /// Object number in the MOS.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Full name, such as `tank/home`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name within the parent directory.
    pub fn component(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// The parent directory; `None` for the pool's root.
    pub fn parent(&self) -> Option<&Arc<Dir>> {
        self.parent.as_ref()
    }

    /// As read when the directory was opened.
    pub fn phys(&self) -> &DslDir {
        &self.phys
    }

    /// The value of a named field, if present.
    pub fn field(&self, name: &str) -> Result<Option<ondisk::zap::Value>> {
        match &self.fields {
            Some(zap) => zap.lookup(name).at(&self.name),
            None => Ok(None),
        }
    }

    /// A field that is a single number.
    pub fn field_u64(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.field(name)?.and_then(|v| v.ints.first().copied()))
    }

    /// The child directories by component name, unsorted.
    pub(crate) fn child_ids(&self, mos: &Arc<ObjectSet>) -> Result<Vec<(String, u64)>> {
        if self.phys.children_zap == 0 {
            return Ok(Vec::new());
        }
        let entries = open_zap(mos, self.phys.children_zap).and_then(|zap| zap.entries()).at(&self.name)?;
        let named = entries
            .into_iter()
            .filter_map(|e| Some((String::from_utf8_lossy(&e.name).into_owned(), e.value.as_u64()?)));
        Ok(named.collect())
    }

    /// Number of child directories, without those that are hidden from lists.
    pub fn child_count(&self, mos: &Arc<ObjectSet>) -> Result<u64> {
        Ok(self.child_ids(mos)?.iter().filter(|(name, _)| !crate::name::is_hidden(name)).count() as u64)
    }

    /// The locally set properties.
    pub(crate) fn props(&self, mos: &Arc<ObjectSet>) -> Result<Arc<PropertySet>> {
        if let Some(props) = self.props.get() {
            return Ok(props.clone());
        }
        let props = Arc::new(PropertySet::load(mos, self.phys.props_zap).at(&self.name)?);
        Ok(self.props.get_or_init(|| props).clone())
    }

    /// The snapshots of the head; `zap` is the ZAP of their names.
    pub(crate) fn snapshot_names(&self, mos: &Arc<ObjectSet>, zap: u64) -> Result<Arc<SnapshotNames>> {
        if let Some(names) = self.snapshots.get() {
            return Ok(names.clone());
        }
        let mut names = SnapshotNames::default();
        if zap != 0 {
            for step in open_zap(mos, zap).at(&self.name)?.cursor(0) {
                let (entry, _) = step.at(&self.name)?;
                let Some(id) = entry.value.as_u64() else { continue };
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                names.by_object.insert(id, name.clone());
                names.by_name.insert(name, id);
            }
        }
        Ok(self.snapshots.get_or_init(|| Arc::new(names)).clone())
    }
}
