//! The walk of scrubs and resilvers: all blocks born in a range of txgs, in OpenZFS's order, so
//! that either implementation can resume where the other one stopped.
//!
//! ```text
//!   MOS ─> $ORIGIN's snapshot ─> queue: lowest object number first; a finished dataset queues the next ones
//!   dataset: root ─> blocks of dnodes in order, below each its objects in order, below each its blocks in order ─> accounting
//! ```
//!
//! A position consists of a bookmark (object set, object, block of level 0), the queue, and the
//! range of txgs of the current dataset. Metadata blocks are read a few ahead of the walk. The
//! blocks found are passed to a [`Sink`] in order.
//!
//! Facts: `dsl_scan_visit`, `dsl_scan_visitds`, `dsl_scan_recurse` (module/zfs/dsl_scan.c),
//! `zbookmark_compare` (module/zfs/zio.c).
//!
//! Invariants:
//!   * when the walk ends with [`Ended::Full`], all blocks before the bookmark were passed to the
//!     sink, and perhaps some after it
//!   * when the walk resumes below a block, it reads the blocks above it again

use super::find::{ACCOUNTING, SPILL};
use super::roots::dataset_ids;
use super::walk::dnodes_of;
use crate::Pool;
use block::{Block, Bookmark, Store};
use errors::Result;
use host::channel::{Receiver, Sender, bounded, unbounded};
use host::threads::JoinHandle;
use object::zap::Zap;
use ondisk::dsl_dataset::DslDataset;
use ondisk::dsl_dir::DslDir;
use ondisk::errlog::ErrorBookmark;
use ondisk::pool_dir::directory;
use ondisk::scan::Scan;
use ondisk::zil::LogBlock;
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, Txg, blkptr, dnode};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Object set of a bookmark after which only the queue remains (`ZB_DESTROYED_OBJSET`).
pub(crate) const NO_OBJSET: u64 = u64::MAX;
/// Number of metadata blocks read ahead at each level. Guessed: enough to keep several disks busy,
/// at most 1 MiB a level.
const AHEAD: usize = 8;
/// Limit for the blocks of an intent log that are followed.
const LOG_BLOCKS_MAX: u32 = 1 << 20;

/// Position of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The part that the pool stores: range of txgs, bookmark, the dataset's range, flags.
    pub scan: Scan,
    /// Datasets still to visit, each with the txg up to which another dataset was visited; 0: the
    /// txg of its previous snapshot.
    pub queue: BTreeMap<u64, u64>,
}

/// Receives the blocks that the walk finds.
pub(crate) trait Sink {
    /// A block with DVAs, born in the range.
    fn found(&mut self, bp: &BlkPtr, at: &Bookmark);
    /// The blocks below this block cannot be walked. `born_in_range`: the block itself was passed
    /// to the sink.
    fn broken(&mut self, at: &Bookmark, birth: u64, born_in_range: bool, error: &errors::Error);
    /// Whether the walk must stop at the next possible place.
    fn is_full(&self) -> bool;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The sink is full; the position says where to resume.
    Full,
    /// All blocks were visited.
    Done,
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that read metadata for the walk.
pub(crate) struct Readers {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    /// Starts `count` threads, but at least one. If none can be started, the walk reads blocks
    /// itself.
    pub fn new(count: usize) -> Self {
        let (jobs, receiver) = unbounded::<Job>();
        let run = |receiver: Receiver<Job>| {
            move || {
                let _doing = block::doing(block::Task::Scrub);
                receiver.iter().for_each(|job| job());
            }
        };
        let thread = || host::threads::spawn("scan-read", run(receiver.clone())).ok();
        let threads: Vec<_> = (0..count.max(1)).filter_map(|_| thread()).collect();
        let jobs = (!threads.is_empty()).then_some(jobs);
        Self { jobs, threads }
    }

    fn read(&self, store: &Arc<Store>, bp: &BlkPtr, at: &Bookmark) -> Receiver<Result<Block>> {
        let (answer, receiver) = bounded(1);
        let (store, bp, at) = (store.clone(), *bp, *at);
        // The receiver may be gone, if the walk has stopped: then the answer is dropped.
        let job = move || drop(answer.send(store.read_unopened(&bp, &at)));
        match &self.jobs {
            Some(jobs) => drop(jobs.send(Box::new(job))),
            None => job(),
        }
        receiver
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.jobs.take();
        // A panic was reported when it happened.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Resumes at `place` until the sink is full or everything is visited, and stores the new position
/// in `place`.
pub(crate) fn visit(pool: &Pool, readers: &Readers, place: &mut Position, sink: &mut dyn Sink) -> Result<Ended> {
    let bookmark = place.scan.bookmark;
    let is_start = bookmark == START;
    let resume = (!is_start).then(|| start_of(&bookmark));
    let mut walk = Walk { pool, store: pool.store(), readers, place, sink, resume, stopped: false };
    match bookmark.objset {
        0 => {
            walk.place.scan.current_min_txg = walk.place.scan.min_txg;
            walk.place.scan.current_max_txg = walk.place.scan.max_txg;
            walk.root(0, &pool.uberblock().root);
            if walk.stopped {
                return Ok(Ended::Full);
            }
            walk.origin()?;
        }
        NO_OBJSET => {}
        id => {
            walk.dataset(id)?;
            if walk.stopped {
                return Ok(Ended::Full);
            }
        }
    }
    walk.resume = None;
    walk.place.scan.bookmark = START;
    while let Some((id, since)) = walk.place.queue.pop_first() {
        let Some(ds) = pool.dataset_phys(id)? else { continue };
        let scan = &mut walk.place.scan;
        let since = if since == 0 { ds.prev_snap_txg.0 } else { since };
        scan.current_min_txg = Txg(scan.min_txg.0.max(since));
        scan.current_max_txg = match ds.is_snapshot() {
            true => Txg(scan.max_txg.0.min(ds.creation_txg.0)),
            false => scan.max_txg,
        };
        walk.dataset(id)?;
        if walk.stopped {
            return Ok(Ended::Full);
        }
        walk.place.scan.bookmark = START;
    }
    walk.place.scan.bookmark = ErrorBookmark { objset: NO_OBJSET, ..START };
    Ok(Ended::Done)
}

const START: ErrorBookmark = ErrorBookmark { objset: 0, object: 0, level: 0, block: 0 };
/// Dnodes in a block.
const DNODES: u64 = (dnode::BLOCK_BYTES / dnode::SLOT_BYTES) as u64;

/// A place within an object set, in the order of the walk: object, then block of level 0.
type Spot = (u64, u64);

/// The first place of a bookmark's block. A block of dnodes begins with its first object.
fn start_of(at: &ErrorBookmark) -> Spot {
    match at.object {
        0 => (at.block.saturating_mul(DNODES), 0),
        object => (object, at.block),
    }
}

/// The first place after a block and everything below it.
fn end_of(at: &Bookmark, dnode: &Dnode) -> Spot {
    if at.level == 0 && at.blkid == SPILL {
        return (at.object, u64::MAX);
    }
    let shift = dnode.pointers_per_indirect().checked_ilog2().unwrap_or(0).saturating_mul(at.level.max(0) as u32);
    let end = at.blkid.saturating_add(1).checked_shl(shift).unwrap_or(u64::MAX);
    match at.object {
        0 => (end.saturating_mul(DNODES), 0),
        object => (object, end),
    }
}

struct Kid {
    bp: BlkPtr,
    at: Bookmark,
    dnode: Option<Arc<Dnode>>,
}

struct Walk<'a> {
    pool: &'a Pool,
    store: &'a Arc<Store>,
    readers: &'a Readers,
    place: &'a mut Position,
    sink: &'a mut dyn Sink,
    resume: Option<Spot>,
    stopped: bool,
}

impl Walk<'_> {
    /// The snapshot that all datasets descend from: it has no blocks, but everything follows it in
    /// the queue. In pools without it, every dataset without an origin is queued.
    fn origin(&mut self) -> Result<()> {
        let mos = self.pool.mos();
        let children = match self.pool.directory().lookup_u64(directory::ROOT_DATASET)? {
            Some(root) => {
                let root = mos.object(root)?;
                DslDir::parse(root.bonus(), root.endian())?.children_zap
            }
            None => 0,
        };
        let dir = match children {
            0 => None,
            zap => Zap::open(mos.object(zap)?)?.lookup_u64("$ORIGIN")?,
        };
        let snapshot = match dir {
            Some(dir) => {
                let dir = mos.object(dir)?;
                let head = DslDir::parse(dir.bonus(), dir.endian())?.head_dataset;
                self.pool.dataset_phys(head)?.map_or(0, |head| head.prev_snap)
            }
            None => 0,
        };
        if snapshot != 0 {
            return self.dataset(snapshot);
        }
        for id in dataset_ids(self.pool, &mut Vec::new()) {
            if self.pool.dataset_phys(id)?.is_some_and(|ds| ds.prev_snap == 0) {
                self.place.queue.insert(id, 0);
            }
        }
        Ok(())
    }

    fn dataset(&mut self, id: u64) -> Result<()> {
        let Some(ds) = self.pool.dataset_phys(id)? else { return Ok(()) };
        let scan = &self.place.scan;
        if scan.current_min_txg >= scan.max_txg {
            return Ok(());
        }
        if !ds.bp.is_hole() {
            if !ds.is_snapshot() {
                self.claimed_log(id, &ds.bp);
            }
            self.root(id, &ds.bp);
            if self.stopped {
                return Ok(());
            }
        }
        if self.place.scan.flags & Scan::FLAG_VISIT_AGAIN != 0 {
            self.place.scan.flags &= !Scan::FLAG_VISIT_AGAIN;
            let max = self.place.scan.current_max_txg.0;
            self.place.queue.insert(id, max);
            return Ok(());
        }
        self.queue_after(id, &ds)
    }

    fn queue_after(&mut self, id: u64, ds: &DslDataset) -> Result<()> {
        let since = ds.creation_txg.0;
        if ds.next_snap != 0 {
            self.place.queue.insert(ds.next_snap, since);
        }
        if ds.num_children <= 1 {
            return Ok(());
        }
        let clones = match ds.next_clones_zap {
            0 => Vec::new(),
            zap => Zap::open(self.pool.mos().object(zap)?)?.entries()?,
        };
        if clones.len() as u64 == ds.num_children - 1 {
            self.place.queue.extend(clones.iter().filter_map(|e| e.value.as_u64()).map(|clone| (clone, since)));
            return Ok(());
        }
        // Old versions kept no list of clones: every dataset whose previous snapshot is this one is
        // a clone, or the next snapshot.
        for other in dataset_ids(self.pool, &mut Vec::new()) {
            if other != ds.next_snap && self.pool.dataset_phys(other)?.is_some_and(|o| o.prev_snap == id) {
                self.place.queue.insert(other, since);
            }
        }
        Ok(())
    }

    /// Visits an intent log that is claimed and waits for replay. Logs in use are skipped: their
    /// blocks live only for seconds.
    fn claimed_log(&mut self, id: u64, root: &BlkPtr) {
        let at = Bookmark { objset: id, object: 0, level: -1, blkid: 0 };
        // An unreadable root is reported when the dataset is visited.
        let Ok(block) = self.store.read_unopened(root, &at) else { return };
        let Ok(phys) = Objset::parse(&block.data, block.endian) else { return };
        let claim = phys.zil.claim_txg;
        if claim.0 == 0 {
            return;
        }
        let min = self.place.scan.current_min_txg;
        let mut bp = phys.zil.log;
        for _ in 0..LOG_BLOCKS_MAX {
            if bp.is_hole() {
                return;
            }
            let at = Bookmark { objset: id, object: 0, level: -2, blkid: bp.checksum()[3] };
            let Ok(block) = self.store.read_unopened(&bp, &at) else { return };
            let Ok(parsed) = LogBlock::parse(&block.data, &bp) else { return };
            if bp.logical_birth() > min {
                self.found(&bp, &at);
            }
            for pointer in parsed.records().map_while(|r| r.ok()).filter_map(|r| r.written_block()) {
                if pointer.logical_birth() >= claim && pointer.logical_birth() > min {
                    self.found(&pointer, &at);
                }
            }
            bp = parsed.next;
        }
    }

    fn root(&mut self, objset: u64, bp: &BlkPtr) {
        let at = Bookmark { objset, object: 0, level: -1, blkid: 0 };
        self.all(vec![Kid { bp: *bp, at, dnode: None }]);
    }

    /// Whether the block and everything below it were visited before.
    fn is_done(&self, kid: &Kid) -> bool {
        match (self.resume, &kid.dnode) {
            (Some(resume), Some(dnode)) if kid.at.object < ACCOUNTING => end_of(&kid.at, dnode) <= resume,
            _ => false,
        }
    }

    fn is_new(&self, bp: &BlkPtr) -> bool {
        !bp.is_hole() && !bp.is_redacted() && bp.logical_birth() > self.place.scan.current_min_txg
    }

    /// Stops here if the sink is full and either implementation can resume from this place.
    fn stops_at(&mut self, at: &Bookmark) -> bool {
        if at.object >= ACCOUNTING || !(at.level == 0 || at.level == -1) || at.blkid == SPILL || !self.sink.is_full() {
            return false;
        }
        self.place.scan.bookmark = match at.level {
            -1 => ErrorBookmark { objset: at.objset, ..START },
            _ => ErrorBookmark { objset: at.objset, object: at.object, level: 0, block: at.blkid },
        };
        self.stopped = true;
        true
    }

    /// Visits blocks in order, reading ahead those that contain pointers.
    fn all(&mut self, kids: Vec<Kid>) {
        let mut ahead: VecDeque<(usize, Receiver<Result<Block>>)> = VecDeque::new();
        let mut next = 0;
        for (number, kid) in kids.iter().enumerate() {
            if self.stopped || (!self.is_done(kid) && self.stops_at(&kid.at)) {
                return;
            }
            while next < kids.len() && ahead.len() < AHEAD {
                let kid = &kids[next];
                if next >= number && leads_on(kid) && self.is_new(&kid.bp) && !self.is_done(kid) {
                    ahead.push_back((next, self.readers.read(self.store, &kid.bp, &kid.at)));
                }
                next += 1;
            }
            if self.is_done(kid) || !self.is_new(&kid.bp) {
                continue;
            }
            let is_ours = self.in_range(&kid.bp);
            if is_ours {
                self.found(&kid.bp, &kid.at);
            }
            let Some((_, answer)) = ahead.pop_front_if(|(n, _)| *n == number) else { continue };
            let below = match answer.recv() {
                Ok(Ok(block)) => kids_of(kid, &block, self.sink),
                Ok(Err(e)) => Err(e),
                // A reader panicked; the panic was reported.
                Err(_) => Err(errors::Error::invalid(self.store.name(), "reading ahead failed")),
            };
            match below {
                Ok(below) => self.all(below),
                Err(e) => self.sink.broken(&kid.at, kid.bp.logical_birth().0, is_ours, &e),
            }
        }
    }

    /// Whether the block belongs to this scan. Younger blocks belong to a snapshot that is visited
    /// later, or were written after the scan began.
    fn in_range(&self, bp: &BlkPtr) -> bool {
        bp.physical_birth() <= self.place.scan.current_max_txg
    }

    fn found(&mut self, bp: &BlkPtr, at: &Bookmark) {
        let (birth, scan) = (bp.physical_birth(), &self.place.scan);
        if !bp.is_embedded() && birth > scan.min_txg && birth < scan.max_txg {
            self.sink.found(bp, at);
        }
    }
}

/// Whether the block contains pointers.
fn leads_on(kid: &Kid) -> bool {
    if kid.bp.level() > 0 {
        return true;
    }
    // Only roots are object sets, and only object 0 holds dnodes: a pointer elsewhere that claims
    // so leads in a circle.
    match (kid.bp.object_type(), &kid.dnode) {
        (ObjectType::OBJSET, None) => true,
        (ObjectType::DNODE, Some(_)) => kid.at.object == 0,
        _ => false,
    }
}

fn kids_of(kid: &Kid, block: &Block, sink: &mut dyn Sink) -> Result<Vec<Kid>> {
    let mut found = Vec::new();
    if kid.bp.level() > 0 {
        let per_block = (block.data.len() / blkptr::SIZE_BYTES) as u64;
        let level = i64::from(kid.bp.level()) - 1;
        for (i, raw) in block.data.chunks_exact(blkptr::SIZE_BYTES).enumerate() {
            let bp = BlkPtr::parse(raw, block.endian)?;
            let at =
                Bookmark { level, blkid: kid.at.blkid.saturating_mul(per_block).saturating_add(i as u64), ..kid.at };
            if !bp.is_hole() && !bp.is_redacted() && i64::from(bp.level()) != level {
                let what = format!("block pointer of level {} below one of level {}", bp.level(), level + 1);
                sink.broken(&at, bp.logical_birth().0, false, &errors::Error::corrupt("", what));
                continue;
            }
            found.push(Kid { bp, at, dnode: kid.dnode.clone() });
        }
        return Ok(found);
    }
    if kid.bp.object_type() == ObjectType::OBJSET {
        let phys = Objset::parse(&block.data, block.endian)?;
        push(&mut found, kid.at.objset, 0, phys.meta_dnode);
        for (number, dnode) in
            [(ACCOUNTING, phys.project_used), (u64::MAX - 1, phys.group_used), (u64::MAX, phys.user_used)]
        {
            if let Some(dnode) = dnode {
                push(&mut found, kid.at.objset, number, dnode);
            }
        }
        return Ok(found);
    }
    for (number, dnode) in dnodes_of(block, kid.at.blkid) {
        match dnode {
            Ok(d) => push(&mut found, kid.at.objset, number, d),
            Err(e) => {
                let at = Bookmark { objset: kid.at.objset, object: number, level: 0, blkid: 0 };
                sink.broken(&at, kid.bp.logical_birth().0, false, &e);
            }
        }
    }
    Ok(found)
}

fn push(found: &mut Vec<Kid>, objset: u64, number: u64, mut dnode: Dnode) {
    let at = Bookmark { objset, object: number, level: i64::from(dnode.levels) - 1, blkid: 0 };
    let pointers = std::mem::take(&mut dnode.blkptrs);
    let spill = dnode.spill.take();
    let dnode = Arc::new(dnode);
    for (i, bp) in pointers.into_iter().enumerate() {
        found.push(Kid { bp, at: Bookmark { blkid: i as u64, ..at }, dnode: Some(dnode.clone()) });
    }
    if let Some(bp) = spill {
        found.push(Kid { bp, at: Bookmark { level: 0, blkid: SPILL, ..at }, dnode: Some(dnode) });
    }
}
