//! The intent log on a device in memory: committed records are found again, and nothing else is, by
//! opening the last synced root block; and the chain does not grow without bound.

use block::WriteStore;
use dataset::intent_log::{Ground, Log, NAMED_MAX, Replayed, SkippedRecord, SyncMode};
use errors::{Refusal, Result};
use object::{NewObject, ObjectSet, Tx};
use ondisk::zil::{Body, RecordType};
use ondisk::{BlkPtr, ObjectType, ObjsetKind, Txg};
use parking_lot::{Condvar, Mutex};
use rig::Disk;
use rig::sync::{Allocator, Freed, Syncing, store_on};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const DISK_BYTES: usize = 64 << 20;

/// Transactions in the open txg.
#[derive(Default)]
struct Gate {
    inside: Mutex<u64>,
    left: Condvar,
}

struct Held(Arc<Gate>);

impl Drop for Held {
    fn drop(&mut self) {
        *self.0.inside.lock() -= 1;
        self.0.left.notify_all();
    }
}

/// One dataset whose txgs any thread may sync.
struct Pool {
    device: Arc<Disk>,
    store: Arc<WriteStore>,
    space: Arc<Allocator>,
    open_txg: AtomicU64,
    synced: AtomicU64,
    syncs: AtomicU64,
    /// Txg syncs are currently blocked.
    refuses: AtomicBool,
    gate: Arc<Gate>,
    syncing: Mutex<()>,
    live: Mutex<Option<(Arc<ObjectSet>, Arc<Log>)>>,
    root: Mutex<BlkPtr>,
    figures: dataset::intent_log::LogFigures,
    /// Records that are marked on disk as skipped.
    skipped: Mutex<Vec<u64>>,
    /// The same with the open txg, and how many of them by name.
    noted: Mutex<(Vec<u64>, usize)>,
}

impl Ground for Pool {
    fn store(&self) -> &WriteStore {
        &self.store
    }
    fn figures(&self) -> &dataset::intent_log::LogFigures {
        &self.figures
    }
    fn name(&self) -> String {
        "tank".to_owned()
    }
    fn hold(&self) -> Result<Tx> {
        *self.gate.inside.lock() += 1;
        Ok(Tx::open(self.open_txg.load(Ordering::SeqCst), Box::new(Held(self.gate.clone()))))
    }
    fn sync(&self) -> Result<()> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(errors::Error::invalid("tank", "it is suspended"));
        }
        let _one = self.syncing.lock();
        let (set, log) = self.live.lock().clone().unwrap();
        let txg = {
            let mut inside = self.gate.inside.lock();
            self.gate.left.wait_while(&mut inside, |n| *n > 0);
            let txg = self.open_txg.fetch_add(1, Ordering::SeqCst);
            set.quiesce(txg);
            txg
        };
        log.sync(txg)?;
        let root = set.sync(&Syncing::new(txg, &self.store))?;
        *self.root.lock() = root;
        self.skipped.lock().append(&mut self.noted.lock().0);
        self.synced.store(txg, Ordering::SeqCst);
        self.syncs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
    fn synced_txg(&self) -> u64 {
        self.synced.load(Ordering::SeqCst)
    }
    fn random(&self) -> u64 {
        0x1234_5678
    }
    fn skipped(&self, _claim_txg: u64, sequence: u64, named: Option<&SkippedRecord>) -> Result<()> {
        let mut noted = self.noted.lock();
        noted.0.push(sequence);
        noted.1 += usize::from(named.is_some());
        Ok(())
    }
    fn skipped_before(&self, _claim_txg: u64) -> Result<Vec<u64>> {
        Ok(self.skipped.lock().clone())
    }
}

fn pool() -> Arc<Pool> {
    let device = Disk::new("disk", vec![0xa5; DISK_BYTES]);
    let (store, space) = store_on(device.clone(), Freed::Kept);
    Arc::new(Pool {
        device,
        store,
        space,
        open_txg: 10.into(),
        synced: 9.into(),
        syncs: 0.into(),
        refuses: false.into(),
        gate: Arc::default(),
        syncing: Mutex::default(),
        live: Mutex::default(),
        root: Mutex::new(BlkPtr::HOLE),
        figures: Default::default(),
        skipped: Mutex::default(),
        noted: Mutex::default(),
    })
}

impl Pool {
    /// Opens the dataset from its last synced root block.
    fn open(self: &Arc<Self>) -> (Arc<ObjectSet>, Arc<Log>) {
        let root = *self.root.lock();
        self.noted.lock().0.clear();
        let set = ObjectSet::open_live(&self.store, Some(&root), 21, None, ObjsetKind::FileSystem).unwrap();
        let log = Arc::new(Log::open(set.clone(), self.clone()));
        *self.live.lock() = Some((set.clone(), log.clone()));
        (set, log)
    }

    /// Simulates a crash: unsynced data is lost, except for what an import claims.
    fn crash(self: &Arc<Self>) -> (Arc<ObjectSet>, Arc<Log>) {
        let (set, log) = self.open();
        let header = dataset::intent_log::claim_chain(&set, Txg(self.synced_txg() + 1)).unwrap();
        if let Some(claim) = header {
            set.set_zil_header(claim.header).unwrap();
            drop(log);
            let log = Arc::new(Log::open(set.clone(), self.clone()));
            *self.live.lock() = Some((set.clone(), log.clone()));
            return (set, log);
        }
        (set, log)
    }

    fn used(&self) -> u64 {
        self.space.used_bytes()
    }
}

fn name(log: &Log, tx: &Tx, n: u64) {
    let name = n.to_string();
    log.record(tx, 34, RecordType::REMOVE, &Body::Remove { directory: 34, name: name.as_bytes() });
}

fn replayed(log: &Log, ground: &Pool) -> Vec<String> {
    let mut found = Vec::new();
    let replay = log.replay(
        &mut |record, body| {
            let tx = ground.hold()?;
            log.record(&tx, 0, record.kind, body);
            found.push(match body {
                Body::Remove { name, .. } => String::from_utf8_lossy(name).into_owned(),
                Body::Write { object, offset, length, data, .. } => {
                    assert_eq!(data.len() as u64, *length);
                    let first = data.first().copied().unwrap_or(0);
                    assert!(data.iter().all(|b| *b == first));
                    format!("{object}:{offset}+{length}={first}")
                }
                other => format!("{other:?}"),
            });
            Ok(())
        },
        &|_, _| None,
    );
    let replay = replay.unwrap();
    assert!(replay.skipped.is_empty() && !replay.is_kept);
    found
}

#[test]
fn only_committed_records_are_replayed_in_order() {
    let pool = pool();
    let (set, log) = pool.open();
    let file = {
        let tx = pool.hold().unwrap();
        let file = set.create_object(&tx, &NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, 128 << 10)).unwrap();
        name(&log, &tx, 0);
        file.id()
    };
    // The first commit waits for a txg, which makes the chain known.
    log.commit(None).unwrap();
    assert_eq!(pool.syncs.load(Ordering::SeqCst), 1);
    let write = |offset: u64, data: &[u8]| {
        let tx = pool.hold().unwrap();
        set.object(file).unwrap().write_at(&tx, offset, data).unwrap();
        let (length, pointer) = (data.len() as u64, BlkPtr::HOLE);
        log.record(&tx, file, RecordType::WRITE, &Body::Write { object: file, offset, length, pointer, data });
    };
    {
        let tx = pool.hold().unwrap();
        name(&log, &tx, 1);
    }
    write(0, &[7; 1000]);
    log.commit(Some(99)).unwrap();
    {
        let tx = pool.hold().unwrap();
        name(&log, &tx, 2);
    }
    write(5000, &[8; 300_000]);
    log.commit(Some(file)).unwrap();
    {
        let tx = pool.hold().unwrap();
        name(&log, &tx, 3);
    }
    assert_eq!(pool.syncs.load(Ordering::SeqCst), 1, "commits need no txg");

    let (_, log) = pool.crash();
    assert!(log.needs_replay());
    let found = replayed(&log, &pool);
    assert_eq!(found[..3], ["1", &format!("{file}:0+1000=7"), "2"].map(String::from)[..], "{found:?}");
    let long: u64 = found[3..].iter().map(|f| f.split(['+', '=']).nth(1).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(long, 300_000);
    assert!(!log.needs_replay());
    // It is now empty, and stays so after a crash.
    let (set, log) = pool.crash();
    assert!(set.zil_header().log.is_hole() && !log.needs_replay());
}

#[test]
fn records_of_synced_txgs_are_dropped_and_their_blocks_freed() {
    let pool = pool();
    let (_, log) = pool.open();
    for n in 0..200 {
        {
            let tx = pool.hold().unwrap();
            name(&log, &tx, n);
        }
        log.commit(None).unwrap();
        if n % 10 == 9 {
            pool.sync().unwrap();
        }
    }
    // The root block, the reserved one, and the records since the last commit but one.
    assert!(pool.used() < 30 * 4096, "{} bytes in use", pool.used());
    let (_, log) = pool.crash();
    assert_eq!(replayed(&log, &pool), Vec::<String>::new());

    let (_, log) = pool.open();
    for n in 0..3 {
        let tx = pool.hold().unwrap();
        name(&log, &tx, n);
        drop(tx);
        log.commit(None).unwrap();
    }
    log.close().unwrap();
    assert!(pool.open().0.zil_header().log.is_hole());
    assert!(pool.used() <= 4096 + 512, "{} bytes in use", pool.used());
}

#[test]
fn concurrent_commits_share_blocks_and_all_are_durable() {
    const THREADS: u64 = 8;
    let pool = pool();
    let (_, log) = pool.open();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, log) = (&pool, &log);
            scope.spawn(move || {
                for n in 0..40 {
                    let tx = pool.hold().unwrap();
                    name(log, &tx, thread * 1000 + n);
                    drop(tx);
                    log.commit(None).unwrap();
                    if thread == 0 && n % 15 == 14 {
                        pool.sync().unwrap();
                    }
                }
            });
        }
    });
    let last = pool.synced_txg();
    {
        let tx = pool.hold().unwrap();
        assert_eq!(tx.txg(), last + 1);
        name(&log, &tx, 9999);
    }
    log.commit(None).unwrap();
    let (_, log) = pool.crash();
    let found = replayed(&log, &pool);
    assert_eq!(found.last().map(String::as_str), Some("9999"));
    // Later records of a thread come later in the log.
    for thread in 0..THREADS {
        let own: Vec<u64> =
            found.iter().map(|f| f.parse().unwrap()).filter(|n| n / 1000 == thread && *n != 9999).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

/// Commits of several threads on a device that takes 2 ms for each write, and fails from time to
/// time while no txg is written: what a commit acknowledged is in the log, or its txg is on disk.
#[test]
fn batches_in_flight_together_keep_what_they_acknowledge() {
    const THREADS: u64 = 8;
    let pool = pool();
    let (_, log) = pool.open();
    pool.device.latency_us.store(2000, Ordering::SeqCst);
    let acknowledged = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, log, acknowledged) = (&pool, &log, &acknowledged);
            scope.spawn(move || {
                for n in 0..60 {
                    let txg = {
                        let tx = pool.hold().unwrap();
                        name(log, &tx, thread * 1000 + n);
                        tx.txg()
                    };
                    log.commit(None).unwrap();
                    acknowledged.lock().push((txg, thread * 1000 + n));
                    if thread == 0 && n % 20 == 10 {
                        let _no_txg = pool.syncing.lock();
                        pool.device.fails_writes.store(true, Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(7));
                        pool.device.fails_writes.store(false, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(pool.device.writing_max.load(Ordering::SeqCst) >= 2, "no two batches were written at the same time");
    let synced = pool.synced_txg();
    let (_, log) = pool.crash();
    let found: Vec<u64> = replayed(&log, &pool).iter().map(|name| name.parse().unwrap()).collect();
    let acknowledged = acknowledged.into_inner();
    let lost: Vec<_> = acknowledged.iter().filter(|(txg, n)| *txg > synced && !found.contains(n)).collect();
    assert!(lost.is_empty(), "{lost:?} of {}, synced {synced}", acknowledged.len());
    for thread in 0..THREADS {
        let own: Vec<u64> = found.iter().copied().filter(|n| n / 1000 == thread).collect();
        assert!(own.is_sorted(), "{own:?}");
    }
}

#[test]
fn a_replay_interrupted_by_a_crash_resumes_after_the_synced_records() {
    let pool = pool();
    let (_, log) = pool.open();
    log.commit(None).unwrap();
    for n in 0..6 {
        let tx = pool.hold().unwrap();
        name(&log, &tx, n);
        drop(tx);
        log.commit(None).unwrap();
    }
    let (_, log) = pool.crash();
    let mut count = 0;
    let stopped = log.replay(
        &mut |record, body| {
            if count == 3 {
                return Err(Refusal::NoSpace.at("test"));
            }
            count += 1;
            let tx = pool.hold()?;
            log.record(&tx, 0, record.kind, body);
            Ok(())
        },
        &|_, _| None,
    );
    assert!(stopped.is_err() && log.needs_replay());
    let (_, log) = pool.open();
    let rest = replayed(&log, &pool);
    assert_eq!(rest.len(), 6 - 1 - 3, "{rest:?}");
}

#[test]
fn without_sync_nothing_is_logged_and_no_thread_waits() {
    let pool = pool();
    let (_, log) = pool.open();
    log.set_mode(SyncMode::Disabled);
    let tx = pool.hold().unwrap();
    name(&log, &tx, 1);
    drop(tx);
    log.commit(None).unwrap();
    assert_eq!((pool.syncs.load(Ordering::SeqCst), pool.used()), (0, 0));
}

/// Files that were fsynced after `zfs set sync=standard` had returned were lost in a crash: changes
/// made under `disabled` a moment earlier had no record, so the records of these files were
/// replayed on a tree without those changes.
#[test]
fn nothing_is_logged_that_depends_on_records_skipped_by_sync_disabled() {
    for logged_before in [false, true] {
        let pool = pool();
        let (_, log) = pool.open();
        let change = |n: u64| {
            let tx = pool.hold().unwrap();
            name(&log, &tx, n);
        };
        let syncs = || pool.syncs.load(Ordering::SeqCst);
        // Starts the chain.
        change(0);
        log.commit(None).unwrap();
        if logged_before {
            change(1);
            log.commit(None).unwrap();
        }
        assert_eq!(syncs(), 1);
        log.set_mode(SyncMode::Disabled);
        change(2);
        log.commit(None).unwrap();
        assert_eq!(syncs(), 1);
        log.set_mode(SyncMode::Standard);
        change(3);
        log.commit(Some(77)).unwrap();
        assert_eq!(syncs(), 2, "changes without a record are on disk before the commit returns");
        change(4);
        log.commit(None).unwrap();
        assert_eq!(syncs(), 2, "and from then on the log is enough");
        let (_, log) = pool.crash();
        assert_eq!(replayed(&log, &pool), ["4"]);
    }
}

#[test]
fn a_failed_log_falls_back_to_txgs_and_is_restarted() {
    let pool = pool();
    let (_, log) = pool.open();
    let ask = |n: u64| {
        let tx = pool.hold().unwrap();
        name(&log, &tx, n);
        drop(tx);
        log.commit(None)
    };
    ask(0).unwrap();
    ask(1).unwrap();
    let syncs = || pool.syncs.load(Ordering::SeqCst);
    assert_eq!(syncs(), 1);
    pool.device.fails_writes.store(true, Ordering::SeqCst);
    assert!(ask(2).is_err(), "neither the log nor the txg can be written");
    pool.device.fails_writes.store(false, Ordering::SeqCst);
    // The log is abandoned; until its records are on disk, every commit waits for a txg.
    for n in 3..8 {
        ask(n).unwrap();
    }
    let before = syncs();
    ask(8).unwrap();
    ask(9).unwrap();
    assert_eq!(syncs(), before, "there is a log again");
    let (_, log) = pool.crash();
    let found = replayed(&log, &pool);
    assert!(found.ends_with(&["8".to_owned(), "9".to_owned()]), "{found:?}");
}

/// A load test that was killed found a file as it was after a rename, but not the rename: the
/// rename had waited for its txg, and later changes had been logged meanwhile.
#[test]
fn nothing_is_logged_before_changes_that_wait_for_their_txg() {
    let pool = pool();
    let (_, log) = pool.open();
    let ask = |n: u64, unloggable: bool| {
        let tx = pool.hold().unwrap();
        if unloggable {
            log.record_unloggable(&tx, None);
        }
        name(&log, &tx, n);
        drop(tx);
        log.commit(None)
    };
    ask(1, false).unwrap();
    ask(2, false).unwrap();
    pool.refuses.store(true, Ordering::SeqCst);
    assert!(ask(3, true).is_err() && ask(4, false).is_err());
    pool.refuses.store(false, Ordering::SeqCst);
    let (_, log) = pool.crash();
    assert_eq!(replayed(&log, &pool), ["2"]);
}

/// A claimed log with `count` removals of the names 0, 1, ...
fn logged(pool: &Arc<Pool>, count: u64) -> Arc<Log> {
    let (_, log) = pool.open();
    log.commit(None).unwrap();
    // The first commit waits for a txg, which makes the chain known.
    name(&log, &pool.hold().unwrap(), 99);
    log.commit(None).unwrap();
    for n in 0..count {
        name(&log, &pool.hold().unwrap(), n);
        log.commit(None).unwrap();
    }
    pool.crash().1
}

/// Replays a log in which some names cannot be removed, until `stop_at`, where the pool runs out of
/// space.
fn attempt(log: &Log, pool: &Pool, fails: &[&str], stop_at: Option<&str>) -> (Result<Replayed>, Vec<String>) {
    let mut done = Vec::new();
    let result = log.replay(
        &mut |record, body| {
            let Body::Remove { name, .. } = body else { panic!("{body:?}") };
            let name = String::from_utf8_lossy(name).into_owned();
            if stop_at == Some(&name) {
                return Err(Refusal::NoSpace.at("test"));
            }
            if fails.contains(&&name[..]) {
                return Err(errors::Error::not_found("test", "the name"));
            }
            let tx = pool.hold()?;
            log.record(&tx, 0, record.kind, body);
            done.push(name);
            Ok(())
        },
        &|_, _| None,
    );
    (result, done)
}

#[test]
fn a_record_that_cannot_be_replayed_is_skipped_and_the_log_is_kept() {
    let pool = pool();
    let log = logged(&pool, 5);
    let (replayed, done) = attempt(&log, &pool, &["1", "3"], None);
    let replayed = replayed.unwrap();
    assert_eq!(done, ["0", "2", "4"]);
    assert!(replayed.is_kept && log.is_kept() && !log.needs_replay());
    let named: Vec<_> = replayed.skipped.iter().map(|s| (s.kind, s.what.as_str())).collect();
    assert_eq!(named, [("TX_REMOVE", "\"1\" in directory 34"), ("TX_REMOVE", "\"3\" in directory 34")]);
    assert!(replayed.skipped[0].cause.contains("does not exist"), "{:?}", replayed.skipped);
    // Changes made meanwhile are durable all the same.
    let before = pool.synced_txg();
    name(&log, &pool.hold().unwrap(), 50);
    log.commit(None).unwrap();
    assert!(pool.synced_txg() > before);

    // It survives a crash, and no record is replayed twice, until it is discarded.
    let (_, log) = pool.crash();
    let (replayed, done) = attempt(&log, &pool, &[], None);
    assert!(replayed.unwrap().is_kept && log.is_kept() && done.is_empty());
    let used = pool.used();
    log.discard().unwrap();
    assert!(!log.is_kept() && pool.used() < used);
    pool.skipped.lock().clear();
    let (set, log) = pool.open();
    assert!(set.zil_header().log.is_hole() && !log.needs_replay());
}

#[test]
fn a_replay_interrupted_by_a_crash_remembers_skipped_records() {
    let pool = pool();
    let log = logged(&pool, 4);
    let (stopped, done) = attempt(&log, &pool, &["0"], Some("2"));
    assert!(stopped.is_err() && log.needs_replay());
    assert_eq!(done, ["1"]);
    let (_, log) = pool.crash();
    let (replayed, done) = attempt(&log, &pool, &[], None);
    assert!(replayed.unwrap().is_kept);
    assert_eq!(done, ["2", "3"], "skipped records are not retried on a changed tree");
}

/// Each skipped record cost a txg or two, and an event in the history.
#[test]
fn thousands_of_records_that_cannot_be_replayed_cost_no_txg_each_and_few_are_named() {
    const RECORDS: u64 = 3000;
    let pool = pool();
    let (_, log) = pool.open();
    log.commit(None).unwrap();
    name(&log, &pool.hold().unwrap(), RECORDS);
    log.commit(None).unwrap();
    (0..RECORDS).for_each(|n| name(&log, &pool.hold().unwrap(), n));
    log.commit(None).unwrap();
    let (_, log) = pool.crash();
    // Every other one, so that many are replayed in between.
    let odd: Vec<String> = (0..RECORDS).filter(|n| n % 2 == 1).map(|n| n.to_string()).collect();
    let fails: Vec<&str> = odd.iter().map(String::as_str).collect();
    let before = pool.syncs.load(Ordering::SeqCst);
    let (replayed, done) = attempt(&log, &pool, &fails, Some("2000"));
    assert!(replayed.is_err(), "there is no space for one of them");
    assert_eq!(done.len(), 1000);
    let (_, log) = pool.crash();
    let (replayed, done) = attempt(&log, &pool, &fails, None);
    let replayed = replayed.unwrap();
    let syncs = pool.syncs.load(Ordering::SeqCst) - before;
    assert!(syncs <= 3, "{syncs} txgs");
    assert_eq!(done.len(), 500, "records replayed before the crash are not replayed again");
    // Includes the record before the interruption, which no replayed record follows: it is tried
    // again.
    assert_eq!((replayed.skipped_records, replayed.skipped.len()), (501, NAMED_MAX));
    assert!(replayed.is_kept);
    let noted = pool.skipped.lock().clone();
    assert_eq!(noted.len(), odd.len(), "each is noted once");
    assert!(pool.noted.lock().1 <= 2 * NAMED_MAX);
}

/// The second attempt found the name that the first one had created before it failed, and the
/// record was skipped permanently.
#[test]
fn a_record_that_failed_half_way_is_not_skipped_because_of_its_partial_changes() {
    let pool = pool();
    let log = logged(&pool, 3);
    let mut attempts = Vec::new();
    let stopped = log.replay(
        &mut |record, body| {
            let Body::Remove { name, .. } = body else { panic!("{body:?}") };
            let name = String::from_utf8_lossy(name).into_owned();
            let tx = pool.hold()?;
            log.record(&tx, 0, record.kind, body);
            attempts.push(name.clone());
            match attempts.iter().filter(|n| **n == "1").count() {
                _ if name != "1" => Ok(()),
                // After it was marked, as if the result could not be stored.
                1 => Err(errors::Error::io("test", std::io::Error::other("broken"))),
                _ => Err(Refusal::Exists.at("test")),
            }
        },
        &|_, _| None,
    );
    assert!(stopped.unwrap_err().to_string().contains("broken"));
    assert_eq!(attempts, ["0", "1", "1"]);
    assert!(pool.skipped.lock().is_empty() && pool.noted.lock().0.is_empty());
    pool.sync().unwrap();
    // The next one continues with it.
    let (_, log) = pool.open();
    let (replayed, done) = attempt(&log, &pool, &[], None);
    assert!(!replayed.unwrap().is_kept);
    assert_eq!(done, ["1", "2"]);
}

/// The thread that writes for all others took their records and then panicked: they were once
/// answered as if these were in the log, and what was logged later came after a missing block.
#[test]
fn a_commit_that_panics_has_no_other_one_answered_too_early() {
    let pool = pool();
    let (_, log) = pool.open();
    let record = |n: u64| {
        let tx = pool.hold().unwrap();
        name(&log, &tx, n);
        tx.txg()
    };
    for n in 0..2 {
        record(n);
        log.commit(None).unwrap();
    }
    let second = record(2);
    pool.device.panics.store(true, Ordering::SeqCst);
    let commit = std::panic::AssertUnwindSafe(|| log.commit(None));
    assert!(std::panic::catch_unwind(commit).is_err());
    pool.device.panics.store(false, Ordering::SeqCst);
    log.commit(None).unwrap();
    assert!(second <= pool.synced_txg(), "the log does not have it");
    let third = record(3);
    log.commit(None).unwrap();
    let synced = pool.synced_txg();
    let (_, log) = pool.crash();
    let found = replayed(&log, &pool);
    assert!(third <= synced || found.contains(&"3".to_owned()), "{found:?}");
}
