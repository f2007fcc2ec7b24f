//! Writing the log: commit requests, the leader that writes for all pending requests, and the life
//! of log blocks. Where writes wait for devices, up to [`FLIGHTS_MAX`] leaders write at the same
//! time.
//!
//! ```text
//!   record ─► pending ──commit: the leader takes all requested ones──► records ─► blocks ─► flush
//!                                                                                    │
//!   sync of txg T: frees the blocks whose records are all of T or older, and advances the head
//!                  to the first block with a newer record
//! ```
//! The pointer to a block is in the block before it, so the next block is always reserved before
//! the current one is written. The last block is reserved and not written: that is where the chain
//! ends when it is read back.
//!
//! Changes that cannot be logged, fail to be logged, or are so large that writing them twice is
//! wasteful wait for their txg instead. So does the first commit of a new chain, because the head
//! of a new chain reaches the disk only with its txg.
//!
//! Invariants:
//!   * `commit` returns `Ok` only when everything requested is in flushed log blocks, or its txg is
//!     on disk
//!   * while records wait for their txg, no later record is logged: it would be replayed on a tree
//!     without them; a change that was not recorded at all, because `sync` was `disabled`, waits in
//!     the same way
//!   * no thread waits for a txg while holding one, or while holding a lock that `sync` takes
//!   * a block is freed in the sync of a txg not older than any record in it and younger than
//!     itself, and never while it is being written
//!
//! ZFS names: zil_commit, zil_sync, lwb.

use super::chain::Unread;
use super::figures::LogFigures;
use super::old::Old;
use super::pack::{DATA_MAX, Forecast, Packed, Packer, block_for, split, whole_sectors};
use super::pending::{Batch, Entry, Item, Pending};
use super::replay_skips::SkippedRecord;
use super::turns::{Lead, Turns};
use crate::live::SyncMode;
use block::crypt::DatasetKeys;
use block::{Class, WriteStore};
use errors::{Error, Result};
use host::clock::Stopwatch;
use host::sync::Mutex;
use object::{ObjectSet, Tx};
use ondisk::zil::write::{encode_block, encode_write, set_sequence, write_record_bytes};
use ondisk::zil::{Body, MIN_BLOCK_BYTES, RecordType};
use ondisk::{BlkPtr, ZilHeader};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Batches larger than this are not logged: syncing the txg writes them once instead of twice.
/// Guessed.
const BATCH_BYTES_MAX: u64 = 32 << 20;
/// Batches written at the same time where writes wait for devices: a commit then waits for a
/// quarter of a write on average before its own begins. Where they do not, one at a time, and
/// commits that arrive meanwhile share the next block.
const FLIGHTS_MAX: usize = 4;
/// Txgs after which a log without writers is empty: two, and one that may have been in progress.
const CLOSE_TXGS_MAX: u32 = 4;

/// What a log depends on: the txgs of its pool, and its blocks.
pub trait Ground: Send + Sync {
    /// Where the log is written to.
    fn store(&self) -> &WriteStore;
    /// Holds the open txg, without waiting for anything to be written first.
    fn hold(&self) -> Result<Tx>;
    /// Returns when all changes so far are on disk.
    fn sync(&self) -> Result<()>;
    /// The newest txg that is on disk.
    fn synced_txg(&self) -> u64;
    /// The last txg that is valid on disk, if the pool is frozen: later ones are written and lost.
    fn frozen_after(&self) -> Option<u64> {
        None
    }
    /// Counters for log activity.
    fn figures(&self) -> &LogFigures;
    /// Name of the dataset of this log.
    fn name(&self) -> String;
    fn random(&self) -> u64;
    /// Whether the log can be written: pools before version 23 have logs of another form.
    fn can_log(&self) -> bool {
        true
    }
    /// Called when a chain begins in a txg that is held.
    fn begins(&self) {}
    /// Record `sequence` of the log claimed in `claim_txg` is skipped by a replay. The skip is
    /// recorded on disk with the open txg, so that nothing replayed later is on disk without
    /// it. `named`: what to record with the number.
    fn skipped(&self, claim_txg: u64, sequence: u64, named: Option<&SkippedRecord>) -> Result<()> {
        let _ = (claim_txg, sequence, named);
        Ok(())
    }
    /// A claimed log cannot be read to its end: recorded on disk, once for each claim.
    fn unread(&self, unread: &Unread) -> Result<()> {
        let _ = unread;
        Ok(())
    }
    /// Numbers of the records of that log that [`Ground::skipped`] recorded, since this import
    /// or before it.
    fn skipped_before(&self, claim_txg: u64) -> Result<Vec<u64>> {
        let _ = claim_txg;
        Ok(Vec::new())
    }
    /// Whether the log may contain records of extended attributes (feature zilsaxattr).
    fn logs_attributes(&self) -> bool {
        true
    }
}

/// A record's kind, and the record as [`Body::encode`] encodes it.
pub type Encoded = (RecordType, Vec<u8>);

/// Which commits include a change that consists of several records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Commits of its file.
    File,
    /// All commits: it concerns names, or frees an object whose number may be reused.
    All,
}

/// A block of the chain that is not yet freed.
struct Block {
    bp: BlkPtr,
    /// Newest txg of its records.
    max_txg: u64,
    /// The block and its records are on disk. Never true of the last block.
    is_written: bool,
}

impl Block {
    /// Its number in the chain.
    fn number(&self) -> u64 {
        self.bp.checksum()[3]
    }
}

/// The chain on disk, and what the next txg does to it.
#[derive(Default)]
pub(super) struct Chain {
    blocks: VecDeque<Block>,
    /// Batches whose blocks are reserved and not yet written: these may not be freed.
    in_flight: usize,
    /// Txg whose root block names the first block of this chain.
    anchor_txg: u64,
    /// A write failed: nothing more is added, and the chain is abandoned when its records are
    /// no longer needed.
    is_broken: bool,
    /// Like `is_broken`, because the dataset is closed.
    is_closing: bool,
    /// The log found when the dataset was opened.
    pub old: Option<Old>,
    /// Numbers of replayed records, by the txg they went into.
    pub replayed: BTreeMap<u64, u64>,
}

/// A batch whose blocks are being added to a chain. If it ends without success, or in a panic, the
/// chain is broken: what follows a block that was not written is never replayed.
struct Adding<'c> {
    chain: &'c Mutex<Chain>,
    is_written: bool,
}

impl<'c> Adding<'c> {
    fn new(chain: &'c Mutex<Chain>) -> Self {
        chain.lock().in_flight += 1;
        Self { chain, is_written: false }
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        let mut chain = self.chain.lock();
        chain.is_broken |= !self.is_written;
        assert!(chain.in_flight > 0, "a batch ends that did not begin");
        chain.in_flight -= 1;
    }
}

/// Records with their place in the chain.
struct Reserved {
    /// Where they are written.
    own: BlkPtr,
    /// The block after it.
    next: BlkPtr,
    records: Vec<u8>,
}

impl Reserved {
    /// Encodes the block and writes it.
    fn write(self, ground: &dyn Ground, keys: Option<&DatasetKeys>) -> Result<()> {
        let mut block = encode_block(self.own.lsize_bytes() as usize, &self.own, &self.next, &self.records);
        let clock = Stopwatch::start();
        ground.store().write_log(&self.own, &mut block, keys)?;
        ground.figures().wrote(|| ground.name(), self.records.len(), clock.ns());
        Ok(())
    }
}

/// What the leader needs to prepare a batch.
#[derive(Default)]
struct Numbers {
    sequence: u64,
    forecast: Forecast,
}

/// The intent log of a dataset open for writing.
pub struct Log {
    pub(super) objset: Arc<ObjectSet>,
    pub(super) ground: Arc<dyn Ground>,
    pending: Mutex<Pending>,
    turns: Turns,
    numbers: Mutex<Numbers>,
    pub(super) chain: Mutex<Chain>,
    mode: AtomicU8,
    /// Number of the old record being replayed; 0: none.
    pub(super) replaying: AtomicU64,
}

impl Log {
    /// Opens the log of `objset`, which is live. An existing log must be replayed
    /// ([`Log::replay`]) before the dataset is used; until then commits wait for txgs.
    pub fn open(objset: Arc<ObjectSet>, ground: Arc<dyn Ground>) -> Self {
        let header = objset.zil_header();
        let is_empty = header.log.is_hole() && header.flags == 0 && header.claim_txg.0 == 0;
        let chain = Chain { old: (!is_empty).then(|| Old::new(header)), ..Chain::default() };
        Self {
            objset,
            ground,
            pending: Mutex::default(),
            turns: Turns::default(),
            numbers: Mutex::default(),
            chain: Mutex::new(chain),
            mode: AtomicU8::new(0),
            replaying: AtomicU64::new(0),
        }
    }

    /// Sets the current value of the `sync` property. Changes made under `disabled` have no
    /// record: when that ends, commits wait for the txgs of those changes.
    pub fn set_mode(&self, mode: SyncMode) {
        // Records are added, or skipped, under this lock: from here on, the next commit
        // knows of every skipped record.
        let _pending = self.pending.lock();
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    /// The current value of the `sync` property.
    pub fn mode(&self) -> SyncMode {
        [SyncMode::Standard, SyncMode::Always, SyncMode::Disabled][usize::from(self.mode.load(Ordering::Relaxed) % 3)]
    }

    /// Records a change of `node` made in `tx`, in the order of the changes. Changes to the
    /// contents and attributes of one object are included only in commits of that object; all
    /// other changes are included in every commit. Of a write only the range is kept: the data
    /// is read from the object at commit time.
    ///
    /// The object a new name refers to becomes durable together with the name, which often
    /// replaces an older file.
    ///
    /// While old records are being replayed, the number of the current record goes into the txg
    /// instead.
    pub fn record(&self, tx: &Tx, node: u64, kind: RecordType, body: &Body<'_>) {
        match body {
            Body::Write { object, offset, length, pointer, .. } if pointer.is_hole() => {
                let (object, offset, length) = (*object, *offset, *length);
                self.add(tx, Some(object), None, || Item::Write { object, offset, length });
            }
            Body::SetSaXattr { object, .. } if !self.ground.logs_attributes() => {
                self.add(tx, Some(*object), None, || Item::Unloggable);
            }
            Body::Write { object, .. }
            | Body::Truncate { object, .. }
            | Body::SetAttr { object, .. }
            | Body::Acl { object, .. }
            | Body::SetSaXattr { object, .. }
            | Body::CloneRange { object, .. } => {
                self.add(tx, Some(*object), None, || Item::Record(body.encode(kind, tx.txg())));
            }
            Body::Link { .. } | Body::Rename { .. } => {
                self.add(tx, None, Some(node), || Item::Record(body.encode(kind, tx.txg())));
            }
            _ => self.add(tx, None, None, || Item::Record(body.encode(kind, tx.txg()))),
        }
    }

    /// Like [`Self::record`], for one change of `node` that consists of several records: a file
    /// and what it is created with, or the file of an extended attribute and its contents. They
    /// share one block of the log, so that a crash keeps all of them or none.
    ///
    /// With [`Reach::All`], pending records of `node` are logged with them.
    pub fn record_together(&self, tx: &Tx, node: u64, reach: Reach, records: Vec<Encoded>) {
        let (own, leads_to) = match reach {
            Reach::All => (None, Some(node)),
            Reach::File => (Some(node), None),
        };
        self.add(tx, own, leads_to, || {
            let has_attributes = records.iter().any(|(kind, _)| *kind == RecordType::SETSAXATTR);
            match has_attributes && !self.ground.logs_attributes() {
                true => Item::Unloggable,
                false => Item::Together(records.into_iter().map(|(_, record)| record).collect()),
            }
        });
    }

    /// Records that a change in `tx` has no log record: commits wait for the txg. `object`: the
    /// change concerns only the contents and attributes of that object.
    pub fn record_unloggable(&self, tx: &Tx, object: Option<u64>) {
        self.add(tx, object, None, || Item::Unloggable);
    }

    /// Drops pending changes to the contents and attributes of `object`, which was removed: its
    /// number may be reused.
    pub fn forget(&self, object: u64) {
        self.pending.lock().forget(object);
    }

    fn add(&self, tx: &Tx, own: Option<u64>, leads_to: Option<u64>, item: impl FnOnce() -> Item) {
        let sequence = self.replaying.load(Ordering::Acquire);
        if sequence != 0 {
            self.chain.lock().replayed.insert(tx.txg(), sequence);
            return;
        }
        if self.mode() == SyncMode::Disabled && self.skip(tx) {
            return;
        }
        let item = item();
        let mut pending = self.pending.lock();
        if leads_to.is_some() {
            pending.urge(leads_to);
        }
        pending.add(tx.txg(), own, item);
    }

    /// Notes that a change of `tx` is not recorded, because of `sync=disabled`. `false`: sync
    /// is no longer disabled.
    fn skip(&self, tx: &Tx) -> bool {
        let mut pending = self.pending.lock();
        let is_disabled = self.mode() == SyncMode::Disabled;
        if is_disabled {
            pending.skip(tx.txg());
        }
        is_disabled
    }

    /// Returns when all changes to `object` (or to everything) and all names survive a power
    /// failure. The caller holds no [`Tx`].
    pub fn commit(&self, object: Option<u64>) -> Result<()> {
        if self.mode() == SyncMode::Disabled {
            return Ok(());
        }
        let clock = Stopwatch::start();
        let ticket = self.pending.lock().request(object);
        // Threads that arrive while others write wait here; the first of them then writes for all.
        let flights_max = self.ground.store().writers(FLIGHTS_MAX);
        while let Some(lead) = self.turns.lead(ticket, flights_max) {
            // Left over from a failed attempt.
            self.catch_up()?;
            self.write_batch(lead);
        }
        let result = self.catch_up();
        let spent = clock.ns();
        self.ground.figures().committed(|| self.ground.name(), spent);
        observe::event::note::wait(spent, |n| &mut n.log_wait);
        result
    }

    /// Waits for the records that are not in the log, before anything is added to it: later
    /// records must not be replayed on a tree that lacks them. An object number in it may have
    /// meant another file.
    fn catch_up(&self) -> Result<()> {
        let wait_txg = self.turns.wait_txg();
        if wait_txg <= self.ground.synced_txg() {
            return Ok(());
        }
        self.ground.sync()?;
        match self.ground.frozen_after() {
            Some(last) if wait_txg > last => {
                let what = format!("the pool is frozen after txg {last}, and changes are not in the intent log");
                Err(Error::invalid(self.ground.name(), what))
            }
            _ => Ok(()),
        }
    }

    fn write_batch(&self, mut lead: Lead<'_>) {
        let synced = self.ground.synced_txg();
        let batch = {
            let mut pending = self.pending.lock();
            pending.synced(synced);
            pending.take()
        };
        let max_txg = batch.max_txg();
        // From here on, if this thread panics, the others are answered once the txg is on disk.
        lead.take(batch.serves, max_txg);
        if max_txg == 0 {
            return lead.logged();
        }
        let figures = self.ground.figures();
        figures.batches.increment();
        // Unlogged: `sync` was `disabled` a moment ago, or the pool is old.
        let logged = match batch.unlogged_txg > synced || !self.ground.can_log() {
            true => Ok(false),
            false => self.log_batch(&mut lead, &batch, synced),
        };
        match logged {
            Ok(true) => return lead.logged(),
            Ok(false) => {}
            Err(error) => {
                // The txg will show whether the pool can be written at all.
                tracing::warn!(%error, "the intent log cannot be written; waiting for the txg instead");
            }
        }
        figures.waits.increment();
    }

    /// Writes a batch to the log. `false`: the batch has to wait for its txg.
    fn log_batch(&self, lead: &mut Lead<'_>, batch: &Batch, synced: u64) -> Result<bool> {
        let bytes: u64 = batch.entries.iter().map(|e| e.item.bytes()).sum();
        if batch.entries.iter().any(|e| e.item == Item::Unloggable) || bytes > BATCH_BYTES_MAX {
            return Ok(false);
        }
        let (blocks, adding) = {
            let mut numbers = self.numbers.lock();
            let Some(first_bytes) = self.reserved_bytes(&mut numbers, synced)? else { return Ok(false) };
            let mut packer = Packer::new(first_bytes);
            for entry in &batch.entries {
                if !self.pack(&mut packer, &mut numbers, entry)? {
                    return Ok(false);
                }
            }
            self.reserve(&mut numbers, packer.finish())?
        };
        lead.prepared();
        self.write_blocks(blocks, adding)?;
        Ok(true)
    }

    /// Size of the next block, if there is a chain to continue. Begins a chain if there is
    /// none.
    fn reserved_bytes(&self, numbers: &mut Numbers, synced: u64) -> Result<Option<u64>> {
        {
            let chain = self.chain.lock();
            if chain.old.is_some() || chain.is_broken || chain.is_closing {
                return Ok(None);
            }
            if let Some(last) = chain.blocks.back() {
                return Ok((chain.anchor_txg <= synced).then(|| last.bp.lsize_bytes()));
            }
        }
        let tx = self.ground.hold()?;
        let keys = self.objset.keys().map(AsRef::as_ref);
        let mut bp = self.ground.store().allocate_log(tx.txg(), MIN_BLOCK_BYTES, Class::Log, keys)?;
        // Blocks at the addresses of an older chain must not look like its continuation.
        bp.set_checksum([self.ground.random(), self.ground.random(), self.objset.id(), 1]);
        self.ground.begins();
        numbers.sequence = 0;
        let mut chain = self.chain.lock();
        chain.anchor_txg = tx.txg();
        chain.blocks.push_back(Block { bp, max_txg: 0, is_written: false });
        Ok(None)
    }

    /// Adds the records of an entry. `false`: one of them does not fit into any block.
    fn pack(&self, packer: &mut Packer, numbers: &mut Numbers, entry: &Entry) -> Result<bool> {
        let mut add = |packer: &mut Packer, mut record: Vec<u8>| {
            numbers.sequence += 1;
            set_sequence(&mut record, numbers.sequence);
            packer.add(&record, entry.txg)
        };
        let (object, mut offset, mut length) = match &entry.item {
            Item::Record(record) => return Ok(add(packer, record.clone())),
            Item::Together(records) => {
                let mut all = Vec::new();
                for record in records {
                    numbers.sequence += 1;
                    let at = all.len();
                    all.extend_from_slice(record);
                    set_sequence(&mut all[at..], numbers.sequence);
                }
                return Ok(packer.add(&all, entry.txg));
            }
            Item::Write { object, offset, length } => (*object, *offset, *length),
            Item::Unloggable => return Ok(false),
        };
        let from = match self.objset.object(object) {
            Ok(from) => from,
            // Removed in the meantime, which is logged too or needs no log.
            Err(Error::NotFound { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        while length > 0 {
            let count = match split(length, packer.left()) {
                0 => {
                    packer.close();
                    length.min(DATA_MAX as u64) as usize
                }
                count => count,
            };
            let count = whole_sectors(offset, count, length);
            let mut data = vec![0; count];
            from.read_at(offset, &mut data)?;
            if !add(packer, encode_write(object, offset, &data, entry.txg)) {
                return Ok(false);
            }
            offset += count as u64;
            length -= count as u64;
        }
        Ok(true)
    }

    /// Gives `blocks` their places in the chain, and reserves the block after them.
    fn reserve(&self, numbers: &mut Numbers, blocks: Vec<Packed>) -> Result<(Vec<Reserved>, Adding<'_>)> {
        let lengths: Vec<usize> = blocks.iter().map(|b| b.records.len()).collect();
        numbers.forecast.note(lengths.iter().sum());
        let last_bytes = numbers.forecast.block_bytes();
        let next_bytes = lengths.iter().skip(1).map(|length| block_for(*length)).chain([last_bytes]);
        let adding = Adding::new(&self.chain);
        let reserved = blocks.into_iter().zip(next_bytes).map(|(packed, bytes)| self.reserve_next(packed, bytes));
        Ok((reserved.collect::<Result<_>>()?, adding))
    }

    /// Puts `packed` into the reserved block, after reserving the one behind it.
    fn reserve_next(&self, packed: Packed, next_bytes: u64) -> Result<Reserved> {
        let keys = self.objset.keys().map(AsRef::as_ref);
        let tx = self.ground.hold()?;
        let own = self.chain.lock().blocks.back().map(|b| b.bp).unwrap_or_default();
        let mut next = self.ground.store().allocate_log(tx.txg(), next_bytes, Class::Log, keys)?;
        let [seed, seed2, objset, number] = own.checksum();
        next.set_checksum([seed, seed2, objset, number + 1]);
        let mut chain = self.chain.lock();
        if let Some(last) = chain.blocks.back_mut() {
            last.max_txg = packed.max_txg;
        }
        chain.blocks.push_back(Block { bp: next, max_txg: 0, is_written: false });
        Ok(Reserved { own, next, records: packed.records })
    }

    /// Writes the blocks of a batch and flushes them.
    fn write_blocks(&self, blocks: Vec<Reserved>, mut adding: Adding<'_>) -> Result<()> {
        let written: Vec<BlkPtr> = blocks.iter().map(|block| block.own).collect();
        let (ground, keys) = (&self.ground, self.objset.keys());
        // One after the other where they would not wait for devices.
        if ground.store().writers(FLIGHTS_MAX) == 1 {
            blocks.into_iter().try_for_each(|block| block.write(&**ground, keys.map(AsRef::as_ref)))?;
        } else {
            let jobs = blocks.into_iter().map(|block| {
                let (ground, keys) = (ground.clone(), keys.cloned());
                move || block.write(&*ground, keys.as_deref())
            });
            host::work::all(jobs.collect()).into_iter().collect::<Result<()>>()?;
        }
        // Records hold all their data and point to nothing, so only the devices of the log
        // blocks are flushed: those of a txg being written may have much to flush.
        ground.store().flush_blocks(&written)?;
        if let (Some(first), Some(last)) = (written.first(), written.last()) {
            let (first, last) = (first.checksum()[3], last.checksum()[3]);
            let mut chain = self.chain.lock();
            // The newest are last, and there may be a hundred thousand between two txgs.
            let newest = chain.blocks.iter_mut().rev().take_while(|b| b.number() >= first);
            newest.filter(|b| b.number() <= last).for_each(|b| b.is_written = true);
        }
        adding.is_written = true;
        Ok(())
    }

    /// In the sync of `txg`, before the root block is written: advances the head, and frees the
    /// blocks before it.
    pub fn sync(&self, txg: u64) -> Result<()> {
        if self.ground.frozen_after().is_some_and(|last| txg > last) {
            // The head of the log on disk stays, and what follows it is needed.
            return Ok(());
        }
        let mut chain = self.chain.lock();
        let mut header = self.objset.zil_header();
        let before = header;
        if chain.old.is_some() {
            self.sync_old(&mut chain, txg, &mut header)?;
        } else {
            let store = self.ground.store();
            // A block born in this very txg would be reallocated at once, but a crash
            // before the txg is on disk needs it.
            let is_done = |b: &Block| b.max_txg <= txg && b.bp.logical_birth().0 < txg;
            let ends = (chain.is_broken || chain.is_closing) && chain.in_flight == 0;
            let gives_up = ends && chain.blocks.iter().all(is_done);
            while chain.blocks.front().is_some_and(|b| gives_up || (b.is_written && is_done(b))) {
                let Some(block) = chain.blocks.pop_front() else { break };
                store.free(txg, &block.bp)?;
            }
            header = ZilHeader { log: chain.blocks.front().map_or(BlkPtr::HOLE, |b| b.bp), ..ZilHeader::EMPTY };
            if gives_up {
                (chain.is_broken, chain.is_closing) = (false, false);
            }
        }
        if header != before { self.objset.set_zil_header(header) } else { Ok(()) }
    }

    /// `txg` is on disk: its changes need no further commit.
    pub fn synced(&self, txg: u64) {
        self.pending.lock().synced(txg.min(self.ground.frozen_after().unwrap_or(txg)));
    }

    /// Empties the log for good: the dataset then needs no replay. The dataset must not be
    /// changing. On a frozen pool, everything goes into the log instead.
    pub fn close(&self) -> Result<()> {
        if self.ground.frozen_after().is_some() {
            return self.commit(None);
        }
        let _pause = self.turns.pause();
        // Once for the records, and once more for a block that was reserved in the same txg.
        for _ in 0..CLOSE_TXGS_MAX {
            {
                let _tx = self.ground.hold()?;
                let mut chain = self.chain.lock();
                if chain.old.is_some() || chain.blocks.is_empty() {
                    return Ok(());
                }
                chain.is_closing = true;
            }
            self.ground.sync()?;
        }
        Err(Error::invalid(format!("intent log of object set {}", self.objset.id()), "it is still in use"))
    }
}

impl Item {
    /// Bytes that it takes in the log.
    fn bytes(&self) -> u64 {
        match self {
            Self::Record(record) => record.len() as u64,
            Self::Together(records) => records.iter().map(|r| r.len() as u64).sum(),
            Self::Write { length, .. } => {
                // Each record of a long write repeats the head.
                let count = length.div_ceil(DATA_MAX as u64);
                length.saturating_add(count.saturating_mul(write_record_bytes(0) as u64))
            }
            Self::Unloggable => 0,
        }
    }
}
