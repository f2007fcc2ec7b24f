//! A file system in memory: one disk, an allocator that never runs out, txgs that sync when the
//! test requests it.

use block::{References, WriteStore};
use dataset::intent_log::{Encoded, Reach};
use errors::Result;
use files::vfs::Time;
use files::zpl::backing::{Backing, Estimate, Settings};
use files::zpl::{CreateOptions, FileSystem, Options, Space, create_contents};
use object::{ObjectSet, Tx};
use ondisk::zil::{Body, Record, RecordType};
use ondisk::{BlkPtr, ObjsetKind};
use parking_lot::{Condvar, Mutex};
use rig::Disk;
use rig::sync::{Freed, Syncing, store_on};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DISK_BYTES: usize = 64 << 20;

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

/// The open txg, the number of transactions that hold it, and whether it is being closed: then no
/// transaction can begin.
struct Gate {
    state: Mutex<(u64, u64, bool)>,
    left: Condvar,
    /// Transactions that wait to begin.
    waiting: AtomicU64,
}

impl Gate {
    fn new(txg: u64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new((txg, 0, false)), left: Condvar::new(), waiting: AtomicU64::new(0) })
    }
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
    pub store: Arc<WriteStore>,
    pub disk: Arc<Disk>,
    /// Contents that compress well are stored in their pointers. They need no reads.
    pub embeds: AtomicBool,
    gate: Arc<Gate>,
    pub settings: Mutex<Arc<Settings>>,
    /// What was recorded since the last sync, packed, oldest first.
    pub records: Mutex<Vec<Vec<u8>>>,
    pub keeps_records: AtomicBool,
    /// Something was changed since the last sync, without a log record.
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

    /// Lets transactions wait until [`Self::begin_at_once`].
    pub fn hold_back(&self) {
        self.gate.state.lock().2 = true;
    }

    /// Waits until `count` transactions wait to begin, and lets them.
    pub fn begin_at_once(&self, count: u64) {
        while self.gate.waiting.load(Ordering::SeqCst) < count {
            std::thread::yield_now();
        }
        self.gate.state.lock().2 = false;
        self.gate.left.notify_all();
    }

    /// Whether a crash now would lose changes that are not in the log.
    pub fn has_unlogged(&self) -> bool {
        self.unlogged.load(Ordering::SeqCst)
    }
}

impl Backing for TestBacking {
    fn begin(&self, _estimate: Estimate) -> Result<Tx> {
        let mut state = self.gate.state.lock();
        while state.2 {
            self.gate.waiting.fetch_add(1, Ordering::SeqCst);
            self.gate.left.wait(&mut state);
            self.gate.waiting.fetch_sub(1, Ordering::SeqCst);
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
        let disk = Disk::new("disk", vec![0; DISK_BYTES]);
        let (store, _) = store_on(disk.clone(), Freed::Reused);
        let uses = Arc::new(Uses::default());
        store.set_references(uses.clone());
        let gate = Gate::new(10);
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
        let objset = ObjectSet::open_live(&store, None, 21, None, ObjsetKind::FileSystem).unwrap();
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
        self.objset.sync(&Syncing { embeds, ..Syncing::new(txg, &self.backing.store) }).unwrap();
    }

    /// The file system as the last sync left it, opened a second time. It must not be synced.
    pub fn reopened(&self) -> Self {
        let root = self.objset.root();
        let store = self.backing.store.clone();
        let objset = ObjectSet::open_live(&store, Some(&root), 21, None, ObjsetKind::FileSystem).unwrap();
        let backing = Arc::new(TestBacking {
            store,
            disk: self.backing.disk.clone(),
            embeds: AtomicBool::new(self.backing.embeds.load(Ordering::Relaxed)),
            gate: Gate::new(self.backing.gate.state.lock().0),
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
