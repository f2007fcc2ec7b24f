//! What the sync of an object set asks its owner.

use super::Tx;
use crate::ObjectSet;
use block::{WritePolicy, WriteStore};
use bytes::Bytes;
use errors::Result;
use ondisk::{BlkPtr, Dnode, ObjectType};
use std::sync::Arc;

/// A block that is about to be written.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    pub object: u64,
    /// Type of the object; for a spill block, of the bonus.
    pub object_type: ObjectType,
    /// 0 for data, 1 and up for indirect blocks.
    pub level: u8,
    /// `dn_checksum`; 0 inherits the dataset's.
    pub checksum: u8,
    /// `dn_compress`; 0 inherits the dataset's.
    pub compression: u8,
    /// Whether it is a spill block.
    pub is_spill: bool,
}

/// The owner of a sync of an object set: makes its decisions, and is notified of its steps.
pub trait SyncContext: Sync {
    /// The txg being synced.
    fn txg(&self) -> u64;
    /// Whether this set was synced for the same txg before: then blocks of that txg are
    /// overwritten.
    fn repeats(&self) -> bool;
    /// Whether dnodes count their space in sectors of 512 bytes, as before pool version 3.
    fn counts_sectors(&self) -> bool {
        false
    }
    /// Where the set is written to.
    fn store(&self) -> &WriteStore;
    /// Write policy of a block.
    fn policy(&self, what: &Written) -> WritePolicy;
    /// Write policy of the root block.
    fn root_policy(&self) -> WritePolicy;
    /// Called when a block was written.
    fn born(&self, bp: &BlkPtr);
    /// Called when a block is no longer used: subtracts its space, and frees it or keeps it for a
    /// snapshot.
    fn killed(&self, bp: &BlkPtr) -> Result<()>;
    /// Called when a block of this txg was overwritten: subtracts its space, but does not free it.
    fn forgotten(&self, bp: &BlkPtr);
    /// Space that a block counts for, in bytes, without parity.
    fn space_bytes(&self, bp: &BlkPtr) -> u64;
    /// Whether holes record their birth (feature hole_birth).
    fn hole_birth(&self) -> bool;
    /// Called before an object is written with `new` as its dnode, or freed. May set the accounting
    /// flags of `new`.
    fn object_changed(
        &self,
        id: u64,
        old: Option<&Dnode>,
        new: Option<&mut Dnode>,
        spill: &dyn Fn() -> Result<Option<Bytes>>,
    ) -> Result<()>;
    /// Called after all objects are written: the last chance to change the accounting objects of
    /// `set` with `tx`.
    fn objects_done(&self, set: &Arc<ObjectSet>, tx: &Tx) -> Result<()>;
}
