//! How an import handles the logs of all datasets in its first txg: blocks are claimed before any
//! space is allocated, and the heads of the logs record the claim.
//!
//! No dataset is open yet, and keys are not needed: only the head of the log in the root block
//! changes, which no MAC covers.
//!
//! Invariants:
//!   * blocks and heads are claimed in the same txg
//!   * an unclaimable log prevents the pool from being written at all

use super::claim::{Claim, find_claim, find_cleared};
use crate::live::sync::DatasetSync;
use crate::live::{Policies, Settings};
use crate::write::cx::Cx;
use crate::{Datasets, ListOptions};
use block::{Bookmark, Class};
use block::{Compress, Dedup, WritePolicy, WriteStore};
use bytes::Bytes;
use errors::{Error, Place, Result};
use host::sync::Mutex;
use ondisk::{BlkPtr, Checksum, Endian, ObjectType, Txg, ZilHeader, byteswap};
use pool::{Participant, Pool, SyncTx};
use std::sync::Arc;

/// Offset of the log header in a root block.
const HEADER_AT: usize = 0x200;

/// The heads to write in the first txg.
struct Heads {
    todo: Mutex<Vec<(Claim, Settings)>>,
}

/// Claims the log blocks of all datasets of `pool` in `store`; `first_txg` is the first txg to be
/// written. The returned participant must take part in that txg; `None`: no dataset has an
/// unclaimed log.
///
/// Call it before anything else has been allocated.
pub fn claim_logs(pool: &Arc<Pool>, store: &WriteStore, first_txg: u64) -> Result<Option<Arc<dyn Participant>>> {
    let datasets = Datasets::open(pool.clone())?;
    let mut todo = Vec::new();
    let list = datasets.list(&[], &ListOptions::heads())?;
    if let Some(error) = list.errors.into_iter().next() {
        return Err(error);
    }
    for dataset in list.entries.iter().filter_map(|e| e.dataset()) {
        let found = match pool.uberblock() {
            u if u.is_checkpoint() => find_cleared(dataset, u.checkpoint_txg),
            _ => find_claim(dataset, Txg(first_txg)),
        };
        if let Some(claim) = found.at(dataset.name())? {
            for bp in &claim.blocks {
                store.claim(first_txg, bp).at(dataset.name())?;
            }
            tracing::info!(dataset = dataset.name(), blocks = claim.blocks.len(), "intent log claimed");
            todo.push((claim, Settings::of(dataset)?));
        }
    }
    Ok((!todo.is_empty()).then(|| -> Arc<dyn Participant> { Arc::new(Heads { todo: Mutex::new(todo) }) }))
}

impl Participant for Heads {
    fn is_dirty(&self, _txg: u64) -> bool {
        !self.todo.lock().is_empty()
    }

    fn quiesce(&self, _txg: u64) {}

    fn cloned(&self, _txg: u64, visit: &mut dyn FnMut(&BlkPtr) -> Result<()>) -> Result<()> {
        self.todo.lock().iter().flat_map(|(claim, _)| &claim.cloned).try_for_each(visit)
    }

    fn sync(&self, cx: &SyncTx<'_>) -> Result<()> {
        let todo = std::mem::take(&mut *self.todo.lock());
        todo.into_iter().try_for_each(|(claim, settings)| {
            let place = || format!("intent log of object set {}", claim.dataset);
            claim.freed.iter().try_for_each(|bp| cx.free(bp)).at_with(place)?;
            put_header(Cx::new(cx), claim.dataset, &claim.header, settings).at_with(place)
        })
    }
}

/// Writes the root block of dataset `id`, which is not open, with a new log header.
pub(crate) fn put_header(cx: Cx<'_>, id: u64, header: &ZilHeader, settings: Settings) -> Result<()> {
    let store = cx.store();
    let old = cx.dataset(id)?.phys.bp;
    let at = Bookmark { objset: id, object: 0, level: -1, blkid: 0 };
    let block = store.read_unopened(&old, &at)?;
    let mut data = block.data.to_vec();
    if block.endian != Endian::Little {
        if old.uses_crypt() {
            return Err(Error::unsupported("", "claiming the log of an encrypted dataset of a big-endian host"));
        }
        byteswap::to_little(ObjectType::OBJSET, &mut data)?;
    }
    let place = data.get_mut(HEADER_AT..HEADER_AT + ZilHeader::SIZE_BYTES);
    let place = place.ok_or_else(|| Error::corrupt("", "the root block is too short"))?;
    place.copy_from_slice(&header.to_bytes(Endian::Little));
    let new = store.write(cx.txg(), Bytes::from(data), &policy(&old)?, &at, None)?;
    let new = as_old(&old, new);
    let is_encrypted = old.uses_crypt();
    let policies = Policies::new(settings, is_encrypted, &|guid| cx.is_enabled(guid));
    DatasetSync::new(cx, id, policies, None)?.replace_root(&old, new)
}

/// The policy with which the old block was written.
fn policy(old: &BlkPtr) -> Result<WritePolicy> {
    let compression = Compress::new(old.compression()?, 0).unwrap_or_default();
    Ok(WritePolicy {
        object_type: ObjectType::OBJSET,
        level: 0,
        checksum: match old.checksum_kind()? {
            embedded if embedded.is_embedded() => Checksum::Fletcher4,
            other => other,
        },
        compression,
        copies: old.dvas().count().clamp(1, 3) as u8,
        class: Class::Special,
        special_max_bytes: 0,
        embed: false,
        dedup: Dedup::Off,
    })
}

/// The MACs in the block remain valid, and so does the number of objects.
fn as_old(old: &BlkPtr, mut new: BlkPtr) -> BlkPtr {
    new.set_uses_crypt(old.uses_crypt());
    new.set_fill(old.fill());
    new
}
