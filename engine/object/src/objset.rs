//! Object sets: numbered objects under one root block.
//!
//! Below: `block::Store`. Above: everything. ZFS name: DMU object set.

use crate::live::SealedSet;
use crate::live::sealed::Sealing;
use crate::live::set::{LiveSet, new_phys};
use crate::live::state::LiveObject;
use crate::{Bookmark, Error, Object, Place, Result};
use block::Store;
use block::crypt::DatasetKeys;
use ondisk::dnode::{BLOCK_BYTES, SLOT_BYTES};
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, ObjsetKind};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Dnodes in one block of them.
const SLOTS_PER_BLOCK: u64 = (BLOCK_BYTES / SLOT_BYTES) as u64;
/// Objects kept open. Each costs about 1 KiB.
const OBJECTS_MAX: usize = 4096;
/// Blocks of dnodes in a row that hold none: 32 million objects deleted. Guessed; more are pointers in a circle.
const EMPTY_BLOCKS_MAX: u32 = 1 << 20;
/// Bytes of the root block of a new object set: room for accounting by user, group and project (`OBJSET_PHYS_SIZE_V3`).
const ROOT_BYTES: usize = 4096;
/// Object number shown in messages for the accounting objects (`DMU_USERUSED_OBJECT` and its neighbours).
pub(crate) const USER_USED: u64 = u64::MAX;

/// A dataset's objects, or the pool's own (the MOS).
pub struct ObjectSet {
    store: Arc<Store>,
    id: u64,
    phys: Objset,
    keys: Option<Arc<DatasetKeys>>,
    /// Encrypted, and opened without a key: structure can be read, secrets cannot.
    sealed: bool,
    meta: Object,
    open: Mutex<HashMap<u64, Object>>,
    /// Of a set that can be written.
    live: Option<LiveSet>,
}

impl ObjectSet {
    /// Opens an object set for writing: with `root`, the one that is there, else a new one of `kind`.
    pub fn open_live(
        store: Arc<Store>,
        root: Option<&BlkPtr>,
        id: u64,
        keys: Option<Arc<DatasetKeys>>,
        kind: ObjsetKind,
    ) -> Result<Arc<Self>> {
        let (phys, bp, size_bytes) = match root.filter(|bp| !bp.is_hole()) {
            Some(bp) => (Self::load_phys(&store, bp, id, keys.as_deref())?, *bp, bp.lsize_bytes() as usize),
            None => (new_phys(kind, 0), BlkPtr::HOLE, ROOT_BYTES),
        };
        Ok(Self::live_of(store, id, phys, (bp, size_bytes), keys, None))
    }

    /// As [`ObjectSet::open_live`], of a set that is received as its sender sealed it: nothing in it can be read, and what is put into it
    /// is written as it came, until its root block has the sender's MAC.
    pub fn open_sealed(
        store: Arc<Store>,
        root: Option<&BlkPtr>,
        id: u64,
        kind: ObjsetKind,
        sealed: &SealedSet,
    ) -> Result<Arc<Self>> {
        let (mut phys, bp, size_bytes) = match root.filter(|bp| !bp.is_hole()) {
            Some(bp) => (Self::load_phys(&store, bp, id, None)?, *bp, bp.lsize_bytes() as usize),
            None => (new_phys(kind, 0), BlkPtr::HOLE, ROOT_BYTES),
        };
        sealed.shape(&mut phys, bp.is_hole()).at_with(|| format!("{}: object set {id}", store.name()))?;
        Ok(Self::live_of(store, id, phys, (bp, size_bytes), None, Some(sealed.start())))
    }

    fn live_of(
        store: Arc<Store>,
        id: u64,
        phys: Objset,
        (bp, size_bytes): (BlkPtr, usize),
        keys: Option<Arc<DatasetKeys>>,
        sealing: Option<Sealing>,
    ) -> Arc<Self> {
        let sealed = sealing.is_some();
        let live = LiveSet::new(&phys, bp, size_bytes, store.waiting_bytes().clone(), sealing);
        let meta = Object::of_live(store.clone(), id, &live.meta, keys.clone()).expect("the dnode of dnodes is there");
        Arc::new(Self { store, id, phys, keys, sealed, meta, open: Mutex::default(), live: Some(live) })
    }

    fn load_phys(store: &Arc<Store>, root: &BlkPtr, id: u64, keys: Option<&DatasetKeys>) -> Result<Objset> {
        let at = Bookmark { objset: id, object: 0, level: -1, blkid: 0 };
        let place = || format!("{}: object set {id}", store.name());
        if root.is_hole() {
            return Err(Error::not_found(place(), "root block"));
        }
        let block = store.read(root, &at, keys)?;
        let phys = Objset::parse(&block.data, block.endian).at_with(place)?;
        if let Some(keys) = keys
            && root.uses_crypt()
        {
            keys.verify_objset(&block.data, block.endian).at_with(place)?;
        }
        if phys.meta_dnode.object_type != ObjectType::DNODE || phys.meta_dnode.data_block_bytes as usize != BLOCK_BYTES
        {
            return Err(Error::corrupt(place(), "the first dnode is not that of the dnodes"));
        }
        Ok(phys)
    }

    pub(crate) fn live(&self) -> Option<&LiveSet> {
        self.live.as_ref()
    }

    /// Whether it is being received as its sender sealed it.
    pub fn is_sealed(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.sealed.is_some())
    }

    /// Whether it was opened for writing.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    pub(crate) fn place_of_set(&self) -> String {
        format!("{}: object set {}", self.store.name(), self.id)
    }

    /// Bits of the slots in use in a block of dnodes.
    pub(crate) fn slots_on_disk(&self, block: u64) -> Result<u32> {
        let Some(block) = self.meta.block(block)? else { return Ok(0) };
        let (mut mask, mut at) = (0u32, 0);
        while at < SLOTS_PER_BLOCK as usize {
            let slots = slots_at(&block.data, at);
            if block.data.get(at * SLOT_BYTES).is_some_and(|t| *t != 0) {
                (at..(at + slots).min(SLOTS_PER_BLOCK as usize)).for_each(|i| mask |= 1 << i);
            }
            at += slots;
        }
        Ok(mask)
    }

    fn live_object(&self, live: &LiveSet, id: u64) -> Result<Object> {
        let object = live.get(id, || self.dnode(id))?;
        Object::of_live(self.store.clone(), self.id, &object, self.keys.clone())
            .ok_or_else(|| Error::not_found(self.place_of_set(), format!("object {id}")))
    }

    fn live_accounting(&self, object: &Arc<LiveObject>) -> Option<Object> {
        Object::of_live(self.store.clone(), self.id, object, self.keys.clone())
    }

    /// Opens the object set whose root block is at `root`. `id` is its number in bookmarks: 0 for the MOS, else the
    /// dataset's object number. `keys` are needed to read what is encrypted.
    pub fn open(store: Arc<Store>, root: &BlkPtr, id: u64, keys: Option<Arc<DatasetKeys>>) -> Result<Arc<Self>> {
        let phys = Self::load_phys(&store, root, id, keys.as_deref())?;
        let meta = Object::from_parts(store.clone(), id, 0, phys.meta_dnode.clone(), keys.clone());
        let sealed = keys.is_none() && root.uses_crypt();
        Ok(Arc::new(Self { store, id, phys, keys, sealed, meta, open: Mutex::default(), live: None }))
    }

    /// Its number in bookmarks.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The root block.
    pub fn phys(&self) -> &Objset {
        &self.phys
    }

    /// The pool's blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The keys given when it was opened.
    pub fn keys(&self) -> Option<&Arc<DatasetKeys>> {
        self.keys.as_ref()
    }

    /// The object whose contents are all dnodes.
    pub fn meta(&self) -> &Object {
        &self.meta
    }

    /// Object `id`. Free and interior slots are [`Error::NotFound`].
    ///
    /// Of a set that can be written, it is a view of the object as it is now: contents are always the newest, dnode and bonus
    /// those of the moment.
    pub fn object(&self, id: u64) -> Result<Object> {
        if let Some(live) = &self.live {
            return self.live_object(live, id);
        }
        if let Some(found) = self.open.lock().get(&id) {
            return Ok(found.clone());
        }
        let dnode = self.dnode(id)?;
        let object = Object::from_parts(self.store.clone(), self.id, id, dnode, self.keys.clone());
        let mut open = self.open.lock();
        if open.len() >= OBJECTS_MAX {
            open.retain(|_, o| o.is_shared());
            if open.len() >= OBJECTS_MAX {
                open.clear();
            }
        }
        open.insert(id, object.clone());
        Ok(object)
    }

    fn place(&self, id: u64) -> String {
        format!("{}: object {}:{id}", self.store.name(), self.id)
    }

    /// The dnode of object `id`, read anew.
    pub fn dnode(&self, id: u64) -> Result<Dnode> {
        let missing =
            || Error::not_found(format!("{}: object set {}", self.store.name(), self.id), format!("object {id}"));
        if id == 0 {
            return Err(missing());
        }
        let block = self.meta.block(id / SLOTS_PER_BLOCK)?.ok_or_else(missing)?;
        let slot = (id % SLOTS_PER_BLOCK) as usize;
        // Walk from the start: the middle of a large dnode must not be taken for a dnode.
        let mut at = 0;
        while at < slot {
            at += slots_at(&block.data, at);
        }
        if at != slot {
            return Err(missing());
        }
        let bytes = &block.data[slot * SLOT_BYTES..];
        if self.is_sealed() {
            let dnode = Dnode::parse_whole(bytes, block.endian).at_with(|| self.place(id))?;
            return if dnode.object_type == ObjectType::NONE { Err(missing()) } else { Ok(dnode) };
        }
        let mut dnode = Dnode::parse(bytes, block.endian).at_with(|| self.place(id))?;
        if self.sealed && dnode.bonus_type.is_encrypted() {
            // Without the key these bytes are noise: better none than wrong ones.
            dnode.bonus.clear();
        }
        if dnode.object_type == ObjectType::NONE { Err(missing()) } else { Ok(dnode) }
    }

    /// The number of the first object behind `after`; `None` behind the last.
    pub fn next_object(&self, after: u64) -> Result<Option<u64>> {
        let Some(live) = &self.live else { return self.next_on_disk(after) };
        let mut at = after;
        let on_disk = loop {
            match self.next_on_disk(at)? {
                // Freed, and not yet on disk so.
                Some(id) if live.known(id).is_some_and(|o| o.state.read().head.is_none()) => at = id,
                found => break found,
            }
        };
        Ok(on_disk.into_iter().chain(live.next_known(after)).min())
    }

    fn next_on_disk(&self, after: u64) -> Result<Option<u64>> {
        let Some(mut id) = after.checked_add(1) else { return Ok(None) };
        for empty_blocks in 0u32.. {
            if id / SLOTS_PER_BLOCK > self.meta.max_block_id() {
                break;
            }
            if empty_blocks > EMPTY_BLOCKS_MAX {
                return Err(Error::corrupt(self.place(id), "blocks without dnodes, without end"));
            }
            let offset = (id / SLOTS_PER_BLOCK).saturating_mul(BLOCK_BYTES as u64);
            let Some(data) = self.meta.next_data(offset)? else { return Ok(None) };
            let blkid = data / BLOCK_BYTES as u64;
            let first = blkid * SLOTS_PER_BLOCK;
            if let Some(block) = self.meta.block(blkid)? {
                let mut at = 0;
                while at < SLOTS_PER_BLOCK as usize {
                    let found = block.data.get(at * SLOT_BYTES).is_some_and(|t| *t != 0);
                    if found && first + at as u64 >= id {
                        return Ok(Some(first + at as u64));
                    }
                    at += slots_at(&block.data, at);
                }
            }
            let Some(next) = blkid.checked_add(1).and_then(|b| b.checked_mul(SLOTS_PER_BLOCK)) else { return Ok(None) };
            id = next;
        }
        Ok(None)
    }

    fn accounting(&self, dnode: Option<&Dnode>, number: u64) -> Option<Object> {
        Some(Object::from_parts(self.store.clone(), self.id, number, dnode?.clone(), self.keys.clone()))
    }

    /// The object that counts space by user.
    pub fn user_used(&self) -> Option<Object> {
        if let Some(live) = &self.live {
            return self.live_accounting(&live.accounting[0]);
        }
        self.accounting(self.phys.user_used.as_ref(), USER_USED)
    }

    /// The object that counts space by group.
    pub fn group_used(&self) -> Option<Object> {
        if let Some(live) = &self.live {
            return self.live_accounting(&live.accounting[1]);
        }
        self.accounting(self.phys.group_used.as_ref(), USER_USED - 1)
    }

    /// The object that counts space by project.
    pub fn project_used(&self) -> Option<Object> {
        if let Some(live) = &self.live {
            return self.live_accounting(&live.accounting[2]);
        }
        self.accounting(self.phys.project_used.as_ref(), USER_USED - 2)
    }
}

fn slots_at(block: &[u8], slot: usize) -> usize {
    block.get(slot * SLOT_BYTES..).map_or(1, Dnode::slots_at)
}
