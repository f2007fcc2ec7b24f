//! Handles in a tree of many file systems: the file system is found by its identity, and opened if
//! necessary.
//!
//! Synthetic directories, which belong to no dataset, are identified by their dataset and type;
//! those on the path to a child by their path.

use super::layers::Source;
use super::nodes::Made;
use super::number::{self, OBJECT_BITS, OBJECT_MASK};
use super::{Namespace, Opened, Place, Way};
use crate::vfs::{Attr, FileHandle, NodeId};
use errors::{Error, Refusal, Result};
use std::sync::Arc;

/// Types of synthetic directories, in the bits above an object number.
const KIND_CONTROL: u64 = 1;
const KIND_SNAPSHOTS: u64 = 2;
const KIND_VOLUMES: u64 = 3;
/// The low bits are a hash of the path from the dataset's root.
const KIND_PATH: u64 = 4;

fn stale(fs_guid: u64) -> Error {
    Refusal::Stale.at(format!("file system {fs_guid:#x}"))
}

/// FNV-1a over a component of a path.
fn mix(mut hash: u64, name: &[u8]) -> u64 {
    for &byte in name.iter().chain(b"/") {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    hash
}

impl Namespace {
    pub(super) fn guid_of(opened: &Opened) -> Result<u64> {
        Ok(opened.vfs.handle(opened.vfs.root())?.fs_guid)
    }

    pub(super) fn handle_of(&self, node: NodeId) -> Result<FileHandle> {
        let made = match self.find(node)? {
            Place::In(opened, local) => return opened.vfs.handle(local),
            Place::Made(_, made) => made,
        };
        let (kind, layer, low) = match made {
            Made::Control(layer) => (KIND_CONTROL, layer, 0),
            Made::Snapshots(layer) => (KIND_SNAPSHOTS, layer, 0),
            Made::Volumes(layer) => (KIND_VOLUMES, layer, 0),
            Made::Path { layer, .. } => (KIND_PATH, layer, self.path_hash(&*self.open(layer)?, node)?),
        };
        let fs_guid = Self::guid_of(&*self.open(layer)?)?;
        Ok(FileHandle { fs_guid, object: FileHandle::MADE | kind << OBJECT_BITS | low, generation: 0 })
    }

    /// Distinguishes a directory on the path to a child from others of its dataset.
    fn path_hash(&self, opened: &Opened, node: NodeId) -> Result<u64> {
        let mut names = Vec::new();
        let mut at = node;
        while let Place::Made(_, Made::Path { parent, .. }) = self.find(at)? {
            let entry = opened.covers.iter().find(|((dir, _), covering)| *dir == parent && **covering == at);
            let ((_, name), _) = entry.ok_or_else(|| Error::invalid("namespace", "a directory without a name"))?;
            names.push(name.clone());
            at = parent;
        }
        // The starting point of the path within the dataset counts too.
        let start = mix(0xcbf2_9ce4_8422_2325, &number::object_of(at).to_be_bytes());
        Ok(names.iter().rev().fold(start, |hash, name| mix(hash, name)) & OBJECT_MASK)
    }

    /// The file system with that identity, opened. A name that now leads to a different one (a
    /// snapshot was destroyed and taken again) does not match.
    fn open_by_guid(&self, fs_guid: u64) -> Result<Arc<Opened>> {
        if let Some(number) = self.number_of(fs_guid) {
            match self.open(number) {
                // Closed and dropped meanwhile, unless it is gone.
                Err(Error::Refused { why: Refusal::Stale, .. }) => {}
                Err(error) => return Err(error),
                Ok(opened) if Self::guid_of(&opened)? == fs_guid => return Ok(opened),
                Ok(_) => return Err(stale(fs_guid)),
            }
        }
        let opened = self.search(fs_guid)?;
        if Self::guid_of(&opened)? != fs_guid {
            return Err(stale(fs_guid));
        }
        self.record_guid(fs_guid, opened.number);
        Ok(opened)
    }

    /// Finds a file system by asking the providers on the way to it.
    fn search(&self, fs_guid: u64) -> Result<Arc<Opened>> {
        let mut at = self.root.clone();
        loop {
            let provider = at.provider.as_ref().ok_or_else(|| stale(fs_guid))?;
            let (source, parent) = match provider.way_to(fs_guid)?.ok_or_else(|| stale(fs_guid))? {
                Way::Here => return Ok(at),
                Way::Snapshot(name) => (Source::Snapshot(name.into()), self.made(Made::Snapshots(at.number))),
                Way::Volume(name) => (Source::Volume(name.into()), self.made(Made::Volumes(at.number))),
                // A child that is not shown here has no location.
                Way::Child(key) => {
                    let parent = *at.children.get(&*key).ok_or_else(|| stale(fs_guid))?;
                    (Source::Child(key.into()), parent)
                }
            };
            let opened = self.open_source(at.number, &source, parent)?;
            if opened.provider.is_none() {
                return Ok(opened);
            }
            at = opened;
        }
    }

    pub(super) fn attr_by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        let opened = self.open_by_guid(handle.fs_guid)?;
        if handle.object < FileHandle::MADE {
            let attr = opened.vfs.by_handle(handle)?;
            return Ok(Attr { node: opened.global(attr.node)?, ..attr });
        }
        let missing = || Refusal::Stale.at(format!("object {:#x} of {:#x}", handle.object, handle.fs_guid));
        let (kind, low) = ((handle.object - FileHandle::MADE) >> OBJECT_BITS, handle.object & OBJECT_MASK);
        let node = match kind {
            KIND_CONTROL..=KIND_VOLUMES if !Self::has_control(&opened) => return Err(missing()),
            KIND_CONTROL => self.made(Made::Control(opened.number)),
            KIND_SNAPSHOTS => self.made(Made::Snapshots(opened.number)),
            KIND_VOLUMES => self.made(Made::Volumes(opened.number)),
            KIND_PATH => {
                let is_way = |node: NodeId| matches!(self.find(node), Ok(Place::Made(_, Made::Path { .. })));
                let mut ways = opened.covers.values().copied().filter(|&node| is_way(node));
                ways.find(|&node| self.path_hash(&opened, node).is_ok_and(|hash| hash == low)).ok_or_else(missing)?
            }
            _ => return Err(missing()),
        };
        use crate::vfs::Vfs;
        self.attr(node)
    }

    pub(super) fn home(&self, fs_guid: u64) -> Result<u64> {
        let opened = self.open_by_guid(fs_guid)?;
        if opened.provider.is_some() {
            return Ok(fs_guid);
        }
        Self::guid_of(&*self.open(self.layer_at(opened.number)?.above)?)
    }
}
