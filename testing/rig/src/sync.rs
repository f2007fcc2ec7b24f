//! A store on one device, and the sync of an object set, without a pool.

use block::vdev::{Kind, Leaf, Tree, Vdev};
use block::{Allocate, Compress, Store, Want, WritePolicy, WriteStore};
use bytes::Bytes;
use errors::{Refusal, Result};
use host::device::{Device, MemoryDevice};
use object::{ObjectSet, SyncContext, Tx, Written};
use ondisk::{BlkPtr, Checksum, Dnode, Dva, ObjectType};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Size of the device of [`store`].
const DISK_BYTES: usize = 96 << 20;
/// What a pool does not allocate either: labels and the boot region.
const RESERVED_BYTES: u64 = 5 << 20;

/// What happens to space that is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// It is not allocated again, so that blocks keep their contents.
    Kept,
    /// It serves the next block of the same size, so that space lasts.
    Reused,
}

/// Allocates space from the front of a device. What is freed or claimed must be in use.
pub struct Allocator {
    freed: Freed,
    end: u64,
    space: Mutex<Space>,
}

/// Offset -> size, in bytes.
#[derive(Default)]
struct Space {
    used: BTreeMap<u64, u64>,
    /// Size -> offsets that may be used again.
    free: BTreeMap<u64, Vec<u64>>,
    next: u64,
}

impl Allocator {
    pub fn used_bytes(&self) -> u64 {
        self.space.lock().used.values().sum()
    }
}

impl Allocate for Allocator {
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>> {
        let mut space = self.space.lock();
        let size = want.psize_bytes.next_multiple_of(512);
        let mut found = SmallVec::new();
        for _ in 0..want.copies {
            let offset = match space.free.get_mut(&size).and_then(Vec::pop) {
                Some(offset) => offset,
                None => {
                    space.next += size;
                    space.next - size
                }
            };
            if offset + size > self.end {
                return Err(Refusal::NoSpace.at("test"));
            }
            space.used.insert(offset, size);
            found.push(Dva { vdev: 0, offset_bytes: offset, asize_bytes: size, is_gang: false });
        }
        Ok(found)
    }

    fn free(&self, _txg: u64, _birth: u64, dva: &Dva) {
        let mut space = self.space.lock();
        let size = space.used.remove(&dva.offset_bytes);
        assert_eq!(size, Some(dva.asize_bytes), "freed what is not in use at {:#x}", dva.offset_bytes);
        if self.freed == Freed::Reused {
            space.free.entry(dva.asize_bytes).or_default().push(dva.offset_bytes);
        }
    }

    fn claim(&self, _txg: u64, dva: &Dva) -> Result<()> {
        let size = self.space.lock().used.get(&dva.offset_bytes).copied();
        assert_eq!(size, Some(dva.asize_bytes), "claimed what is not in use at {:#x}", dva.offset_bytes);
        Ok(())
    }
}

/// An empty store in memory, and its allocator.
pub fn store() -> (Arc<WriteStore>, Arc<Allocator>) {
    store_on(Arc::new(MemoryDevice::new("disk", vec![0; DISK_BYTES])), Freed::Kept)
}

/// An empty store on `device`.
pub fn store_on(device: Arc<dyn Device>, freed: Freed) -> (Arc<WriteStore>, Arc<Allocator>) {
    let end = device.size_bytes() - RESERVED_BYTES;
    let kind = Kind::Leaf(Leaf::present(1, device));
    let leaf = Vdev { guid: 1, id: 0, kind, ashift: 9, children: Vec::new(), name: "disk".into() };
    let store = Store::new("test".into(), Tree::of(vec![leaf]), 16 << 20);
    let allocator = Arc::new(Allocator { freed, end, space: Mutex::default() });
    (WriteStore::new(store, allocator.clone()), allocator)
}

/// Syncs an object set without a pool's policy: lz4, freed blocks are free at once.
pub struct Syncing<'a> {
    pub txg: u64,
    pub store: &'a WriteStore,
    /// Whether the set was synced for this txg before.
    pub repeats: bool,
    pub copies: u8,
    pub root_copies: u8,
    /// Checksum of data; that of metadata is fletcher4.
    pub checksum: Checksum,
    /// Whether contents that compress well are stored in their pointers.
    pub embeds: bool,
    /// Called for each block: true when it is born, false when it is killed or forgotten.
    pub watch: &'a (dyn Fn(&BlkPtr, bool) + Sync),
    /// Bytes born minus bytes killed and forgotten.
    pub used_bytes: AtomicI64,
}

impl<'a> Syncing<'a> {
    /// The first sync of a txg, with one copy of each block.
    pub fn new(txg: u64, store: &'a WriteStore) -> Self {
        Self {
            txg,
            store,
            repeats: false,
            copies: 1,
            root_copies: 1,
            checksum: Checksum::Fletcher4,
            embeds: true,
            watch: &|_, _| {},
            used_bytes: AtomicI64::new(0),
        }
    }

    fn count(&self, bp: &BlkPtr, is_born: bool) {
        let bytes = bp.asize_bytes() as i64;
        self.used_bytes.fetch_add(if is_born { bytes } else { -bytes }, Ordering::Relaxed);
        (self.watch)(bp, is_born);
    }
}

impl SyncContext for Syncing<'_> {
    fn txg(&self) -> u64 {
        self.txg
    }

    fn repeats(&self) -> bool {
        self.repeats
    }

    fn store(&self) -> &WriteStore {
        self.store
    }

    fn policy(&self, what: &Written) -> WritePolicy {
        WritePolicy {
            object_type: what.object_type,
            level: what.level,
            checksum: if what.level == 0 { self.checksum } else { Checksum::Fletcher4 },
            compression: Compress::Lz4,
            copies: self.copies,
            class: Default::default(),
            special_max_bytes: 0,
            embed: self.embeds,
            dedup: Default::default(),
        }
    }

    fn root_policy(&self) -> WritePolicy {
        WritePolicy { copies: self.root_copies, ..WritePolicy::metadata(ObjectType::OBJSET, 0) }
    }

    fn born(&self, bp: &BlkPtr) {
        self.count(bp, true);
    }

    fn killed(&self, bp: &BlkPtr) -> Result<()> {
        self.count(bp, false);
        self.store.free(self.txg, bp)
    }

    fn forgotten(&self, bp: &BlkPtr) {
        self.count(bp, false);
    }

    fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        bp.asize_bytes()
    }

    fn hole_birth(&self) -> bool {
        true
    }

    fn object_changed(
        &self,
        _id: u64,
        _old: Option<&Dnode>,
        _new: Option<&mut Dnode>,
        _spill: &dyn Fn() -> Result<Option<Bytes>>,
    ) -> Result<()> {
        Ok(())
    }

    fn objects_done(&self, _set: &Arc<ObjectSet>, _tx: &Tx) -> Result<()> {
        Ok(())
    }
}
