//! Syncs a closed txg of an object set.
//!
//! ```text
//!   data blocks of all objects (on all cores) -> indirect blocks -> blocks of dnodes
//!     -> accounting by user, group, project -> the meta dnode's own tree -> root block
//! ```

use super::Tx;
use super::ranges::Ranges;
use super::set::LiveSet;
use super::state::{Content, Delta, LiveObject};
use super::sync_context::SyncContext;
use super::tree::{Change, Tree, dnodes_in};
use crate::ObjectSet;
use block::{Bookmark, WriteStore};
use bytes::Bytes;
use errors::{Error, Result};
use host::sync::Mutex;
use ondisk::dnode::{BLOCK_BYTES, SLOT_BYTES, SLOTS_PER_BLOCK};
use ondisk::{BlkPtr, Dnode, Endian, ObjectType, Txg};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An object that is being synced.
struct Going {
    live: Arc<LiveObject>,
    delta: Arc<Delta>,
    old: Option<Arc<Dnode>>,
}

/// A data block that is being written.
struct Job {
    object: usize,
    blkid: u64,
    content: Content,
}

impl ObjectSet {
    /// Whether there is something to sync for `txg`.
    pub fn is_dirty(&self, txg: u64) -> bool {
        self.live().is_some_and(|live| {
            !live.dirty.is_empty(txg)
                || live.accounting.iter().any(|o| o.state.read().open.is_some())
                || live.root_changed.load(Ordering::SeqCst)
        })
    }

    /// Whether nothing waits to be synced, in any txg.
    pub fn is_clean(&self) -> bool {
        self.live().is_none_or(|live| live.dirty.is_clean() && !live.root_changed.load(Ordering::SeqCst))
    }

    /// Closes `txg` for all objects. No [`Tx`] of that txg may be in use any more.
    pub fn quiesce(&self, txg: u64) {
        let Some(live) = self.live() else { return };
        for object in live.dirty.list(txg) {
            object.quiesce(txg);
        }
        live.numbers.lock().closed(txg);
    }

    /// Calls `visit` with the pointers of the data blocks that were cloned in `txg`, which must be
    /// closed and not synced yet.
    pub fn cloned(&self, txg: u64, visit: &mut dyn FnMut(&BlkPtr) -> Result<()>) -> Result<()> {
        let Some(live) = self.live() else { return Ok(()) };
        for object in live.dirty.list(txg) {
            let delta = object.state.read().syncing.clone();
            let Some(delta) = delta.filter(|delta| delta.txg == txg && delta.head.is_some()) else { continue };
            delta.pointers.values().filter(|bp| !bp.is_embedded()).try_for_each(&mut *visit)?;
        }
        Ok(())
    }

    /// Writes all changes of the txg, and the root block. Returns the pointer to the root block.
    ///
    /// May be called again for the same txg if [`Tx::syncing`] made more changes: blocks are then
    /// overwritten.
    pub fn sync(self: &Arc<Self>, cx: &dyn SyncContext) -> Result<BlkPtr> {
        let live = self.need_live()?;
        let txg = cx.txg();
        self.quiesce(txg);
        let going = go(live.dirty.take(txg));
        let done = self.sync_objects(cx, &going)?;
        self.put_dnodes(cx, &going, done)?;
        going.into_iter().for_each(|going| live.drop_gone(going.live));

        cx.objects_done(self, &Tx::syncing(txg))?;
        let changed = live.accounting.iter().filter(|o| o.state.read().open.is_some()).cloned().collect::<Vec<_>>();
        changed.iter().for_each(|o| o.quiesce(txg));
        let going = go(changed);
        let done = self.sync_objects(cx, &going)?;
        for (going, new) in going.iter().zip(done) {
            going.live.publish(new);
        }

        live.meta.quiesce(txg);
        let going = go(vec![live.meta.clone()]);
        let done = self.sync_objects(cx, &going)?;
        for (going, new) in going.iter().zip(done) {
            going.live.publish(new);
        }
        live.root_changed.store(false, Ordering::SeqCst);
        self.write_root(cx, live)
    }

    /// Writes the trees of `going`. Returns their new dnodes, in the same order. Nothing is
    /// published yet.
    fn sync_objects(&self, cx: &dyn SyncContext, going: &[Going]) -> Result<Vec<Option<Dnode>>> {
        let mut jobs = Vec::new();
        for (object, g) in going.iter().enumerate() {
            if g.delta.head.is_some() {
                let job = |blkid: &u64, content| Job { object, blkid: *blkid, content };
                jobs.extend(g.delta.blocks.iter().map(|(blkid, b)| job(blkid, Content::Plain(b.clone()))));
                jobs.extend(g.delta.raw().iter().map(|(blkid, t)| job(blkid, Content::Raw(t.clone()))));
            }
        }
        let trees: Vec<Mutex<Option<Tree<'_>>>> = going.iter().map(|g| Mutex::new(self.tree(cx, g))).collect();
        // Trees whose contents are all dropped are freed first: later, their pointers could not be
        // distinguished from new ones.
        parallel(cx.store(), going.len(), |i| {
            let g = &going[i];
            if let (true, Some(old)) = (g.delta.wiped, &g.old) {
                let mut tree = self.bare_tree(cx, g.live.id, Dnode::clone(old));
                tree.free_all()?;
            }
            Ok(())
        })?;
        let pointers: Vec<Mutex<BlkPtr>> = jobs.iter().map(|_| Mutex::new(BlkPtr::HOLE)).collect();
        parallel(cx.store(), jobs.len(), |i| {
            let job = &jobs[i];
            let (old, policy, id) = {
                let tree = trees[job.object].lock();
                let Some(tree) = tree.as_ref() else { return Ok(()) };
                let may_be_rewrite = cx.repeats() && going[job.object].old.is_some() && !going[job.object].delta.wiped;
                let old = if may_be_rewrite { tree.pointer(job.blkid)? } else { BlkPtr::HOLE };
                (
                    if tree.is_rewrite(&old) { old } else { BlkPtr::HOLE },
                    cx.policy(&tree.written(0, false)),
                    going[job.object].live.id,
                )
            };
            let at = Bookmark { objset: self.id(), object: id, level: 0, blkid: job.blkid };
            let keys = self.keys().map(Arc::as_ref);
            let mut bp = match &job.content {
                Content::Raw(block) => cx.store().write_raw(cx.txg(), block, &policy, &at, keys)?,
                Content::Plain(data) if id == 0 && self.is_sealed() => {
                    let old = || match trees[job.object].lock().as_ref() {
                        Some(tree) => tree.pointer(job.blkid),
                        None => Ok(BlkPtr::HOLE),
                    };
                    self.write_sealed_dnodes(cx, job.blkid, data.bytes(), &policy, &at, &old)?
                }
                Content::Plain(data) if old.is_hole() => {
                    let before = going[job.object].old.as_ref().filter(|_| !going[job.object].delta.wiped);
                    let present = match before.filter(|_| policy.may_keep() && keys.is_none()) {
                        Some(before) => self.bare_tree(cx, id, Dnode::clone(before)).pointer(job.blkid)?,
                        None => BlkPtr::HOLE,
                    };
                    cx.store().write_or_keep(cx.txg(), &present, data.bytes(), &policy, &at, keys)?
                }
                Content::Plain(data) => cx.store().rewrite(cx.txg(), &old, data.bytes(), &policy, &at, keys)?,
            };
            if let (Content::Plain(data), ObjectType::DNODE, false) = (&job.content, policy.object_type, bp.is_hole()) {
                bp.set_fill(dnodes_in(data.as_ref()));
            }
            *pointers[i].lock() = bp;
            Ok(())
        })?;
        let mut first = vec![0; going.len() + 1];
        for job in &jobs {
            first[job.object + 1] += 1;
        }
        for i in 0..going.len() {
            first[i + 1] += first[i];
        }
        parallel(cx.store(), going.len(), |i| {
            let mut slot = trees[i].lock();
            let Some(tree) = slot.as_mut() else { return Ok(()) };
            let delta = &going[i].delta;
            let mut blocks: Vec<_> = (first[i]..first[i + 1]).map(|j| (jobs[j].blkid, *pointers[j].lock())).collect();
            if !delta.pointers.is_empty() || !delta.raw().is_empty() {
                blocks.extend(delta.pointers.iter().map(|(blkid, bp)| (*blkid, taken_over(*bp, cx.txg()))));
                blocks.sort_unstable_by_key(|(blkid, _)| *blkid);
            }
            let changes = changes(blocks, &delta.holes);
            tree.dnode.max_block_id = going[i].delta.head.as_ref().map_or(0, |h| h.max_block_id);
            tree.apply(&changes)?;
            self.sync_spill(cx, tree, &going[i].delta)
        })?;
        Ok(trees.into_iter().map(|t| t.into_inner().map(|t| t.dnode)).collect())
    }

    fn bare_tree<'a>(&'a self, cx: &'a dyn SyncContext, id: u64, dnode: Dnode) -> Tree<'a> {
        let (keys, is_sealed) = (self.keys().map(Arc::as_ref), self.is_sealed());
        Tree { cx, objset: self.id(), id, keys, is_sealed, levels_min: 0, dnode }
    }

    /// The new dnode, with the tree that is on disk.
    fn tree<'a>(&'a self, cx: &'a dyn SyncContext, g: &Going) -> Option<Tree<'a>> {
        let mut dnode = Dnode::clone(g.delta.head.as_ref()?);
        match g.old.as_ref().filter(|_| !g.delta.wiped) {
            Some(old) => {
                let pointers = dnode.blkptrs.len().max(old.blkptrs.len());
                dnode.blkptrs.clone_from(&old.blkptrs);
                dnode.blkptrs.resize(pointers, BlkPtr::HOLE);
                (dnode.levels, dnode.used_bytes, dnode.flags) = (old.levels, old.used_bytes, old.flags);
                dnode.spill = old.spill;
            }
            None => {
                dnode.blkptrs.fill(BlkPtr::HOLE);
                (dnode.used_bytes, dnode.spill) = (0, None);
                dnode.flags = 0;
                if g.live.id != 0 {
                    dnode.levels = 1;
                }
            }
        }
        dnode.flags = match cx.counts_sectors() {
            true => dnode.flags & !Dnode::FLAG_USED_BYTES,
            false => dnode.flags | Dnode::FLAG_USED_BYTES,
        };
        Some(Tree { levels_min: g.delta.levels_min, ..self.bare_tree(cx, g.live.id, dnode) })
    }

    fn sync_spill(&self, cx: &dyn SyncContext, tree: &mut Tree<'_>, delta: &Delta) -> Result<()> {
        let Some(spill) = &delta.spill else { return Ok(()) };
        let old = tree.dnode.spill.take().unwrap_or(BlkPtr::HOLE);
        if let Some(content) = spill {
            // DMU_SPILL_BLKID: all ones.
            let at = Bookmark { objset: self.id(), object: tree.id, level: 0, blkid: u64::MAX };
            let policy = cx.policy(&tree.written(0, true));
            let keys = self.keys().map(Arc::as_ref);
            let new = match content {
                Content::Plain(buffer) if tree.is_rewrite(&old) => {
                    let new = cx.store().rewrite(cx.txg(), &old, buffer.bytes(), &policy, &at, keys)?;
                    tree.forget(&old);
                    new
                }
                Content::Plain(buffer) => {
                    let new = cx.store().write(cx.txg(), buffer.bytes(), &policy, &at, keys)?;
                    tree.kill(&old)?;
                    new
                }
                Content::Raw(block) => {
                    let new = cx.store().write_raw(cx.txg(), block, &policy, &at, keys)?;
                    tree.kill(&old)?;
                    new
                }
            };
            tree.born(&new);
            tree.dnode.spill = Some(new);
        } else {
            tree.kill(&old)?;
        }
        Ok(())
    }

    /// Stores the new dnodes in their blocks, and publishes them.
    fn put_dnodes(&self, cx: &dyn SyncContext, going: &[Going], done: Vec<Option<Dnode>>) -> Result<()> {
        let tx = Tx::syncing(cx.txg());
        let mut by_block: BTreeMap<u64, Vec<(usize, Option<Dnode>)>> = BTreeMap::new();
        for (i, (g, mut new)) in going.iter().zip(done).enumerate() {
            let spill = || match &g.delta.spill {
                Some(changed) => changed.as_ref().map(Content::bytes).transpose(),
                None => match g.old.as_ref().filter(|_| !g.delta.wiped).and_then(|old| old.spill) {
                    Some(bp) if !bp.is_hole() => {
                        let at = Bookmark { objset: self.id(), object: g.live.id, level: 0, blkid: u64::MAX };
                        cx.store().read(&bp, &at, self.keys().map(Arc::as_ref)).map(|b| Some(b.data))
                    }
                    _ => Ok(None),
                },
            };
            cx.object_changed(g.live.id, g.old.as_deref(), new.as_mut(), &spill)?;
            by_block.entry(g.live.id / SLOTS_PER_BLOCK).or_default().push((i, new));
        }
        let meta = self.meta();
        for (block, dnodes) in by_block {
            let mut bytes = match meta.block(block)? {
                Some(b) if b.endian != Endian::Little => {
                    return Err(Error::unsupported(
                        self.place_of_set(),
                        "changing encrypted dnodes that a big-endian host wrote",
                    ));
                }
                Some(b) => b.data.to_vec(),
                None => vec![0; BLOCK_BYTES],
            };
            let slot_of = |i: usize| (going[i].live.id % SLOTS_PER_BLOCK) as usize * SLOT_BYTES;
            for (i, _) in &dnodes {
                if let Some(old) = &going[*i].old {
                    bytes[slot_of(*i)..][..usize::from(old.slots) * SLOT_BYTES].fill(0);
                }
            }
            for (i, new) in &dnodes {
                if let Some(new) = new {
                    let packed = new.to_bytes()?;
                    bytes[slot_of(*i)..][..packed.len()].copy_from_slice(&packed);
                }
            }
            meta.write_at(&tx, block * BLOCK_BYTES as u64, &bytes)?;
            for (i, new) in dnodes {
                going[i].live.publish(new);
            }
        }
        Ok(())
    }

    fn write_root(&self, cx: &dyn SyncContext, live: &LiveSet) -> Result<BlkPtr> {
        let dnode_of = |o: &Arc<LiveObject>| o.state.read().synced.as_ref().map(|d| Dnode::clone(d));
        let mut root = live.root.lock();
        let mut phys = self.phys().clone();
        phys.endian = super::state::WRITTEN;
        phys.meta_dnode =
            dnode_of(&live.meta).ok_or_else(|| Error::corrupt(self.place_of_set(), "no dnode of dnodes"))?;
        [phys.user_used, phys.group_used, phys.project_used] = [0, 1, 2].map(|i| dnode_of(&live.accounting[i]));
        (phys.zil, phys.flags) = (root.zil, root.flags);
        if phys.user_used.is_some() {
            root.size_bytes = root.size_bytes.max(2048);
        }
        if phys.project_used.is_some() {
            root.size_bytes = 4096;
        }
        let fill = phys.meta_dnode.blkptrs.iter().map(|bp| if bp.is_hole() { 0 } else { bp.fill() }).sum();
        self.seal_elsewhere(&mut phys);
        let mut bytes = phys.to_bytes(root.size_bytes)?;
        let keys = self.keys().map(Arc::as_ref);
        if let Some(keys) = keys {
            keys.seal_objset(&mut bytes)?;
        }
        let (policy, txg) = (cx.root_policy(), cx.txg());
        let at = Bookmark { objset: self.id(), object: 0, level: -1, blkid: 0 };
        let old = root.bp;
        let rewrite = cx.repeats() && !old.is_hole() && old.logical_birth().0 == txg;
        let mut new = if rewrite {
            let new = cx.store().rewrite(txg, &old, Bytes::from(bytes), &policy, &at, keys)?;
            cx.forgotten(&old);
            new
        } else {
            let new = match self.is_sealed() {
                true => cx.store().write_sealed_set(txg, Bytes::from(bytes), &policy, &at)?,
                false => cx.store().write(txg, Bytes::from(bytes), &policy, &at, keys)?,
            };
            if !old.is_hole() {
                cx.killed(&old)?;
            }
            new
        };
        new.set_fill(fill);
        cx.born(&new);
        root.bp = new;
        Ok(new)
    }

    pub(super) fn free_everything(self: &Arc<Self>, cx: &dyn SyncContext) -> Result<()> {
        let live = self.need_live()?;
        let mut id = 0;
        while let Some(next) = self.next_object(id)? {
            let dnode = self.dnode(next)?;
            self.bare_tree(cx, next, dnode).free_all()?;
            id = next;
        }
        for object in live.accounting.iter().chain([&live.meta]) {
            let dnode = object.state.read().synced.clone();
            if let Some(dnode) = dnode {
                self.bare_tree(cx, object.id, Dnode::clone(&dnode)).free_all()?;
            }
        }
        let root = std::mem::replace(&mut live.root.lock().bp, BlkPtr::HOLE);
        if root.is_hole() { Ok(()) } else { cx.killed(&root) }
    }
}

/// A pointer to a cloned block, with `txg` as its logical birth.
fn taken_over(mut bp: BlkPtr, txg: u64) -> BlkPtr {
    bp.set_logical_birth(Txg(txg));
    bp
}

fn go(objects: Vec<Arc<LiveObject>>) -> Vec<Going> {
    let going = objects.into_iter().filter_map(|live| {
        let state = live.state.read();
        let (delta, old) = (state.syncing.clone()?, state.synced.clone());
        drop(state);
        Some(Going { live, delta, old })
    });
    going.collect()
}

/// Merges new blocks and holes into one ordered list; a block takes precedence over a hole.
fn changes(blocks: Vec<(u64, BlkPtr)>, holes: &Ranges) -> Vec<Change> {
    let mut changes = Vec::with_capacity(blocks.len());
    let mut blocks = blocks.into_iter().peekable();
    let block = |(blkid, bp): (u64, BlkPtr)| Change { start: blkid, end: blkid + 1, block: Some(bp) };
    for hole in holes.iter() {
        while let Some(b) = blocks.next_if(|(blkid, _)| *blkid < hole.start) {
            changes.push(block(b));
        }
        let mut start = hole.start;
        while let Some(b) = blocks.next_if(|(blkid, _)| *blkid < hole.end) {
            if start < b.0 {
                changes.push(Change { start, end: b.0, block: None });
            }
            start = b.0 + 1;
            changes.push(block(b));
        }
        if start < hole.end {
            changes.push(Change { start, end: hole.end, block: None });
        }
    }
    changes.extend(blocks.map(block));
    changes
}

/// Calls `work` with 0 to `count - 1`, each of which may write a block; on several threads if there
/// is enough of it, or if they wait for devices. Stops at the first error.
fn parallel(store: &WriteStore, count: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    let threads = store.writers(count);
    if threads <= 1 {
        return (0..count).try_for_each(work);
    }
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let task = block::Task::current();
    let run = || {
        let _doing = block::doing(task);
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return;
            }
            if let Err(e) = work(i) {
                next.store(count, Ordering::Relaxed);
                failed.lock().get_or_insert(e);
            }
        }
    };
    host::threads::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        run();
        // Its reason becomes that of the txg.
        others.into_iter().for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
    });
    match failed.into_inner() {
        Some(e) => Err(e),
        None => Ok(()),
    }
}
