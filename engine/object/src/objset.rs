//! Object sets: numbered objects under one root block.
//!
//! Below: `block::Store`. Above: everything. ZFS name: DMU object set.

use crate::Object;
use crate::live::raw_objset::{RawObjset, RawState};
use crate::live::set::{LiveSet, USER_USED, new_phys};
use crate::live::state::LiveObject;
use block::crypt::DatasetKeys;
use block::{Bookmark, Store, WriteStore};
use errors::{Error, Place, Result};
use host::sync::Mutex;
use ondisk::dnode::{BLOCK_BYTES, SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, ObjsetKind};
use std::collections::HashMap;
use std::sync::Arc;

/// Object numbers are below this (`DN_MAX_OBJECT` in dnode.h).
const NUMBERS_MAX: u64 = 1 << 48;
/// Objects kept open. Each costs about 1 KiB.
const OBJECTS_MAX: usize = 4096;
/// Limit of consecutive empty blocks of dnodes: 32 million deleted objects. Guessed; more of them
/// are a pointer cycle.
const EMPTY_BLOCKS_MAX: u32 = 1 << 20;
/// Size of the root block of a new object set, in bytes: includes user, group and project
/// accounting (`OBJSET_PHYS_SIZE_V3`).
const ROOT_BYTES: usize = 4096;

/// The objects of a dataset, or of the pool itself (the MOS).
pub struct ObjectSet {
    store: Arc<Store>,
    id: u64,
    phys: Objset,
    keys: Option<Arc<DatasetKeys>>,
    /// Encrypted, and opened without a key: the structure is readable, encrypted contents are not.
    sealed: bool,
    meta: Object,
    open: Mutex<HashMap<u64, Object>>,
    /// State of a set that was opened for writing.
    live: Option<LiveSet>,
}

/// Refuses a set whose dnodes end beyond the largest object number, because new numbers are
/// allocated from its last block on.
fn check_numbers(phys: &Objset, id: u64) -> Result<()> {
    match phys.meta_dnode.max_block_id {
        blocks if blocks < NUMBERS_MAX / SLOTS_PER_BLOCK => Ok(()),
        blocks => {
            let what = format!("the last block of dnodes is {blocks:#x}, expected less than 2^43");
            Err(Error::corrupt(&*format!("objset {id}"), what))
        }
    }
}

impl ObjectSet {
    /// Opens an object set for writing: the one at `root` or, without one, a new one of `kind`.
    ///
    /// The set keeps what transactions change in memory, and itself only reads: changes reach the
    /// disk when [`ObjectSet::sync`] gets the same store from its context.
    pub fn open_live(
        store: &WriteStore,
        root: Option<&BlkPtr>,
        id: u64,
        keys: Option<Arc<DatasetKeys>>,
        kind: ObjsetKind,
    ) -> Result<Arc<Self>> {
        let (phys, bp, size_bytes) = match root.filter(|bp| !bp.is_hole()) {
            Some(bp) => (Self::load_phys(store.reader(), bp, id, keys.as_deref())?, *bp, bp.lsize_bytes() as usize),
            None => (new_phys(kind, 0), BlkPtr::HOLE, ROOT_BYTES),
        };
        check_numbers(&phys, id)?;
        Ok(Self::live_of(store, id, phys, (bp, size_bytes), keys, None))
    }

    /// As [`ObjectSet::open_live`], for a raw receive: nothing in the set can be read, and blocks
    /// are written as they were received, until its root block has the sender's MAC.
    pub fn open_raw(
        store: &WriteStore,
        root: Option<&BlkPtr>,
        id: u64,
        kind: ObjsetKind,
        sealed: &RawObjset,
    ) -> Result<Arc<Self>> {
        let (mut phys, bp, size_bytes) = match root.filter(|bp| !bp.is_hole()) {
            Some(bp) => (Self::load_phys(store.reader(), bp, id, None)?, *bp, bp.lsize_bytes() as usize),
            None => (new_phys(kind, 0), BlkPtr::HOLE, ROOT_BYTES),
        };
        sealed.shape(&mut phys, bp.is_hole()).at_with(|| format!("{}: object set {id}", store.name()))?;
        Ok(Self::live_of(store, id, phys, (bp, size_bytes), None, Some(sealed.start())))
    }

    fn live_of(
        store: &WriteStore,
        id: u64,
        phys: Objset,
        (bp, size_bytes): (BlkPtr, usize),
        keys: Option<Arc<DatasetKeys>>,
        sealing: Option<RawState>,
    ) -> Arc<Self> {
        let sealed = sealing.is_some();
        let live = LiveSet::new(&phys, bp, size_bytes, store.waiting_bytes().clone(), sealing);
        let store = store.reader().clone();
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

    /// Whether this is the target of a raw receive.
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

    /// Bit mask of the slots in use in block `block` of dnodes.
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

    /// Opens the object set with the root block at `root`, read-only. `id` is its number in
    /// bookmarks: 0 for the MOS, otherwise the dataset's object number. `keys` are needed to read
    /// encrypted blocks.
    pub fn open(store: Arc<Store>, root: &BlkPtr, id: u64, keys: Option<Arc<DatasetKeys>>) -> Result<Arc<Self>> {
        let phys = Self::load_phys(&store, root, id, keys.as_deref())?;
        let meta = Object::from_parts(store.clone(), id, 0, phys.meta_dnode.clone(), keys.clone());
        let sealed = keys.is_none() && root.uses_crypt();
        Ok(Arc::new(Self { store, id, phys, keys, sealed, meta, open: Mutex::default(), live: None }))
    }

    /// Number in bookmarks: 0 for the MOS.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The root block, as it was when the set was opened.
    pub fn phys(&self) -> &Objset {
        &self.phys
    }

    /// The pool's blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The keys given on opening.
    pub fn keys(&self) -> Option<&Arc<DatasetKeys>> {
        self.keys.as_ref()
    }

    /// The meta dnode's object, whose contents are all dnodes.
    pub fn meta(&self) -> &Object {
        &self.meta
    }

    /// Object `id`. Fails with [`Error::NotFound`] for free and interior slots.
    ///
    /// For a set opened for writing, this is a view of the current object: contents are always the
    /// latest, dnode and bonus are those at the time of the call.
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

    /// Reads the dnode of object `id`. Fails with [`Error::NotFound`] for free and interior slots.
    pub fn dnode(&self, id: u64) -> Result<Dnode> {
        let missing =
            || Error::not_found(format!("{}: object set {}", self.store.name(), self.id), format!("object {id}"));
        if id == 0 {
            return Err(missing());
        }
        let block = self.meta.block(id / SLOTS_PER_BLOCK)?.ok_or_else(missing)?;
        let slot = (id % SLOTS_PER_BLOCK) as usize;
        // Walk from the start, so that the middle of a large dnode is not taken for a dnode.
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
            // Without the key these bytes are ciphertext.
            dnode.bonus.clear();
        }
        if dnode.object_type == ObjectType::NONE { Err(missing()) } else { Ok(dnode) }
    }

    /// Number of the first object after `after`; `None` after the last one.
    pub fn next_object(&self, after: u64) -> Result<Option<u64>> {
        let Some(live) = &self.live else { return self.next_on_disk(after) };
        let mut at = after;
        let on_disk = loop {
            match self.next_on_disk(at)? {
                // Freed, but the free is not on disk yet.
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

    /// The object with space accounting by user, if there is one.
    pub fn user_used(&self) -> Option<Object> {
        if let Some(live) = &self.live {
            return self.live_accounting(&live.accounting[0]);
        }
        self.accounting(self.phys.user_used.as_ref(), USER_USED)
    }

    /// The object with space accounting by group, if there is one.
    pub fn group_used(&self) -> Option<Object> {
        if let Some(live) = &self.live {
            return self.live_accounting(&live.accounting[1]);
        }
        self.accounting(self.phys.group_used.as_ref(), USER_USED - 1)
    }

    /// The object with space accounting by project, if there is one.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A number taken from there overflowed, which is a panic.
    #[test]
    fn a_set_whose_dnodes_end_beyond_the_largest_number_is_corrupt() {
        let mut phys = new_phys(ObjsetKind::Other, 0);
        phys.meta_dnode.max_block_id = (1 << 43) - 1;
        assert!(check_numbers(&phys, 54).is_ok());
        for blocks in [1 << 43, 0xfa8b_45f7_deb0_4b87, u64::MAX] {
            phys.meta_dnode.max_block_id = blocks;
            assert!(check_numbers(&phys, 54).unwrap_err().to_string().contains("last block of dnodes"));
        }
    }
}
