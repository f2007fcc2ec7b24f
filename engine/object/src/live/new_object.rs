//! An object to create: its type, its sizes, and its first dnode.

use super::state::WRITTEN;
use ondisk::dnode::{CORE_BYTES, SLOT_BYTES};
use ondisk::{BlkPtr, Dnode, ObjectType, blkptr};

/// log2 of the size of an indirect block, in bytes, as in OpenZFS.
pub const INDIRECT_SHIFT: u8 = 17;

/// Maximum number of pointers in a dnode.
const POINTERS_MAX: usize = 3;

/// Description of an object to create.
#[derive(Debug, Clone)]
pub struct NewObject {
    pub object_type: ObjectType,
    /// Size of its data blocks, in bytes: a multiple of 512.
    pub block_bytes: u32,
    /// log2 of the size of its indirect blocks, in bytes.
    pub indirect_shift: u8,
    pub bonus_type: ObjectType,
    pub bonus: Vec<u8>,
    /// Number of 512-byte slots of its dnode.
    pub slots: u8,
    /// Object number; `None` for the next free one.
    pub id: Option<u64>,
    /// `dn_checksum`; 0 inherits the dataset's.
    pub checksum: u8,
    /// `dn_compress`; 0 inherits the dataset's.
    pub compression: u8,
}

impl NewObject {
    /// An object of `object_type` without bonus.
    pub fn new(object_type: ObjectType, block_bytes: u32) -> Self {
        Self {
            object_type,
            block_bytes,
            indirect_shift: INDIRECT_SHIFT,
            bonus_type: ObjectType::NONE,
            bonus: Vec::new(),
            slots: 1,
            id: None,
            checksum: 0,
            compression: 0,
        }
    }

    /// As `self`, with a bonus.
    #[must_use]
    pub fn with_bonus(mut self, bonus_type: ObjectType, bonus: Vec<u8>) -> Self {
        (self.bonus_type, self.bonus) = (bonus_type, bonus);
        self
    }

    pub(super) fn pointer_count(&self) -> usize {
        let room = usize::from(self.slots) * SLOT_BYTES - CORE_BYTES - blkptr::SIZE_BYTES;
        match self.bonus_type {
            // System attributes may use all of the remaining space.
            ObjectType::SA => 1,
            // The header of a redaction list that will be its spill block.
            ObjectType::OTN_UINT64_METADATA if self.bonus.is_empty() => 1,
            _ => (1 + room.saturating_sub(self.bonus.len()) / blkptr::SIZE_BYTES).min(POINTERS_MAX),
        }
    }

    pub(super) fn dnode(&self) -> Dnode {
        let pointers = self.pointer_count();
        Dnode {
            object_type: self.object_type,
            indirect_shift: self.indirect_shift,
            levels: 1,
            blkptrs: vec![BlkPtr::HOLE; pointers],
            bonus_type: self.bonus_type,
            checksum: self.checksum,
            compression: self.compression,
            flags: Dnode::FLAG_USED_BYTES,
            data_block_bytes: self.block_bytes,
            slots: self.slots,
            max_block_id: 0,
            used_bytes: 0,
            bonus: self.bonus.clone(),
            bonus_rest: Vec::new(),
            spill: None,
            endian: WRITTEN,
        }
    }
}
