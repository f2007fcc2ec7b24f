//! The live part of an object set: its objects in memory, free numbers, and the next root block.

use super::numbers::{Mask, Numbers, run};
use super::raw::RawState;
use super::state::{Buffer, Content, Dirty, LiveObject, WRITTEN};
use super::{SyncContext, Tx};
use crate::objset::USER_USED;
use crate::{Error, Object, ObjectSet, Refusal, Result};
use ondisk::dnode::{BLOCK_BYTES, CORE_BYTES, SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::objset::ZilHeader;
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, ObjsetKind, blkptr};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// log2 of the size of an indirect block, in bytes, as in OpenZFS.
pub const INDIRECT_SHIFT: u8 = 17;
/// Levels of a new object set's meta dnode: enough for 2^48 objects, so that it never has to grow
/// (`DN_META_DNODE_LEVELS`).
const META_LEVELS: u8 = 6;
/// Live objects kept in memory before unused ones are dropped; about 1 KiB each.
const OBJECTS_MAX: usize = 64 << 10;
const SHARDS: usize = 16;
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
            _ => (1 + room.saturating_sub(self.bonus.len()) / blkptr::SIZE_BYTES).min(POINTERS_MAX),
        }
    }

    fn dnode(&self) -> Dnode {
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

pub(crate) struct Root {
    pub bp: BlkPtr,
    pub zil: ZilHeader,
    pub flags: u64,
    pub size_bytes: usize,
}

/// One shard of the live objects, selected by number.
#[derive(Default)]
struct Shard {
    objects: HashMap<u64, Arc<LiveObject>>,
    /// Number of objects at which unused ones are looked for again: twice as many as were in use
    /// the last time, so that the scan costs each new object little, however many are in use.
    full_at: usize,
    /// Counts the times that objects were dropped.
    drops: u64,
}

impl Shard {
    fn get_or_insert(&mut self, id: u64, make: impl FnOnce() -> Arc<LiveObject>) -> Arc<LiveObject> {
        if let Some(found) = self.objects.get(&id) {
            return found.clone();
        }
        if self.objects.len() >= self.full_at.max(OBJECTS_MAX / SHARDS) {
            self.objects.retain(|_, o| Arc::strong_count(o) > 1);
            self.drops += 1;
            self.full_at = 2 * self.objects.len();
        }
        self.objects.entry(id).or_insert_with(make).clone()
    }
}

pub(crate) struct LiveSet {
    shards: [Mutex<Shard>; SHARDS],
    pub meta: Arc<LiveObject>,
    /// User, group and project accounting; these dnodes are in the root block, not under the meta
    /// dnode.
    pub accounting: [Arc<LiveObject>; 3],
    pub numbers: Mutex<Numbers>,
    pub dirty: Arc<Dirty>,
    pub root: Mutex<Root>,
    /// The root block must be written even if no object changed.
    pub root_changed: std::sync::atomic::AtomicBool,
    /// State of a raw receive.
    pub sealed: Option<RawState>,
}

impl LiveSet {
    pub fn new(
        phys: &Objset,
        bp: BlkPtr,
        size_bytes: usize,
        waiting: Arc<AtomicU64>,
        sealed: Option<RawState>,
    ) -> Self {
        let dirty = Dirty::new(waiting);
        let accounting = [&phys.user_used, &phys.group_used, &phys.project_used];
        let mut number = 0;
        let accounting = accounting.map(|dnode| {
            number += 1;
            // Not listed as dirty: each sync looks at them anyway.
            LiveObject::new(USER_USED - (number - 1), dnode.clone().map(Arc::new), Arc::default())
        });
        let cursor = phys.meta_dnode.max_block_id;
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            meta: LiveObject::new(0, Some(Arc::new(phys.meta_dnode.clone())), Arc::default()),
            accounting,
            numbers: Mutex::new(Numbers::new(cursor)),
            dirty,
            root: Mutex::new(Root { bp, zil: phys.zil, flags: phys.flags, size_bytes }),
            root_changed: sealed.is_some().into(),
            sealed,
        }
    }

    fn shard(&self, id: u64) -> &Mutex<Shard> {
        &self.shards[(id % SHARDS as u64) as usize]
    }

    pub fn known(&self, id: u64) -> Option<Arc<LiveObject>> {
        self.shard(id).lock().objects.get(&id).cloned()
    }

    /// The object, loaded with `load` if it is not in memory.
    pub fn get(&self, id: u64, load: impl Fn() -> Result<Dnode>) -> Result<Arc<LiveObject>> {
        loop {
            let drops = {
                let shard = self.shard(id).lock();
                if let Some(found) = shard.objects.get(&id) {
                    return Ok(found.clone());
                }
                shard.drops
            };
            let loaded = LiveObject::new(id, Some(Arc::new(load()?)), self.dirty.clone());
            let mut shard = self.shard(id).lock();
            // The loaded state may be outdated if the object was changed or freed meanwhile, and
            // then dropped.
            if shard.drops == drops || shard.objects.contains_key(&id) {
                return Ok(shard.get_or_insert(id, || loaded));
            }
        }
    }

    fn get_or_absent(&self, id: u64) -> Arc<LiveObject> {
        self.shard(id).lock().get_or_insert(id, || LiveObject::new(id, None, self.dirty.clone()))
    }

    /// Drops an object that was freed, once no txg needs it any more, unless it is still in use.
    pub fn drop_gone(&self, object: Arc<LiveObject>) {
        if !object.state.read().is_gone() {
            return;
        }
        let mut shard = self.shard(object.id).lock();
        let is_it = shard.objects.get(&object.id).is_some_and(|known| Arc::ptr_eq(known, &object));
        // Only the map and this function hold it. A thread that has changed it since the check
        // above would have put it on the list of dirty objects, which holds it too; and no thread
        // can get it while the shard is locked.
        if is_it && Arc::strong_count(&object) == 2 {
            shard.objects.remove(&object.id);
            shard.drops += 1;
        }
    }

    /// Numbers of live objects behind `after` that exist, the smallest first.
    pub fn next_known(&self, after: u64) -> Option<u64> {
        let exists = |o: &LiveObject| o.state.read().head.is_some();
        let of_shard = |s: &Mutex<Shard>| {
            s.lock().objects.iter().filter(|(id, o)| **id > after && exists(o)).map(|(id, _)| *id).min()
        };
        self.shards.iter().filter_map(of_shard).min()
    }
}

/// The meta dnode of a new object set.
pub(crate) fn new_meta_dnode() -> Dnode {
    Dnode { levels: META_LEVELS, ..NewObject::new(ObjectType::DNODE, BLOCK_BYTES as u32).dnode() }
}

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

/// A new object set's root block in memory.
pub(crate) fn new_phys(kind: ObjsetKind, flags: u64) -> Objset {
    Objset {
        meta_dnode: new_meta_dnode(),
        zil: ZilHeader::EMPTY,
        kind,
        flags,
        portable_mac: [0; 32],
        local_mac: [0; 32],
        user_used: None,
        group_used: None,
        project_used: None,
        endian: WRITTEN,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn live_set() -> LiveSet {
        LiveSet::new(&new_phys(ObjsetKind::Other, 0), BlkPtr::HOLE, 4096, Arc::default(), None)
    }

    #[test]
    fn a_set_that_is_dropped_after_many_txgs_leaves_nothing_in_memory() {
        let live = live_set();
        let kept: Vec<_> = live.accounting.iter().chain([&live.meta]).cloned().collect();
        for txg in 1..100 {
            for object in &kept {
                object.change(txg, |_, _| ());
                object.quiesce(txg);
                object.publish(None);
                assert!(object.dirty.list(txg).is_empty(), "each txg once stayed in a list that nothing read");
            }
        }
        let weak: Vec<_> = kept.iter().map(Arc::downgrade).collect();
        drop((live, kept));
        assert!(weak.iter().all(|object| object.upgrade().is_none()), "the lists once held the objects that held them");
    }

    #[test]
    fn a_freed_object_leaves_memory_with_the_txg_that_frees_it() {
        let live = live_set();
        let sync = |txg| {
            for object in live.dirty.take(txg) {
                object.quiesce(txg);
                let head = object.state.read().head.as_deref().cloned();
                object.publish(head);
                live.drop_gone(object);
            }
        };
        let make = |txg| {
            let dnode = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, 4096).dnode();
            live.get_or_absent(7).change(txg, |state, _| state.head = Some(Arc::new(dnode)));
        };
        let free = |txg| live.known(7).expect("in memory").change(txg, |state, _| state.head = None);
        make(1);
        sync(1);
        free(2);
        assert!(live.known(7).is_some(), "it is on disk until the txg is synced");
        sync(2);
        assert!(live.known(7).is_none());
        // One that is made again in the next txg stays, and so does one that is in use.
        make(3);
        free(3);
        let object = live.known(7).expect("in memory");
        object.quiesce(3);
        make(4);
        drop(object);
        sync(3);
        assert!(live.known(7).is_some());
        sync(4);
        let held = live.known(7).expect("in memory");
        free(5);
        sync(5);
        assert!(Arc::ptr_eq(&held, &live.known(7).expect("in use")));
    }

    #[test]
    fn a_freed_object_does_not_come_back_with_a_dnode_that_was_read_before() {
        let live = live_set();
        let reads = std::cell::Cell::new(0);
        let found = live.get(7, || {
            reads.set(reads.get() + 1);
            if reads.get() > 1 {
                return Err(Error::not_found("test", "object 7"));
            }
            let dnode = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, 4096).dnode();
            // Another thread loads it as well, and frees it.
            live.shard(7).lock().get_or_insert(7, || LiveObject::new(7, None, live.dirty.clone()));
            live.drop_gone(live.known(7).expect("in memory"));
            Ok(dnode)
        });
        assert!(matches!(found, Err(Error::NotFound { .. })));
        assert!(live.known(7).is_none());
    }

    #[test]
    fn objects_in_use_are_not_all_looked_at_for_each_new_one() {
        // Objects in use cannot be dropped. Each new object used to scan all others, which took
        // minutes here.
        let count = 40 * (OBJECTS_MAX / SHARDS) as u64;
        let mut shard = Shard::default();
        let mut add = |id| shard.get_or_insert(id, || LiveObject::new(id, None, Arc::default()));
        let held: Vec<_> = (0..count).map(&mut add).collect();
        drop(held);
        // Unused objects are dropped once there are twice as many as were in use.
        for id in count..3 * count {
            add(id);
        }
        assert!(shard.objects.len() as u64 <= count, "{}", shard.objects.len());
        assert!(shard.objects.contains_key(&(3 * count - 1)));
    }
}
