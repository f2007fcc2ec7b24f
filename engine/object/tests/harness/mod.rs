//! A store on one device in memory, without a pool: space is never reused, and each freed block
//! must be in use.

use block::vdev::{Kind, Leaf, Tree, Vdev};
use block::{Allocate, Compress, Refusal, Result, Store, Want, WritePolicy};
use bytes::Bytes;
use host::device::MemoryDevice;
use object::{ObjectSet, SyncContext, Tx, Written};
use ondisk::{BlkPtr, Checksum, Dnode, Dva, ObjectType};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

const DISK_BYTES: usize = 96 << 20;

/// Space in use, in units of 512 bytes.
#[derive(Default)]
pub struct Space {
    pub used: BTreeMap<u64, u64>,
    next: u64,
}

pub struct Allocator(pub Mutex<Space>);

impl Allocate for Allocator {
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>> {
        let mut space = self.0.lock();
        let size = want.psize_bytes.next_multiple_of(512);
        let mut found = SmallVec::new();
        for _ in 0..want.copies {
            let offset = space.next;
            space.next += size;
            if space.next > DISK_BYTES as u64 - (5 << 20) {
                return Err(Refusal::NoSpace.at("test"));
            }
            space.used.insert(offset, size);
            found.push(Dva { vdev: 0, offset_bytes: offset, asize_bytes: size, is_gang: false });
        }
        Ok(found)
    }

    fn free(&self, _txg: u64, _birth: u64, dva: &Dva) {
        let size = self.0.lock().used.remove(&dva.offset_bytes);
        assert_eq!(size, Some(dva.asize_bytes), "freed what is not in use at {:#x}", dva.offset_bytes);
    }

    fn claim(&self, _txg: u64, _dva: &Dva) -> Result<()> {
        unreachable!("nothing is claimed here")
    }
}

/// Syncs without a pool's policy: fletcher4, lz4, one copy.
pub struct Context {
    pub txg: u64,
    pub repeats: bool,
    pub store: Arc<Store>,
    /// Bytes born minus bytes killed.
    pub used: AtomicI64,
}

impl Context {
    fn count(&self, bp: &BlkPtr, sign: i64) {
        self.used.fetch_add(sign * bp.asize_bytes() as i64, Ordering::Relaxed);
    }
}

impl SyncContext for Context {
    fn txg(&self) -> u64 {
        self.txg
    }
    fn repeats(&self) -> bool {
        self.repeats
    }
    fn store(&self) -> &Arc<Store> {
        &self.store
    }
    fn policy(&self, what: &Written) -> WritePolicy {
        WritePolicy {
            object_type: what.object_type,
            level: what.level,
            checksum: Checksum::Fletcher4,
            compression: Compress::Lz4,
            copies: 1,
            class: Default::default(),
            special_max_bytes: 0,
            embed: true,
            dedup: Default::default(),
        }
    }
    fn root_policy(&self) -> WritePolicy {
        WritePolicy { copies: 1, ..WritePolicy::metadata(ObjectType::OBJSET, 0) }
    }
    fn born(&self, bp: &BlkPtr) {
        self.count(bp, 1);
    }
    fn killed(&self, bp: &BlkPtr) -> Result<()> {
        self.count(bp, -1);
        self.store.free(self.txg, bp)
    }
    fn forgotten(&self, bp: &BlkPtr) {
        self.count(bp, -1);
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

/// An empty store.
pub fn store() -> (Arc<Store>, Arc<Allocator>) {
    let device = Arc::new(MemoryDevice::new("disk", vec![0; DISK_BYTES]));
    let leaf = Vdev {
        guid: 1,
        id: 0,
        kind: Kind::Leaf(Leaf::present(1, device)),
        ashift: 9,
        children: Vec::new(),
        name: "disk".into(),
    };
    let store = Store::new("test".into(), Tree::of(vec![leaf]), 16 << 20);
    let allocator = Arc::new(Allocator(Mutex::default()));
    store.set_allocator(allocator.clone());
    (store, allocator)
}
