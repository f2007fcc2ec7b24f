//! The walk: from a root to every block below it, on several threads.
//!
//! ```text
//!   root block -> metadnode, accounting -> indirect blocks -> blocks of dnodes -> objects' blocks
//!              -> intent log
//! ```
//! The work is a stack of block pointers. The deepest one is taken first, so that the size of the
//! stack is the depth of the tree times the pointers in a block, and does not grow with the pool.
//!
//! Invariants:
//!   * every block pointer is passed to the visitor once, before the blocks below it
//!   * an unreadable block ends the walk below it, not the whole walk

use block::{Block, Bookmark, Store};
use errors::Result;
use host::sync::{Condvar, Mutex};
use ondisk::zil::LogBlock;
use ondisk::{BlkPtr, Dnode, ObjectType, Objset, blkptr, dnode};
use std::collections::HashSet;
use std::panic::resume_unwind;
use std::sync::Arc;

/// Limit for the blocks of an intent log that are followed: 1 million of 128 KiB.
const LOG_BLOCKS_MAX: u32 = 1 << 20;

/// A block, as the visitor sees it.
pub struct Visit<'a> {
    pub bp: &'a BlkPtr,
    /// Bookmark of the block.
    pub at: Bookmark,
    /// Index of the root from which the walk came.
    pub root: usize,
    /// The object's dnode; `None` for the root block and the intent log.
    pub dnode: Option<&'a Dnode>,
    /// Number of the calling thread. Data kept per worker needs no other lock.
    pub worker: usize,
}

/// Receives the blocks of a walk.
pub trait Visitor: Sync {
    /// Called for a block that is not a hole. Returns false to skip the blocks below it or, in an
    /// intent log, the blocks after it.
    fn block(&self, visit: &Visit<'_>) -> bool;
    /// Called when the blocks below a block cannot be walked, because it is unreadable or invalid.
    fn broken(&self, worker: usize, at: Bookmark, error: &errors::Error);
    /// Whether to end the walk early.
    fn cancelled(&self) -> bool {
        false
    }
}

struct Task {
    bp: BlkPtr,
    at: Bookmark,
    root: usize,
    since: u64,
    dnode: Option<Arc<Dnode>>,
}

struct Queue {
    tasks: Vec<Task>,
    busy: usize,
}

struct Walk<'a> {
    store: &'a Store,
    visitor: &'a dyn Visitor,
    roots: &'a [super::Root],
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The dnodes in block `blkid` of the metadnode, with their object numbers; an error for each
/// invalid one.
pub(super) fn dnodes_of(block: &Block, blkid: u64) -> impl Iterator<Item = (u64, Result<Dnode>)> + '_ {
    let per_block = (block.data.len() / dnode::SLOT_BYTES) as u64;
    let mut slot = 0;
    std::iter::from_fn(move || {
        while (slot as u64) < per_block {
            let bytes = &block.data[slot * dnode::SLOT_BYTES..];
            let number = blkid.saturating_mul(per_block).saturating_add(slot as u64);
            slot += Dnode::slots_at(bytes);
            match Dnode::parse(bytes, block.endian) {
                // Object 0 is the metadnode itself; the contents of its slot belong to no tree.
                Ok(d) if d.object_type == ObjectType::NONE || number == 0 => {}
                dnode => return Some((number, dnode.map_err(errors::Error::from))),
            }
        }
        None
    })
}

/// Walks all blocks below `roots` that were born after each root's `since_txg`, on `threads`
/// threads.
pub fn walk(store: &Store, roots: &[super::Root], threads: usize, visitor: &dyn Visitor) {
    let tasks = roots
        .iter()
        .enumerate()
        .rev()
        .map(|(root, r)| Task {
            bp: r.bp,
            at: Bookmark { objset: r.objset, object: 0, level: -1, blkid: 0 },
            root,
            since: r.since_txg,
            dnode: None,
        })
        .collect();
    let walk = Walk { store, visitor, roots, queue: Mutex::new(Queue { tasks, busy: 0 }), changed: Condvar::new() };
    host::threads::scope(|s| {
        let walk = &walk;
        let workers: Vec<_> = (0..threads.max(1)).map(|worker| s.spawn(move || walk.run(worker))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
    });
}

/// A thread works on a task. Dropped even if it panics: the others would wait for its end.
struct Busy<'w>(&'w Walk<'w>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let mut q = self.0.queue.lock();
        q.busy -= 1;
        if std::thread::panicking() {
            // The walk panics once all threads have ended.
            q.tasks.clear();
        }
        drop(q);
        self.0.changed.notify_all();
    }
}

impl Walk<'_> {
    fn run(&self, worker: usize) {
        let mut found = Vec::new();
        loop {
            let task = {
                let mut q = self.queue.lock();
                loop {
                    if self.visitor.cancelled() {
                        q.tasks.clear();
                    }
                    if let Some(task) = q.tasks.pop() {
                        q.busy += 1;
                        break task;
                    }
                    if q.busy == 0 {
                        self.changed.notify_all();
                        return;
                    }
                    self.changed.wait(&mut q);
                }
            };
            let busy = Busy(self);
            if let Err(e) = self.visit(worker, &task, &mut found) {
                self.visitor.broken(worker, task.at, &e);
            }
            // Tasks are taken from the end: the first child must be the last on the stack.
            self.queue.lock().tasks.extend(found.drain(..).rev());
            drop(busy);
        }
    }

    /// Visits a block and finds the blocks below it. Data blocks directly below are visited at
    /// once: a task for each would cost more than the visit.
    fn visit(&self, worker: usize, task: &Task, found: &mut Vec<Task>) -> Result<()> {
        let Task { bp, at, root, .. } = task;
        if bp.is_hole() {
            return Ok(());
        }
        if bp.logical_birth().0 <= task.since {
            // The dataset has not changed since the snapshot, but the head has its own log.
            if at.level == -1 && self.roots[*root].has_log() {
                let block = self.store.read_unopened(bp, at)?;
                self.zil(worker, task, &Objset::parse(&block.data, block.endian)?);
            }
            return Ok(());
        }
        let visit = Visit { bp, at: *at, root: *root, dnode: task.dnode.as_deref(), worker };
        if !self.visitor.block(&visit) || bp.is_redacted() {
            return Ok(());
        }
        if bp.level() > 0 {
            return self.indirect(worker, task, found);
        }
        // Only roots are object sets, and only object 0 holds dnodes: a pointer elsewhere that
        // claims so leads in a circle.
        match (bp.object_type(), &task.dnode) {
            (ObjectType::OBJSET, None) => self.objset(worker, task, found),
            (ObjectType::DNODE, Some(_)) if task.at.object == 0 => self.dnodes(worker, task, found),
            _ => Ok(()),
        }
    }

    fn indirect(&self, worker: usize, task: &Task, found: &mut Vec<Task>) -> Result<()> {
        let block = self.store.read_unopened(&task.bp, &task.at)?;
        let below = i64::from(task.bp.level()) - 1;
        let per_block = (block.data.len() / blkptr::SIZE_BYTES) as u64;
        for (i, raw) in block.data.chunks_exact(blkptr::SIZE_BYTES).enumerate() {
            let bp = BlkPtr::parse(raw, block.endian)?;
            if bp.is_hole() || bp.logical_birth().0 <= task.since {
                continue;
            }
            let blkid = task.at.blkid.saturating_mul(per_block).saturating_add(i as u64);
            let at = Bookmark { level: below, blkid, ..task.at };
            if !bp.is_redacted() && i64::from(bp.level()) != below {
                let e = errors::Error::corrupt(
                    "",
                    format!("block pointer of level {} below one of level {}", bp.level(), below + 1),
                );
                self.visitor.broken(worker, at, &e);
            } else if below == 0 && !matches!(bp.object_type(), ObjectType::DNODE | ObjectType::OBJSET) {
                self.visitor.block(&Visit { bp: &bp, at, root: task.root, dnode: task.dnode.as_deref(), worker });
            } else {
                found.push(Task { bp, at, dnode: task.dnode.clone(), ..*task });
            }
            if self.visitor.cancelled() {
                break;
            }
        }
        Ok(())
    }

    fn objset(&self, worker: usize, task: &Task, found: &mut Vec<Task>) -> Result<()> {
        let block = self.store.read_unopened(&task.bp, &task.at)?;
        let phys = Objset::parse(&block.data, block.endian)?;
        if self.roots[task.root].has_log() {
            self.zil(worker, task, &phys);
        }
        self.dnode(task, 0, phys.meta_dnode, found);
        let accounting =
            [(phys.user_used, u64::MAX), (phys.group_used, u64::MAX - 1), (phys.project_used, u64::MAX - 2)];
        for (d, number) in accounting {
            if let Some(d) = d {
                self.dnode(task, number, d, found);
            }
        }
        Ok(())
    }

    fn dnodes(&self, worker: usize, task: &Task, found: &mut Vec<Task>) -> Result<()> {
        let block = self.store.read_unopened(&task.bp, &task.at)?;
        for (number, dnode) in dnodes_of(&block, task.at.blkid) {
            match dnode {
                Ok(d) => self.dnode(task, number, d, found),
                Err(e) => {
                    let at = Bookmark { object: number, level: 0, blkid: 0, ..task.at };
                    self.visitor.broken(worker, at, &e);
                }
            }
        }
        Ok(())
    }

    fn dnode(&self, task: &Task, number: u64, mut dnode: Dnode, found: &mut Vec<Task>) {
        let level = i64::from(dnode.levels) - 1;
        let at = Bookmark { objset: task.at.objset, object: number, level, blkid: 0 };
        let pointers = std::mem::take(&mut dnode.blkptrs);
        let spill = dnode.spill.take();
        if pointers.iter().chain(&spill).all(|bp| bp.is_hole() || bp.logical_birth().0 <= task.since) {
            return;
        }
        let dnode = Arc::new(dnode);
        let mut push = |bp: BlkPtr, at| {
            if !bp.is_hole() {
                found.push(Task { bp, at, root: task.root, since: task.since, dnode: Some(dnode.clone()) });
            }
        };
        for (i, bp) in pointers.into_iter().enumerate() {
            push(bp, Bookmark { blkid: i as u64, ..at });
        }
        if let Some(bp) = spill {
            push(bp, Bookmark { level: 0, blkid: u64::MAX, ..at });
        }
    }

    /// Visits the blocks of the intent log, to the end of the chain or until the visitor stops.
    fn zil(&self, worker: usize, task: &Task, phys: &Objset) {
        let mut bp = phys.zil.log;
        // Several records may refer to the same block.
        let mut seen = HashSet::new();
        // Each block of a chain carries the next number, so a chain cannot be a ring. This limits
        // the time.
        for _ in 0..LOG_BLOCKS_MAX {
            // The last snapshot is no limit: a log belongs to the head, whenever its blocks were
            // born.
            if bp.is_hole() {
                return;
            }
            let at = Bookmark { objset: task.at.objset, object: 0, level: -2, blkid: bp.checksum()[3] };
            if !self.visitor.block(&Visit { bp: &bp, at, root: task.root, dnode: None, worker }) {
                return;
            }
            // The last pointer of a chain refers to a block that was reserved but not written: it
            // ends the chain.
            let Ok(block) = self.store.read_unopened(&bp, &at) else { return };
            let Ok(parsed) = LogBlock::parse(&block.data, &bp) else { return };
            // Data blocks of claimed records are kept for the replay.
            for pointer in parsed.records().map_while(|r| r.ok()).filter_map(|r| r.written_block()) {
                let is_claimed = phys.zil.claim_txg.0 != 0 && pointer.logical_birth() >= phys.zil.claim_txg;
                if is_claimed && seen.insert(pointer.dva(0)) {
                    self.visitor.block(&Visit { bp: &pointer, at, root: task.root, dnode: None, worker });
                }
            }
            bp = parsed.next;
        }
    }
}
