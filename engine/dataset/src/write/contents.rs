//! The object set of a new dataset, created and written within the task that creates the dataset.
//!
//! `files` defines the objects of a file system: it supplies a function that creates them. A
//! volume's two objects are created here: object 1 is the contents, object 2 a ZAP with their size.
//! Facts: `dmu_objset_create_impl` in module/zfs/dmu_objset.c, `zvol_create_cb` in zvol.c.

use super::cx::Cx;
use super::feature;
use super::tree::Node;
use crate::live::sync::DatasetSync;
use crate::live::{Counting, OwnersOf, Policies, Settings};
use crate::property::Value;
use crate::property::set::{PropertySet, SetBy};
use block::crypt::DatasetKeys;
use errors::{Error, Result};
use object::zap::ZapSpec;
use object::{NewObject, ObjectSet, RawObjset, Tx, Zap};
use ondisk::zap::Value as ZapValue;
use ondisk::{ObjectType, Objset, ObjsetKind, version};
use std::sync::Arc;

/// Object with a volume's contents.
pub(crate) const VOLUME_DATA: u64 = 1;
/// Object with a volume's properties.
pub(crate) const VOLUME_PROPERTIES: u64 = 2;
/// Object of a file system from which everything else is found.
const MASTER_NODE: u64 = 1;

/// Traits of a file system that never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemTraits {
    /// Version of the on-disk format of its objects.
    pub version: u64,
    /// Unicode form in which names are compared, by its number on disk.
    pub normalization: u64,
    /// Names must be UTF-8.
    pub utf8_only: bool,
    /// 0 case-sensitive, 1 case-insensitive, 2 mixed: case matters when both names exist.
    pub case_sensitivity: u64,
}

/// Newest version of file systems, which new ones have.
pub const FILE_SYSTEM_VERSION: u64 = 5;

/// The version that a pool must have for file systems of `version`. Facts: zfs_spa_version_map.
pub fn pool_version_for(version: u64) -> u64 {
    match version {
        0 | 1 => 1,
        2 => 3,
        3 => 9,
        4 => 15,
        _ => 24,
    }
}

/// The newest version of file systems in a pool of version `pool`.
pub(crate) fn newest_in(pool: u64) -> u64 {
    (1..=FILE_SYSTEM_VERSION).rev().find(|version| pool_version_for(*version) <= pool).unwrap_or(1)
}

impl Default for FileSystemTraits {
    fn default() -> Self {
        Self { version: FILE_SYSTEM_VERSION, normalization: 0, utf8_only: false, case_sensitivity: 0 }
    }
}

/// Creates the first objects of a file system, whose root directory belongs to this user and group.
pub type Fill = fn(&Arc<ObjectSet>, &Tx, &FileSystemTraits, (u32, u32)) -> Result<()>;

/// Functions that `files` supplies to create file systems.
#[derive(Clone, Copy)]
pub struct FileSystemMaker {
    /// Creates the first objects.
    pub fill: Fill,
    /// Returns the owners of an object.
    pub owners_of: OwnersOf,
}

/// Contents of a new dataset.
#[derive(Clone, Copy)]
pub(crate) enum NewContents {
    FileSystem(FileSystemTraits, FileSystemMaker),
    Volume {
        size_bytes: u64,
        block_bytes: u32,
    },
    /// Nothing: a stream supplies the contents.
    Received(ObjsetKind, OwnersOf),
}

/// The traits that a new file system inherits from its parent, `head`.
pub(crate) fn traits_of(cx: &Cx<'_>, head: u64) -> Result<FileSystemTraits> {
    let root = cx.dataset(head)?.phys.bp;
    let objset = ObjectSet::open(cx.mos().store().clone(), &root, head, None)?;
    let master = Zap::open(objset.object(MASTER_NODE)?)?;
    let number = |name: &str| Ok::<_, Error>(master.lookup_u64(name)?.unwrap_or(0));
    Ok(FileSystemTraits {
        version: newest_in(cx.sync.version()),
        normalization: number("normalization")?,
        utf8_only: number("utf8only")? != 0,
        case_sensitivity: number("casesensitivity")?,
    })
}

/// The value set for a property at directory `dir` or, if it is inherited, above it.
pub(crate) fn number_set(cx: &Cx<'_>, dir: u64, name: &str) -> Result<Option<u64>> {
    let inherits = crate::property::find(name).is_none_or(|def| def.inheritable());
    let mut at = dir;
    while at != 0 {
        let phys = cx.dir(at)?.phys;
        let set = PropertySet::load(cx.mos(), phys.props_zap)?;
        if let Some(SetBy::Local(Value::Number(n)) | SetBy::Received(Value::Number(n))) = set.get(name) {
            return Ok(Some(*n));
        }
        if !inherits {
            break;
        }
        at = phys.parent;
    }
    Ok(None)
}

/// The effective settings at directory `dir`.
pub(crate) fn settings(cx: &Cx<'_>, dir: u64, place: &str) -> Result<Settings> {
    let has_lz4 = cx.is_active("org.illumos:lz4_compress");
    Settings::from_numbers(place, has_lz4, &|name| number_set(cx, dir, name))
}

/// Creates and writes the object set of the new dataset `node`, which is received raw: empty, with
/// the sender's layout.
pub(crate) fn create_raw(cx: &Cx<'_>, node: &Node, kind: ObjsetKind, sealed: &RawObjset) -> Result<()> {
    let objset = ObjectSet::open_raw(cx.store(), None, node.head, kind, sealed)?;
    let policies = Policies::new(settings(cx, node.dir, &node.name)?, true, &|guid| cx.is_enabled(guid));
    DatasetSync::new(*cx, node.head, policies, None)?.run(&objset)
}

/// Creates and writes the object set of the new dataset `node`.
pub(crate) fn create(cx: &Cx<'_>, node: &Node, keys: Option<Arc<DatasetKeys>>, contents: &NewContents) -> Result<()> {
    let is_encrypted = keys.is_some();
    let kind = match contents {
        NewContents::FileSystem(..) => ObjsetKind::FileSystem,
        NewContents::Volume { .. } => ObjsetKind::Volume,
        NewContents::Received(kind, _) => *kind,
    };
    let objset = ObjectSet::open_live(cx.store(), None, node.head, keys, kind)?;
    let is_counted = cx.sync.version() >= version::USERSPACE;
    if !is_counted {
        objset.use_small_root()?;
    }
    let (objects, projects) = (cx.is_enabled(feature::USEROBJ_ACCOUNTING), cx.is_enabled(feature::PROJECT_QUOTA));
    let owners_of = match contents {
        NewContents::FileSystem(_, maker) => Some(maker.owners_of),
        NewContents::Received(ObjsetKind::FileSystem, owners_of) => Some(*owners_of),
        NewContents::Volume { .. } | NewContents::Received(..) => None,
    };
    let counting = owners_of.filter(|_| is_counted).map(|owners_of| Counting { owners_of, objects, projects });
    let settings = settings(cx, node.dir, &node.name)?;
    let policies = Policies::new(settings, is_encrypted, &|guid| cx.is_enabled(guid));
    let sync = DatasetSync::new(*cx, node.head, policies, counting)?;
    if counting.is_some() {
        let mut flags = Objset::FLAG_USERACCOUNTING_COMPLETE;
        if objects {
            flags |= Objset::FLAG_USEROBJACCOUNTING_COMPLETE;
            sync.use_feature(feature::USEROBJ_ACCOUNTING);
        }
        if projects {
            flags |= Objset::FLAG_PROJECTQUOTA_COMPLETE;
            sync.use_feature(feature::PROJECT_QUOTA);
        }
        objset.set_flags(flags)?;
    }
    match contents {
        NewContents::FileSystem(traits, maker) => (maker.fill)(&objset, cx.tx(), traits, cx.creator())?,
        NewContents::Received(..) => {}
        NewContents::Volume { size_bytes, block_bytes } => {
            let data = NewObject { id: Some(VOLUME_DATA), ..NewObject::new(ObjectType::ZVOL, *block_bytes) };
            objset.create_object(cx.tx(), &data)?;
            let spec = ZapSpec { id: Some(VOLUME_PROPERTIES), ..ZapSpec::new(ObjectType::ZVOL_PROP) };
            let properties = Zap::create(&objset, cx.tx(), &spec)?;
            properties.insert(cx.tx(), b"size", &ZapValue::one(*size_bytes))?;
        }
    }
    sync.run(&objset)
}
