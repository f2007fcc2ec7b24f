//! One object: a tree of blocks under a dnode, read as bytes.
//!
//! ```text
//!   dnode -> up to 3 pointers -> indirect blocks (levels - 1 times) -> data blocks of equal size
//! ```
//! ZFS name: dnode, dbuf.
//!
//! Invariants:
//!   * everything beyond the last block, or under a hole, reads as zeros
//!   * a pointer whose level does not match its position is an error, so that no loop on disk can
//!     trap a walk

mod parts;

pub use parts::{Extent, Part};

use crate::live::state::{Found, LiveObject, WRITTEN};
use crate::readahead::ReadAhead;
use block::crypt::DatasetKeys;
use block::{Block, Bookmark, RawBlock, Store};
use errors::{Error, Place, Result};
use host::sync::Mutex;
use ondisk::{BlkPtr, Dnode, Endian, ObjectType, blkptr, byteswap};
use std::ops::Range;
use std::sync::Arc;

/// A handle to an object; clones share its state.
#[derive(Clone)]
pub struct Object {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<Store>,
    objset: u64,
    id: u64,
    dnode: Arc<Dnode>,
    keys: Option<Arc<DatasetKeys>>,
    ahead: Arc<Mutex<ReadAhead>>,
    /// Changes that are not on disk yet; `dnode` is the newest at the time this view was created.
    live: Option<Arc<LiveObject>>,
}

/// Location of a block.
enum Elsewhere {
    /// On disk, at this pointer.
    At(Box<BlkPtr>),
    /// In memory, as it will be written to disk.
    Raw(Arc<RawBlock>),
    /// In the tree of this dnode.
    Under(Arc<Dnode>),
}

/// Maximum number of pointers examined in search of data or a hole: a file of 2 TiB in blocks of
/// 128 KiB has that many. A longer run of alike pointers means that the pointers form a cycle.
const SEARCH_STEPS_MAX: u32 = 1 << 24;
/// Maximum retries of one step of such a search because a txg was synced in the meantime. After
/// that the block counts as data, which is safe: a sparse copy would lose data reported as a hole.
/// Guessed: a step takes microseconds, or a few reads of indirect blocks.
const SEARCH_REPEATS_MAX: u32 = 8;

/// The last indirect block used by a walk over neighbouring blocks.
struct Indirect {
    /// The pointer in the dnode under which it was found: the tree may be replaced in the middle of
    /// a walk, which invalidates this block and everything that changed below it.
    root: BlkPtr,
    /// Its block number within its level.
    number: u64,
    block: Block,
}

type Recent = Option<Indirect>;

/// Limit for the looks at an object that is being synced: a suspended pool does not end its txg.
const SYNCING_LOOKS_MAX: u32 = 2000;
/// Time between two looks at an object that is being synced.
const SYNCING_LOOK: std::time::Duration = std::time::Duration::from_millis(1);

/// The data blocks below block `index` of a level whose blocks have 2^`shift` data blocks below
/// them.
pub(crate) fn span(shift: u32, index: u64) -> Range<u64> {
    if shift >= 64 {
        return if index == 0 { 0..u64::MAX } else { u64::MAX..u64::MAX };
    }
    let start = index.checked_shl(shift).filter(|s| s >> shift == index).unwrap_or(u64::MAX);
    start..start.saturating_add(1 << shift)
}

impl Object {
    pub(crate) fn from_parts(
        store: Arc<Store>,
        objset: u64,
        id: u64,
        dnode: Dnode,
        keys: Option<Arc<DatasetKeys>>,
    ) -> Self {
        let dnode = Arc::new(dnode);
        Self { inner: Arc::new(Inner { store, objset, id, dnode, keys, ahead: Arc::default(), live: None }) }
    }

    /// A view of the current state of a live object; `None` if it is freed.
    pub(crate) fn of_live(
        store: Arc<Store>,
        objset: u64,
        live: &Arc<LiveObject>,
        keys: Option<Arc<DatasetKeys>>,
    ) -> Option<Self> {
        let dnode = live.state.read().head.clone()?;
        let (ahead, id, live) = (live.ahead.clone(), live.id, Some(live.clone()));
        Some(Self { inner: Arc::new(Inner { store, objset, id, dnode, keys, ahead, live }) })
    }

    /// The same object with its current bonus and dnode; [`Refusal::Stale`](errors::Refusal::Stale)
    /// if it was freed.
    pub fn renewed(&self) -> Result<Self> {
        let Some(live) = &self.inner.live else { return Ok(self.clone()) };
        Self::of_live(self.inner.store.clone(), self.inner.objset, live, self.inner.keys.clone())
            .ok_or_else(|| errors::Refusal::Stale.at(self.place()))
    }

    pub(crate) fn live(&self) -> Option<&Arc<LiveObject>> {
        self.inner.live.as_ref()
    }

    /// Calls `read` with the dnode under which block `blkid` is on disk.
    fn tree(&self) -> Arc<Dnode> {
        match &self.inner.live {
            // A new object has nothing on disk; its dnode has no pointers.
            Some(live) => live.state.read().synced.clone().unwrap_or_else(|| self.inner.dnode.clone()),
            None => self.inner.dnode.clone(),
        }
    }

    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.inner) > 1
    }

    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Number of its object set, as used in bookmarks.
    pub fn objset_id(&self) -> u64 {
        self.inner.objset
    }

    /// The pool's blocks.
    pub fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    /// The dnode as of when this view was opened; see [`Object::dnode_now`].
    pub fn dnode(&self) -> &Dnode {
        &self.inner.dnode
    }

    /// The current dnode, even if this view is older.
    pub fn dnode_now(&self) -> Arc<Dnode> {
        let now = self.inner.live.as_ref().and_then(|live| live.state.read().head.clone());
        now.unwrap_or_else(|| self.inner.dnode.clone())
    }

    /// The bonus: small data stored with the dnode.
    pub fn bonus(&self) -> &[u8] {
        &self.inner.dnode.bonus
    }

    /// Byte order of the dnode and bonus.
    pub fn endian(&self) -> Endian {
        self.inner.dnode.endian
    }

    /// Its location, for messages.
    pub fn place(&self) -> String {
        format!("{}: object {}:{}", self.inner.store.name(), self.inner.objset, self.inner.id)
    }

    /// Size of a data block.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.newest(|dnode| dnode.data_block_bytes))
    }

    /// Number of the last data block.
    pub fn max_block_id(&self) -> u64 {
        self.newest(|dnode| dnode.max_block_id)
    }

    fn newest<R>(&self, get: impl FnOnce(&Dnode) -> R) -> R {
        match &self.inner.live {
            Some(live) => get(live.state.read().head.as_ref().unwrap_or(&self.inner.dnode)),
            None => get(&self.inner.dnode),
        }
    }

    /// Block `blkid` as changed and not on disk yet; `Err` gives the location on disk instead.
    fn changed(&self, blkid: u64) -> std::result::Result<Option<Block>, Elsewhere> {
        let Some(live) = &self.inner.live else { return Err(Elsewhere::Under(self.inner.dnode.clone())) };
        match live.find(blkid) {
            Found::Data(data) => Ok(Some(Block { data, endian: Endian::Little })),
            Found::Hole => Ok(None),
            Found::At(bp) => Err(Elsewhere::At(Box::new(bp))),
            Found::Raw(block) => Err(Elsewhere::Raw(block)),
            Found::Disk(tree) => Err(Elsewhere::Under(tree)),
        }
    }

    fn bookmark(&self, level: i64, blkid: u64) -> Bookmark {
        Bookmark { objset: self.inner.objset, object: self.inner.id, level, blkid }
    }

    pub(crate) fn keys(&self) -> Option<&DatasetKeys> {
        self.inner.keys.as_deref()
    }

    /// The spill block, which holds attributes that do not fit in the bonus.
    pub fn spill(&self) -> Result<Option<Block>> {
        if let Some(live) = &self.inner.live {
            let changed = live.state.read().changed_spill();
            if let Some(spill) = changed {
                let data = spill.map(|content| content.bytes()).transpose().at_with(|| self.place())?;
                return Ok(data.map(|data| Block { data, endian: Endian::Little }));
            }
        }
        match &self.tree().spill {
            None => Ok(None),
            Some(bp) if bp.is_hole() => Ok(None),
            // DMU_SPILL_BLKID: all ones.
            Some(bp) => self.inner.store.read(bp, &self.bookmark(0, u64::MAX), self.keys()).map(Some),
        }
    }

    /// The pointer to block `blkid` of `level`; a hole if there is none.
    pub fn block_pointer(&self, level: u8, blkid: u64) -> Result<BlkPtr> {
        self.pointer(&self.tree(), level, blkid, &mut None)
    }

    fn pointer(&self, dnode: &Dnode, level: u8, blkid: u64, recent: &mut Recent) -> Result<BlkPtr> {
        let Some(top) = dnode.levels.checked_sub(1).filter(|top| *top >= level) else { return Ok(BlkPtr::HOLE) };
        let shift = dnode.pointers_per_indirect().ilog2();
        let parent = blkid >> shift.min(63);
        let index_at = |l: u8| blkid.checked_shr(shift * u32::from(l - level)).unwrap_or(0);
        let root = match dnode.blkptrs.get(usize::try_from(index_at(top)).unwrap_or(usize::MAX)) {
            Some(bp) => *bp,
            None => return Ok(BlkPtr::HOLE),
        };
        if level < top
            && let Some(known) = recent
            && known.number == parent
            && known.root == root
        {
            return self.entry(&known.block, level, blkid, shift);
        }
        let mut bp = root;
        self.expect_level(&bp, top)?;
        for l in (level..top).rev() {
            if bp.is_hole() {
                return Ok(BlkPtr::HOLE);
            }
            let block = self.inner.store.read(&bp, &self.bookmark(i64::from(l) + 1, index_at(l + 1)), self.keys())?;
            bp = self.entry(&block, l, index_at(l), shift)?;
            if l == level {
                *recent = Some(Indirect { root, number: parent, block });
            }
        }
        Ok(bp)
    }

    /// Reads the indirect blocks above the data blocks `blocks`, as far as these are on disk.
    /// Changing or freeing them reads the same during the sync of the txg, where an error suspends
    /// the pool; here it is the caller's.
    pub fn check_indirect(&self, blocks: Range<u64>) -> Result<()> {
        let mut looks = 0;
        loop {
            let tree = self.tree();
            let checked = self.check_under(&tree, &blocks);
            looks += 1;
            // What a txg replaces meanwhile may be freed and written again.
            let is_syncing = || self.inner.live.as_ref().is_some_and(|live| live.state.read().syncing.is_some());
            let is_final = || looks >= SYNCING_LOOKS_MAX || !is_syncing() && Arc::ptr_eq(&tree, &self.tree());
            if checked.is_ok() || is_final() {
                return checked;
            }
            host::threads::sleep(SYNCING_LOOK);
        }
    }

    fn check_under(&self, dnode: &Dnode, blocks: &Range<u64>) -> Result<()> {
        let Some(top) = dnode.levels.checked_sub(1).filter(|top| *top > 0) else { return Ok(()) };
        let shift = dnode.pointers_per_indirect().ilog2();
        for (index, bp) in (0..).zip(dnode.blkptrs.iter()) {
            self.check_below(shift, top, index, bp, blocks)?;
        }
        Ok(())
    }

    fn check_below(&self, shift: u32, level: u8, index: u64, bp: &BlkPtr, blocks: &Range<u64>) -> Result<()> {
        let span = span(shift * u32::from(level), index);
        let (from, to) = (blocks.start.max(span.start), blocks.end.min(span.end));
        if level == 0 || bp.is_hole() || from >= to {
            return Ok(());
        }
        let block = self.inner.store.read(bp, &self.bookmark(i64::from(level), index), self.keys())?;
        let below = (shift * u32::from(level - 1)).min(63);
        for at in (from - span.start) >> below..=(to - 1 - span.start) >> below {
            let child = index << shift | at;
            let pointer = self.entry(&block, level - 1, child, shift)?;
            self.check_below(shift, level - 1, child, &pointer, blocks)?;
        }
        Ok(())
    }

    fn entry(&self, block: &Block, level: u8, blkid: u64, shift: u32) -> Result<BlkPtr> {
        let index = (blkid & ((1 << shift) - 1)) as usize;
        let bytes = block.data.get(index * blkptr::SIZE_BYTES..).unwrap_or_default();
        let bp = BlkPtr::parse(bytes, block.endian).at_with(|| self.place())?;
        self.expect_level(&bp, level)?;
        Ok(bp)
    }

    fn expect_level(&self, bp: &BlkPtr, level: u8) -> Result<()> {
        if !bp.is_hole() && !bp.is_redacted() && bp.level() != level {
            let what = format!("block pointer of level {} where level {level} was expected", bp.level());
            return Err(Error::corrupt(self.place(), what));
        }
        Ok(())
    }

    /// Data block `blkid`; `None` for a hole.
    pub fn block(&self, blkid: u64) -> Result<Option<Block>> {
        match self.changed(blkid) {
            Ok(block) => Ok(block),
            Err(place) => self.block_on_disk(&place, blkid, &mut None),
        }
    }

    fn block_on_disk(&self, place: &Elsewhere, blkid: u64, recent: &mut Recent) -> Result<Option<Block>> {
        let (bp, size) = match place {
            Elsewhere::At(bp) => (**bp, bp.lsize_bytes()),
            Elsewhere::Raw(block) => {
                let data = block.contents().at_with(|| self.place())?;
                return Ok(Some(Block { data, endian: block.endian }));
            }
            Elsewhere::Under(tree) => (self.pointer_on_disk(tree, blkid, recent)?, u64::from(tree.data_block_bytes)),
        };
        if bp.is_hole() { Ok(None) } else { self.load(&bp, blkid, size).map(Some) }
    }

    fn pointer_on_disk(&self, tree: &Dnode, blkid: u64, recent: &mut Recent) -> Result<BlkPtr> {
        if blkid > tree.max_block_id { Ok(BlkPtr::HOLE) } else { self.pointer(tree, 0, blkid, recent) }
    }

    /// The pointer to data block `blkid` under a tree on disk.
    pub(crate) fn pointer_under(&self, tree: &Dnode, blkid: u64) -> Result<BlkPtr> {
        self.pointer_on_disk(tree, blkid, &mut None)
    }

    fn load(&self, bp: &BlkPtr, blkid: u64, size: u64) -> Result<Block> {
        let at = self.bookmark(0, blkid);
        let block = if self.keys().is_none() && bp.is_encrypted() && bp.object_type() == ObjectType::DNODE {
            self.inner.store.read_unopened(bp, &at)?
        } else {
            self.inner.store.read(bp, &at, self.keys())?
        };
        if block.data.len() as u64 != size {
            let what = format!("block {blkid} holds {} bytes, expected {size}", block.data.len());
            return Err(Error::corrupt(self.place(), what));
        }
        self.native(bp, block)
    }

    /// The block as a set that is open for writing keeps it: in the byte order in which it would be
    /// written. Without the key, what a big-endian host encrypted stays as it is.
    fn native(&self, bp: &BlkPtr, block: Block) -> Result<Block> {
        let is_readable = self.keys().is_some() || !bp.is_encrypted();
        if block.endian == WRITTEN || self.inner.live.is_none() || !is_readable {
            return Ok(block);
        }
        let mut bytes = block.data.to_vec();
        byteswap::to_little(bp.object_type(), &mut bytes).at_with(|| self.place())?;
        Ok(Block { data: bytes.into(), endian: WRITTEN })
    }

    /// Fills `buf` with the bytes starting at `offset`.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut done = 0;
        self.read_pieces(offset, buf.len(), &mut |piece| {
            let out = &mut buf[done..done + piece.len()];
            match piece {
                Piece::Hole(_) => out.fill(0),
                Piece::Data(data) => out.copy_from_slice(data),
            }
            done += piece.len();
        })
    }

    /// Calls `sink` with the pieces that make up `len` bytes from `offset`, in order, and reads
    /// ahead.
    pub fn read_pieces(&self, offset: u64, len: usize, sink: &mut dyn FnMut(Piece<'_>)) -> Result<()> {
        let size = self.block_bytes();
        let end = offset.checked_add(len as u64).ok_or_else(|| Error::invalid(self.place(), "offset beyond 2^64"))?;
        if size == 0 {
            sink(Piece::Hole(len));
            return Ok(());
        }
        let ahead = self.inner.ahead.lock().note(offset, len as u64);
        for range in ahead {
            self.prefetch(range.offset, range.len);
        }
        let mut recent = None;
        let mut at = offset;
        while at < end {
            let (blkid, within) = (at / size, at % size);
            let n = (size - within).min(end - at) as usize;
            let block = match self.changed(blkid) {
                Ok(block) => block,
                Err(place) => self.block_on_disk(&place, blkid, &mut recent)?,
            };
            match block {
                None => sink(Piece::Hole(n)),
                Some(block) => sink(Piece::Data(&block.data[within as usize..within as usize + n])),
            }
            at += n as u64;
        }
        Ok(())
    }

    /// Reads `len` bytes from `offset`, without a copy if they lie in one block.
    pub fn read_bytes(&self, offset: u64, len: usize) -> Result<bytes::Bytes> {
        let size = self.block_bytes();
        if size != 0
            && len != 0
            && offset / size == offset.saturating_add(len as u64 - 1) / size
            && offset / size <= self.max_block_id()
        {
            let ahead = self.inner.ahead.lock().note(offset, len as u64);
            for range in ahead {
                self.prefetch(range.offset, range.len);
            }
            if let Some(block) = self.block(offset / size)? {
                let within = (offset % size) as usize;
                return Ok(block.data.slice(within..within + len));
            }
            return Ok(vec![0; len].into());
        }
        let mut buf = Vec::with_capacity(len);
        self.read_pieces(offset, len, &mut |piece| match piece {
            Piece::Hole(n) => buf.resize(buf.len() + n, 0),
            Piece::Data(data) => buf.extend_from_slice(data),
        })?;
        Ok(buf.into())
    }

    /// Reads `len` bytes from `offset`.
    pub fn read_vec(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut buf = vec![0; len];
        self.read_at(offset, &mut buf)?;
        Ok(buf)
    }

    /// The first `count` 64-bit words of an object that is an array of them; zeros beyond its end.
    /// Each block has the byte order of its own writer: a pool that moved between hosts has both.
    pub fn read_words(&self, count: u64) -> Result<Vec<u64>> {
        let size = self.block_bytes();
        let holds = self.max_block_id().saturating_add(1).saturating_mul(size) / 8;
        let mut words = Vec::new();
        let mut blkid = 0;
        while (words.len() as u64) < count.min(holds) {
            match self.block(blkid)? {
                Some(block) => words.extend(block.data.chunks_exact(8).map(|b| block.endian.u64(b))),
                None => words.resize(words.len() + (size / 8) as usize, 0),
            }
            blkid += 1;
        }
        let count =
            usize::try_from(count).map_err(|_| Error::corrupt(self.place(), format!("an array of {count} words")))?;
        words.resize(count, 0);
        Ok(words)
    }

    /// Prefetches the data blocks of a range in the background.
    pub fn prefetch(&self, offset: u64, len: u64) {
        let size = self.block_bytes();
        if size == 0 || len == 0 {
            return;
        }
        let tree = self.tree();
        let last = (offset.saturating_add(len - 1) / size).min(tree.max_block_id);
        let mut recent = None;
        for blkid in offset / size..=last {
            // An error here is ignored; reading the block will encounter and report it again.
            let Ok(bp) = self.pointer(&tree, 0, blkid, &mut recent) else { return };
            if !bp.is_hole() {
                self.inner.store.prefetch(&bp, &self.bookmark(0, blkid), self.inner.keys.as_ref());
            }
        }
    }

    /// First offset at or after `offset` that is not in a hole; `None` if only holes follow. A hole
    /// that another thread keeps changing may count as data.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        self.next(offset, true)
    }

    /// First offset at or after `offset` that is in a hole; the end of the last block if there is
    /// none.
    pub fn next_hole(&self, offset: u64) -> Result<u64> {
        let end = self.max_block_id().saturating_add(1).saturating_mul(self.block_bytes());
        Ok(self.next(offset, false)?.unwrap_or_else(|| end.max(offset)))
    }

    fn next(&self, offset: u64, want_data: bool) -> Result<Option<u64>> {
        let (mut tree, mut recent) = (self.tree(), None);
        let (mut at, mut repeats) = (offset, 0);
        for _ in 0..=SEARCH_STEPS_MAX {
            let size = self.block_bytes();
            if size == 0 {
                return Ok(if want_data { None } else { Some(offset) });
            }
            let blkid = at / size;
            if blkid > self.max_block_id() {
                return Ok(None);
            }
            let mut run = self.run_at(&tree, blkid, &mut recent);
            let now = self.tree();
            if Arc::ptr_eq(&tree, &now) {
                repeats = 0;
            } else {
                // A txg synced in the meantime moved changes from memory into a different tree,
                // where this step did not look.
                tree = now;
                if repeats < SEARCH_REPEATS_MAX {
                    repeats += 1;
                    continue;
                }
                repeats = 0;
                run = Ok((false, blkid.saturating_add(1)));
            }
            let (is_hole, end) = run?;
            if is_hole != want_data {
                return Ok(Some(at));
            }
            match end.checked_mul(size) {
                Some(end) => at = end,
                None => return Ok(None),
            }
        }
        Err(Error::corrupt(self.place(), "indirect blocks that lead nowhere, without end"))
    }

    /// Whether block `blkid` is a hole, and the first block after it that may differ.
    fn run_at(&self, tree: &Arc<Dnode>, blkid: u64, recent: &mut Recent) -> Result<(bool, u64)> {
        let shift = tree.pointers_per_indirect().ilog2();
        // Blocks the tree cannot reach are holes, whatever the dnode records as its last block.
        let reach = (tree.blkptrs.len() as u64)
            .checked_shl(shift * u32::from(tree.levels.saturating_sub(1)))
            .filter(|r| *r > 0)
            .unwrap_or(u64::MAX);
        let is_hole = match self.changed(blkid) {
            Ok(block) => block.is_none(),
            Err(Elsewhere::At(_) | Elsewhere::Raw(_)) => false,
            Err(Elsewhere::Under(_)) => blkid >= reach || self.pointer(tree, 0, blkid, recent)?.is_hole(),
        };
        let next = blkid.saturating_add(1);
        if !is_hole {
            return Ok((false, next));
        }
        let after = if blkid >= reach { u64::MAX } else { self.behind_hole(tree, blkid, shift)? };
        // Blocks changed in memory may lie within an on-disk hole.
        let changed = self.inner.live.as_ref().and_then(|live| live.next_changed(next)).unwrap_or(u64::MAX);
        Ok((true, after.min(changed)))
    }

    /// The first block after the largest on-disk hole around `blkid`: missing indirect blocks are
    /// skipped whole in one step.
    fn behind_hole(&self, tree: &Dnode, blkid: u64, shift: u32) -> Result<u64> {
        let mut level = 0u8;
        while level + 1 < tree.levels {
            let above = blkid.checked_shr(shift * u32::from(level + 1)).unwrap_or(0);
            if !self.pointer(tree, level + 1, above, &mut None)?.is_hole() {
                break;
            }
            level += 1;
        }
        let span = 1u64.checked_shl(shift * u32::from(level)).unwrap_or(u64::MAX);
        Ok((blkid / span).saturating_add(1).saturating_mul(span))
    }
}

/// A run of bytes of an object.
pub enum Piece<'a> {
    /// A run of zeros.
    Hole(usize),
    /// Bytes of one block.
    Data(&'a [u8]),
}

impl Piece<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Hole(n) => *n,
            Self::Data(d) => d.len(),
        }
    }

    /// Whether the run is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
