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

use crate::vfs::{NodeId, Vfs};
use errors::{Refusal, Result};
use host::sync::{Mutex, RwLock};
use layers::{Idle, Source, Table};
use nodes::{Made, Nodes, Nowhere};
use number::Number;
use std::sync::Arc;
use system::Opened;

mod cookie;
mod forward;
mod handle;
mod layers;
mod nodes;
mod number;
mod provider;
mod snapshots;
mod synthetic;
mod system;
#[cfg(test)]
mod tests;

pub use number::{file_system_of, is_door, is_synthetic, object_of};
pub use provider::{Child, Control, NumberedName, Provider, Way};

/// Name of the control directory.
const CONTROL: &[u8] = b".zfs";

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
        // Listed while it is visible.
        if provider.control() != Control::Absent {
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

    /// Whether `node`, an entry of the root of `opened`, is a control directory that is hidden now.
    fn is_hidden(&self, opened: &Opened, name: &[u8], node: NodeId) -> bool {
        let is_visible = || opened.provider.as_ref().is_some_and(|p| p.control() == Control::Visible);
        name == CONTROL && node == self.made(Made::Control(opened.number)) && !is_visible()
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
