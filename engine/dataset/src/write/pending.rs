//! Destroyed data that is not freed yet: lists of blocks, and trees, which the pool keeps from txg
//! to txg.
//!
//! | object directory | what                                                                  |
//! |------------------|-----------------------------------------------------------------------|
//! | `free_bpobj`     | a list of blocks                                                      |
//! | `bptree_obj`     | root blocks of destroyed datasets, each with the position of its walk |
//!
//! Their space is counted in the directory `$FREE`. A tree's entry has 168 bytes: root block, birth
//! after which blocks are freed, bookmark (object set, object, level, block). Facts:
//! module/zfs/bptree.c, `dsl_process_async_destroys` in dsl_scan.c.
//!
//! Invariants:
//!   * space freed in a txg is subtracted, and the position reached is recorded, in the same txg

use super::cx::Cx;
use super::deadlist::LIST_BLOCK_BYTES;
use super::free::{At, Met, Stop, Walk};
use super::space::{self, Delta, Part};
use crate::deadlist::add;
use errors::{Place, Result};
use ondisk::pool_dir::directory;
use ondisk::{BlkPtr, Endian, ObjectType, SpaceTriple, blkptr};

/// The feature that is active while trees are being freed.
pub(crate) const ASYNC_DESTROY: &str = "com.delphix:async_destroy";
/// Size of an entry.
const ENTRY_BYTES: usize = blkptr::SIZE_BYTES + 40;
/// Object set in bookmarks of destroyed trees (`ZB_DESTROYED_OBJSET`).
const DESTROYED: u64 = u64::MAX;

/// Frees at most `blocks` blocks; returns whether more remain. Unreadable blocks are left for a
/// later attempt.
pub(crate) fn work(cx: &Cx<'_>, mut blocks: u64) -> Result<bool> {
    let Some(free_dir) = cx.special_dir("$FREE")? else { return Ok(false) };
    let mut gone = SpaceTriple::default();
    let mut more = super::remaps::work(cx, &mut blocks)? || !drain_list(cx, &mut blocks, &mut gone)?;
    if !more && let Some(id) = cx.directory(directory::BPTREE_OBJ)? {
        more = !walk_trees(cx, id, &mut blocks, &mut gone)?;
    }
    space::did_use(cx, free_dir, Part::Head, Delta::between(SpaceTriple::default(), gone))?;
    Ok(more)
}

/// Bytes still accounted for by destroyed data that is not freed yet.
pub(crate) fn left(cx: &Cx<'_>) -> Result<u64> {
    let dir = cx.special_dir("$FREE")?;
    dir.map_or(Ok(0), |dir| Ok(cx.dir(dir)?.phys.used_bytes))
}

fn drain_list(cx: &Cx<'_>, blocks: &mut u64, gone: &mut SpaceTriple) -> Result<bool> {
    let Some(id) = cx.directory(directory::FREE_BPOBJ)? else { return Ok(true) };
    let list = cx.bpobj(id)?;
    if list.is_empty()? {
        return Ok(true);
    }
    list.drain(cx.mos(), cx.tx(), &|bp| cx.space_of(bp).used, &mut |entry| {
        if *blocks == 0 {
            return Ok(false);
        }
        *blocks -= 1;
        add(gone, cx.space_of(&entry.bp));
        cx.sync.free(&entry.bp).map(|()| true)
    })
}

/// Queues the tree at `root` for freeing from the next txg on: its blocks born after `min_txg`,
/// which take `space`.
pub(crate) fn add_tree(cx: &Cx<'_>, root: &BlkPtr, min_txg: u64, space: SpaceTriple) -> Result<()> {
    let id = match cx.directory(directory::BPTREE_OBJ)? {
        Some(id) => id,
        None => {
            let bonus = (ObjectType::OTN_UINT64_METADATA, vec![0; 40]);
            let id = cx.create_object(ObjectType::OTN_UINT64_METADATA, LIST_BLOCK_BYTES, bonus)?.id();
            cx.set_directory(directory::BPTREE_OBJ, id)?;
            cx.feature_increment(ASYNC_DESTROY)?;
            id
        }
    };
    let mut head = Head::load(cx, id)?;
    let mut entry = vec![0; ENTRY_BYTES];
    entry[..blkptr::SIZE_BYTES].copy_from_slice(&root.to_bytes(Endian::Little));
    Endian::Little.put_u64(&mut entry[blkptr::SIZE_BYTES..], min_txg);
    cx.object(id)?.write_at(cx.tx(), head.words[Head::END].saturating_mul(ENTRY_BYTES as u64), &entry)?;
    head.words[Head::END] += 1;
    for (word, bytes) in head.words[2..].iter_mut().zip([space.used, space.compressed, space.uncompressed]) {
        *word = word.wrapping_add(bytes);
    }
    head.store(cx, id)
}

/// Counters in the bonus.
struct Head {
    words: [u64; 5],
}

impl Head {
    const BEGIN: usize = 0;
    const END: usize = 1;

    fn load(cx: &Cx<'_>, id: u64) -> Result<Self> {
        let object = cx.object(id)?;
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(object.bonus().chunks_exact(8)) {
            *word = object.endian().u64(bytes);
        }
        Ok(Self { words })
    }

    fn store(&self, cx: &Cx<'_>, id: u64) -> Result<()> {
        let object = cx.object(id)?;
        let mut bonus = object.bonus().to_vec();
        for (bytes, word) in bonus.chunks_exact_mut(8).zip(self.words) {
            object.endian().put_u64(bytes, word);
        }
        object.set_bonus(cx.tx(), bonus)
    }

    fn count_out(&mut self, space: SpaceTriple) {
        for (word, bytes) in self.words[2..].iter_mut().zip([space.used, space.compressed, space.uncompressed]) {
            *word = word.wrapping_sub(bytes);
        }
    }
}

/// Frees trees; returns whether all of them are gone.
fn walk_trees(cx: &Cx<'_>, id: u64, blocks: &mut u64, gone: &mut SpaceTriple) -> Result<bool> {
    let mut head = Head::load(cx, id)?;
    while head.words[Head::BEGIN] < head.words[Head::END] {
        let offset = head.words[Head::BEGIN].saturating_mul(ENTRY_BYTES as u64);
        let mut entry = cx.object(id)?.read_vec(offset, ENTRY_BYTES)?;
        let root = BlkPtr::parse(&entry, Endian::Little).at("tree of a destroyed dataset")?;
        let word = |at: usize| Endian::Little.u64(&entry[blkptr::SIZE_BYTES + at * 8..]);
        let (min_txg, objset, object, blkid) = (word(0), word(1), word(2), word(4));
        let resume = (objset != 0).then_some(At { object, blkid });
        let walk = Walk { store: cx.mos().store(), min_txg, resume, gives_up: false };
        let mut freed = SpaceTriple::default();
        let walked = walk.run(&root, &mut |met| match met {
            Met::Next => Ok(*blocks > 0),
            Met::Block(bp) => {
                *blocks = blocks.saturating_sub(1);
                add(&mut freed, cx.space_of(bp));
                cx.sync.free(bp).map(|()| true)
            }
        });
        add(gone, freed);
        head.count_out(freed);
        let (at, is_paused) = match walked {
            Ok(()) => {
                head.words[Head::BEGIN] += 1;
                head.store(cx, id)?;
                cx.object(id)?.punch(cx.tx(), offset, ENTRY_BYTES as u64)?;
                continue;
            }
            Err(Stop::Broken(e)) => return Err(e),
            Err(Stop::Paused(at)) => (at, true),
            Err(Stop::Failed(at, e)) => {
                tracing::warn!("a destroyed dataset cannot be freed on: {e}");
                (at, false)
            }
        };
        for (index, word) in [DESTROYED, at.object, 0, at.blkid].into_iter().enumerate() {
            Endian::Little.put_u64(&mut entry[blkptr::SIZE_BYTES + 8 + index * 8..], word);
        }
        cx.object(id)?.write_at(cx.tx(), offset, &entry)?;
        head.store(cx, id)?;
        // An unreadable block will not be readable in the next txg either: the next import
        // retries.
        return Ok(!is_paused);
    }
    cx.free_object(id)?;
    cx.unset_directory(directory::BPTREE_OBJ)?;
    if cx.is_active(ASYNC_DESTROY) {
        cx.feature_decrement(ASYNC_DESTROY)?;
    }
    Ok(true)
}
