//! Who may still write how much: used space, quotas and reservations of directories, with what open txgs have promised.
//!
//! ```text
//!   begin: promise bytes in the open txg, for the dataset's directory and all above it
//!   sync:  what was written is in `used` now; the promises of that txg are dropped
//! ```
//! A change that would go over a limit while promises are out waits for them to be synced, since estimates are large; only
//! when it does not fit into what is then on disk, it is refused. Facts: `dsl_dir_tempreserve_impl` in module/zfs/dsl_dir.c,
//! `dsl_dataset_check_quota` in dsl_dataset.c.
//!
//! Invariants:
//!   * a txg that was let begin can be synced: the slop of the pool (1/32) covers what estimates leave out

use crate::write::space::weight_change;
use crate::{Dataset, Datasets, Refusal, Result};
use ondisk::DslDir;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Txgs that can be open, quiescing or syncing at once, and one more for indexing.
const TXGS: usize = 4;

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
    pool_bytes: u64,
}

/// The book of a pool.
#[derive(Default)]
pub(crate) struct Book(Mutex<Pages>);

/// What came of asking for space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is promised.
    Granted,
    /// It may fit once the txgs under way are synced.
    Later,
    /// It does not fit.
    Refused(Refusal),
}

fn slot(txg: u64) -> usize {
    (txg % TXGS as u64) as usize
}

impl Book {
    /// Takes over what the last synced txg says of `head` and the directories above it.
    pub(crate) fn note(&self, head: &Dataset, refquota: u64, refreservation: u64) -> Result<()> {
        let tree: &Arc<Datasets> = head.tree();
        let pool_bytes = tree.pool_bytes()?;
        let mut pages = self.0.lock();
        pages.pool_bytes = pool_bytes;
        let page = pages.heads.entry(head.id()).or_default();
        page.dir = head.dir().id();
        (page.referenced, page.unique) = (head.phys().referenced_bytes, head.phys().unique_bytes);
        (page.refquota, page.refreservation) = (refquota, refreservation);
        let mut at = Some(head.dir().clone());
        while let Some(dir) = at {
            pages.dirs.entry(dir.id()).or_default().take(dir.phys());
            at = dir.parent().cloned();
        }
        Ok(())
    }

    /// The dataset is not written any more.
    pub(crate) fn forget(&self, head: u64) {
        self.0.lock().heads.remove(&head);
    }

    /// What `head` and the directories above it weigh now that `txg` is written.
    pub(crate) fn synced(
        &self,
        head: u64,
        (referenced, unique): (u64, u64),
        dirs: impl Iterator<Item = (u64, DslDir)>,
        pool_bytes: u64,
    ) {
        let mut pages = self.0.lock();
        pages.pool_bytes = pool_bytes;
        if let Some(page) = pages.heads.get_mut(&head) {
            (page.referenced, page.unique) = (referenced, unique);
        }
        for (id, phys) in dirs {
            pages.dirs.entry(id).or_default().take(&phys);
        }
    }

    /// What was promised in `txg` is on disk, or was not used.
    pub(crate) fn settle(&self, txg: u64) {
        let mut pages = self.0.lock();
        pages.dirs.values_mut().for_each(|dir| dir.promised[slot(txg)] = 0);
        pages.heads.values_mut().for_each(|head| head.promised[slot(txg)] = 0);
    }

    /// Promises `bytes` to `head` in `txg`. What frees space (`net_free`) may go over quotas, and into half of the slop.
    pub(crate) fn ask(&self, head: u64, txg: u64, bytes: u64, net_free: bool) -> Answer {
        let mut pages = self.0.lock();
        let Some(page) = pages.heads.get(&head) else { return Answer::Granted };
        let inflight: u64 = page.promised.iter().sum();
        if page.refquota != 0
            && !net_free
            && page.referenced.saturating_add(inflight).saturating_add(bytes) > page.refquota
        {
            return later(inflight > 0, Refusal::QuotaExceeded);
        }
        // What the refreservation still holds back is the head's own, and counts as used already.
        let spare = page.refreservation.saturating_sub(page.unique);
        let own = bytes.min(spare.saturating_sub(inflight));
        let (mut at, mut asked, mut first) = (page.dir, bytes, true);
        let mut granted = Vec::new();
        while at != 0 && asked > 0 {
            let Some(dir) = pages.dirs.get(&at) else { break };
            let inflight: u64 = dir.promised.iter().sum();
            let used = if first { dir.used.saturating_sub(spare) } else { dir.used };
            let (mut limit, mut why) = (u64::MAX, Refusal::QuotaExceeded);
            if dir.quota != 0 && !net_free {
                limit = dir.quota;
            }
            if dir.parent == 0 {
                // Removing files needs space for a moment: it may use half of what is kept back for such times.
                let pool =
                    if net_free { pages.pool_bytes.saturating_add(pages.pool_bytes / 62) } else { pages.pool_bytes };
                if pool < limit {
                    (limit, why) = (pool, Refusal::NoSpace);
                }
            }
            if used.saturating_add(inflight).saturating_add(asked) > limit {
                return later(inflight > 0, why);
            }
            granted.push((at, asked));
            let weight = weight_change(
                used.saturating_add(inflight),
                dir.reserved,
                (asked - if first { own } else { 0 }) as i64,
            );
            asked = u64::try_from(weight).unwrap_or(0);
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

    /// Bytes that `head` may still write, and bytes that it references, with what is promised counted as written.
    pub(crate) fn space(&self, head: u64) -> (u64, u64) {
        let pages = self.0.lock();
        let Some(page) = pages.heads.get(&head) else { return (0, 0) };
        let inflight: u64 = page.promised.iter().sum();
        let referenced = page.referenced.saturating_add(inflight);
        let open = pages.available(page.dir);
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

impl DirBook {
    fn take(&mut self, phys: &DslDir) {
        self.parent = phys.parent;
        self.used = phys.used_bytes;
        self.quota = phys.quota_bytes;
        self.reserved = phys.reserved_bytes;
    }
}

impl Pages {
    fn available(&self, id: u64) -> u64 {
        let Some(dir) = self.dirs.get(&id) else { return u64::MAX };
        let used = dir.used.saturating_add(dir.promised.iter().sum());
        let mut quota = if dir.quota == 0 { u64::MAX } else { dir.quota };
        let above = if dir.parent == 0 {
            quota = quota.min(self.pool_bytes);
            u64::MAX
        } else {
            self.available(dir.parent).saturating_add(dir.reserved.saturating_sub(used))
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
            pool_bytes: 1000,
        };
        Book(Mutex::new(pages))
    }

    #[test]
    fn a_full_pool_refuses_at_once_and_waits_while_promises_are_out() {
        let book = book(DirBook::default(), HeadBook::default());
        assert_eq!(book.ask(3, 5, 901, false), Answer::Refused(Refusal::NoSpace));
        assert_eq!(book.ask(3, 5, 800, false), Answer::Granted);
        assert_eq!(book.ask(3, 6, 101, false), Answer::Later);
        book.settle(5);
        assert_eq!(book.ask(3, 6, 101, false), Answer::Granted);
    }

    #[test]
    fn quotas_bind_the_dataset_and_everything_below() {
        let quota = DirBook { quota: 300, used: 250, ..DirBook::default() };
        let full = book(quota, HeadBook::default());
        assert_eq!(full.ask(3, 1, 51, false), Answer::Refused(Refusal::QuotaExceeded));
        assert_eq!(full.ask(3, 1, 51, true), Answer::Granted);
        let refquota = HeadBook { refquota: 100, referenced: 90, ..HeadBook::default() };
        let full = book(DirBook::default(), refquota);
        assert_eq!(full.ask(3, 1, 11, false), Answer::Refused(Refusal::QuotaExceeded));
        assert_eq!(full.ask(3, 1, 10, false), Answer::Granted);
    }

    #[test]
    fn a_reservation_is_there_when_the_rest_of_the_pool_is_full() {
        // The root counts 900 used for this directory, which itself used 100.
        let dir = DirBook { reserved: 900, used: 100, ..DirBook::default() };
        let full = book(dir, HeadBook::default());
        full.0.lock().dirs.get_mut(&1).unwrap().used = 1000;
        assert_eq!(full.ask(3, 1, 800, false), Answer::Granted);
        assert_eq!(full.ask(3, 1, 1, false), Answer::Refused(Refusal::NoSpace));
    }
}
