//! One dataset in the syncing txg: writes its blocks by policy, and accounts for them.
//!
//! ```text
//!   born    -> referenced, unique, directory: head               (and up the tree)
//!   killed, born after the last snapshot  -> freed; counted out the same way
//!   killed, older                         -> deadlist; in the directory, moves from head to
//!                                            snapshots; unique of the last snapshot grows if
//!                                            only it has the block now
//! ```
//! Facts: `dsl_dataset_block_born`, `dsl_dataset_block_kill`, `dsl_dataset_sync_done` in
//! module/zfs/dsl_dataset.c, `dsl_bookmark_block_killed` in dsl_bookmark.c.
//!
//! Invariants:
//!   * blocks are counted while they are written, on any thread; the MOS is changed once,
//!     afterwards, by the syncing thread

use super::owners::{Changes, Counting};
use super::policy::Policies;
use crate::deadlist::add;
use crate::write::cx::Cx;
use crate::write::space::{self, Delta, Part};
use crate::write::{deadlist, feature, props};
use block::WritePolicy;
use block::WriteStore;
use bytes::Bytes;
use errors::{Place, Result};
use host::sync::Mutex;
use object::{ObjectSet, SyncContext, Tx, Written};
use ondisk::dsl_dataset::FIELD_BOOKMARKS;
use ondisk::dsl_dir::FIELD_LIVELIST;
use ondisk::{BlkPtr, Dnode, DslBookmark, ObjsetKind, SpaceTriple, version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Changes to the blocks of a dataset.
#[derive(Default)]
struct Tally {
    born: SpaceTriple,
    freed: SpaceTriple,
    dead: Vec<BlkPtr>,
    /// Freed blocks that a bookmark may count, with their births.
    freed_births: Vec<(u64, SpaceTriple)>,
    /// For a livelist: blocks born, and blocks freed of those that the clone wrote.
    live: (Vec<BlkPtr>, Vec<BlkPtr>),
    features: BTreeSet<&'static str>,
    changes: Changes,
}

/// A dataset being synced.
pub(crate) struct DatasetSync<'a> {
    cx: Cx<'a>,
    id: u64,
    policies: Policies,
    counting: Option<Counting>,
    prev_snap_txg: u64,
    /// Births after this are not in bookmarks; `None`: there are no bookmarks to update.
    newest_bookmark: Option<u64>,
    reserved: u64,
    /// Of a clone that has one: its livelist, and the txg after which the clone's own blocks
    /// were born.
    livelist: Option<(u64, u64)>,
    tally: Mutex<Tally>,
}

impl<'a> DatasetSync<'a> {
    /// Starts syncing dataset `id`.
    pub(crate) fn new(cx: Cx<'a>, id: u64, policies: Policies, counting: Option<Counting>) -> Result<Self> {
        let phys = cx.dataset(id)?.phys;
        let reserved = props::own_number(&cx, phys.dir, "refreservation")?;
        let bookmarks = bookmarks_since(&cx, id, phys.prev_snap_txg.0)?;
        let newest_bookmark = bookmarks.iter().map(|(_, mark)| mark.creation_txg.0).max();
        let livelist = match cx.field_u64(phys.dir, FIELD_LIVELIST)? {
            Some(list) => Some((list, cx.dataset(cx.dir(phys.dir)?.phys.origin)?.phys.creation_txg.0)),
            None => None,
        };
        let tally = Mutex::default();
        Ok(Self {
            livelist,
            cx,
            id,
            policies,
            counting,
            prev_snap_txg: phys.prev_snap_txg.0,
            newest_bookmark,
            reserved,
            tally,
        })
    }

    fn is_in_livelist(&self, bp: &BlkPtr) -> bool {
        let after = |txg: u64| bp.logical_birth().0 > txg && !bp.is_embedded();
        self.livelist.is_some_and(|(_, origin_txg)| after(origin_txg))
    }

    /// Counts a feature as used.
    pub(crate) fn use_feature(&self, guid: &'static str) {
        self.tally.lock().features.insert(guid);
    }

    /// Writes the changes in `set`, and accounts for them.
    pub(crate) fn run(self, set: &Arc<ObjectSet>) -> Result<()> {
        let root = set.sync(&self)?;
        self.finish(root)
    }

    /// Accounts for a new root block of a dataset that is not open.
    pub(crate) fn replace_root(self, old: &BlkPtr, new: BlkPtr) -> Result<()> {
        self.born(&new);
        self.killed(old)?;
        self.finish(new)
    }

    fn finish(self, root: BlkPtr) -> Result<()> {
        let (cx, tally) = (self.cx, self.tally.into_inner());
        let mut dataset = cx.dataset(self.id)?;
        let dir_id = dataset.phys.dir;
        let mut dead = SpaceTriple::default();
        tally.dead.iter().for_each(|bp| add(&mut dead, cx.space_of(bp)));

        // The directory's usage: the head's born and freed blocks, less what a
        // refreservation had covered.
        let here = Delta::between(tally.born, tally.freed);
        let unique = dataset.phys.unique_bytes;
        let weight = space::weight_change(unique, self.reserved, here.used);
        let parts = (Part::Refreservation, Part::Head);
        space::did_use_and_transfer(&cx, dir_id, Delta { used: weight, ..here }, here.used, parts)?;

        let total = Delta::between(tally.born, {
            let mut gone = tally.freed;
            add(&mut gone, dead);
            gone
        });
        let phys = &mut dataset.phys;
        phys.bp = root;
        phys.referenced_bytes = phys.referenced_bytes.wrapping_add_signed(total.used);
        phys.compressed_bytes = phys.compressed_bytes.wrapping_add_signed(total.compressed);
        phys.uncompressed_bytes = phys.uncompressed_bytes.wrapping_add_signed(total.uncompressed);
        phys.unique_bytes = unique.wrapping_add_signed(here.used);
        let (prev, list) = (phys.prev_snap, phys.deadlist);
        cx.put_dataset(&dataset)?;

        if !tally.dead.is_empty() {
            deadlist::insert(&cx, list, &tally.dead)?;
            let used_after = |txg: u64| {
                let after = tally.dead.iter().filter(|bp| bp.logical_birth().0 > txg);
                after.map(|bp| cx.space_of(bp).used).fold(0, u64::saturating_add)
            };
            if prev != 0 {
                let before = cx.dataset(prev)?.phys;
                if before.next_snap == self.id {
                    let only_there = used_after(before.prev_snap_txg.0);
                    cx.change_dataset(prev, |phys| phys.unique_bytes = phys.unique_bytes.wrapping_add(only_there))?;
                }
            }
            let origin = cx.dir(dir_id)?.phys.origin;
            let origin_txg = if origin == 0 { 0 } else { cx.dataset(origin)?.phys.creation_txg.0 };
            space::transfer(&cx, dir_id, used_after(origin_txg) as i64, (Part::Head, Part::Snapshots))?;
        }
        count_in_bookmarks(&cx, self.id, self.prev_snap_txg, &tally.dead, &tally.freed_births)?;
        if let Some((list, _)) = self.livelist {
            deadlist::note_live(&cx, list, &tally.live.0, &tally.live.1)?;
        }
        for guid in tally.features {
            feature::activate(&cx, self.id, guid)?;
        }
        Ok(())
    }
}

/// The bookmarks of dataset `id` that count blocks freed from the head, by name.
fn bookmarks_since(cx: &Cx<'_>, id: u64, prev_snap_txg: u64) -> Result<Vec<(Vec<u8>, DslBookmark)>> {
    let Some(zap) = cx.field_u64(id, FIELD_BOOKMARKS)?.filter(|zap| *zap != 0) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in cx.zap(zap)?.entries()? {
        let mark = DslBookmark::from_words(&entry.value.ints).at("bookmark")?;
        if mark.creation_txg.0 >= prev_snap_txg && mark.flags & DslBookmark::FLAG_HAS_FBN != 0 {
            found.push((entry.name, mark));
        }
    }
    Ok(found)
}

fn count_in_bookmarks(
    cx: &Cx<'_>,
    id: u64,
    prev_snap_txg: u64,
    dead: &[BlkPtr],
    freed: &[(u64, SpaceTriple)],
) -> Result<()> {
    if dead.is_empty() && freed.is_empty() {
        return Ok(());
    }
    for (name, mut mark) in bookmarks_since(cx, id, prev_snap_txg)? {
        let before = mark.freed_before_next_snap;
        let gone = dead.iter().map(|bp| (bp.logical_birth().0, cx.space_of(bp))).chain(freed.iter().copied());
        gone.filter(|(birth, _)| *birth <= mark.creation_txg.0)
            .for_each(|(_, space)| add(&mut mark.freed_before_next_snap, space));
        if mark.freed_before_next_snap != before
            && let Some(zap) = cx.field_u64(id, FIELD_BOOKMARKS)?
        {
            let value = ondisk::zap::Value { int_bytes: 8, ints: mark.to_words().to_vec() };
            cx.zap(zap)?.update(cx.tx(), &name, &value)?;
        }
    }
    Ok(())
}

impl SyncContext for DatasetSync<'_> {
    fn txg(&self) -> u64 {
        self.cx.txg()
    }

    fn counts_sectors(&self) -> bool {
        self.cx.sync.version() < version::DNODE_BYTES
    }

    fn store(&self) -> &WriteStore {
        self.cx.store()
    }

    fn repeats(&self) -> bool {
        false
    }

    fn policy(&self, what: &Written) -> WritePolicy {
        self.policies.of(what)
    }

    fn root_policy(&self) -> WritePolicy {
        self.policies.root()
    }

    fn born(&self, bp: &BlkPtr) {
        if bp.is_hole() {
            return;
        }
        let space = self.cx.space_of(bp);
        let mut tally = self.tally.lock();
        add(&mut tally.born, space);
        if self.is_in_livelist(bp) {
            tally.live.0.push(*bp);
        }
        tally.features.extend(feature::of_block(bp));
    }

    fn killed(&self, bp: &BlkPtr) -> Result<()> {
        if bp.is_hole() || bp.is_redacted() {
            return Ok(());
        }
        let birth = bp.logical_birth().0;
        if self.is_in_livelist(bp) {
            self.tally.lock().live.1.push(*bp);
        }
        if birth <= self.prev_snap_txg {
            self.tally.lock().dead.push(*bp);
            return Ok(());
        }
        let space = self.cx.space_of(bp);
        {
            let mut tally = self.tally.lock();
            add(&mut tally.freed, space);
            if self.newest_bookmark.is_some_and(|newest| birth <= newest) {
                tally.freed_births.push((birth, space));
            }
        }
        self.cx.sync.free(bp)
    }

    fn forgotten(&self, bp: &BlkPtr) {
        let space = self.cx.space_of(bp);
        let mut tally = self.tally.lock();
        add(&mut tally.freed, space);
        if self.is_in_livelist(bp) {
            tally.live.1.push(*bp);
        }
    }

    fn space_bytes(&self, bp: &BlkPtr) -> u64 {
        self.cx.space_of(bp).used
    }

    fn hole_birth(&self) -> bool {
        self.cx.sync.hole_birth()
    }

    fn object_changed(
        &self,
        _id: u64,
        old: Option<&Dnode>,
        new: Option<&mut Dnode>,
        spill: &dyn Fn() -> Result<Option<Bytes>>,
    ) -> Result<()> {
        let is_large = new.as_ref().is_some_and(|new| new.slots > 1);
        let mut tally = self.tally.lock();
        if is_large {
            tally.features.insert(feature::LARGE_DNODE);
        }
        match &self.counting {
            Some(counting) => tally.changes.note(counting, old, new, spill),
            None => Ok(()),
        }
    }

    fn objects_done(&self, set: &Arc<ObjectSet>, tx: &Tx) -> Result<()> {
        let Some(counting) = &self.counting else { return Ok(()) };
        if set.phys().kind != ObjsetKind::FileSystem {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.tally.lock().changes);
        changes.apply(set, tx, counting.projects)
    }
}
