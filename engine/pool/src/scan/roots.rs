//! Where walks begin: the MOS, each dataset and snapshot, and what waits to be freed.

use crate::{Pool, Result};
use object::Place;
use ondisk::dsl_dataset::DslDataset;
use ondisk::{BlkPtr, ObjectType, bpobj, deadlist};

/// What a root is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootKind {
    /// The pool's own objects.
    Mos,
    /// A dataset or snapshot, with what its accounting says.
    Dataset {
        /// Object number of the snapshot before it; 0: none.
        previous: u64,
        /// Bytes that it says it references, deflated.
        referenced_bytes: u64,
        /// Bytes that its deadlist says are referenced by the snapshot before but not by it.
        dead_bytes: u64,
        /// A snapshot.
        is_snapshot: bool,
        /// A receive or destroy was interrupted: accounting may be behind.
        is_inconsistent: bool,
    },
}

/// A root of the pool's block tree.
#[derive(Debug, Clone)]
pub struct Root {
    /// Object set number: 0 for the MOS, else the dataset's object.
    pub objset: u64,
    /// Its root block.
    pub bp: BlkPtr,
    /// Blocks born up to this txg belong to the snapshot before.
    pub since_txg: u64,
    /// What it is.
    pub kind: RootKind,
}

/// All roots: the MOS first, then datasets by object number.
pub fn roots(pool: &Pool) -> Result<Vec<Root>> {
    let mut found = vec![Root { objset: 0, bp: pool.uberblock().root, since_txg: 0, kind: RootKind::Mos }];
    let mos = pool.mos();
    let mut id = 0;
    while let Some(next) = mos.next_object(id)? {
        id = next;
        let dnode = mos.dnode(id)?;
        if dnode.bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let place = || format!("{}: dataset object {id}", pool.name());
        let ds = DslDataset::parse(&dnode.bonus, dnode.endian).at_with(place)?;
        let dead_bytes = if ds.deadlist == 0 { 0 } else { dead_bytes(pool, ds.deadlist).at_with(place)? };
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
    Ok(found)
}

/// A deadlist is a ZAP of lists with a sum in its bonus; before version 26 a single list.
fn dead_bytes(pool: &Pool, id: u64) -> Result<u64> {
    let object = pool.mos().object(id)?;
    let (bonus, endian) = (object.bonus(), object.endian());
    if object.dnode().bonus_type == ObjectType::DEADLIST_HDR {
        return Ok(deadlist::DeadlistHeader::parse(bonus, endian).at_with(|| object.place())?.space.used);
    }
    Ok(bpobj::Header::parse(bonus, endian).at_with(|| object.place())?.used_bytes)
}
