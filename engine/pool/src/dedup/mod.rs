//! Deduplicated blocks: the dedup tables of a pool that is open for writing, as they change.
//!
//! Below: `object`. Above: `block::WriteStore`, which looks a block up before it writes
//! ([`Duplicates::find`]) and frees ([`Duplicates::release`]), and the syncing txg, which writes
//! the changes. Format: `ondisk::ddt`. ZFS name: DDT. Facts: module/zfs/ddt.c (ddt_lookup,
//! ddt_sync_flush_entry, ddt_configure), zio.c (zio_ddt_write, zio_ddt_free).
//!
//! ```text
//!   writing threads ─ find ──────> entry in memory <── from the tables on disk, once a txg
//!   freeing threads ─ release ────────┘ │
//!                                       └─ end of the txg ──> tables, histograms; unused blocks are freed
//! ```
//! With fast_dedup, OpenZFS collects changes in a log before it applies them to the tables. Weir
//! reads such logs and applies them to the tables in the first txg. Afterwards every txg updates
//! the tables directly, as without the feature.
//!
//! Invariants:
//!   * equal contents are written once, however many threads write them at the same time: later
//!     threads wait
//!   * a block that lost its last reference keeps its place until the txg ends, and may be
//!     referenced again until then
//!   * entries, histograms and space maps on disk belong to the same txg

mod entry;
pub(crate) mod logs;
mod sync;
mod table;

use crate::Pool;
use block::{Duplicates, Found, Stored};
use entry::{Entry, Slot};
use errors::{Error, Result};
use host::sync::{Condvar, Mutex, MutexGuard};
use object::ObjectSet;
use ondisk::ddt::Key;
use ondisk::{BlkPtr, Checksum};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use table::{SpaceOf, Table, Tables};

/// Value of `dedup_table_quota` that means no limit.
const NO_QUOTA: u64 = 0;

/// The dedup tables of a pool, one for each checksum algorithm.
pub(crate) struct Dedup {
    tables: Mutex<Tables>,
    /// Signalled when an entry was read or its block was written.
    changed: Condvar,
    space_bytes: SpaceOf,
    /// Whether new tables are of the fast_dedup kind: the pool has that feature.
    is_fast: AtomicBool,
    /// Limit for the bytes that the tables take on disk, and the bytes they took at the end of the
    /// last txg.
    quota_bytes: AtomicU64,
    table_bytes: AtomicU64,
    /// Bytes that the pool would need in addition if every reference to a block were a copy, as of
    /// the last synced txg.
    saved_bytes: AtomicU64,
}

impl Dedup {
    /// Loads the tables of a pool that is being opened for writing. `space_bytes` is OpenZFS's
    /// `bp_get_dsize`.
    pub fn load(
        pool: &Pool,
        mos: &Arc<ObjectSet>,
        space_bytes: impl Fn(&BlkPtr) -> u64 + Send + Sync + 'static,
    ) -> Result<Arc<Self>> {
        let tables = table::load(mos)?;
        let bytes = tables.values().map(|table| table.disk_bytes(mos)).sum::<Result<u64>>()?;
        let quota = pool.set_properties()?.into_iter().find(|(name, _)| name == "dedup_table_quota");
        let saved = tables.values().map(Table::saved_bytes).fold(0, u64::wrapping_add);
        Ok(Arc::new(Self {
            saved_bytes: saved.into(),
            is_fast: pool.features().count("com.klarasystems:fast_dedup").is_some().into(),
            quota_bytes: quota.and_then(|(_, value)| value.as_u64()).unwrap_or(NO_QUOTA).into(),
            table_bytes: bytes.into(),
            ..Self::over(tables, Box::new(space_bytes))
        }))
    }

    /// The empty set of tables, for a pool that is being created.
    pub fn none() -> Arc<Self> {
        Arc::new(Self::over(Tables::new(), Box::new(|_| 0)))
    }

    fn over(tables: Tables, space_bytes: SpaceOf) -> Self {
        Self {
            tables: Mutex::new(tables),
            changed: Condvar::new(),
            space_bytes,
            is_fast: false.into(),
            quota_bytes: NO_QUOTA.into(),
            table_bytes: 0.into(),
            saved_bytes: 0.into(),
        }
    }

    /// Bytes that the pool would need in addition if every reference to a block were a copy.
    pub fn saved_bytes(&self) -> u64 {
        self.saved_bytes.load(Ordering::Relaxed)
    }

    /// Adds a reference to a block that was cloned. Returns false if no table contains the block.
    pub fn add(&self, bp: &BlkPtr) -> Result<bool> {
        self.with_uses(bp, |uses| {
            *uses += 1;
            Ok(())
        })
    }

    /// Whether entries of a log must be applied in the next txg.
    pub fn is_dirty(&self) -> bool {
        self.tables.lock().values().any(Table::is_dirty)
    }

    /// Sets the limit for the size of the tables in bytes. 0 and [`u64::MAX`] (`auto`) mean no
    /// limit.
    pub fn set_quota(&self, bytes: u64) {
        self.quota_bytes.store(bytes, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        let quota = self.quota_bytes.load(Ordering::Relaxed);
        quota != NO_QUOTA && quota != u64::MAX && self.table_bytes.load(Ordering::Relaxed) > quota
    }

    /// The entry of `key`, once no thread writes its block. It is read from disk if it is not in
    /// memory.
    fn entry<'a>(&'a self, mut tables: MutexGuard<'a, Tables>, kind: Checksum, key: &Key) -> Result<EntryOf<'a>> {
        loop {
            let is_fast = self.is_fast.load(Ordering::Relaxed);
            let table = tables.entry(kind as u8).or_insert_with(|| Table::new(kind, is_fast));
            match table.entries.get(key) {
                Some(Slot::Ready(entry)) if !entry.is_being_written => {
                    return Ok(EntryOf { tables, kind, key: *key });
                }
                Some(_) => self.changed.wait(&mut tables),
                None => {
                    table.entries.insert(*key, Slot::Busy);
                    let on_disk = table.on_disk();
                    let find = || catch_unwind(AssertUnwindSafe(|| on_disk.find(key)));
                    let found = host::sync::unlocked(&mut tables, find);
                    self.changed.notify_all();
                    let table = tables.get_mut(&(kind as u8)).ok_or_else(vanished)?;
                    match found {
                        Ok(Ok(entry)) => table.entries.insert(*key, Slot::Ready(Box::new(entry))),
                        Ok(Err(error)) => {
                            table.entries.remove(key);
                            return Err(error);
                        }
                        Err(panic) => {
                            // Threads that wait for the entry read it themselves.
                            table.entries.remove(key);
                            resume_unwind(panic);
                        }
                    };
                }
            }
        }
    }

    /// Changes the number of references of the block at `bp`. Returns false if no table contains
    /// the block, for example because it was removed from the table.
    fn with_uses(&self, bp: &BlkPtr, change: impl FnOnce(&mut u64) -> Result<()>) -> Result<bool> {
        let kind = bp.checksum_kind()?;
        let mut found = self.entry(self.tables.lock(), kind, &Key::of(bp))?;
        let entry = found.get()?;
        match entry.place_of(bp) {
            Some(place) => {
                change(&mut entry.now[place].references)?;
                entry.is_changed = true;
                Ok(true)
            }
            None => {
                found.drop_if_new();
                Ok(false)
            }
        }
    }

    /// Finishes what [`Found::Write`] began.
    fn written(&self, bp: &BlkPtr, end: impl FnOnce(&mut Table, &mut Entry)) {
        let mut tables = self.tables.lock();
        let Ok(kind) = bp.checksum_kind() else { return };
        let key = Key::of(bp);
        if let Some(table) = tables.get_mut(&(kind as u8))
            && let Some(Slot::Ready(mut entry)) = table.entries.remove(&key)
        {
            entry.is_being_written = false;
            end(table, &mut entry);
            if !entry.is_new() {
                table.entries.insert(key, Slot::Ready(entry));
            }
        }
        self.changed.notify_all();
    }
}

fn vanished() -> Error {
    Error::invalid("a dedup table", "disappeared while it was read")
}

/// An entry together with the lock that protects it.
struct EntryOf<'a> {
    tables: MutexGuard<'a, Tables>,
    kind: Checksum,
    key: Key,
}

impl EntryOf<'_> {
    fn table(&mut self) -> Result<&mut Table> {
        self.tables.get_mut(&(self.kind as u8)).ok_or_else(vanished)
    }

    fn get(&mut self) -> Result<&mut Entry> {
        let key = self.key;
        match self.table()?.entries.get_mut(&key) {
            Some(Slot::Ready(entry)) => Ok(entry),
            _ => Err(vanished()),
        }
    }

    /// Drops an entry that no table contains and no thread uses.
    fn drop_if_new(mut self) {
        let key = self.key;
        if self.get().is_ok_and(|entry| entry.is_new())
            && let Ok(table) = self.table()
        {
            table.entries.remove(&key);
        }
    }
}

impl Duplicates for Dedup {
    fn find(&self, bp: &BlkPtr, copies: u8) -> Result<Found> {
        let kind = bp.checksum_kind()?;
        let key = Key::of(bp);
        let mut found = self.entry(self.tables.lock(), kind, &key)?;
        let place = found.table()?.place(copies);
        let is_full = self.is_full();
        let entry = found.get()?;
        let phys = &mut entry.now[place];
        let dvas = [phys.dva(0), phys.dva(1), phys.dva(2)];
        let addresses = if key.is_encrypted() { 2 } else { 3 };
        let there = dvas.iter().take(addresses).filter(|dva| !dva.is_empty()).count() as u8;
        let have = phys.is_used().then_some(Stored { dvas, birth: phys.birth });
        match have {
            Some(have) if there >= copies => {
                phys.references += 1;
                entry.is_changed = true;
                Ok(Found::Stored(have))
            }
            None if is_full && entry.is_new() => {
                found.drop_if_new();
                Ok(Found::No)
            }
            have => {
                entry.is_being_written = true;
                Ok(Found::Write { copies: copies - if have.is_some() { there } else { 0 }, have })
            }
        }
    }

    fn wrote(&self, bp: &BlkPtr, copies: u8) {
        self.written(bp, |table, entry| {
            let phys = &mut entry.now[table.place(copies)];
            phys.addresses = bp.address_words();
            if !phys.is_used() {
                phys.birth = bp.physical_birth();
            }
            phys.references += 1;
            entry.is_changed = true;
        });
    }

    fn gave_up(&self, bp: &BlkPtr) {
        self.written(bp, |_, _| ());
    }

    fn release(&self, bp: &BlkPtr) -> Result<bool> {
        self.with_uses(bp, |uses| {
            *uses = uses
                .checked_sub(1)
                .ok_or_else(|| Error::corrupt("a dedup table", format!("counts fewer uses of {bp} than there are")))?;
            Ok(())
        })
    }
}
