//! An open file system of the tree, with what is shown over its own entries.

use super::cookie::Extras;
use super::number::{self, Number};
use super::provider::Provider;
use crate::vfs::{Attr, FileKind, NodeId, Vfs};
use errors::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A file system of the tree that is open.
pub(super) struct Opened {
    /// Its file system's number in the tree.
    pub number: u64,
    pub vfs: Arc<dyn Vfs>,
    pub provider: Option<Arc<dyn Provider>>,
    /// The directory that contains each child shown here, by key.
    pub children: HashMap<String, NodeId>,
    /// Entries that cover or extend a directory's own: doors and synthetic directories.
    pub covers: HashMap<(NodeId, Vec<u8>), NodeId>,
    /// The subset of these that the directory itself does not contain.
    pub extras: HashMap<NodeId, Extras>,
}

impl Opened {
    pub fn new(number: u64, vfs: Arc<dyn Vfs>, provider: Option<Arc<dyn Provider>>) -> Self {
        let (children, covers, extras) = Default::default();
        Self { number, vfs, provider, children, covers, extras }
    }

    /// The tree-wide number of a node of this file system.
    pub fn global(&self, node: NodeId) -> Result<NodeId> {
        number::join(self.number, node.0).ok_or_else(|| match node.0 >> number::OBJECT_BITS {
            0 => Error::unsupported(
                "namespace",
                "a file system number and an object number that do not fit into one node number",
            ),
            _ => Error::corrupt("namespace", format!("object number is {:#x}, expected 48 bits", node.0)),
        })
    }

    /// The node of this file system that has this number in the tree.
    pub fn own(&self, node: NodeId) -> Option<NodeId> {
        match number::split(node) {
            Number::In { system, object } if system == self.number => Some(NodeId(object)),
            _ => None,
        }
    }

    pub fn own_directory(&self, dir: NodeId, name: &[u8]) -> Option<NodeId> {
        let found = self.vfs.lookup(self.own(dir)?, name).ok()?;
        (found.kind == FileKind::Directory).then(|| self.global(found.node).ok()).flatten()
    }

    /// Shows `node` in `dir` as `name`, covering any existing entry.
    pub fn cover(&mut self, dir: NodeId, name: &[u8], node: NodeId) {
        let there = self.own(dir).is_some_and(|dir| self.vfs.lookup(dir, name).is_ok());
        if !there {
            self.extras.entry(dir).or_default().add(name, node);
        }
        self.covers.insert((dir, name.to_vec()), node);
    }

    pub fn attr(&self, node: NodeId) -> Result<Attr> {
        let attr = self.vfs.attr(node)?;
        Ok(Attr { node: self.global(attr.node)?, ..attr })
    }
}
