//! A file system in memory: one disk, an allocator that never runs out, txgs that sync when the
//! test requests it.

use block::vdev::{Kind, Leaf, Tree, Vdev};
use block::{Allocate, Compress, References, Store, Want, WritePolicy};
use bytes::Bytes;
use dataset::intent_log::{Encoded, Reach};
use files::vfs::Time;
use files::zpl::backing::{Backing, Estimate, Settings};
use files::zpl::{CreateOptions, FileSystem, Options, Space, create_contents};
use host::device::{Device, MemoryDevice};
use object::{ObjectSet, Refusal, Result, SyncContext, Tx, Written};
use ondisk::zil::{Body, Record, RecordType};
use ondisk::{BlkPtr, Checksum, Dnode, Dva, ObjectType, ObjsetKind};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DISK_BYTES: usize = 64 << 20;

/// A disk whose reads can be made to fail.
pub struct Disk {
    memory: MemoryDevice,
    /// Reads that still succeed.
    reads: AtomicU64,
    failed: AtomicU64,
}

impl Disk {
    /// Lets the next `reads` reads succeed, and all later ones fail.
    pub fn allow_reads(&self, reads: u64) {
        self.failed.store(0, Ordering::SeqCst);
        self.reads.store(reads, Ordering::SeqCst);
    }

    /// Number of reads that failed since then.
    pub fn failed_reads(&self) -> u64 {
        self.failed.load(Ordering::SeqCst)
    }
}

impl Device for Disk {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        if self.reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err() {
            self.failed.fetch_add(1, Ordering::SeqCst);
            return Err(std::io::Error::other("the disk is broken"));
        }
        self.memory.read_at(offset, buf)
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn name(&self) -> &str {
        self.memory.name()
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.memory.write_at(offset, data)
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// Space handed out from the start on, and given back to a list.
#[derive(Default)]
struct Free {
    by_size: BTreeMap<u64, Vec<u64>>,
    next: u64,
}

struct Allocator(Mutex<Free>);

impl Allocate for Allocator {
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>> {
        let mut free = self.0.lock();
        let size = want.psize_bytes.next_multiple_of(512);
        let mut found = SmallVec::new();
        for _ in 0..want.copies {
            let offset = match free.by_size.get_mut(&size).and_then(Vec::pop) {
                Some(offset) => offset,
                None => {
                    free.next += size;
                    free.next - size
                }
            };
            if offset + size > DISK_BYTES as u64 - (5 << 20) {
                return Err(Refusal::NoSpace.at("test"));
            }
            found.push(Dva { vdev: 0, offset_bytes: offset, asize_bytes: size, is_gang: false });
        }
        Ok(found)
    }

    fn free(&self, _txg: u64, _birth: u64, dva: &Dva) {
        self.0.lock().by_size.entry(dva.asize_bytes).or_default().push(dva.offset_bytes);
    }

    fn claim(&self, _txg: u64, _dva: &Dva) -> Result<()> {
        unreachable!("nothing is claimed here")
    }
}

/// How often blocks are used beyond the first time, by offset.
#[derive(Default)]
pub struct Uses(Mutex<BTreeMap<u64, u64>>);

impl References for Uses {
    fn release(&self, bp: &BlkPtr) -> Result<bool> {
        let mut uses = self.0.lock();
        let offset = bp.dva(0).offset_bytes;
        let Some(more) = uses.get_mut(&offset) else { return Ok(true) };
        *more -= 1;
        if *more == 0 {
            uses.remove(&offset);
        }
        Ok(false)
    }
}

struct Context {
    txg: u64,
    store: Arc<Store>,
    embeds: bool,
}

impl SyncContext for Context {
    fn txg(&self) -> u64 {
        self.txg
    }
    fn repeats(&self) -> bool {
        false
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
            embed: self.embeds,
            ..WritePolicy::metadata(what.object_type, what.level)
        }
    }
    fn root_policy(&self) -> WritePolicy {
        WritePolicy { copies: 1, ..WritePolicy::metadata(ObjectType::OBJSET, 0) }
    }
    fn born(&self, _bp: &BlkPtr) {}
    fn killed(&self, bp: &BlkPtr) -> Result<()> {
        self.store.free(self.txg, bp)
    }
    fn forgotten(&self, _bp: &BlkPtr) {}
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

/// The open txg, the number of transactions that hold it, and whether it is being closed: then no
/// transaction can begin.
struct Gate {
    state: Mutex<(u64, u64, bool)>,
    left: Condvar,
}

struct Hold(Arc<Gate>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.state.lock().1 -= 1;
        self.0.left.notify_all();
    }
}

/// A dataset of a test.
pub struct TestBacking {
    pub store: Arc<Store>,
    pub disk: Arc<Disk>,
    /// Contents that compress well are stored in their pointers. They need no reads.
    pub embeds: AtomicBool,
    gate: Arc<Gate>,
    pub settings: Mutex<Arc<Settings>>,
    /// What was recorded since the last sync, packed, oldest first.
    pub records: Mutex<Vec<Vec<u8>>>,
    pub keeps_records: AtomicBool,
    /// Something was done since the last sync that no record tells.
    unlogged: AtomicBool,
    clock: AtomicU64,
    pub over_quota: Mutex<Option<(dataset::Principal, u64)>>,
    uses: Arc<Uses>,
}

impl TestBacking {
    /// Blocks that are used more than once.
    pub fn shared_blocks(&self) -> usize {
        self.uses.0.lock().len()
    }

    /// Whether a crash now would lose something that the log does not tell.
    pub fn has_unlogged(&self) -> bool {
        self.unlogged.load(Ordering::SeqCst)
    }
}

impl Backing for TestBacking {
    fn begin(&self, _estimate: Estimate) -> Result<Tx> {
        let mut state = self.gate.state.lock();
        while state.2 {
            self.gate.left.wait(&mut state);
        }
        state.1 += 1;
        Ok(Tx::open(state.0, Box::new(Hold(self.gate.clone()))))
    }

    fn record(&self, tx: &Tx, _node: u64, kind: RecordType, body: &Body<'_>) {
        if self.keeps_records.load(Ordering::Relaxed) {
            self.records.lock().push(body.encode(kind, tx.txg()));
        }
    }

    fn record_together(&self, _tx: &Tx, _node: u64, _reach: Reach, records: Vec<Encoded>) {
        if self.keeps_records.load(Ordering::Relaxed) {
            self.records.lock().extend(records.into_iter().map(|(_, record)| record));
        }
    }

    fn unloggable_for_all(&self, _tx: &Tx) {
        self.unlogged.store(true, Ordering::SeqCst);
    }

    fn unloggable(&self, _tx: &Tx, _node: u64) {
        self.unlogged.store(true, Ordering::SeqCst);
    }

    fn commit(&self, _node: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn settings(&self) -> Arc<Settings> {
        self.settings.lock().clone()
    }

    fn space(&self) -> Space {
        Space { available_bytes: 1 << 30, ..Space::default() }
    }

    fn is_over_quota(&self, principal: dataset::Principal, id: u64, _objects: bool) -> Result<bool> {
        Ok(*self.over_quota.lock() == Some((principal, id)))
    }

    fn now(&self) -> Time {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        Time { seconds: 1_700_000_000 + (now / 1000) as i64, nanoseconds: (now % 1000) as u32 * 1_000_000 }
    }
}

/// A file system, its dataset, and its object set.
pub struct Fixture {
    pub backing: Arc<TestBacking>,
    pub objset: Arc<ObjectSet>,
    pub fs: Arc<FileSystem>,
}

impl Fixture {
    pub fn new(settings: Settings, create: &CreateOptions) -> Self {
        let memory = MemoryDevice::new("disk", vec![0; DISK_BYTES]);
        let disk = Arc::new(Disk { memory, reads: u64::MAX.into(), failed: 0.into() });
        let kind = Kind::Leaf(Leaf::present(1, disk.clone()));
        let leaf = Vdev { guid: 1, id: 0, kind, ashift: 9, children: Vec::new(), name: "disk".into() };
        let store = Store::new("test".into(), Tree::of(vec![leaf]), 16 << 20);
        store.set_allocator(Arc::new(Allocator(Mutex::default())));
        let uses = Arc::new(Uses::default());
        store.set_references(uses.clone());
        let gate = Arc::new(Gate { state: Mutex::new((10, 0, false)), left: Condvar::new() });
        let backing = Arc::new(TestBacking {
            store: store.clone(),
            disk,
            embeds: AtomicBool::new(true),
            gate,
            settings: Mutex::new(Arc::new(settings)),
            records: Mutex::default(),
            keeps_records: AtomicBool::new(true),
            unlogged: AtomicBool::new(false),
            clock: AtomicU64::new(0),
            over_quota: Mutex::default(),
            uses,
        });
        let objset = ObjectSet::open_live(store, None, 21, None, ObjsetKind::FileSystem).unwrap();
        let tx = backing.begin(Estimate { bytes: 0, frees: false }).unwrap();
        create_contents(&objset, &tx, create).unwrap();
        drop(tx);
        let fs = FileSystem::open_live(objset.clone(), Options::default(), backing.clone()).unwrap();
        Self { backing, objset, fs }
    }

    /// Closes the open txg and syncs it. Records of it are not needed any more.
    pub fn sync(&self) {
        let txg = {
            let mut state = self.backing.gate.state.lock();
            state.2 = true;
            while state.1 > 0 {
                self.backing.gate.left.wait(&mut state);
            }
            self.objset.quiesce(state.0);
            state.0 += 1;
            state.2 = false;
            self.backing.gate.left.notify_all();
            state.0 - 1
        };
        self.backing.records.lock().clear();
        self.backing.unlogged.store(false, Ordering::SeqCst);
        let mut count = |bp: &BlkPtr| {
            *self.backing.uses.0.lock().entry(bp.dva(0).offset_bytes).or_default() += 1;
            Ok(())
        };
        self.objset.cloned(txg, &mut count).unwrap();
        let embeds = self.backing.embeds.load(Ordering::Relaxed);
        self.objset.sync(&Context { txg, store: self.backing.store.clone(), embeds }).unwrap();
    }

    /// The file system as the last sync left it, opened a second time. It must not be synced.
    pub fn reopened(&self) -> Self {
        let root = self.objset.root();
        let store = self.backing.store.clone();
        let objset = ObjectSet::open_live(store.clone(), Some(&root), 21, None, ObjsetKind::FileSystem).unwrap();
        let backing = Arc::new(TestBacking {
            store,
            disk: self.backing.disk.clone(),
            embeds: AtomicBool::new(self.backing.embeds.load(Ordering::Relaxed)),
            gate: Arc::new(Gate {
                state: Mutex::new((self.backing.gate.state.lock().0, 0, false)),
                left: Condvar::new(),
            }),
            settings: Mutex::new(self.backing.settings()),
            records: Mutex::default(),
            keeps_records: AtomicBool::new(true),
            unlogged: AtomicBool::new(false),
            clock: AtomicU64::new(1 << 40),
            over_quota: Mutex::new(*self.backing.over_quota.lock()),
            uses: self.backing.uses.clone(),
        });
        let fs = FileSystem::open_live(objset.clone(), Options::default(), backing.clone()).unwrap();
        Self { backing, objset, fs }
    }

    /// The same, with nothing in the cache.
    pub fn reopened_cold(&self) -> Self {
        self.backing.store.cache().clear();
        let after = self.reopened();
        self.backing.store.cache().clear();
        after
    }

    /// What a crash now and the intent log leave: the last sync, with all records since done again.
    pub fn crashed(&self) -> Self {
        let after = self.reopened();
        after.fs.drain_unlinked().unwrap();
        let records = self.backing.records.lock().clone();
        after
            .fs
            .replaying(|| {
                for packed in &records {
                    let record = Record::parse(packed, ondisk::Endian::Little)?;
                    let body = record.parse_body()?;
                    // Like the log: writes to a file that no longer exists are not replayed.
                    let object = match &body {
                        Body::Write { object, .. } => Some(*object),
                        _ => None,
                    };
                    if object.is_some_and(|id| after.objset.object(id).is_err()) {
                        continue;
                    }
                    if let Err(e) = after.fs.replay_record(&record, &body) {
                        panic!("{} {body:?}: {e}", record.kind.name());
                    }
                }
                Ok(())
            })
            .unwrap();
        after.fs.drain_unlinked().unwrap();
        after
    }
}
