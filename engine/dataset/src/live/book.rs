//! Space accounting: used space, quotas and reservations of directories, and the space reserved by
//! open txgs.
//!
//! ```text
//!   begin:  reserve bytes in the open txg, for the dataset's directory and all above it
//!   synced: re-read all figures from the pool's own objects; drop the reservations of that txg
//! ```
//! A change that would exceed a limit while reservations are outstanding waits for them to be
//! synced, because estimates are large. A change whose shortfall is covered by space that was freed
//! and is not yet reusable waits for that space. A change that frees space waits for its turn as
//! long as any space remains. Any other change is refused.
//!
//! Quotas limit what is on disk: as long as less is used, one change may exceed them, as in
//! OpenZFS. Facts: `dsl_dir_tempreserve_impl` in module/zfs/dsl_dir.c, `dsl_dataset_check_quota` in
//! dsl_dataset.c.
//!
//! Invariants:
//!   * a txg that was allowed to begin can be synced: the slop space of the pool (1/32) covers what
//!     estimates leave out
//!   * figures change in every txg, whatever the cause: a write, a task, or freeing in the
//!     background

use crate::Dataset;
use crate::write::cx::{read_dataset, read_dir};
use crate::write::space::weight_change;
use errors::{Error, Refusal, Result};
use host::sync::Mutex;
use object::ObjectSet;
use ondisk::DslDir;
use pool::SpaceCheck;
use pool::space::alloc::SpaceStats;
use std::collections::HashMap;
use std::sync::Arc;

/// Txgs that can be open, quiescing or syncing at once, plus one for indexing.
const TXGS: usize = 4;
/// The part of a quota by which estimates of open txgs may exceed it (`ext_quota`).
const QUOTA_EXCESS: u64 = 32;

#[derive(Debug, Clone, Default)]
struct DirBook {
    parent: u64,
    used: u64,
    quota: u64,
    reserved: u64,
    promised: [u64; TXGS],
}

#[derive(Debug, Clone, Default)]
struct HeadBook {
    dir: u64,
    referenced: u64,
    unique: u64,
    refquota: u64,
    refreservation: u64,
    promised: [u64; TXGS],
}

#[derive(Default)]
struct Pages {
    dirs: HashMap<u64, DirBook>,
    heads: HashMap<u64, HeadBook>,
    /// Space being freed for which a change waited in vain: each txg frees blocks of the pool's
    /// own objects, and writes as many.
    churn_bytes: u64,
}

/// The pool's current space. Deferred space is not included in the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// What all datasets together may use.
    pub normal_bytes: u64,
    /// The same for changes that free space.
    pub reserved_bytes: u64,
    /// Freed, and reusable after the next txgs.
    pub deferred_bytes: u64,
    /// Counted as used by destroyed datasets, and being freed.
    pub freeing_bytes: u64,
}

impl Room {
    pub(crate) fn of(totals: &SpaceStats, saved_bytes: u64, freeing_bytes: u64) -> Self {
        let deferred_bytes = totals.held_back_bytes();
        let usable = |check| totals.usable_bytes(check).saturating_add(saved_bytes).saturating_sub(deferred_bytes);
        Self {
            normal_bytes: usable(SpaceCheck::Normal),
            reserved_bytes: usable(SpaceCheck::Reserved),
            deferred_bytes,
            freeing_bytes,
        }
    }

    /// Space that becomes free after some txgs.
    pub(crate) fn coming_bytes(&self) -> u64 {
        self.deferred_bytes.saturating_add(self.freeing_bytes)
    }
}

/// Space accounting of a pool.
#[derive(Default)]
pub(crate) struct Book(Mutex<Pages>);

/// The answer to a request for space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted,
    /// It may fit once the current txgs are synced.
    Later,
    /// It frees space, and fits once nothing else is reserved: each such change gets its turn.
    InTurn,
    /// It may fit once freed space becomes reusable.
    AfterFrees,
    Refused(Refusal),
}

fn slot(txg: u64) -> usize {
    (txg % TXGS as u64) as usize
}

impl Book {
    /// Opens a page for `head` and for the directories above it, or changes its limits. The
    /// figures of open pages may be newer than those of `head`.
    pub(crate) fn note(&self, head: &Dataset, refquota: u64, refreservation: u64) {
        let mut pages = self.0.lock();
        let page = pages.heads.entry(head.id()).or_insert_with(|| HeadBook {
            dir: head.dir().id(),
            referenced: head.phys().referenced_bytes,
            unique: head.phys().unique_bytes,
            ..HeadBook::default()
        });
        (page.refquota, page.refreservation) = (refquota, refreservation);
        let mut at = Some(head.dir().clone());
        while let Some(dir) = at {
            pages.dirs.entry(dir.id()).or_insert_with(|| DirBook::of(dir.phys()));
            at = dir.parent().cloned();
        }
    }

    /// The dataset is no longer open for writing.
    pub(crate) fn forget(&self, head: u64) {
        self.0.lock().heads.remove(&head);
    }

    /// Reads the figures of all heads and the directories above them from the pool's own
    /// objects after `txg`. Space reserved in that txg is on disk, or was not used.
    pub(crate) fn synced(&self, txg: u64, mos: &Arc<ObjectSet>, coming_bytes: u64) {
        let mut heads: Vec<u64> = self.0.lock().heads.keys().copied().collect();
        heads.sort_unstable();
        let found = Figures::read(mos, &heads);
        let mut pages = self.0.lock();
        pages.heads.retain(|id, _| !found.gone.contains(id));
        // Pages opened in the meantime have newer figures, and directories of their own.
        if pages.heads.keys().all(|id| found.heads.contains_key(id)) {
            pages.dirs.retain(|id, _| found.dirs.contains_key(id));
        }
        for (id, (dir, referenced, unique)) in found.heads {
            if let Some(page) = pages.heads.get_mut(&id) {
                (page.dir, page.referenced, page.unique) = (dir, referenced, unique);
            }
        }
        for (id, phys) in found.dirs {
            pages.dirs.entry(id).or_default().take(&phys);
        }
        pages.settle(txg);
        pages.churn_bytes = pages.churn_bytes.min(coming_bytes);
    }

    /// A change waited for freed space to become reusable, and did not fit even then.
    pub(crate) fn waited_in_vain(&self, room: &Room) {
        self.0.lock().churn_bytes = room.coming_bytes();
    }

    /// Reserves `bytes` for `head` in `txg`. A change that frees space (`net_free`) may exceed
    /// quotas, and use half of the slop space.
    pub(crate) fn ask(&self, head: u64, txg: u64, bytes: u64, net_free: bool, room: &Room) -> Answer {
        let mut pages = self.0.lock();
        let Some(page) = pages.heads.get(&head) else { return Answer::Granted };
        let inflight: u64 = page.promised.iter().sum();
        if page.refquota != 0 && !net_free && page.referenced.saturating_add(inflight) >= page.refquota {
            return later(inflight > 0, Refusal::QuotaExceeded);
        }
        // The unused part of the refreservation belongs to the head, and counts as used
        // already.
        let spare = page.refreservation.saturating_sub(page.unique);
        let own = bytes.min(spare.saturating_sub(inflight));
        let (mut at, mut requested, mut first) = (page.dir, bytes, true);
        let mut granted = Vec::new();
        while at != 0 && requested > 0 {
            let Some(dir) = pages.dirs.get(&at) else { break };
            let inflight: u64 = dir.promised.iter().sum();
            let used = if first { dir.used.saturating_sub(spare) } else { dir.used };
            if dir.quota != 0 && !net_free {
                if used >= dir.quota {
                    return Answer::Refused(Refusal::QuotaExceeded);
                }
                if used.saturating_add(inflight) >= dir.quota.saturating_add(dir.quota / QUOTA_EXCESS) {
                    return Answer::Later;
                }
            }
            let limit = match (dir.parent, net_free) {
                (0, true) => room.reserved_bytes,
                (0, false) => room.normal_bytes,
                _ => u64::MAX,
            };
            let over = used.saturating_add(inflight).saturating_add(requested).saturating_sub(limit);
            // Estimates are large: one change at a time is let through while any space
            // remains for it.
            let has_turn = net_free && used < limit;
            if over > 0 && has_turn && inflight > 0 {
                return Answer::InTurn;
            }
            if over > 0 && !has_turn {
                let coming = room.coming_bytes().saturating_sub(pages.churn_bytes);
                return match inflight {
                    0 if over <= coming => Answer::AfterFrees,
                    _ => later(inflight > 0, Refusal::NoSpace),
                };
            }
            granted.push((at, requested));
            let weight = weight_change(
                used.saturating_add(inflight),
                dir.reserved,
                (requested - if first { own } else { 0 }) as i64,
            );
            requested = u64::try_from(weight).unwrap_or(0);
            (at, first) = (dir.parent, false);
        }
        for (id, bytes) in granted {
            if let Some(dir) = pages.dirs.get_mut(&id) {
                dir.promised[slot(txg)] += bytes;
            }
        }
        if let Some(page) = pages.heads.get_mut(&head) {
            page.promised[slot(txg)] += bytes;
        }
        Answer::Granted
    }

    /// Bytes that `head` may still write, and bytes that it references, counting reservations
    /// as written.
    pub(crate) fn space(&self, head: u64, pool_bytes: u64) -> (u64, u64) {
        let pages = self.0.lock();
        let Some(page) = pages.heads.get(&head) else { return (0, 0) };
        let inflight: u64 = page.promised.iter().sum();
        let referenced = page.referenced.saturating_add(inflight);
        let open = pages.available(page.dir, pool_bytes);
        let available = open.saturating_add(page.refreservation.saturating_sub(page.unique));
        let available = match page.refquota {
            0 => available,
            quota => available.min(quota.saturating_sub(referenced)),
        };
        (available, referenced)
    }
}

fn later(has_promises: bool, why: Refusal) -> Answer {
    if has_promises { Answer::Later } else { Answer::Refused(why) }
}

/// Figures read from the pool's own objects.
struct Figures {
    /// Directory, referenced and unique bytes.
    heads: HashMap<u64, (u64, u64, u64)>,
    dirs: HashMap<u64, DslDir>,
    /// Heads that no longer exist.
    gone: Vec<u64>,
}

impl Figures {
    /// If one head cannot be read, its figures stay unchanged, and all others are correct.
    fn read(mos: &Arc<ObjectSet>, heads: &[u64]) -> Self {
        let mut found = Self { heads: HashMap::new(), dirs: HashMap::new(), gone: Vec::new() };
        for id in heads {
            match found.add(mos, *id) {
                Ok(()) => {}
                Err(Error::NotFound { .. }) => found.gone.push(*id),
                Err(error) => {
                    tracing::warn!(%error, "the space that a dataset uses cannot be read, its figures stay as they were")
                }
            }
        }
        found
    }

    fn add(&mut self, mos: &Arc<ObjectSet>, id: u64) -> Result<()> {
        let phys = read_dataset(mos, id)?;
        let mut at = phys.dir;
        while at != 0 && !self.dirs.contains_key(&at) {
            let dir = read_dir(mos, at)?;
            let parent = dir.parent;
            self.dirs.insert(at, dir);
            at = parent;
        }
        self.heads.insert(id, (phys.dir, phys.referenced_bytes, phys.unique_bytes));
        Ok(())
    }
}

impl DirBook {
    fn of(phys: &DslDir) -> Self {
        let mut page = Self::default();
        page.take(phys);
        page
    }

    fn take(&mut self, phys: &DslDir) {
        self.parent = phys.parent;
        self.used = phys.used_bytes;
        self.quota = phys.quota_bytes;
        self.reserved = phys.reserved_bytes;
    }
}

impl Pages {
    fn settle(&mut self, txg: u64) {
        self.dirs.values_mut().for_each(|dir| dir.promised[slot(txg)] = 0);
        self.heads.values_mut().for_each(|head| head.promised[slot(txg)] = 0);
    }

    fn available(&self, id: u64, pool_bytes: u64) -> u64 {
        let Some(dir) = self.dirs.get(&id) else { return u64::MAX };
        let used = dir.used.saturating_add(dir.promised.iter().sum());
        let mut quota = if dir.quota == 0 { u64::MAX } else { dir.quota };
        let above = if dir.parent == 0 {
            quota = quota.min(pool_bytes);
            u64::MAX
        } else {
            self.available(dir.parent, pool_bytes).saturating_add(dir.reserved.saturating_sub(used))
        };
        above.min(quota.saturating_sub(used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of 1000 bytes with a directory (2) below the root (1), and its head (3).
    fn book(dir: DirBook, head: HeadBook) -> Book {
        let root = DirBook { used: 100, ..DirBook::default() };
        let pages = Pages {
            dirs: HashMap::from([(1, root), (2, DirBook { parent: 1, ..dir })]),
            heads: HashMap::from([(3, HeadBook { dir: 2, ..head })]),
            churn_bytes: 0,
        };
        Book(Mutex::new(pages))
    }

    fn room(deferred_bytes: u64) -> Room {
        Room { normal_bytes: 1000, reserved_bytes: 1016, deferred_bytes, freeing_bytes: 0 }
    }

    fn ask(book: &Book, txg: u64, bytes: u64, net_free: bool) -> Answer {
        book.ask(3, txg, bytes, net_free, &room(0))
    }

    #[test]
    fn a_change_that_lacks_only_freed_space_waits_for_it() {
        let full = book(DirBook::default(), HeadBook::default());
        full.0.lock().dirs.get_mut(&1).unwrap().used = 1000;
        let with = |deferred| full.ask(3, 1, 50, false, &room(deferred));
        assert_eq!(with(49), Answer::Refused(Refusal::NoSpace));
        assert_eq!(with(50), Answer::AfterFrees);
        // Blocks that each txg frees and writes again gain nothing.
        full.waited_in_vain(&room(50));
        assert_eq!(with(50), Answer::Refused(Refusal::NoSpace));
        assert_eq!(with(100), Answer::AfterFrees);
    }

    #[test]
    fn removals_use_slop_space_one_change_at_a_time() {
        let full = book(DirBook::default(), HeadBook::default());
        full.0.lock().dirs.get_mut(&1).unwrap().used = 1010;
        assert_eq!(ask(&full, 1, 1, false), Answer::Refused(Refusal::NoSpace));
        assert_eq!(ask(&full, 1, 500, true), Answer::Granted);
        assert_eq!(ask(&full, 1, 500, true), Answer::InTurn);
        full.0.lock().settle(1);
        assert_eq!(ask(&full, 2, 500, true), Answer::Granted);
        full.0.lock().settle(2);
        full.0.lock().dirs.get_mut(&1).unwrap().used = 1016;
        assert_eq!(ask(&full, 3, 1, true), Answer::Refused(Refusal::NoSpace));
    }

    #[test]
    fn a_full_pool_refuses_at_once_and_waits_while_promises_are_out() {
        let book = book(DirBook::default(), HeadBook::default());
        assert_eq!(ask(&book, 5, 901, false), Answer::Refused(Refusal::NoSpace));
        assert_eq!(ask(&book, 5, 800, false), Answer::Granted);
        assert_eq!(ask(&book, 6, 101, false), Answer::Later);
        book.0.lock().settle(5);
        assert_eq!(ask(&book, 6, 101, false), Answer::Granted);
    }

    #[test]
    fn quotas_bind_the_dataset_and_everything_below() {
        let quota = DirBook { quota: 300, used: 250, ..DirBook::default() };
        let nearly = book(quota, HeadBook::default());
        // The estimates of open txgs may exceed it by 1/32, 9 bytes.
        assert_eq!(ask(&nearly, 1, 58, false), Answer::Granted);
        assert_eq!(ask(&nearly, 1, 1, false), Answer::Granted);
        assert_eq!(ask(&nearly, 1, 1, false), Answer::Later);
        assert_eq!(ask(&nearly, 1, 51, true), Answer::Granted);
        nearly.0.lock().settle(1);
        nearly.0.lock().dirs.get_mut(&2).unwrap().used = 300;
        assert_eq!(ask(&nearly, 2, 1, false), Answer::Refused(Refusal::QuotaExceeded));
        let refquota = HeadBook { refquota: 100, referenced: 90, ..HeadBook::default() };
        let full = book(DirBook::default(), refquota);
        assert_eq!(ask(&full, 1, 11, false), Answer::Granted);
        assert_eq!(ask(&full, 1, 1, false), Answer::Later);
        full.0.lock().settle(1);
        full.0.lock().heads.get_mut(&3).unwrap().referenced = 100;
        assert_eq!(ask(&full, 2, 1, false), Answer::Refused(Refusal::QuotaExceeded));
    }

    #[test]
    fn a_reservation_is_there_when_the_rest_of_the_pool_is_full() {
        // The root counts 900 used for this directory, which itself used 100.
        let dir = DirBook { reserved: 900, used: 100, ..DirBook::default() };
        let full = book(dir, HeadBook::default());
        full.0.lock().dirs.get_mut(&1).unwrap().used = 1000;
        assert_eq!(ask(&full, 1, 800, false), Answer::Granted);
        assert_eq!(ask(&full, 1, 1, false), Answer::Refused(Refusal::NoSpace));
    }
}
