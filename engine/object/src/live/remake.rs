//! Replaces the dnode of an existing object, for receive.

use super::{NewObject, Tx};
use crate::Object;
use errors::{Error, Refusal, Result};
use ondisk::blkptr;
use ondisk::dnode::{CORE_BYTES, SLOT_BYTES};
use std::sync::Arc;

impl NewObject {
    /// Number of block pointers that its dnode has room for.
    pub fn pointers(&self) -> usize {
        self.pointer_count()
    }
}

impl Object {
    /// Replaces type, bonus, checksum and compression by those of `new`. Contents, block size,
    /// slots and pointers are kept (`dmu_object_reclaim`).
    pub fn remake(&self, tx: &Tx, new: &NewObject) -> Result<()> {
        let live = self.need_live()?;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            let spill = if head.spill.is_some() { blkptr::SIZE_BYTES } else { 0 };
            let room = (usize::from(head.slots) * SLOT_BYTES)
                .saturating_sub(CORE_BYTES + head.blkptrs.len() * blkptr::SIZE_BYTES + spill);
            if new.bonus.len() > room {
                let what = format!("a bonus of {} bytes where {room} fit", new.bonus.len());
                return Err(Error::invalid(self.place(), what));
            }
            *head_changed = true;
            let head = Arc::make_mut(head);
            head.object_type = new.object_type;
            (head.bonus_type, head.bonus) = (new.bonus_type, new.bonus.clone());
            (head.checksum, head.compression) = (new.checksum, new.compression);
            Ok(())
        })?;
        // The cached ZAP state belongs to the old object.
        live.zap.forget();
        Ok(())
    }
    /// Makes `blkid` the last block, even if it is a hole. There must be nothing after it.
    pub fn set_last_block(&self, tx: &Tx, blkid: u64) -> Result<()> {
        let live = self.need_live()?;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            if head.max_block_id != blkid {
                *head_changed = true;
                Arc::make_mut(head).max_block_id = blkid;
            }
            Ok(())
        })
    }
}
