//! Changes to a live object set and its objects: creates and frees objects, and sets what a dnode
//! or the root block holds. Contents: `write`.

use super::numbers::{Mask, run};
use super::set::LiveSet;
use super::state::{Buffer, Content, LiveObject};
use super::{NewObject, SyncContext, Tx};
use crate::{Object, ObjectSet};
use errors::{Error, Refusal, Result};
use ondisk::dnode::SLOTS_PER_BLOCK;
use ondisk::objset::ZilHeader;
use ondisk::{BlkPtr, Dnode, ObjectType};
use std::sync::Arc;

/// Size of a root block before pool version 15 (`OBJSET_PHYS_SIZE_V1`).
const SMALL_ROOT_BYTES: usize = 1024;

impl ObjectSet {
    pub(crate) fn need_live(&self) -> Result<&LiveSet> {
        self.live().ok_or_else(|| Refusal::ReadOnly.at(self.place_of_set()))
    }

    fn used_slots(self: &Arc<Self>, live: &LiveSet, block: u64) -> Result<Mask> {
        let (mut gone, mut taken) = (0, 0);
        for at in 0..SLOTS_PER_BLOCK as u32 {
            let Some(object) = live.known(block * SLOTS_PER_BLOCK + u64::from(at)) else { continue };
            let state = object.state.read();
            gone |= state.synced.as_ref().map_or(0, |old| run(old.slots) << at);
            taken |= state.head.as_ref().map_or(0, |head| run(head.slots) << at);
        }
        // A current object may be in slots that a freed one had, whichever number is lower.
        Ok(self.slots_on_disk(block)? & !gone | taken)
    }

    /// Creates an object. Fails with [`Refusal::Exists`] if the requested number is in use.
    pub fn create_object(self: &Arc<Self>, tx: &Tx, new: &NewObject) -> Result<Object> {
        let live = self.need_live()?;
        super::write::check_can_be_sealed(self.keys().map(Arc::as_ref), new.block_bytes.into())
            .map_err(|e| e.at(&self.place_of_set()))?;
        let id = {
            let mut numbers = live.numbers.lock();
            match new.id {
                None => numbers.take(new.slots, |block| self.used_slots(live, block))?,
                Some(id) => {
                    if !numbers.claim(id, new.slots, |block| self.used_slots(live, block))? {
                        return Err(Refusal::Exists.at(format!("{}: object {id}", self.place_of_set())));
                    }
                    id
                }
            }
        };
        let object = live.get_or_absent(id);
        object.change(tx.txg(), |state, head_changed| {
            state.head = Some(Arc::new(new.dnode()));
            *head_changed = true;
            // The number was freed recently and the free is not synced: old contents must not show.
            if state.synced.is_some() || state.syncing.is_some() {
                state.open_mut().wiped = true;
            }
        });
        object.zap.forget();
        self.object(id)
    }

    /// Frees an object and all its blocks. Fails with [`Error::NotFound`] if it does not exist.
    pub fn free_object(self: &Arc<Self>, tx: &Tx, id: u64) -> Result<()> {
        let live = self.need_live()?;
        // Fails if the object does not exist.
        self.object(id)?;
        let Some(object) = live.known(id) else {
            return Err(Error::not_found(self.place_of_set(), format!("object {id}")));
        };
        let slots = object.change(tx.txg(), |state, head_changed| {
            let slots = state.head.take().map_or(1, |head| head.slots);
            *head_changed = true;
            let delta = state.open_mut();
            delta.wipe();
            slots
        });
        object.zap.forget();
        let mut numbers = live.numbers.lock();
        match tx.is_syncing() {
            true => numbers.give(id, slots),
            false => numbers.give_later(tx.txg(), id, slots),
        }
        Ok(())
    }

    /// Creates the missing accounting objects: ZAPs for users, groups, and with `projects` also
    /// projects.
    pub fn create_accounting(self: &Arc<Self>, tx: &Tx, projects: bool) -> Result<()> {
        let live = self.need_live()?;
        for object in &live.accounting[..if projects { 3 } else { 2 }] {
            if object.state.read().head.is_some() {
                continue;
            }
            let new = NewObject::new(ObjectType::USERGROUP_USED, 512);
            object.change(tx.txg(), |state, head_changed| {
                state.head = Some(Arc::new(new.dnode()));
                *head_changed = true;
            });
        }
        Ok(())
    }

    /// Header of the intent log for the next root block.
    pub fn zil_header(&self) -> ZilHeader {
        self.live().map_or(self.phys().zil, |live| live.root.lock().zil)
    }

    /// Sets the header of the intent log. Only in syncing context, so that it reaches the disk with
    /// its txg.
    pub fn set_zil_header(&self, header: ZilHeader) -> Result<()> {
        let live = self.need_live()?;
        live.root.lock().zil = header;
        live.root_changed.store(true, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    /// `os_flags` for the next root block.
    pub fn flags(&self) -> u64 {
        self.live().map_or(self.phys().flags, |live| live.root.lock().flags)
    }

    /// Sets `os_flags`; only in syncing context.
    pub fn set_flags(&self, flags: u64) -> Result<()> {
        let live = self.need_live()?;
        live.root.lock().flags = flags;
        live.root_changed.store(true, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    /// Makes the root block of a new set as small as before pool version 15: without accounting by
    /// user and group. Only in syncing context.
    pub fn use_small_root(&self) -> Result<()> {
        self.need_live()?.root.lock().size_bytes = SMALL_ROOT_BYTES;
        Ok(())
    }

    /// Pointer to the root block; a hole before the first sync.
    pub fn root(&self) -> BlkPtr {
        self.live().map_or(BlkPtr::HOLE, |live| live.root.lock().bp)
    }

    /// Frees the whole tree: all objects, all blocks, and the root block. The object set must not
    /// be used afterwards.
    pub fn destroy(self: &Arc<Self>, cx: &dyn SyncContext) -> Result<()> {
        self.free_everything(cx)
    }
}

impl Object {
    pub(crate) fn need_live(&self) -> Result<&Arc<LiveObject>> {
        self.live().ok_or_else(|| Refusal::ReadOnly.at(self.place()))
    }

    /// Changes the latest dnode.
    fn change_head(&self, tx: &Tx, change: impl FnOnce(&mut Dnode) -> Result<()>) -> Result<()> {
        let live = self.need_live()?;
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            *head_changed = true;
            change(Arc::make_mut(head))
        })
    }

    /// Replaces the bonus. Fails with [`Error::Invalid`] if it does not fit next to the pointers.
    pub fn set_bonus(&self, tx: &Tx, bonus: Vec<u8>) -> Result<()> {
        self.change_head(tx, |head| {
            if bonus.len() > head.bonus_bytes_max() {
                let what = format!("a bonus of {} bytes where {} fit", bonus.len(), head.bonus_bytes_max());
                return Err(Error::invalid(self.place(), what));
            }
            head.bonus = bonus;
            Ok(())
        })
    }

    /// Replaces the bonus and its type.
    pub fn set_bonus_typed(&self, tx: &Tx, bonus_type: ObjectType, bonus: Vec<u8>) -> Result<()> {
        self.set_bonus(tx, bonus)?;
        self.change_head(tx, |head| {
            head.bonus_type = bonus_type;
            Ok(())
        })
    }

    /// Changes the object's type, for example when a DSL directory becomes a ZAP
    /// (`dmu_object_zapify`).
    pub fn set_type(&self, tx: &Tx, object_type: ObjectType) -> Result<()> {
        self.change_head(tx, |head| {
            head.object_type = object_type;
            Ok(())
        })
    }

    /// Replaces the spill block's contents, or removes it. Contents are padded to whole sectors.
    /// Fails with [`Refusal::AttributeTooLarge`] above 128 KiB.
    pub fn set_spill(&self, tx: &Tx, contents: Option<Vec<u8>>) -> Result<()> {
        let live = self.need_live()?;
        let contents = contents.map(|mut bytes| {
            bytes.resize(bytes.len().next_multiple_of(512).max(512), 0);
            bytes
        });
        if contents.as_ref().is_some_and(|c| c.len() > 128 << 10) {
            return Err(Refusal::AttributeTooLarge.at(self.place()));
        }
        live.change(tx.txg(), |state, head_changed| {
            let Some(head) = &mut state.head else { return Err(Refusal::Stale.at(self.place())) };
            *head_changed = true;
            let head = Arc::make_mut(head);
            // The space of the pointer is in use from now on, before its value is known.
            head.spill = contents.as_ref().map(|_| head.spill.unwrap_or(BlkPtr::HOLE));
            if head.bonus.len() > head.bonus_bytes_max() {
                head.spill = None;
                return Err(Error::invalid(self.place(), "the bonus leaves no place for a spill pointer"));
            }
            state.open_mut().spill = Some(contents.map(|bytes| Content::Plain(Buffer::new(bytes))));
            Ok(())
        })
    }
}
