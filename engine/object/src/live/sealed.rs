//! An object set that is received as its sender sealed it: encrypted with keys that are not here.
//!
//! ```text
//!   data, spill blocks   written as they came: bytes, salt, IV, MAC
//!   blocks of dnodes     made of dnodes as they came; salt, IV and MAC of the sender's block
//!   indirect blocks      made here: their MAC sums up those below, and takes no key
//!   root block           the sender's portable MAC; no local one, so that accounts are made by who opens it with the key
//! ```
//! Above: `dataset::receive`. Facts: `dsl_crypto_recv_raw_objset_sync` in module/zfs/dsl_crypt.c, `receive_object` in dmu_recv.c,
//! `dbuf_prepare_encrypted_dnode_leaf` in dbuf.c.
//!
//! Invariants:
//!   * sizes, levels, pointers and last blocks of all trees, that of dnodes included, are the sender's: the MACs are over them
//!   * a block of dnodes without dnodes is a hole, whatever was said of it

use super::{NewObject, SyncContext, Tx};
use crate::{Bookmark, Error, Object, ObjectSet, Refusal, Result};
use block::{Sealed, TakenBlock, WritePolicy};
use bytes::Bytes;
use ondisk::{BlkPtr, Compression, Endian, ObjectType, Objset, Txg};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a sender says of an object set as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSet {
    /// MAC over the tree of dnodes.
    pub portable_mac: [u8; 32],
    /// Of the dnode of dnodes: `dn_checksum`.
    pub checksum: u8,
    /// `dn_compress`.
    pub compression: u8,
    /// Levels.
    pub levels: u8,
    /// log2 of the bytes of an indirect block.
    pub indirect_shift: u8,
    /// Number of the last block.
    pub max_block_id: u64,
}

impl SealedSet {
    /// Has the dnode of dnodes be as the sender's is. In a set that is there (not `is_new`) the shape must be that already.
    pub(crate) fn shape(&self, phys: &mut Objset, is_new: bool) -> Result<()> {
        let dnode = &mut phys.meta_dnode;
        if is_new {
            (dnode.levels, dnode.indirect_shift) = (self.levels, self.indirect_shift);
        }
        let found = (dnode.levels, dnode.indirect_shift, dnode.blkptrs.len());
        if found != (self.levels, self.indirect_shift, 3) {
            let sent = (self.levels, self.indirect_shift);
            let what =
                format!("the tree of dnodes has levels, shift and pointers {found:?}, the stream's {sent:?} and 3");
            return Err(Error::invalid("", what));
        }
        (dnode.checksum, dnode.compression) = (self.checksum, self.compression);
        dnode.max_block_id = self.max_block_id;
        Ok(())
    }

    pub(crate) fn start(&self) -> Sealing {
        Sealing { portable_mac: self.portable_mac, dnodes: Mutex::default() }
    }
}

/// What is known while such a set is received.
pub(crate) struct Sealing {
    portable_mac: [u8; 32],
    /// How the sender's blocks of dnodes are sealed, by number.
    dnodes: Mutex<BTreeMap<u64, Sealed>>,
}

/// An object as its sender has it.
#[derive(Debug, Clone)]
pub struct SealedObject {
    /// Number, type, sizes, and the bonus up to `dn_bonuslen`, encrypted.
    pub new: NewObject,
    /// The rest of the bonus: encryption covers all of it.
    pub bonus_rest: Vec<u8>,
    /// Levels of its tree.
    pub levels: u8,
    /// Number of its last block.
    pub max_block_id: u64,
}

impl ObjectSet {
    /// Notes how the sender's block `blkid` of dnodes is sealed.
    pub fn seal_dnodes(&self, blkid: u64, sealed: Sealed) -> Result<()> {
        self.need_sealing()?.dnodes.lock().insert(blkid, sealed);
        Ok(())
    }

    fn need_sealing(&self) -> Result<&Sealing> {
        let sealing = self.live().and_then(|live| live.sealed.as_ref());
        sealing.ok_or_else(|| Error::invalid(self.place_of_set(), "it is not received as its sender sealed it"))
    }

    /// Makes an object as its sender has it, or makes one that is there so. Blocks stay unless the shape of the tree must change.
    pub fn take_object(self: &Arc<Self>, tx: &Tx, taken: &SealedObject) -> Result<()> {
        self.need_sealing()?;
        let new = &taken.new;
        let id = new.id.ok_or_else(|| Error::invalid(self.place_of_set(), "an object without number"))?;
        let found = match self.object(id) {
            Ok(object) => Some(object),
            Err(Error::NotFound { .. }) => None,
            Err(e) => return Err(e),
        };
        let kept = found.as_ref().filter(|object| {
            let dnode = object.dnode_now();
            dnode.data_block_bytes == new.block_bytes
                && dnode.slots == new.slots
                && dnode.indirect_shift == new.indirect_shift
                && dnode.levels <= taken.levels
                && dnode.blkptrs.len() <= new.pointers()
        });
        let object = match kept {
            Some(object) => {
                let behind = taken.max_block_id.checked_add(1).and_then(|n| n.checked_mul(object.block_bytes()));
                let behind = behind.ok_or_else(|| Error::invalid(object.place(), "a last block beyond all"))?;
                object.punch(tx, behind, u64::MAX)?;
                object.clone()
            }
            None => {
                if found.is_some() {
                    self.free_object(tx, id)?;
                }
                self.create_object(tx, new)?
            }
        };
        object.put_sealed(tx, taken)
    }

    /// Writes a block of dnodes under the seal of the sender's; `old` gives the pointer that was there.
    pub(super) fn write_sealed_dnodes(
        &self,
        cx: &dyn SyncContext,
        blkid: u64,
        bytes: Bytes,
        policy: &WritePolicy,
        at: &Bookmark,
        old: &dyn Fn() -> Result<BlkPtr>,
    ) -> Result<BlkPtr> {
        if bytes.iter().all(|byte| *byte == 0) {
            let birth = Txg(cx.txg());
            return Ok(match cx.hole_birth() {
                true => BlkPtr::new_hole(ObjectType::DNODE, 0, bytes.len() as u64, birth),
                false => BlkPtr::HOLE,
            });
        }
        let told = self.need_sealing()?.dnodes.lock().get(&blkid).copied();
        let sealed = match told {
            Some(sealed) => sealed,
            // It came before the stream broke off.
            None => match old()? {
                bp if bp.is_encrypted() => Sealed { salt: bp.crypt_salt(), iv: bp.crypt_iv(), mac: bp.crypt_mac() },
                _ => {
                    let what = format!("the stream does not say how block {blkid} of dnodes is encrypted");
                    return Err(Error::corrupt(self.place_of_set(), what));
                }
            },
        };
        let lsize_bytes = bytes.len() as u64;
        let block = TakenBlock {
            bytes,
            lsize_bytes,
            compression: Compression::Off,
            endian: Endian::Little,
            sealed: Some(sealed),
        };
        cx.store().write_taken(cx.txg(), &block, policy, at, None)
    }

    /// What the root block of a set that is received sealed says.
    pub(super) fn seal_elsewhere(&self, phys: &mut Objset) {
        if let Some(sealing) = self.live().and_then(|live| live.sealed.as_ref()) {
            phys.portable_mac = sealing.portable_mac;
            phys.local_mac = [0; 32];
            phys.flags &= !Objset::FLAG_USERACCOUNTING_COMPLETE;
        }
    }
}

impl Object {
    fn put_sealed(&self, tx: &Tx, taken: &SealedObject) -> Result<()> {
        let live = self.need_live()?;
        let new = &taken.new;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            *head_changed = true;
            let head = Arc::make_mut(head);
            head.object_type = new.object_type;
            (head.bonus_type, head.checksum, head.compression) = (new.bonus_type, new.checksum, new.compression);
            head.blkptrs.resize(new.pointers().max(head.blkptrs.len()), BlkPtr::HOLE);
            (head.bonus, head.bonus_rest) = (new.bonus.clone(), taken.bonus_rest.clone());
            head.max_block_id = taken.max_block_id;
            if head.bonus.len() + head.bonus_rest.len() > head.bonus_bytes_max() {
                let what = format!("a bonus of {} bytes", head.bonus.len() + head.bonus_rest.len());
                return Err(Error::invalid(self.place(), what));
            }
            let delta = state.open_mut();
            delta.levels_min = delta.levels_min.max(taken.levels);
            Ok(())
        })?;
        live.zap.forget();
        Ok(())
    }

    /// Has the spill block written as it came.
    pub fn take_spill(&self, tx: &Tx, block: TakenBlock) -> Result<()> {
        let live = self.need_live()?;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            *head_changed = true;
            let head = Arc::make_mut(head);
            head.spill = Some(head.spill.unwrap_or(BlkPtr::HOLE));
            if head.bonus.len() + head.bonus_rest.len() > head.bonus_bytes_max() {
                head.spill = None;
                return Err(Error::invalid(self.place(), "the bonus leaves no place for a spill pointer"));
            }
            state.open_mut().spill = Some(Some(super::state::Content::Taken(Arc::new(block))));
            Ok(())
        })
    }
}
