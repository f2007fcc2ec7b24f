//! Directories that belong to no dataset: `.zfs` and its directories, and the path to a child that
//! its parent has no directories for. And doors, which are the entries of these directories and of
//! children.
//!
//! Invariants:
//!   * listing a directory opens none of the file systems in it
//!   * a directory is listed by the numbers of its entries, which do not depend on each other
//!   * a directory keeps a door for each name of its newest listing, and for those of listings that
//!     began before that one ended, and no others

use super::cookie::{self, Extras};
use super::layers::Source;
use super::{Namespace, NumberedName, number};
use crate::vfs::{Attr, DirEntry, FileKind, NodeId, Vfs};
use crate::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Directories that belong to no dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Made {
    /// `.zfs` of a file system.
    Control(u64),
    /// `.zfs/snapshot`.
    Snapshots(u64),
    /// `.zfs/volume`.
    Volumes(u64),
    /// An intermediate directory on the path to a child, where the parent has no such directory.
    Path { layer: u64, parent: NodeId },
}

/// The root of what a name leads to, whether it is open or not.
#[derive(Debug, Clone)]
pub(super) struct Door {
    pub above: u64,
    pub source: Source,
    /// The directory that contains it.
    pub parent: NodeId,
}

/// A node that belongs to no dataset.
#[derive(Debug, Clone)]
pub(super) enum Nowhere {
    Door(Door),
    Made(Made),
}

/// An entry of a synthetic directory.
struct MadeEntry {
    /// The number that its cookie contains.
    number: u64,
    name: Vec<u8>,
    node: NodeId,
    kind: FileKind,
}

/// The door to an entry of a directory.
struct Listed {
    node: NodeId,
    /// The newest listing that contained it.
    listing: u64,
}

/// The nodes that belong to no dataset.
#[derive(Default)]
pub(super) struct Nodes {
    by_number: HashMap<NodeId, Nowhere>,
    made: HashMap<Made, NodeId>,
    /// Doors by directory, except for those of children, which are permanent.
    doors: HashMap<NodeId, HashMap<Source, Listed>>,
    last: u64,
    last_listing: u64,
}

impl Nodes {
    fn add(&mut self, what: Nowhere) -> NodeId {
        self.last += 1;
        let node = number::nowhere(self.last, matches!(what, Nowhere::Door(_)));
        self.by_number.insert(node, what);
        node
    }

    pub fn get(&self, node: NodeId) -> Option<Nowhere> {
        self.by_number.get(&node).cloned()
    }

    pub fn made(&mut self, made: Made) -> NodeId {
        if let Some(&node) = self.made.get(&made) {
            return node;
        }
        let node = self.add(Nowhere::Made(made));
        self.made.insert(made, node);
        node
    }

    /// A directory on the path to a child. There may be several in one directory.
    pub fn path(&mut self, layer: u64, parent: NodeId) -> NodeId {
        self.add(Nowhere::Made(Made::Path { layer, parent }))
    }

    /// A permanent door.
    pub fn door(&mut self, above: u64, source: Source, parent: NodeId) -> NodeId {
        self.add(Nowhere::Door(Door { above, source, parent }))
    }

    /// The number of a listing that begins now.
    fn begin_listing(&mut self) -> u64 {
        self.last_listing += 1;
        self.last_listing
    }

    /// The doors of everything that `listing` of the directory `dir` contains.
    fn list(&mut self, dir: NodeId, above: u64, sources: &[Source], listing: u64) -> Vec<NodeId> {
        let mut doors = self.doors.remove(&dir).unwrap_or_default();
        let mut nodes = Vec::with_capacity(sources.len());
        for source in sources {
            let node = match doors.get_mut(source) {
                Some(listed) => {
                    listed.listing = listed.listing.max(listing);
                    listed.node
                }
                None => {
                    let node = self.door(above, source.clone(), dir);
                    doors.insert(source.clone(), Listed { node, listing });
                    node
                }
            };
            nodes.push(node);
        }
        doors.retain(|_, listed| {
            let stays = listed.listing >= listing;
            if !stays {
                self.by_number.remove(&listed.node);
            }
            stays
        });
        self.doors.insert(dir, doors);
        nodes
    }
}

impl Namespace {
    /// The node of a synthetic directory.
    pub(super) fn made(&self, made: Made) -> NodeId {
        let found = self.nodes.read().made.get(&made).copied();
        found.unwrap_or_else(|| self.nodes.write().made(made))
    }

    pub(super) fn made_attr(&self, node: NodeId, made: Made) -> Result<Attr> {
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

    /// The entries of a synthetic directory, by increasing number.
    fn made_entries(&self, dir: NodeId, made: Made) -> Result<Vec<MadeEntry>> {
        let directory =
            |number, name: &[u8], node| MadeEntry { number, name: name.to_vec(), node, kind: FileKind::Directory };
        match made {
            Made::Control(layer) => Ok(vec![
                directory(1, b"snapshot", self.made(Made::Snapshots(layer))),
                directory(2, b"volume", self.made(Made::Volumes(layer))),
            ]),
            Made::Snapshots(layer) => self.doors(dir, layer, FileKind::Directory),
            Made::Volumes(layer) => self.doors(dir, layer, FileKind::Regular),
            Made::Path { layer, .. } => {
                let opened = self.open(layer)?;
                let extras = opened.extras.get(&dir).into_iter().flat_map(Extras::iter);
                Ok(extras.map(|(number, name, node)| directory(number, name, node)).collect())
            }
        }
    }

    /// The snapshots (directories) or volumes (files) of a file system, each with a door.
    fn doors(&self, dir: NodeId, layer: u64, kind: FileKind) -> Result<Vec<MadeEntry>> {
        let opened = self.open(layer)?;
        let Some(provider) = &opened.provider else { return Ok(Vec::new()) };
        // Before the names are read: a listing that reads newer ones is also newer by its number.
        let listing = self.nodes.write().begin_listing();
        let (mut all, source): (_, fn(Arc<str>) -> Source) = match kind {
            FileKind::Directory => (provider.snapshots()?, Source::Snapshot),
            _ => (provider.volumes()?, Source::Volume),
        };
        all.retain(|entry| is_name(&entry.name));
        all.sort_unstable_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        let sources: Vec<Source> = all.iter().map(|entry| source(entry.name.as_str().into())).collect();
        let doors = self.nodes.write().list(dir, layer, &sources, listing);
        let entry = |(NumberedName { name, number }, node)| MadeEntry { number, name: name.into_bytes(), node, kind };
        Ok(all.into_iter().zip(doors).map(entry).collect())
    }

    fn made_parent(&self, made: Made) -> Result<NodeId> {
        match made {
            Made::Control(layer) => {
                let opened = self.open(layer)?;
                opened.global(opened.vfs.root())
            }
            Made::Snapshots(layer) | Made::Volumes(layer) => Ok(self.made(Made::Control(layer))),
            Made::Path { parent, .. } => Ok(parent),
        }
    }

    pub(super) fn made_lookup(&self, dir: NodeId, made: Made, name: &[u8]) -> Result<Attr> {
        match name {
            b"." => return self.made_attr(dir, made),
            b".." => return self.attr(self.made_parent(made)?),
            _ => {}
        }
        let missing = || Error::not_found(".zfs", String::from_utf8_lossy(name).into_owned());
        let (layer, source): (_, fn(Arc<str>) -> Source) = match made {
            Made::Snapshots(layer) => (layer, Source::Snapshot),
            Made::Volumes(layer) => (layer, Source::Volume),
            Made::Control(_) | Made::Path { .. } => {
                let found = self.made_entries(dir, made)?.into_iter().find(|e| e.name == name);
                return self.attr(found.ok_or_else(missing)?.node);
            }
        };
        // By name: there may be thousands.
        let name = std::str::from_utf8(name).ok().filter(|name| is_name(name)).ok_or_else(missing)?;
        let opened = self.open_source(layer, &source(name.into()), dir)?;
        self.or_stale(&opened, opened.attr(opened.vfs.root()))
    }

    pub(super) fn made_read_dir(
        &self,
        node: NodeId,
        made: Made,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        let directory = |name: &[u8], node, next_cookie| DirEntry {
            name: name.to_vec(),
            node,
            kind: FileKind::Directory,
            next_cookie,
        };
        let own = [directory(b".", node, cookie::SELF), directory(b"..", self.made_parent(made)?, cookie::PARENT)];
        let entries = self.made_entries(node, made)?.into_iter().map(|MadeEntry { number, name, node, kind }| {
            DirEntry { name, node, kind, next_cookie: cookie::of_number(number) }
        });
        for entry in own.into_iter().chain(entries).filter(|entry| entry.next_cookie > cookie) {
            if !sink(entry) {
                break;
            }
        }
        Ok(())
    }
}

/// Whether a snapshot or volume of this name can be an entry.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/')
}

#[cfg(test)]
impl Namespace {
    pub(super) fn node_count(&self) -> usize {
        self.nodes.read().by_number.len()
    }
}
