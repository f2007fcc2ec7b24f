//! The live part of an object set: its objects in memory, free numbers, and the next root block.

use super::new_object::NewObject;
use super::numbers::Numbers;
use super::raw_objset::RawState;
use super::state::{Dirty, LiveObject, WRITTEN};
use errors::Result;
use host::sync::Mutex;
use ondisk::dnode::BLOCK_BYTES;
use ondisk::objset::ZilHeader;
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, ObjsetKind};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Levels of a new object set's meta dnode: enough for 2^48 objects, so that it never has to grow
/// (`DN_META_DNODE_LEVELS`).
const META_LEVELS: u8 = 6;
/// Object number shown in messages for the accounting objects (`DMU_USERUSED_OBJECT` and its
/// neighbours).
pub(crate) const USER_USED: u64 = u64::MAX;
/// Live objects kept in memory before unused ones are dropped; about 1 KiB each.
const OBJECTS_MAX: usize = 64 << 10;
const SHARDS: usize = 16;

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
        let phys = &{
            let mut phys = phys.clone();
            phys.make_little();
            phys
        };
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

    pub fn get_or_absent(&self, id: u64) -> Arc<LiveObject> {
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

    /// Numbers of live objects greater than `after` that exist, the smallest first.
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

#[cfg(test)]
mod tests {
    use super::*;
    use errors::Error;

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
