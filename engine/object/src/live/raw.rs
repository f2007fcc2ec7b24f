//! Raw receive: an object set encrypted with keys that are not loaded.
//!
//! ```text
//!   data, spill blocks   written as received: bytes, salt, IV, MAC
//!   blocks of dnodes     built from received dnodes; salt, IV and MAC of the sender's block
//!   indirect blocks      built here: their MAC is computed from those below, without a key
//!   root block           the sender's portable MAC; no local one, so that accounting is rebuilt
//!                        when the set is opened with the key
//! ```
//! Above: `dataset::receive`. Facts: `dsl_crypto_recv_raw_objset_sync` in module/zfs/dsl_crypt.c,
//! `receive_object` in dmu_recv.c, `dbuf_prepare_encrypted_dnode_leaf` in dbuf.c.
//!
//! Invariants:
//!   * sizes, levels, pointers and last blocks of all trees, that of dnodes included, are the
//!     sender's, because the MACs cover them
//!   * a block of dnodes without dnodes is a hole, whatever the stream says

use super::raw_objset::RawState;
use super::{NewObject, SyncContext, Tx};
use crate::{Object, ObjectSet};
use block::{Bookmark, CryptParams, RawBlock, WritePolicy};
use bytes::Bytes;
use errors::{Error, Refusal, Result};
use ondisk::{BlkPtr, Compression, Endian, ObjectType, Objset, Txg};
use std::sync::Arc;

/// An object in a raw stream.
#[derive(Debug, Clone)]
pub struct RawObject {
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
    /// Records the encryption parameters of the sender's block `blkid` of dnodes.
    pub fn seal_dnodes(&self, blkid: u64, sealed: CryptParams) -> Result<()> {
        self.need_sealing()?.dnodes.lock().insert(blkid, sealed);
        Ok(())
    }

    fn need_sealing(&self) -> Result<&RawState> {
        let sealing = self.live().and_then(|live| live.sealed.as_ref());
        sealing.ok_or_else(|| Error::invalid(self.place_of_set(), "it is not received as its sender sealed it"))
    }

    /// Creates an object from a raw stream, or updates an existing one. Existing blocks are kept
    /// unless the shape of the tree must change.
    pub fn put_raw_object(self: &Arc<Self>, tx: &Tx, raw: &RawObject) -> Result<()> {
        self.need_sealing()?;
        let new = &raw.new;
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
                && dnode.levels <= raw.levels
                && dnode.blkptrs.len() <= new.pointers()
        });
        let object = match kept {
            Some(object) => {
                let behind = raw.max_block_id.checked_add(1).and_then(|n| n.checked_mul(object.block_bytes()));
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
        object.put_sealed(tx, raw)
    }

    /// Writes a block of dnodes with the sender's encryption parameters; `old` returns the previous
    /// pointer.
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
        let known = self.need_sealing()?.dnodes.lock().get(&blkid).copied();
        let sealed = match known {
            Some(sealed) => sealed,
            // It was received before the stream was interrupted.
            None => match old()? {
                bp if bp.is_encrypted() => {
                    CryptParams { salt: bp.crypt_salt(), iv: bp.crypt_iv(), mac: bp.crypt_mac() }
                }
                _ => {
                    let what = format!("the stream has no encryption parameters for block {blkid} of dnodes");
                    return Err(Error::corrupt(self.place_of_set(), what));
                }
            },
        };
        let lsize_bytes = bytes.len() as u64;
        let block = RawBlock {
            bytes,
            lsize_bytes,
            compression: Compression::Off,
            endian: Endian::Little,
            sealed: Some(sealed),
        };
        cx.store().write_raw(cx.txg(), &block, policy, at, None)
    }

    /// Sets the sender's MAC in the root block of a raw receive.
    pub(super) fn seal_elsewhere(&self, phys: &mut Objset) {
        if let Some(sealing) = self.live().and_then(|live| live.sealed.as_ref()) {
            phys.portable_mac = sealing.portable_mac;
            phys.local_mac = [0; 32];
            phys.flags &= !Objset::FLAG_USERACCOUNTING_COMPLETE;
        }
    }
}

impl Object {
    fn put_sealed(&self, tx: &Tx, raw: &RawObject) -> Result<()> {
        let live = self.need_live()?;
        let new = &raw.new;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            *head_changed = true;
            let head = Arc::make_mut(head);
            head.object_type = new.object_type;
            (head.bonus_type, head.checksum, head.compression) = (new.bonus_type, new.checksum, new.compression);
            head.blkptrs.resize(new.pointers().max(head.blkptrs.len()), BlkPtr::HOLE);
            (head.bonus, head.bonus_rest) = (new.bonus.clone(), raw.bonus_rest.clone());
            head.max_block_id = raw.max_block_id;
            if head.bonus.len() + head.bonus_rest.len() > head.bonus_bytes_max() {
                let what = format!("a bonus of {} bytes", head.bonus.len() + head.bonus_rest.len());
                return Err(Error::invalid(self.place(), what));
            }
            let delta = state.open_mut();
            delta.levels_min = delta.levels_min.max(raw.levels);
            Ok(())
        })?;
        live.zap.forget();
        Ok(())
    }

    /// Sets the spill block as received.
    pub fn put_raw_spill(&self, tx: &Tx, block: RawBlock) -> Result<()> {
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
            state.open_mut().spill = Some(Some(super::state::Content::Raw(Arc::new(block))));
            Ok(())
        })
    }
}
