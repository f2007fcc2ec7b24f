//! The table of byte-range locks, shared by all NFS versions.
//!
//! Below: nothing. Above: NLM for version 3, lock stateids of version 4. Semantics: POSIX fcntl(2).
//! An owner's locks never conflict with each other; a new lock replaces the part of older ones that
//! it covers, and the parts on either side remain.
//!
//! Invariants:
//!   * the locks of one owner on one file do not overlap, and two adjacent ones differ in type
//!   * locks of two owners overlap only if both are read locks
//!   * there are never more locks than the limit of the table

use files::vfs::FileHandle;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The owner of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LockOwner {
    /// A lock owner of NFSv4.
    V4 {
        /// Client ID that the server assigned.
        client: u64,
        /// Owner string, opaque to the server.
        owner: Arc<[u8]>,
    },
    /// A process of an NFSv3 client.
    Nlm {
        /// `caller_name`.
        host: Arc<[u8]>,
        /// `oh`, opaque to the server.
        owner: Arc<[u8]>,
        /// `svid`.
        process: u32,
    },
}

/// Bytes from `start` up to and including `last`. `u64::MAX` is the end of the file, however it
/// grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockRange {
    pub start: u64,
    pub last: u64,
}

impl LockRange {
    pub const ALL: Self = Self { start: 0, last: u64::MAX };

    /// `length` bytes from `offset`; a length of all ones means "to the end of the file". `None` if
    /// the length is 0 or the range overflows.
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        let last = match length {
            0 => return None,
            u64::MAX => u64::MAX,
            n => offset.checked_add(n - 1)?,
        };
        Some(Self { start: offset, last })
    }

    /// The length; all ones if the range extends to the end of the file.
    pub fn length(&self) -> u64 {
        if self.last == u64::MAX { u64::MAX } else { self.last - self.start + 1 }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    fn touches(&self, other: &Self) -> bool {
        self.start <= other.last.saturating_add(1) && other.start <= self.last.saturating_add(1)
    }
}

/// A lock in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLock {
    pub owner: LockOwner,
    pub range: LockRange,
    /// A write lock, which excludes all other locks.
    pub exclusive: bool,
}

/// Why a lock was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockRefusal {
    Conflict(HeldLock),
    /// The table is full.
    Full,
}

/// Called with a file after locks on it were released, so that waiting requests can be retried.
/// Called without any lock of the table held.
pub type Watcher = Arc<dyn Fn(FileHandle) + Send + Sync>;

/// Locks of all files.
pub struct LockTable {
    files: Mutex<Files>,
    limit: usize,
    watchers: RwLock<Vec<Watcher>>,
}

#[derive(Default)]
struct Files {
    /// NFSv4 clients whose locks conflicted with a request.
    blockers: HashSet<u64>,
    held: HashMap<FileHandle, Vec<HeldLock>>,
    count: usize,
}

impl LockTable {
    /// Default limit per server: 64 MB of memory at worst. Guessed.
    pub const LIMIT: usize = 1 << 18;

    /// Creates a table for up to `limit` locks.
    pub fn new(limit: usize) -> Self {
        Self { files: Mutex::default(), limit, watchers: RwLock::default() }
    }

    /// Registers `watcher`, which is called when locks are released.
    pub fn watch(&self, watcher: Watcher) {
        self.watchers.write().push(watcher);
    }

    /// Returns the lock that conflicts with the given one.
    pub fn test(&self, file: FileHandle, owner: &LockOwner, range: LockRange, exclusive: bool) -> Option<HeldLock> {
        let files = &mut *self.files.lock();
        let held = conflict(files.held.get(&file)?, owner, range, exclusive)?;
        note_blocker(&mut files.blockers, held);
        Some(held.clone())
    }

    /// Takes the NFSv4 clients whose locks conflicted with requests since the last call.
    pub(crate) fn take_blockers(&self) -> HashSet<u64> {
        std::mem::take(&mut self.files.lock().blockers)
    }

    /// Locks a range, or returns the reason for the refusal.
    pub fn lock(
        &self,
        file: FileHandle,
        owner: &LockOwner,
        range: LockRange,
        exclusive: bool,
    ) -> Result<(), LockRefusal> {
        if self.lock_quietly(file, owner, range, exclusive)? {
            self.notify(file);
        }
        Ok(())
    }

    /// Like [`LockTable::lock`], but returns true if a write lock was downgraded to a read lock.
    /// The caller must then [notify](LockTable::notify) waiting requests.
    pub fn lock_quietly(
        &self,
        file: FileHandle,
        owner: &LockOwner,
        range: LockRange,
        exclusive: bool,
    ) -> Result<bool, LockRefusal> {
        let mut guard = self.files.lock();
        let files = &mut *guard;
        let locks = files.held.entry(file).or_default();
        if let Some(held) = conflict(locks, owner, range, exclusive) {
            note_blocker(&mut files.blockers, held);
            return Err(LockRefusal::Conflict(held.clone()));
        }
        // Adds one lock, and another if it splits an existing one.
        if files.count + 2 > self.limit {
            if locks.is_empty() {
                files.held.remove(&file);
            }
            return Err(LockRefusal::Full);
        }
        let before = locks.len();
        let narrows = !exclusive && locks.iter().any(|l| l.owner == *owner && l.exclusive && l.range.overlaps(&range));
        cut(locks, owner, range);
        let mut range = range;
        locks.retain(|l| {
            let joins = l.owner == *owner && l.exclusive == exclusive && l.range.touches(&range);
            if joins {
                range = LockRange { start: range.start.min(l.range.start), last: range.last.max(l.range.last) };
            }
            !joins
        });
        locks.push(HeldLock { owner: owner.clone(), range, exclusive });
        files.count = files.count + locks.len() - before;
        Ok(narrows)
    }

    /// Unlocks a range. Fails only if this splits a lock and the table is full.
    pub fn unlock(&self, file: FileHandle, owner: &LockOwner, range: LockRange) -> Result<(), LockRefusal> {
        {
            let files = &mut *self.files.lock();
            let Some(locks) = files.held.get_mut(&file) else { return Ok(()) };
            if files.count >= self.limit
                && locks.iter().any(|l| l.owner == *owner && l.range.start < range.start && l.range.last > range.last)
            {
                return Err(LockRefusal::Full);
            }
            let before = locks.len();
            cut(locks, owner, range);
            files.count = files.count + locks.len() - before;
            if locks.is_empty() {
                files.held.remove(&file);
            }
        }
        self.notify(file);
        Ok(())
    }

    /// Whether the owner holds any lock on the file.
    pub fn holds(&self, file: FileHandle, owner: &LockOwner) -> bool {
        self.files.lock().held.get(&file).is_some_and(|locks| locks.iter().any(|l| l.owner == *owner))
    }

    /// Releases all locks whose owner matches `which`.
    pub fn release(&self, which: impl Fn(&LockOwner) -> bool) {
        let mut freed = Vec::new();
        {
            let files = &mut *self.files.lock();
            let mut gone = 0;
            files.held.retain(|file, locks| {
                let before = locks.len();
                locks.retain(|l| !which(&l.owner));
                if locks.len() != before {
                    gone += before - locks.len();
                    freed.push(*file);
                }
                !locks.is_empty()
            });
            files.count -= gone;
        }
        freed.into_iter().for_each(|file| self.notify(file));
    }

    /// Number of locks in the table.
    pub fn count(&self) -> usize {
        self.files.lock().count
    }

    /// Notifies the watchers that locks on a file were released.
    pub fn notify(&self, file: FileHandle) {
        let watchers = self.watchers.read().clone();
        watchers.iter().for_each(|w| w(file));
    }
}

fn note_blocker(blockers: &mut HashSet<u64>, held: &HeldLock) {
    if let LockOwner::V4 { client, .. } = held.owner {
        blockers.insert(client);
    }
}

fn conflict<'l>(locks: &'l [HeldLock], owner: &LockOwner, range: LockRange, exclusive: bool) -> Option<&'l HeldLock> {
    locks.iter().find(|l| l.owner != *owner && (exclusive || l.exclusive) && l.range.overlaps(&range))
}

/// Removes `range` from the owner's locks.
fn cut(locks: &mut Vec<HeldLock>, owner: &LockOwner, range: LockRange) {
    let mut rest = Vec::new();
    locks.retain(|l| {
        if l.owner != *owner || !l.range.overlaps(&range) {
            return true;
        }
        if l.range.start < range.start {
            rest.push(HeldLock { range: LockRange { last: range.start - 1, ..l.range }, ..l.clone() });
        }
        if l.range.last > range.last {
            rest.push(HeldLock { range: LockRange { start: range.last + 1, ..l.range }, ..l.clone() });
        }
        false
    });
    locks.append(&mut rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const FILE: FileHandle = FileHandle { fs_guid: 1, object: 2, generation: 3 };

    fn owner(n: u8) -> LockOwner {
        LockOwner::V4 { client: 1, owner: Arc::from([n]) }
    }

    fn range(start: u64, last: u64) -> LockRange {
        LockRange { start, last }
    }

    fn held(table: &LockTable) -> Vec<(u64, u64, bool)> {
        let files = table.files.lock();
        let mut all: Vec<_> =
            files.held.values().flatten().map(|l| (l.range.start, l.range.last, l.exclusive)).collect();
        all.sort_unstable();
        assert_eq!(all.len(), files.count);
        all
    }

    #[test]
    fn read_locks_are_shared_and_write_locks_are_exclusive() {
        let table = LockTable::new(100);
        table.lock(FILE, &owner(1), range(0, 9), false).unwrap();
        table.lock(FILE, &owner(2), range(5, 20), false).unwrap();
        let refused = table.lock(FILE, &owner(2), range(0, 20), true);
        assert!(matches!(refused, Err(LockRefusal::Conflict(HeldLock { range: LockRange { start: 0, last: 9 }, .. }))));
        assert_eq!(table.test(FILE, &owner(3), range(21, u64::MAX), true), None);
        let other = LockOwner::Nlm { host: Arc::from(*b"h"), owner: Arc::from([1]), process: 7 };
        assert!(table.test(FILE, &other, range(20, 20), true).is_some(), "versions see each other's locks");
        assert!(table.test(FILE, &other, range(20, 20), false).is_none());
    }

    #[test]
    fn a_new_lock_replaces_covered_ranges_and_merges_with_equal_ones() {
        let table = LockTable::new(100);
        table.lock(FILE, &owner(1), range(0, 99), false).unwrap();
        table.lock(FILE, &owner(1), range(10, 19), true).unwrap();
        assert_eq!(held(&table), [(0, 9, false), (10, 19, true), (20, 99, false)]);
        table.lock(FILE, &owner(1), range(10, 19), false).unwrap();
        assert_eq!(held(&table), [(0, 99, false)]);
        table.lock(FILE, &owner(1), range(100, u64::MAX), false).unwrap();
        assert_eq!(held(&table), [(0, u64::MAX, false)]);
        table.unlock(FILE, &owner(1), range(50, u64::MAX)).unwrap();
        table.unlock(FILE, &owner(2), LockRange::ALL).unwrap();
        assert_eq!(held(&table), [(0, 49, false)]);
    }

    #[test]
    fn a_full_table_refuses_and_forgets_nothing() {
        let table = LockTable::new(4);
        for n in 0..3 {
            table.lock(FILE, &owner(n), range(u64::from(n) * 10, u64::from(n) * 10 + 5), true).unwrap();
        }
        assert_eq!(table.lock(FILE, &owner(9), range(90, 91), true), Err(LockRefusal::Full));
        table.unlock(FILE, &owner(0), range(2, 3)).unwrap();
        assert_eq!(table.unlock(FILE, &owner(1), range(12, 13)), Err(LockRefusal::Full));
        assert_eq!(table.count(), 4);
        table.release(|o| *o == owner(0));
        table.release(|_| true);
        assert_eq!(held(&table), []);
    }

    #[test]
    fn waiting_requests_are_notified_when_locks_are_released() {
        let table = LockTable::new(10);
        let notified = Arc::new(AtomicUsize::new(0));
        let count = notified.clone();
        table.watch(Arc::new(move |file| {
            assert_eq!(file, FILE);
            count.fetch_add(1, Ordering::Relaxed);
        }));
        table.lock(FILE, &owner(1), range(0, 9), true).unwrap();
        table.unlock(FILE, &owner(1), range(0, 1)).unwrap();
        table.release(|o| *o == owner(1));
        assert_eq!(notified.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn lengths_of_all_ones_reach_to_the_end() {
        assert_eq!(LockRange::new(5, u64::MAX), Some(range(5, u64::MAX)));
        assert_eq!(LockRange::new(5, 10), Some(range(5, 14)));
        assert_eq!((LockRange::new(5, 0), LockRange::new(5, u64::MAX - 4)), (None, Some(range(5, u64::MAX))));
        assert_eq!(LockRange::new(6, u64::MAX - 4), None);
        assert_eq!((range(5, 14).length(), range(5, u64::MAX).length()), (10, u64::MAX));
    }
}
