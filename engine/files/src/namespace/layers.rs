//! The table of the file systems of a tree, and the lists of those that may be closed or dropped.
//! Their life: `life`.

mod life;

use super::number::SYSTEMS_MAX;
use super::provider::{Provider, Way};
use super::system::Opened;
use crate::vfs::NodeId;
use errors::{Error, Refusal, Result};
use host::sync::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Maximum number of open snapshots and volumes per tree. Measured: listing a snapshot takes 13 KiB
/// of memory; one whose files are read takes up to some MiB. Guessed: more than are read at a time,
/// and reopening one reads only a few blocks of metadata.
pub(super) const OPEN_MAX: usize = 64;
/// Number of closed snapshots and volumes that keep their numbers although nothing refers to them.
/// It spans the time between two uses of a node by a request that holds no reference (NFS): a
/// request would fail only if so many others were opened and closed during it. Guessed; some 250
/// bytes each.
pub(super) const CLOSED_KEPT: usize = 4096;

/// What a file system is opened from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Child(Arc<str>),
    Snapshot(Arc<str>),
    Volume(Arc<str>),
}

impl Source {
    /// The `fs_guid` of the snapshot or volume that currently has this name.
    pub(super) fn guid(&self, provider: &dyn Provider) -> Result<Option<u64>> {
        match self {
            Self::Child(_) => Ok(None),
            Self::Snapshot(name) => provider.snapshot_guid(name).map(Some),
            Self::Volume(name) => provider.volume_guid(name).map(Some),
        }
    }

    fn of_way(way: Way) -> Option<Self> {
        match way {
            Way::Snapshot(name) => Some(Self::Snapshot(name.into())),
            Way::Volume(name) => Some(Self::Volume(name.into())),
            Way::Here | Way::Child(_) => None,
        }
    }
}

/// A file system of the tree other than its own, whether open or not.
pub(super) struct Layer {
    pub number: u64,
    /// The layer whose provider opens it.
    pub above: u64,
    /// The directory that contains it.
    pub parent: NodeId,
    /// The `fs_guid` of a snapshot or volume: its name may later belong to another one. `None` for
    /// a child, which stays open.
    guid: Option<u64>,
    /// The name of a snapshot or volume is the last that it was found under.
    source: Mutex<Source>,
    pub opened: Mutex<Option<Arc<Opened>>>,
    /// Used since it was opened or last considered for closing.
    used: AtomicBool,
    /// No longer in the table. Set while `opened` is locked, or together with `None` in it.
    gone: AtomicBool,
    /// Nodes that are in use ([`open_node`](crate::vfs::Vfs::open_node)).
    references: AtomicU64,
    /// Its newest place in [`Idle::closed`].
    rest: AtomicU64,
    /// Second at which it was last known to exist.
    checked: AtomicU64,
}

impl Layer {
    pub fn source(&self) -> Source {
        self.source.lock().clone()
    }

    fn stale(&self) -> Error {
        Refusal::Stale.at(format!("file system {} of the tree", self.number))
    }
}

/// The file systems that have numbers.
pub(super) struct Table {
    by_number: HashMap<u64, Arc<Layer>>,
    /// Where each name led when it was last used.
    by_source: HashMap<(u64, Source), u64>,
    /// By `fs_guid`; only those that were looked up by it. 0 is the tree's own.
    by_guid: HashMap<u64, u64>,
    next: u64,
}

impl Default for Table {
    fn default() -> Self {
        let (by_number, by_source, by_guid) = Default::default();
        Self { by_number, by_source, by_guid, next: 1 }
    }
}

impl Table {
    fn called(&self, above: u64, source: &Source) -> Option<&Arc<Layer>> {
        self.by_number.get(self.by_source.get(&(above, source.clone()))?)
    }

    /// The layer that `source` leads to, if it has this `guid`, or a new one.
    fn enter(&mut self, above: u64, source: &Source, parent: NodeId, guid: Option<u64>) -> Result<Arc<Layer>> {
        if let Some(layer) = self.called(above, source).filter(|layer| layer.guid == guid) {
            return Ok(layer.clone());
        }
        let number = self.next;
        if number >= SYSTEMS_MAX {
            return Err(Error::unsupported("namespace", "more than 2^31 file systems in one tree over time"));
        }
        self.next += 1;
        let (opened, used, gone, references, rest, checked) = Default::default();
        let source = source.clone();
        self.by_source.insert((above, source.clone()), number);
        let source = Mutex::new(source);
        let layer =
            Arc::new(Layer { number, above, parent, guid, source, opened, used, gone, references, rest, checked });
        self.by_number.insert(number, layer.clone());
        Ok(layer)
    }

    fn remove(&mut self, layer: &Layer) {
        self.by_number.remove(&layer.number);
        self.unname(layer);
        if let Some(guid) = layer.guid
            && self.by_guid.get(&guid) == Some(&layer.number)
        {
            self.by_guid.remove(&guid);
        }
    }

    fn unname(&mut self, layer: &Layer) {
        let key = (layer.above, layer.source());
        if self.by_source.get(&key) == Some(&layer.number) {
            self.by_source.remove(&key);
        }
    }

    /// Records the new name of a snapshot or volume.
    fn rename(&mut self, layer: &Layer, source: Source) {
        self.unname(layer);
        if self.by_number.contains_key(&layer.number) {
            self.by_source.entry((layer.above, source.clone())).or_insert(layer.number);
        }
        *layer.source.lock() = source;
    }
}

/// Snapshots and volumes that may be closed or dropped.
pub(super) struct Idle {
    /// Those that are open; the next candidate for closing comes first.
    open: VecDeque<Arc<Layer>>,
    /// Those that were closed while nothing referred to them, with their serial number; the next to
    /// drop comes first. One that was used since is dropped only by a newer number.
    closed: VecDeque<(Arc<Layer>, u64)>,
    serial: u64,
    /// [`CLOSED_KEPT`], fewer in tests.
    pub closed_kept: usize,
}

impl Default for Idle {
    fn default() -> Self {
        Self { open: VecDeque::new(), closed: VecDeque::new(), serial: 0, closed_kept: CLOSED_KEPT }
    }
}
