//! Fault injection into a pool in use: faults of devices, and errors of block reads.
//!
//! ```text
//!   Store ── Injection ─┬─ host::device::faults::Faults ── leaves (labels, blocks, caches alike)
//!                       └─ rules about blocks: object set, object, level, range, type
//! ```
//! ZFS name: zinject (zio_inject.c).
//!
//! Invariants:
//!   * nothing here outlives the process, and nothing here reaches a disk except what a torn or a
//!     lost write leaves there
//!   * the id of a rule is never reused within a process

use crate::Bookmark;
use crate::vdev::{Failure, Tree};
use crate::zevent::Reading;
use errors::Error;
use host::device::faults::{Faults, Rule, Struck};
use host::sync::RwLock;
use ondisk::{BlkPtr, ObjectType};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The id of the next rule.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The error that a block read returns.
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

/// Selects block reads that fail.
#[derive(Debug, Clone, PartialEq)]
pub struct DataRule {
    /// Object set; 0 is the MOS.
    pub objset: u64,
    /// Object number; `None` for all.
    pub object: Option<u64>,
    /// Only blocks of this object type.
    pub kind: Option<ObjectType>,
    /// Level of the blocks.
    pub level: i64,
    /// Range of block numbers at that level.
    pub blocks: RangeInclusive<u64>,
    /// Bit `n` selects the copy at the `n`th address of a block: only reads of these copies fail. 0
    /// selects the block, whatever its copies.
    pub copies: u8,
    /// Error that the read returns.
    pub error: DataError,
    /// Probability of the error, in millionths.
    pub per_million: u32,
}

/// The fault of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A fault of a device.
    Device(Rule),
    /// An error of block reads.
    Data(DataRule),
}

/// An active rule.
#[derive(Debug, Clone)]
pub struct Handler {
    pub id: u64,
    pub what: What,
    /// Counts how often the rule struck.
    pub struck: Arc<Struck>,
}

/// All injection rules of a pool.
#[derive(Default)]
pub struct Injection {
    devices: Arc<Faults>,
    handlers: RwLock<Vec<Handler>>,
    /// Whether some rule is about blocks.
    data: AtomicBool,
}

impl Injection {
    /// Activates a rule and returns its id.
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

    /// Removes a rule. Returns whether it existed.
    pub fn remove(&self, id: u64) -> bool {
        let mut handlers = self.handlers.write();
        let before = handlers.len();
        handlers.retain(|handler| handler.id != id);
        self.devices.remove(id);
        self.data.store(handlers.iter().any(|h| matches!(h.what, What::Data(_))), Ordering::Release);
        handlers.len() != before
    }

    /// All rules, in the order in which they were added.
    pub fn list(&self) -> Vec<Handler> {
        self.handlers.read().clone()
    }

    /// Applies the device rules to the leaves of `tree`, new ones included.
    pub(crate) fn govern(&self, tree: &Tree) {
        tree.all_leaves().for_each(|leaf| leaf.obey(&self.devices));
    }

    /// The error to return instead of the contents of that block, if a rule strikes.
    pub(crate) fn data_error(&self, bp: &BlkPtr, at: &Bookmark) -> Option<Error> {
        Some(match self.strike(bp, at, |rule| rule.copies == 0)? {
            DataError::Io => Error::io("", eio()),
            DataError::Checksum => Error::corrupt("", "checksum mismatch (injected)"),
            DataError::Decompress => Error::corrupt("", "cannot be decompressed (injected)"),
            DataError::Decrypt => Error::corrupt("", "cannot be decrypted (injected)"),
        })
    }

    /// Why the copy at the address number `copy` of the block that this thread reads
    /// ([`Reading::of`]) is bad, if a rule strikes.
    pub(crate) fn copy_failure(&self, bp: &BlkPtr, copy: usize) -> Option<Failure> {
        if !self.data.load(Ordering::Acquire) {
            return None;
        }
        let error = self.strike(bp, &Reading::current()?, |rule| rule.selects(copy))?;
        let place = format!("copy {copy} (injected)");
        Some(match error {
            DataError::Io => Failure { io: vec![(place, Arc::new(eio()))], ..Failure::default() },
            _ => Failure { wrong: vec![place], ..Failure::default() },
        })
    }

    /// Whether some rule is about that block or one of its copies.
    pub fn concerns(&self, bp: &BlkPtr, at: &Bookmark) -> bool {
        let is_about = |handler: &Handler| matches!(&handler.what, What::Data(rule) if rule.is_about(bp, at));
        self.data.load(Ordering::Acquire) && self.handlers.read().iter().any(is_about)
    }

    fn strike(&self, bp: &BlkPtr, at: &Bookmark, is_meant: impl Fn(&DataRule) -> bool) -> Option<DataError> {
        if !self.data.load(Ordering::Acquire) {
            return None;
        }
        let handlers = self.handlers.read();
        handlers.iter().find_map(|handler| match &handler.what {
            What::Data(rule) if is_meant(rule) && rule.is_about(bp, at) => {
                handler.struck.draw(rule.per_million).then_some(rule.error)
            }
            _ => None,
        })
    }
}

fn eio() -> std::io::Error {
    std::io::Error::from_raw_os_error(host::device::faults::errno::EIO)
}

impl DataRule {
    fn is_about(&self, bp: &BlkPtr, at: &Bookmark) -> bool {
        self.objset == at.objset
            && self.object.is_none_or(|object| object == at.object)
            && self.kind.is_none_or(|kind| kind == bp.object_type())
            && self.level == at.level
            && self.blocks.contains(&at.blkid)
    }

    fn selects(&self, copy: usize) -> bool {
        u32::try_from(copy).is_ok_and(|copy| self.copies.checked_shr(copy).unwrap_or(0) & 1 != 0)
    }
}
