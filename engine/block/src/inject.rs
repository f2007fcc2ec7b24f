//! Faults on purpose in a pool that is in use: what devices are made to do, and what reads of blocks are told.
//!
//! ```text
//!   Store ── Injection ─┬─ host::device::faults::Faults ── leaves (labels, blocks, caches alike)
//!                       └─ rules about blocks: object set, object, level, range, type
//! ```
//! ZFS name: zinject (zio_inject.c).
//!
//! Invariants:
//!   * nothing here outlives the process, and nothing of it reaches a disk but what a torn or a lost write leaves there
//!   * numbers of rules are never given twice in a process

use crate::vdev::Tree;
use crate::{Bookmark, Error};
use host::device::faults::Faults;
pub use host::device::faults::{Area, Operation, Outcome, Rule, Struck};
use ondisk::{BlkPtr, ObjectType};
use parking_lot::RwLock;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Numbers that rules have.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// What a read of a block is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataError {
    /// The machine failed (EIO).
    Io,
    /// No copy has the right checksum.
    Checksum,
    /// The contents cannot be decompressed.
    Decompress,
    /// The contents cannot be decrypted.
    Decrypt,
}

/// Reads of blocks that are to fail.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRule {
    /// Object set: 0 is the pool's own.
    pub objset: u64,
    /// Object; `None`: all.
    pub object: Option<u64>,
    /// Blocks of this type only.
    pub kind: Option<ObjectType>,
    /// Level of the blocks.
    pub level: i64,
    /// Numbers of the blocks at that level.
    pub blocks: RangeInclusive<u64>,
    /// What is told.
    pub error: DataError,
    /// How often, in millionths.
    pub per_million: u32,
}

/// What is to go wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// With a device.
    Device(Rule),
    /// With blocks.
    Data(DataRule),
}

/// A rule that is in force.
#[derive(Debug, Clone)]
pub struct Handler {
    /// Its number.
    pub id: u64,
    /// What it does.
    pub what: What,
    /// How often it did.
    pub struck: Arc<Struck>,
}

/// All rules of a pool.
#[derive(Default)]
pub struct Injection {
    devices: Arc<Faults>,
    handlers: RwLock<Vec<Handler>>,
    /// Some rule is about blocks.
    data: AtomicBool,
}

impl Injection {
    /// Puts a rule in force; its number.
    pub fn add(&self, what: What) -> u64 {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut handlers = self.handlers.write();
        let struck = match &what {
            What::Device(rule) => self.devices.add(id, rule.clone()),
            What::Data(_) => {
                self.data.store(true, Ordering::Release);
                Arc::default()
            }
        };
        handlers.push(Handler { id, what, struck });
        id
    }

    /// Takes a rule away; whether there was one of that number.
    pub fn remove(&self, id: u64) -> bool {
        let mut handlers = self.handlers.write();
        let before = handlers.len();
        handlers.retain(|handler| handler.id != id);
        self.devices.remove(id);
        self.data.store(handlers.iter().any(|h| matches!(h.what, What::Data(_))), Ordering::Release);
        handlers.len() != before
    }

    /// All rules, in the order in which they came.
    pub fn list(&self) -> Vec<Handler> {
        self.handlers.read().clone()
    }

    /// Has the leaves of `tree` obey: also those that were not there before.
    pub(crate) fn govern(&self, tree: &Tree) {
        tree.all_leaves().for_each(|leaf| leaf.obey(&self.devices));
    }

    /// What a read of that block is told instead of its contents.
    pub(crate) fn data_error(&self, bp: &BlkPtr, at: &Bookmark) -> Option<Error> {
        if !self.data.load(Ordering::Acquire) {
            return None;
        }
        let handlers = self.handlers.read();
        let error = handlers.iter().find_map(|handler| match &handler.what {
            What::Data(rule) if rule.is_about(bp, at) => handler.struck.draw(rule.per_million).then_some(rule.error),
            _ => None,
        })?;
        Some(match error {
            DataError::Io => Error::io("", std::io::Error::from_raw_os_error(host::device::faults::errno::EIO)),
            DataError::Checksum => Error::corrupt("", "checksum mismatch (injected)"),
            DataError::Decompress => Error::corrupt("", "cannot be decompressed (injected)"),
            DataError::Decrypt => Error::corrupt("", "cannot be decrypted (injected)"),
        })
    }
}

impl DataRule {
    fn is_about(&self, bp: &BlkPtr, at: &Bookmark) -> bool {
        self.objset == at.objset
            && self.object.is_none_or(|object| object == at.object)
            && self.kind.is_none_or(|kind| kind == bp.object_type())
            && self.level == at.level
            && self.blocks.contains(&at.blkid)
    }
}
