//! Many datasets as one tree: children below their parent, and `.zfs` with snapshots and volumes.
//!
//! Below: a [`Provider`] for each dataset, which opens its parts. Above: servers, which see one
//! [`Vfs`].
//!
//! ```text
//!   /                    file system 0: the requested dataset
//!   ├── home/            a child dataset, mounted over its parent's empty directory
//!   └── .zfs/            control directory of each dataset; listed if snapdir=visible
//!       ├── snapshot/    one directory per snapshot, opened on first access
//!       └── volume/      one file per volume (snapshots: NAME@SNAPSHOT); specific to Weir
//! ```
//!
//! A node number ([`number`]) contains the number of a file system and an object number. A node
//! that belongs to no dataset is a synthetic directory, such as `.zfs`, or a *door*. A door
//! represents the root of a file system that a listing contains and that may not be open. Every
//! call accepts a door, and its attributes are those of the root behind it, including the root's
//! own number.
//!
//! The life of a number:
//!
//! ```text
//!  a name in `.zfs/snapshot` or `.zfs/volume`, a child's place
//!       │ listed: a door, until a later listing no longer has the name
//!       │ entered: the next free number, unless it has one. `fs_guid` decides: the same name with
//!       v          another guid gets another number
//!  open ──────────────── more than 64 open ──────────────> closed ─┐
//!    ^ <──────────── used: reopened, by guid ──────────────┘       │ no references, and 4096 others
//!    │                                                             v have been closed since
//!    └───────────────── destroyed ──────────────────────────> no longer known: stale
//! ```
//!
//! What refers to a number is the kernel of a FUSE mount, for as long as it knows a node of the
//! file system (`open_node`, also in a read-only tree), and a file that an NFSv4 client has open.
//! An NFS handle does not: it contains the `fs_guid`, and leads to the same file system under
//! another number. So memory is bounded by what is open, what the kernel caches, and the length of
//! the newest listings.
//!
//! A kernel that uses a node of a snapshot that was destroyed gets ESTALE, at the latest one second
//! after the destruction. Because numbers are not reused, it never gets a file of another snapshot.
//!
//! Invariants:
//!   * the number of a file system is never reused, and does not change while something refers to
//!     it
//!   * listing a directory opens none of the file systems in it
//!   * an entry that exists during a whole listing is listed once, whatever else comes and goes: a
//!     cookie is a number of the entry itself ([`cookie`]), not its position
//!   * at most 64 snapshots and volumes are open; a closed one is reopened by its identity when it
//!     is used
//!   * snapshots can be changed through `.zfs/snapshot` if the provider supports it (`snapshots`);
//!     everything else in `.zfs` is read-only

use crate::vfs::{Attr, FileKind, NodeId, Vfs};
use crate::{Error, Refusal, Result};
use cookie::Extras;
use layers::{Idle, Source, Table};
use number::Number;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use synthetic::{Made, Nodes, Nowhere};

mod cookie;
mod forward;
mod handle;
mod layers;
mod number;
mod snapshots;
mod synthetic;
#[cfg(test)]
mod tests;

pub use number::{file_system_of, is_door, is_synthetic, object_of};

/// Name of the control directory.
const CONTROL: &[u8] = b".zfs";

/// Visibility of a dataset's `.zfs`, from the property `snapdir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// No `.zfs`: a snapshot has no snapshots.
    Absent,
    /// Reachable by name but not listed.
    Hidden,
    /// Listed.
    Visible,
}

/// A dataset to show below another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Path relative to the root of the parent dataset: `home`, or `a/b`.
    pub place: Vec<u8>,
    /// The key to pass to [`Provider::open_child`].
    pub key: String,
}

/// A snapshot or volume in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedName {
    pub name: String,
    /// Distinguishes it from all others in the listing for as long as it exists, also under another
    /// name and after a restart: the number of its object in the pool. Below 2^48, not 0.
    pub number: u64,
}

/// How a file system is reached from a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// The dataset's own file system.
    Here,
    /// One of its snapshots.
    Snapshot(String),
    /// One of its volumes.
    Volume(String),
    /// One of its children (by key), or a file system below that child.
    Child(String),
}

/// One dataset, and what can be opened from it.
pub trait Provider: Send + Sync {
    /// Full name, for messages and the mount table.
    fn name(&self) -> String;
    /// The dataset's files.
    fn root(&self) -> Result<Arc<dyn Vfs>>;
    /// Visibility of `.zfs`.
    fn control(&self) -> Control;
    /// Datasets to show below this one.
    fn children(&self) -> Result<Vec<Child>>;
    /// The snapshots, in any order. A name is the part after the `@`.
    fn snapshots(&self) -> Result<Vec<NumberedName>>;
    /// The volumes below, and their snapshots as `NAME@SNAPSHOT`, in any order.
    fn volumes(&self) -> Result<Vec<NumberedName>>;
    /// Opens one of [`Self::children`].
    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>>;
    /// Opens one of [`Self::snapshots`].
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>>;
    /// The `fs_guid` of the snapshot that currently has this name; the name may have belonged to
    /// another snapshot before.
    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        if !self.snapshots()?.iter().any(|entry| entry.name == name) {
            return Err(Error::not_found(self.name(), format!("snapshot '{name}'")));
        }
        let vfs = self.open_snapshot(name)?;
        Ok(vfs.handle(vfs.root())?.fs_guid)
    }
    /// The same for one of [`Self::volumes`].
    fn volume_guid(&self, name: &str) -> Result<u64> {
        if !self.volumes()?.iter().any(|entry| entry.name == name) {
            return Err(Error::not_found(self.name(), format!("volume '{name}'")));
        }
        let vfs = self.open_volume(name)?;
        Ok(vfs.handle(vfs.root())?.fs_guid)
    }
    /// Whether snapshots can be taken, renamed and destroyed.
    fn changes_snapshots(&self) -> bool {
        false
    }
    fn take_snapshot(&self, name: &str) -> Result<()> {
        Err(Refusal::ReadOnly.at(format!("{}@{name}", self.name())))
    }
    fn rename_snapshot(&self, from: &str, to: &str) -> Result<()> {
        let _ = to;
        Err(Refusal::ReadOnly.at(format!("{}@{from}", self.name())))
    }
    /// Destroys a snapshot. Returns [`Refusal::Busy`] if it is held or has clones.
    fn destroy_snapshot(&self, name: &str) -> Result<()> {
        Err(Refusal::ReadOnly.at(format!("{}@{name}", self.name())))
    }
    /// Opens one of [`Self::volumes`]; its root is a regular file.
    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>>;
    /// How to reach the file system whose handles have this `fs_guid`, or `None` if there is none.
    /// The default opens every file system until it finds a match.
    fn way_to(&self, fs_guid: u64) -> Result<Option<Way>> {
        let is_it = |vfs: Result<Arc<dyn Vfs>>| {
            vfs.and_then(|vfs| vfs.handle(vfs.root())).is_ok_and(|handle| handle.fs_guid == fs_guid)
        };
        if is_it(self.root()) {
            return Ok(Some(Way::Here));
        }
        for NumberedName { name, .. } in self.snapshots()? {
            if is_it(self.open_snapshot(&name)) {
                return Ok(Some(Way::Snapshot(name)));
            }
        }
        for NumberedName { name, .. } in self.volumes()? {
            if is_it(self.open_volume(&name)) {
                return Ok(Some(Way::Volume(name)));
            }
        }
        for child in self.children()? {
            if self.open_child(&child.key).and_then(|c| c.way_to(fs_guid)).is_ok_and(|way| way.is_some()) {
                return Ok(Some(Way::Child(child.key)));
            }
        }
        Ok(None)
    }
}

struct Opened {
    /// Its file system's number in the tree.
    number: u64,
    vfs: Arc<dyn Vfs>,
    provider: Option<Arc<dyn Provider>>,
    /// The directory that contains each child shown here, by key.
    children: HashMap<String, NodeId>,
    /// Entries that cover or extend a directory's own: doors and synthetic directories.
    covers: HashMap<(NodeId, Vec<u8>), NodeId>,
    /// The subset of these that the directory itself does not contain.
    extras: HashMap<NodeId, Extras>,
}

/// Several datasets as one [`Vfs`].
pub struct Namespace {
    root: Arc<Opened>,
    /// The file systems below the root.
    layers: RwLock<Table>,
    idle: Mutex<Idle>,
    /// What belongs to no file system.
    nodes: RwLock<Nodes>,
    /// Selects the children that are shown.
    within: Box<dyn Fn(&Child) -> bool + Send + Sync>,
}

impl Namespace {
    /// The dataset of `provider`, with all children below it.
    pub fn new(provider: Arc<dyn Provider>) -> Result<Self> {
        Self::with_children(provider, |_| true)
    }

    /// The dataset of `provider`, with the children (and their descendants) that `within` accepts.
    pub fn with_children(
        provider: Arc<dyn Provider>,
        within: impl Fn(&Child) -> bool + Send + Sync + 'static,
    ) -> Result<Self> {
        let vfs = provider.root()?;
        let mut this = Self {
            root: Arc::new(Opened::new(0, vfs.clone(), None)),
            layers: RwLock::default(),
            idle: Mutex::default(),
            nodes: RwLock::default(),
            within: Box::new(within),
        };
        this.root = Arc::new(this.compose(0, vfs, Some(provider))?);
        Ok(this)
    }

    /// Mounts the children of an opened dataset at their paths.
    fn compose(&self, number: u64, vfs: Arc<dyn Vfs>, provider: Option<Arc<dyn Provider>>) -> Result<Opened> {
        let mut opened = Opened::new(number, vfs, provider);
        let Some(provider) = opened.provider.clone() else { return Ok(opened) };
        let root = opened.global(opened.vfs.root())?;
        for child in provider.children()? {
            if number != 0 || (self.within)(&child) {
                self.place(&mut opened, root, child);
            }
        }
        if provider.control() == Control::Visible {
            let control = self.made(Made::Control(number));
            opened.extras.entry(root).or_default().add(CONTROL, control);
        }
        Ok(opened)
    }

    fn place(&self, opened: &mut Opened, root: NodeId, child: Child) {
        let mut dir = root;
        let components: Vec<&[u8]> = child.place.split(|&b| b == b'/').filter(|c| !c.is_empty()).collect();
        let Some((last, way)) = components.split_last() else { return };
        for name in way {
            dir = match opened.covers.get(&(dir, name.to_vec())) {
                Some(&covered) => covered,
                None => match opened.own_directory(dir, name) {
                    Some(own) => own,
                    None => {
                        let made = self.nodes.write().path(opened.number, dir);
                        opened.cover(dir, name, made);
                        made
                    }
                },
            };
        }
        let door = self.nodes.write().door(opened.number, Source::Child(child.key.as_str().into()), dir);
        opened.children.insert(child.key, dir);
        opened.cover(dir, last, door);
    }

    fn find(&self, node: NodeId) -> Result<Place> {
        if let Number::In { system, object } = number::split(node) {
            return Ok(Place::In(self.open(system)?, NodeId(object)));
        }
        let found = self.nodes.read().get(node);
        match found {
            Some(Nowhere::Door(door)) => {
                let opened = self.open_source(door.above, &door.source, door.parent)?;
                let root = opened.vfs.root();
                Ok(Place::In(opened, root))
            }
            Some(Nowhere::Made(made)) => Ok(Place::Made(node, made)),
            // A door that is no longer listed.
            None => Err(Refusal::Stale.at(format!("node {:#x} of the tree", node.0))),
        }
    }

    /// The parent of the root of a file system.
    fn parent_of(&self, number: u64) -> Result<NodeId> {
        if number == 0 {
            return Ok(self.root());
        }
        // Recorded as the number that its own file system uses, or as a door.
        match self.find(self.layer_at(number)?.parent)? {
            Place::In(opened, node) => opened.global(node),
            Place::Made(node, _) => Ok(node),
        }
    }

    fn is_root(opened: &Opened, node: NodeId) -> bool {
        node == opened.vfs.root()
    }

    fn has_control(opened: &Opened) -> bool {
        opened.provider.as_ref().is_some_and(|p| p.control() != Control::Absent)
    }
}

/// Location of a node.
enum Place {
    In(Arc<Opened>, NodeId),
    Made(NodeId, Made),
}

impl Opened {
    fn new(number: u64, vfs: Arc<dyn Vfs>, provider: Option<Arc<dyn Provider>>) -> Self {
        let (children, covers, extras) = Default::default();
        Self { number, vfs, provider, children, covers, extras }
    }

    /// The tree-wide number of a node of this file system.
    fn global(&self, node: NodeId) -> Result<NodeId> {
        number::join(self.number, node.0).ok_or_else(|| match node.0 >> number::OBJECT_BITS {
            0 => Error::unsupported(
                "namespace",
                "a file system number and an object number that do not fit into one node number",
            ),
            _ => Error::corrupt("namespace", format!("object number is {:#x}, expected 48 bits", node.0)),
        })
    }

    /// The node of this file system that has this number in the tree.
    fn own(&self, node: NodeId) -> Option<NodeId> {
        match number::split(node) {
            Number::In { system, object } if system == self.number => Some(NodeId(object)),
            _ => None,
        }
    }

    fn own_directory(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        let found = self.vfs.lookup(self.own(dir)?, name).ok()?;
        (found.kind == FileKind::Directory).then(|| self.global(found.node).ok()).flatten()
    }

    /// Shows `node` in `dir` as `name`, covering any existing entry.
    fn cover(&mut self, dir: NodeId, name: &[u8], node: NodeId) {
        let there = self.own(dir).is_some_and(|dir| self.vfs.lookup(dir, name).is_ok());
        if !there {
            self.extras.entry(dir).or_default().add(name, node);
        }
        self.covers.insert((dir, name.to_vec()), node);
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        let attr = self.vfs.attr(node)?;
        Ok(Attr { node: self.global(attr.node)?, ..attr })
    }
}
