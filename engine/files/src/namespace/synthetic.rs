//! Directories that belong to no dataset: `.zfs` and its directories, and the path to a child that
//! its parent has no directories for. Their entries are doors; see `nodes`.
//!
//! Invariants:
//!   * listing a directory opens none of the file systems in it
//!   * a directory is listed by the numbers of its entries, which do not depend on each other

use super::cookie::{self, Extras};
use super::layers::Source;
use super::nodes::Made;
use super::{Namespace, NumberedName};
use crate::vfs::{Attr, DirEntry, FileKind, NodeId, Vfs};
use errors::{Error, Result};
use std::sync::Arc;

/// An entry of a synthetic directory.
struct MadeEntry {
    /// The number that its cookie contains.
    number: u64,
    name: Vec<u8>,
    node: NodeId,
    kind: FileKind,
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
        let is_changed = matches!(made, Made::Snapshots(_)) && self.changes_snapshots(layer);
        let changed = match (made, &opened.provider) {
            (Made::Snapshots(_), Some(provider)) => provider.snapshots_changed()?,
            _ => None,
        };
        let subdirectories = if matches!(made, Made::Control(_)) { 2 } else { 0 };
        Ok(Attr {
            node,
            ino: node.0,
            generation: 0,
            kind: FileKind::Directory,
            // As in OpenZFS, any user may try; what was delegated decides (`snapshots`).
            mode: if is_changed { 0o777 } else { 0o555 },
            links: 2 + subdirectories,
            uid: 0,
            gid: 0,
            project: 0,
            rdev_major: 0,
            rdev_minor: 0,
            size: 2 + u64::from(subdirectories),
            blocks_512: 0,
            block_bytes: 512,
            mtime: changed.unwrap_or(root.mtime),
            ctime: changed.unwrap_or(root.ctime),
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
