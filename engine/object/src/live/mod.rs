//! Live objects: dirty data of transactions, on top of the tree on disk.
//!
//! Below: `block::Store` reads blocks, `block::WriteStore` writes them. Above:
//! [`Object`](crate::Object) and [`ObjectSet`](crate::ObjectSet) look here first when they are
//! live; `pool` closes txgs and calls [`ObjectSet::sync`](crate::ObjectSet::sync). ZFS names: dbuf,
//! dirty record, dnode_sync.
//!
//! ```text
//!   reads:   open txg's changes -> syncing txg's changes -> tree on disk
//!   writes:  open txg's changes only
//!
//!   closing a txg (`quiesce`) moves an object's open changes to syncing, with its current dnode;
//!   syncing writes blocks, then indirect blocks, then dnodes, then the root block, and publishes
//!   the new tree.
//! ```
//!
//! Invariants:
//!   * the changes of a txg are moved at once for all objects of a set, while no transaction of
//!     that txg is running
//!   * changes that are being synced are never modified; the next txg copies what it changes
//!   * a block is written before any block that points to it

mod change;
pub(crate) mod new_object;
pub(crate) mod numbers;
pub(crate) mod ranges;
mod raw;
pub(crate) mod raw_objset;
mod remake;
pub(crate) mod set;
pub(crate) mod state;
mod sync;
mod sync_context;
mod tree;
mod write;

pub use new_object::NewObject;
pub use raw::RawObject;
pub use raw_objset::RawObjset;
pub use sync_context::{SyncContext, Written};
pub use write::Cloneable;

use std::any::Any;

/// A hold on a txg: as long as it exists, the txg is not closed. Changes made with it reach the
/// disk together, or not at all.
///
/// A thread that has one must not wait for a txg to be synced.
pub struct Tx {
    txg: u64,
    syncing: bool,
    _hold: Option<Box<dyn Any + Send + Sync>>,
}

impl Tx {
    /// A hold on the open txg, released when `hold` is dropped.
    pub fn open(txg: u64, hold: Box<dyn Any + Send + Sync>) -> Self {
        Self { txg, syncing: false, _hold: Some(hold) }
    }

    /// For changes by the thread that syncs `txg`, in syncing context.
    pub fn syncing(txg: u64) -> Self {
        Self { txg, syncing: true, _hold: None }
    }

    pub fn txg(&self) -> u64 {
        self.txg
    }

    /// Whether the txg is being synced: then only the syncing thread makes changes.
    pub fn is_syncing(&self) -> bool {
        self.syncing
    }
}
