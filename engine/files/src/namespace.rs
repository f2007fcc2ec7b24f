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
//! A node number is the file system number times 2^48, plus the object number. File system 0xffff
//! holds nodes that belong to no dataset: control directories and *doors*. A door represents the
//! root of a file system that is not open yet. Every call accepts a door, and its attributes are
//! those of the root behind it, including the root's own number.
//!
//! Invariants:
//!   * a file system's number never changes and is never reused
//!   * listing a directory opens none of the file systems in it
//!   * at most [`SNAPSHOTS_OPEN`] snapshots are open; a closed snapshot is reopened by its identity
//!     when it is used
//!   * snapshots can be changed through `.zfs/snapshot` if the provider supports it (`snapshots`);
//!     everything else in `.zfs` is read-only

use crate::vfs::{Attr, DirEntry, FileKind, NodeId, Vfs};
use crate::{Error, Refusal, Result};
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Number of bits in an object number.
const OBJECT_BITS: u32 = 48;
const OBJECT_MASK: u64 = (1 << OBJECT_BITS) - 1;
/// File system number of doors and control directories.
const NOWHERE: u64 = 0xffff;
/// Cookies from here on belong to entries that the dataset's own directory does not contain. A
/// directory's own cookies are far below (a serialised ZAP cursor has at most 48 + 14 bits, and in
/// practice 32).
const EXTRA_COOKIE: u64 = 1 << 62;
/// Name of the control directory.
const CONTROL: &[u8] = b".zfs";

/// Maximum number of open snapshots per tree. Measured: listing one takes 13 KiB of memory; one
/// whose files are read takes up to some MiB. Guessed: more than are read at a time, and reopening
/// one reads only a few blocks of metadata.
const SNAPSHOTS_OPEN: usize = 64;

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
    /// Snapshot names, the part after the `@`.
    fn snapshots(&self) -> Result<Vec<String>>;
    /// Names of the volumes below, and of their snapshots as `NAME@SNAPSHOT`.
    fn volumes(&self) -> Result<Vec<String>>;
    /// Opens one of [`Self::children`].
    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>>;
    /// Opens one of [`Self::snapshots`].
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>>;
    /// The `fs_guid` of the snapshot that currently has this name; the name may have belonged to
    /// another snapshot before.
    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        let vfs = self.open_snapshot(name)?;
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
        for name in self.snapshots()? {
            if is_it(self.open_snapshot(&name)) {
                return Ok(Some(Way::Snapshot(name)));
            }
        }
        for name in self.volumes()? {
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

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Source {
    Root,
    Child(String),
    Snapshot(String),
    Volume(String),
}

/// A file system of the tree, whether open or not.
struct Layer {
    /// The layer whose provider opens it.
    above: usize,
    source: Source,
    /// The directory that contains it.
    parent: NodeId,
    opened: Mutex<Option<Arc<Opened>>>,
    /// The `fs_guid` of a snapshot, set when it is first opened: its name may later belong to
    /// another snapshot.
    guid: OnceLock<u64>,
    /// Used since it was opened or last considered for closing.
    used: AtomicBool,
    /// A snapshot that no longer exists.
    gone: AtomicBool,
}

impl Layer {
    fn new(above: usize, source: Source, parent: NodeId) -> Arc<Self> {
        let (opened, guid, used, gone) = Default::default();
        Arc::new(Self { above, source, parent, opened, guid, used, gone })
    }
}

struct Opened {
    index: usize,
    vfs: Arc<dyn Vfs>,
    provider: Option<Arc<dyn Provider>>,
    /// Entries that cover or extend a directory's own: doors and synthetic directories.
    covers: HashMap<(NodeId, Vec<u8>), NodeId>,
    /// The subset of these that the directory itself does not contain, in order.
    extras: HashMap<NodeId, Vec<(Vec<u8>, NodeId)>>,
}

/// Directories that belong to no dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Made {
    /// `.zfs` of a layer.
    Control(usize),
    /// `.zfs/snapshot`.
    Snapshots(usize),
    /// `.zfs/volume`.
    Volumes(usize),
    /// An intermediate directory on the path to a child, where the parent has no such directory.
    Path { layer: usize, parent: NodeId },
}

/// A number in [`NOWHERE`].
#[derive(Debug, Clone, Copy)]
enum Nowhere {
    Door(usize),
    Made(Made),
}

/// Several datasets as one [`Vfs`].
pub struct Namespace {
    layers: RwLock<Vec<Arc<Layer>>>,
    /// Layers by identity, so that each keeps its number.
    known: Mutex<HashMap<(usize, Source), NodeId>>,
    nowhere: RwLock<Vec<Nowhere>>,
    made: Mutex<HashMap<Made, NodeId>>,
    root: Arc<Opened>,
    /// Layers by the identity of their file systems, as far as they have been requested.
    by_guid: Mutex<HashMap<u64, usize>>,
    /// Layers of open snapshots; the next candidate for closing comes first.
    open_snapshots: Mutex<VecDeque<usize>>,
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
        let root_node = vfs.root();
        let (covers, extras) = (HashMap::new(), HashMap::new());
        let mut this = Self {
            layers: RwLock::default(),
            known: Mutex::default(),
            nowhere: RwLock::default(),
            made: Mutex::default(),
            root: Arc::new(Opened { index: 0, vfs: vfs.clone(), provider: None, covers, extras }),
            by_guid: Mutex::default(),
            open_snapshots: Mutex::default(),
            within: Box::new(within),
        };
        this.layers.write().push(Layer::new(0, Source::Root, root_node));
        this.root = Arc::new(this.compose(0, vfs, Some(provider))?);
        Ok(this)
    }

    /// Mounts the children of an opened dataset at their paths.
    fn compose(&self, index: usize, vfs: Arc<dyn Vfs>, provider: Option<Arc<dyn Provider>>) -> Result<Opened> {
        let mut opened = Opened { index, vfs, provider, covers: HashMap::new(), extras: HashMap::new() };
        let Some(provider) = opened.provider.clone() else { return Ok(opened) };
        let root = opened.global(opened.vfs.root())?;
        for child in provider.children()? {
            if index != 0 || (self.within)(&child) {
                self.place(&mut opened, root, child)?;
            }
        }
        if provider.control() == Control::Visible {
            let control = self.made(Made::Control(index))?;
            opened.extras.entry(root).or_default().push((CONTROL.to_vec(), control));
        }
        Ok(opened)
    }

    fn place(&self, opened: &mut Opened, root: NodeId, child: Child) -> Result<()> {
        let mut dir = root;
        let components: Vec<&[u8]> = child.place.split(|&b| b == b'/').filter(|c| !c.is_empty()).collect();
        let Some((last, way)) = components.split_last() else { return Ok(()) };
        for name in way {
            dir = match opened.covers.get(&(dir, name.to_vec())) {
                Some(&covered) => covered,
                None => match opened.own_directory(dir, name) {
                    Some(own) => own,
                    None => {
                        let made = self.made_path(opened.index, dir)?;
                        opened.cover(dir, name, made);
                        made
                    }
                },
            };
        }
        let door = self.layer(opened.index, Source::Child(child.key), dir)?;
        opened.cover(dir, last, door);
        Ok(())
    }

    fn new_nowhere(&self, what: Nowhere) -> NodeId {
        let mut list = self.nowhere.write();
        list.push(what);
        // Numbers from 1: 0 is no node number to FUSE.
        NodeId(NOWHERE << OBJECT_BITS | list.len() as u64)
    }

    /// The number of a synthetic directory.
    fn made(&self, made: Made) -> Result<NodeId> {
        Ok(*self.made.lock().entry(made).or_insert_with(|| self.new_nowhere(Nowhere::Made(made))))
    }

    fn made_path(&self, layer: usize, parent: NodeId) -> Result<NodeId> {
        Ok(self.new_nowhere(Nowhere::Made(Made::Path { layer, parent })))
    }

    /// The door to a file system. It stays the same unless a different snapshot now has that name.
    fn layer(&self, above: usize, source: Source, parent: NodeId) -> Result<NodeId> {
        let key = (above, source.clone());
        let found = self.known.lock().get(&key).copied();
        if let (Some(door), Source::Snapshot(name)) = (found, &source)
            && self.is_replaced(above, name, door)?
        {
            self.known.lock().remove(&key);
        }
        let mut known = self.known.lock();
        if let Some(&door) = known.get(&key) {
            return Ok(door);
        }
        let mut layers = self.layers.write();
        let index = layers.len();
        if index as u64 >= NOWHERE {
            return Err(Error::unsupported("namespace", "more than 65,535 file systems in one tree"));
        }
        layers.push(Layer::new(above, source.clone(), parent));
        let door = self.new_nowhere(Nowhere::Door(index));
        known.insert((above, source), door);
        Ok(door)
    }

    /// Whether the snapshot opened behind `door` is gone and another one has its name.
    fn is_replaced(&self, above: usize, name: &str, door: NodeId) -> Result<bool> {
        let slot = usize::try_from((door.0 & OBJECT_MASK).saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(Nowhere::Door(index)) = self.nowhere.read().get(slot).copied() else { return Ok(false) };
        let Some(was) = self.layer_at(index)?.guid.get().copied() else { return Ok(false) };
        let provider = self.open(above)?.provider.clone();
        Ok(provider.is_some_and(|provider| provider.snapshot_guid(name).is_ok_and(|now| now != was)))
    }

    fn layer_at(&self, index: usize) -> Result<Arc<Layer>> {
        self.layers
            .read()
            .get(index)
            .cloned()
            .ok_or_else(|| Error::invalid("namespace", format!("no file system {index}")))
    }

    /// The file system, opened if necessary.
    fn open(&self, index: usize) -> Result<Arc<Opened>> {
        if index == 0 {
            return Ok(self.root.clone());
        }
        let layer = self.layer_at(index)?;
        layer.check(index)?;
        let mut slot = layer.opened.lock();
        if let Some(opened) = &*slot {
            if !layer.used.load(Ordering::Relaxed) {
                layer.used.store(true, Ordering::Relaxed);
            }
            return Ok(opened.clone());
        }
        let above = self.open(layer.above)?;
        let none = || Error::invalid("namespace", "a file system without a provider above");
        let provider = above.provider.as_ref().ok_or_else(none)?;
        let (vfs, own) = match &layer.source {
            Source::Root => return Ok(self.root.clone()),
            Source::Child(key) => {
                let child = provider.open_child(key)?;
                (child.root()?, Some(child))
            }
            Source::Snapshot(name) => (layer.open_snapshot(index, &**provider, name)?, None),
            Source::Volume(name) => (provider.open_volume(name)?, None),
        };
        let opened = Arc::new(self.compose(index, vfs, own)?);
        *slot = Some(opened.clone());
        drop(slot);
        if layer.guid.get().is_some() {
            self.close_unused_snapshots(index);
        }
        Ok(opened)
    }

    fn find(&self, node: NodeId) -> Result<Place> {
        let (index, object) = (node.0 >> OBJECT_BITS, node.0 & OBJECT_MASK);
        if index != NOWHERE {
            return Ok(Place::In(self.open(index as usize)?, NodeId(object)));
        }
        let slot = object.checked_sub(1).and_then(|i| usize::try_from(i).ok());
        let found = slot.and_then(|i| self.nowhere.read().get(i).copied());
        match found {
            Some(Nowhere::Door(index)) => {
                let opened = self.open(index)?;
                let root = opened.vfs.root();
                Ok(Place::In(opened, root))
            }
            Some(Nowhere::Made(made)) => Ok(Place::Made(node, made)),
            None => Err(Error::not_found("namespace", format!("node {:#x}", node.0))),
        }
    }

    /// The parent of the root of a file system.
    fn parent_of(&self, index: usize) -> Result<NodeId> {
        let parent = self.layer_at(index)?.parent;
        // Recorded as the number that its own file system uses, or as a door.
        match self.find(parent)? {
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

    fn made_attr(&self, node: NodeId, made: Made) -> Result<Attr> {
        let (Made::Control(layer) | Made::Snapshots(layer) | Made::Volumes(layer) | Made::Path { layer, .. }) = made;
        let opened = self.open(layer)?;
        let root = opened.vfs.attr(opened.vfs.root())?;
        let subdirectories = if matches!(made, Made::Control(_)) { 2 } else { 0 };
        Ok(Attr {
            node,
            ino: node.0,
            generation: 0,
            kind: FileKind::Directory,
            mode: 0o555,
            links: 2 + subdirectories,
            uid: 0,
            gid: 0,
            project: 0,
            rdev_major: 0,
            rdev_minor: 0,
            size: 2 + u64::from(subdirectories),
            blocks_512: 0,
            block_bytes: 512,
            ..root
        })
    }

    /// The entries of a synthetic directory: name, number, kind. With `only`, snapshots are limited
    /// to the one with that name.
    fn made_entries(&self, node: NodeId, made: Made, only: Option<&[u8]>) -> Result<Vec<(Vec<u8>, NodeId, FileKind)>> {
        let directory = FileKind::Directory;
        let list = |layer: usize, names: Vec<String>, source: fn(String) -> Source, kind| {
            let entry = |name: String| Ok((name.clone().into_bytes(), self.layer(layer, source(name), node)?, kind));
            names.into_iter().filter(|n| !n.is_empty() && !n.contains('/')).map(entry).collect()
        };
        match made {
            Made::Control(layer) => Ok(vec![
                (b"snapshot".to_vec(), self.made(Made::Snapshots(layer))?, directory),
                (b"volume".to_vec(), self.made(Made::Volumes(layer))?, directory),
            ]),
            Made::Snapshots(layer) => {
                let mut names = self.open(layer)?.provider.as_ref().map_or(Ok(Vec::new()), |p| p.snapshots())?;
                // Each listed entry gets a door, and there may be thousands.
                names.retain(|name| only.is_none_or(|only| name.as_bytes() == only));
                list(layer, names, Source::Snapshot, directory)
            }
            Made::Volumes(layer) => {
                let names = self.open(layer)?.provider.as_ref().map_or(Ok(Vec::new()), |p| p.volumes())?;
                list(layer, names, Source::Volume, FileKind::Regular)
            }
            Made::Path { layer, .. } => {
                let opened = self.open(layer)?;
                let extras = opened.extras.get(&node).into_iter().flatten();
                Ok(extras.map(|(name, node)| (name.clone(), *node, directory)).collect())
            }
        }
    }

    fn made_parent(&self, made: Made) -> Result<NodeId> {
        match made {
            Made::Control(layer) => {
                let opened = self.open(layer)?;
                opened.global(opened.vfs.root())
            }
            Made::Snapshots(layer) | Made::Volumes(layer) => self.made(Made::Control(layer)),
            Made::Path { parent, .. } => Ok(parent),
        }
    }

    fn made_lookup(&self, node: NodeId, made: Made, name: &[u8]) -> Result<Attr> {
        match name {
            b"." => self.made_attr(node, made),
            b".." => self.attr(self.made_parent(made)?),
            name => {
                let found = self.made_entries(node, made, Some(name))?.into_iter().find(|e| e.0 == name);
                match found {
                    Some((_, node, _)) => self.attr(node),
                    None => Err(Error::not_found(".zfs", String::from_utf8_lossy(name).into_owned())),
                }
            }
        }
    }

    fn made_read_dir(
        &self,
        node: NodeId,
        made: Made,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        let directory = FileKind::Directory;
        let mut all = vec![(b".".to_vec(), node, directory), (b"..".to_vec(), self.made_parent(made)?, directory)];
        all.extend(self.made_entries(node, made, None)?);
        let from = usize::try_from(cookie).unwrap_or(usize::MAX);
        for (i, (name, node, kind)) in all.into_iter().enumerate().skip(from) {
            if !sink(DirEntry { name, node, kind, next_cookie: i as u64 + 1 }) {
                break;
            }
        }
        Ok(())
    }
}

/// Location of a node.
enum Place {
    In(Arc<Opened>, NodeId),
    Made(NodeId, Made),
}

impl Opened {
    /// The tree-wide number of a node of this file system.
    fn global(&self, node: NodeId) -> Result<NodeId> {
        if node.0 & !OBJECT_MASK != 0 {
            return Err(Error::corrupt("namespace", format!("object number is {:#x}, expected 48 bits", node.0)));
        }
        Ok(NodeId((self.index as u64) << OBJECT_BITS | node.0))
    }

    fn own_directory(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        if dir.0 >> OBJECT_BITS != self.index as u64 {
            return None;
        }
        let found = self.vfs.lookup(NodeId(dir.0 & OBJECT_MASK), name).ok()?;
        (found.kind == FileKind::Directory).then(|| self.global(found.node).ok()).flatten()
    }

    /// Shows `node` in `dir` as `name`, covering any existing entry.
    fn cover(&mut self, dir: NodeId, name: &[u8], node: NodeId) {
        let in_own = dir.0 >> OBJECT_BITS == self.index as u64;
        let there = in_own && self.vfs.lookup(NodeId(dir.0 & OBJECT_MASK), name).is_ok();
        if !there {
            self.extras.entry(dir).or_default().push((name.to_vec(), node));
        }
        self.covers.insert((dir, name.to_vec()), node);
    }

    fn attr(&self, node: NodeId) -> Result<Attr> {
        let attr = self.vfs.attr(node)?;
        Ok(Attr { node: self.global(attr.node)?, ..attr })
    }
}

/// Whether reading the attributes of `node`, as returned by a listing, may open a dataset: a
/// listing of many snapshots should not.
pub fn is_door(node: NodeId) -> bool {
    node.0 >> OBJECT_BITS == NOWHERE
}

mod forward;
mod handle;
mod snapshots;
#[cfg(test)]
mod tests;
