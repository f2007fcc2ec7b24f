//! The roots of walks: the MOS, each dataset and snapshot, and the trees that wait to be freed.

use crate::Pool;
use errors::{Place, Result};
use ondisk::dsl_dataset::DslDataset;
use ondisk::pool_dir::directory;
use ondisk::{BlkPtr, ObjectType, bpobj, deadlist};

/// Kind of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootKind {
    /// The pool's own object set.
    Mos,
    /// A dataset or snapshot, with its accounting.
    Dataset {
        /// Object number of the previous snapshot; 0: none.
        previous: u64,
        /// Bytes that it references according to its accounting, deflated.
        referenced_bytes: u64,
        /// Bytes in its deadlist: referenced by the previous snapshot but not by it.
        dead_bytes: u64,
        is_snapshot: bool,
        /// A receive or destroy was interrupted: the accounting may be behind.
        is_inconsistent: bool,
    },
    /// The rest of a dataset that is being destroyed in the background.
    Destroyed,
}

/// A root of the pool's block tree.
#[derive(Debug, Clone)]
pub struct Root {
    /// Object set number: 0 for the MOS, else the dataset's object number.
    pub objset: u64,
    pub bp: BlkPtr,
    /// Blocks born up to this txg belong to the previous snapshot.
    pub since_txg: u64,
    pub kind: RootKind,
}

impl Root {
    /// Whether it may have an intent log of its own: a head may, a snapshot only repeats the
    /// head's.
    pub fn has_log(&self) -> bool {
        matches!(self.kind, RootKind::Dataset { is_snapshot: false, .. })
    }
}

/// Number of dnodes in a block of dnodes.
const DNODES_PER_BLOCK: u64 = (ondisk::dnode::BLOCK_BYTES / ondisk::dnode::SLOT_BYTES) as u64;
/// Number of unreadable blocks of dnodes at which the search gives up.
const FAILURES_MAX: usize = 10_000;
/// Limit for the entries in the list of destroyed datasets; more is damage.
const DESTROYED_MAX: u64 = 1 << 20;

/// All roots: the MOS first, then datasets by object number, then destroyed ones. The second value
/// lists the reasons why some could not be found.
pub fn roots(pool: &Pool) -> Result<(Vec<Root>, Vec<String>)> {
    let mut broken = Vec::new();
    let mut found = vec![Root { objset: 0, bp: pool.uberblock().root, since_txg: 0, kind: RootKind::Mos }];
    let mos = pool.mos();
    for id in dataset_ids(pool, &mut broken) {
        let Ok(dnode) = mos.dnode(id) else { continue };
        let place = || format!("{}: dataset object {id}", pool.name());
        let ds = match DslDataset::parse(&dnode.bonus, dnode.endian).at_with(place) {
            Ok(ds) => ds,
            Err(e) => {
                broken.push(e.to_string());
                continue;
            }
        };
        let dead = if ds.deadlist == 0 { Ok(0) } else { dead_bytes(pool, ds.deadlist).at_with(place) };
        let dead_bytes = dead.unwrap_or_else(|e| {
            broken.push(e.to_string());
            0
        });
        found.push(Root {
            objset: id,
            bp: ds.bp,
            since_txg: ds.prev_snap_txg.0,
            kind: RootKind::Dataset {
                previous: ds.prev_snap,
                referenced_bytes: ds.referenced_bytes,
                dead_bytes,
                is_snapshot: ds.is_snapshot(),
                is_inconsistent: ds.has(DslDataset::FLAG_INCONSISTENT),
            },
        });
    }
    if let Err(e) = destroyed(pool, &mut found) {
        broken.push(e.to_string());
    }
    Ok((found, broken))
}

/// Object numbers of the datasets in the MOS. Unreadable blocks of dnodes are reported in `broken`
/// and skipped.
pub(crate) fn dataset_ids(pool: &Pool, broken: &mut Vec<String>) -> Vec<u64> {
    let (mos, meta) = (pool.mos(), pool.mos().meta());
    let size = meta.block_bytes().max(1);
    let mut found = Vec::new();
    let (mut blkid, mut failures) = (0u64, 0);
    while blkid <= meta.max_block_id() && failures < FAILURES_MAX {
        let first = blkid.saturating_mul(DNODES_PER_BLOCK);
        let mut failed = |e: errors::Error| {
            broken.push(format!("datasets behind object {first} cannot be found: {e}"));
            failures += 1;
        };
        match meta.next_data(blkid.saturating_mul(size)) {
            Ok(None) => break,
            Ok(Some(at)) if at / size != blkid => {
                blkid = at / size;
                continue;
            }
            Ok(Some(_)) => {}
            Err(e) => {
                failed(e);
                // The unreadable block is the indirect block above.
                let span = meta.dnode().pointers_per_indirect();
                blkid = (blkid / span).saturating_add(1).saturating_mul(span);
                continue;
            }
        }
        match meta.block(blkid) {
            Ok(_) => found.extend(
                (first..first.saturating_add(DNODES_PER_BLOCK))
                    .filter(|id| mos.dnode(*id).is_ok_and(|dnode| dnode.bonus_type == ObjectType::DSL_DATASET)),
            ),
            Err(e) => failed(e),
        }
        blkid += 1;
    }
    found
}

/// Destroyed datasets that are still to be freed (async_destroy): their roots (`bptree_phys_t`,
/// `bptree_entry_phys_t` of include/sys/bptree.h).
fn destroyed(pool: &Pool, found: &mut Vec<Root>) -> Result<()> {
    /// Block pointer, txg, bookmark.
    const ENTRY_BYTES: u64 = 128 + 8 + 32;
    let Some(id) = pool.directory().lookup_u64(directory::BPTREE_OBJ)?.filter(|id| *id != 0) else { return Ok(()) };
    let object = pool.mos().object(id)?;
    let (bonus, endian) = (object.bonus(), object.endian());
    if bonus.len() < 16 {
        return Err(errors::Error::corrupt(object.place(), format!("a bonus of {} bytes, expected 40", bonus.len())));
    }
    let (begin, end) = (endian.word(bonus, 0), endian.word(bonus, 1));
    if end.saturating_sub(begin) > DESTROYED_MAX {
        return Err(errors::Error::corrupt(object.place(), format!("destroyed datasets {begin} to {end}")));
    }
    for n in begin..end {
        let raw = object.read_vec(n.saturating_mul(ENTRY_BYTES), ENTRY_BYTES as usize)?;
        let bp = BlkPtr::parse(&raw, endian).at_with(|| object.place())?;
        found.push(Root { objset: 0, bp, since_txg: endian.word(&raw, 16), kind: RootKind::Destroyed });
    }
    Ok(())
}

/// Bytes in a deadlist: a ZAP of lists with the sum in its bonus; before version 26 a single list.
fn dead_bytes(pool: &Pool, id: u64) -> Result<u64> {
    let object = pool.mos().object(id)?;
    let (bonus, endian) = (object.bonus(), object.endian());
    if object.dnode().bonus_type == ObjectType::DEADLIST_HDR {
        return Ok(deadlist::DeadlistHeader::parse(bonus, endian).at_with(|| object.place())?.space.used);
    }
    Ok(bpobj::Header::parse(bonus, endian).at_with(|| object.place())?.used_bytes)
}
