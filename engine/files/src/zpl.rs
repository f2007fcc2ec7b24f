//! ZPL: the files of a dataset, as the Linux kernel module presents them.
//!
//! Below: `object` provides objects, ZAPs and attributes. Above: servers see it as [`Vfs`]; the
//! code that combines datasets, snapshots and `.zfs` into one tree assigns it a number there. ZFS
//! name: zfsvfs, znode.
//!
//! ```text
//!   object 1, master node: ROOT, VERSION, SA_ATTRS, DELETE_QUEUE, FUID, casesensitivity,
//!                          normalization ...
//!     ROOT, a directory: ZAP of name -> object and type
//!       file: attributes in its bonus (or an old znode), contents in its blocks
//!       extended attributes: a packed list in the attributes, files in a hidden directory, or both
//! ```
//! A node's number is its object number.
//!
//! Invariants:
//!   * it shows and hides exactly what the kernel does, except for permissions, which servers check
//!   * no allocation is bounded only by a size read from disk
//!
//! It is writable when opened over a live dataset: [`live`] documents how files are locked,
//! [`backing`] what it needs of the dataset.

mod acl;
mod attrs;
pub mod backing;
mod clone;
mod data;
mod dir;
mod live;
mod log;
mod make;
mod master;
mod mount;
mod names;
mod node;
mod options;
mod owners;
mod reap;
mod rename;
pub mod replay;
mod serve;
mod state;
mod trivial_acl;
mod undo;
mod upgrade;
mod xattr;
mod xattr_write;

pub use make::{CreateOptions, create_contents};
pub use master::{CaseSensitivity, Version};
pub(crate) use mount::KEPT;
pub use mount::MAKER;
pub use options::{Options, Space};
pub use owners::owners_of;
pub(crate) use trivial_acl::{mode_of_list, trivial_list};

use crate::vfs::{FileKind, NodeId};
use backing::Backing;
use errors::{Error, Place, Result};
use host::sync::{Mutex, RwLock};
use live::Live;
use master::{MASTER_NODE, MasterNode};
use node::Znode;
use object::{Object, ObjectSet, SaTable, Zap};
use ondisk::sa::Attr as Sa;
use ondisk::zap::NormFlags;
use ondisk::{ObjectType, znode};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of directories kept open. Each holds its first block.
const DIRS_MAX: usize = 256;
/// Maximum size of an identity domain table that is read.
const DOMAINS_BYTES_MAX: u64 = 16 << 20;

/// The files of one dataset or snapshot.
pub struct FileSystem {
    objset: Arc<ObjectSet>,
    options: Options,
    sa: SaTable,
    master: MasterNode,
    /// ZPL version, which an upgrade raises.
    version: AtomicU64,
    /// Held shared while an operation stores, exclusively while the version rises. See
    /// [`live`](self::live) for the order of locks.
    version_lock: RwLock<()>,
    /// Open directories, at most [`DIRS_MAX`], by object number.
    dirs: Mutex<HashMap<u64, Zap>>,
    live: Option<Live>,
}

impl FileSystem {
    /// Opens the files of an object set.
    pub fn open(objset: Arc<ObjectSet>, options: Options) -> Result<Arc<Self>> {
        let place = options.name.clone();
        Self::open_inner(objset, options, None).at(&place)
    }

    /// Opens the files of a live object set, also for writing. The caller should replay the intent
    /// log next.
    pub fn open_live(objset: Arc<ObjectSet>, options: Options, backing: Arc<dyn Backing>) -> Result<Arc<Self>> {
        let place = options.name.clone();
        Self::open_inner(objset, options, Some(Live::new(backing))).at(&place)
    }

    fn open_inner(objset: Arc<ObjectSet>, options: Options, live: Option<Live>) -> Result<Arc<Self>> {
        if objset.phys().kind != ondisk::ObjsetKind::FileSystem {
            return Err(Error::invalid("", format!("is no file system: its object set is {:?}", objset.phys().kind)));
        }
        let master = MasterNode::read(&objset)?;
        let sa = SaTable::load(&objset, master.sa_attrs)?;
        let version = AtomicU64::new(master.version.0);
        let (version_lock, dirs) = (RwLock::default(), Mutex::default());
        Ok(Arc::new(Self { sa, master, version, version_lock, dirs, live, objset, options }))
    }

    pub fn objset(&self) -> &Arc<ObjectSet> {
        &self.objset
    }

    /// The settings it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// ZPL version, 1 to 5.
    pub fn version(&self) -> Version {
        Version(self.version.load(Ordering::SeqCst))
    }

    /// How names that differ only in case compare.
    pub fn case_sensitivity(&self) -> CaseSensitivity {
        self.master.names.case()
    }

    /// How names are normalized.
    pub fn normalization(&self) -> NormFlags {
        self.master.names.norm()
    }

    /// Whether names must be UTF-8.
    pub fn utf8_only(&self) -> bool {
        self.master.names.utf8_only()
    }

    /// The directory of SMB shares (`.zfs/shares`).
    pub fn shares(&self) -> Option<NodeId> {
        self.master.shares.map(NodeId)
    }

    /// Objects of files that were removed while open and are waiting to be freed.
    pub fn unlinked(&self) -> Result<Vec<u64>> {
        let Some(id) = self.master.delete_queue else { return Ok(Vec::new()) };
        let zap = self.objset.object(id).and_then(Zap::open).at(&self.options.name)?;
        let numbers = zap.cursor(0).map(|step| step.map(|(entry, _)| entry.value.as_u64().unwrap_or(0)));
        numbers.filter(|n| !matches!(n, Ok(0))).collect()
    }

    /// `(index, domain)` of the identity domains that FUIDs refer to.
    pub fn domains(&self) -> Result<Vec<(u32, String)>> {
        let Some(id) = self.master.fuid_table else { return Ok(Vec::new()) };
        let object = self.objset.object(id).at(&self.options.name)?;
        let size = if object.bonus().len() >= 8 { object.endian().u64(object.bonus()) } else { 0 };
        if size == 0 {
            return Ok(Vec::new());
        }
        if size > DOMAINS_BYTES_MAX {
            let what = format!("the table of domains has {size} bytes, expected at most {DOMAINS_BYTES_MAX}");
            return Err(Error::corrupt(object.place(), what).at(&self.options.name));
        }
        let packed = object.read_vec(0, size as usize).at(&self.options.name)?;
        znode::domains(&packed).at_with(|| object.place()).at(&self.options.name)
    }

    /// Whether object `id` exists and is a file rather than file system metadata.
    pub(crate) fn is_file(&self, id: u64) -> Result<bool> {
        match self.object(id) {
            Ok(object) => Ok(matches!(object.dnode().bonus_type, ObjectType::SA | ObjectType::ZNODE)),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(e) => Err(e.at(&self.options.name)),
        }
    }

    /// The object that file `id` records as its parent, and whether `id` is an extended attribute
    /// directory.
    pub(crate) fn parent_for_path(&self, id: u64) -> Result<(u64, bool)> {
        self.named(self.znode(id).and_then(|file| {
            let flags = znode::Flags::from_bits_retain(file.attributes().need_u64(Sa::Flags)?);
            let is_xattr_dir = flags.contains(znode::Flags::XATTR) && file.kind() == FileKind::Directory;
            Ok((file.parent()?, is_xattr_dir))
        }))
    }

    /// Names in directory `id`, by the object they lead to; for several names of one object, the
    /// first.
    pub(crate) fn names_by_object(&self, id: u64) -> Result<HashMap<u64, Vec<u8>>> {
        let mut names = HashMap::new();
        for step in self.named(self.dir_zap(id))?.cursor(0) {
            let (entry, _) = self.named(step)?;
            if let Some(value) = entry.value.ints.first() {
                names.entry(znode::DirEntryValue::unpack(*value).object).or_insert(entry.name);
            }
        }
        Ok(names)
    }

    fn object(&self, id: u64) -> Result<Object> {
        self.objset.object(id)
    }

    fn znode(&self, id: u64) -> Result<Znode<'_>> {
        Znode::new(self.sa.attributes(&self.object(id)?)?)
    }

    fn regular(&self, node: NodeId) -> Result<Znode<'_>> {
        let file = self.znode(node.0)?;
        match file.kind() {
            FileKind::Regular => Ok(file),
            kind => Err(Error::invalid(file.place(), format!("is {kind:?}, expected a regular file"))),
        }
    }

    /// Adds the dataset's name to an error's location.
    fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|e| e.at(&self.options.name))
    }
}
