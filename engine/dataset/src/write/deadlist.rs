//! Deadlists, written: created empty or for a clone, appended to, merged, freed.
//!
//! Empty lists are one shared object, counted by the feature `empty_bpobj`, until a block is added.
//! Before pool version 26, a deadlist is one list without keys. An upgrade leaves it as it is: what
//! is created after it has keys, and takes over the blocks of the old ones with time.
//! Facts: module/zfs/dsl_deadlist.c, `bpobj_alloc_empty` in module/zfs/bpobj.c.
//!
//! Invariants:
//!   * the sums in the bonus are those of all blocks in the lists
//!   * a block goes to the list with the largest key below its birth

use super::cx::Cx;
use crate::deadlist::{Deadlist, add};
use errors::{Error, Place, Result};
use object::Bpobj;
use object::bpobj_write::{NewEntry, new_header};
use ondisk::dsl_dir::FIELD_LIVELIST;
use ondisk::pool_dir::directory;
use ondisk::zap::NormFlags;
use ondisk::{BlkPtr, DeadlistHeader, DslDataset, ObjectType, SpaceTriple, version};
use std::collections::{BTreeMap, BTreeSet};

/// The feature that counts uses of the shared empty list.
const EMPTY_BPOBJ: &str = "com.delphix:empty_bpobj";
/// The feature that clones with livelists use.
pub(crate) const LIVELIST: &str = "com.delphix:livelist";
/// Number of entries in the newest list of a livelist at which a new list is started
/// (`zfs_livelist_max_entries`).
const LIVELIST_ENTRIES_MAX: u64 = 500_000;
/// Blocks gathered before they are moved: 1 MiB of pointers. Guessed.
const BATCH: usize = 8192;
/// Block size of a list (`SPA_OLD_MAXBLOCKSIZE`).
pub(crate) const LIST_BLOCK_BYTES: u32 = 128 << 10;

/// Creates a deadlist without any list; before pool version 26, an empty list.
pub(crate) fn create(cx: &Cx<'_>) -> Result<u64> {
    if cx.sync.version() < version::DEADLISTS {
        return new_list(cx);
    }
    let bonus = vec![0; DeadlistHeader::SIZE_BYTES];
    cx.create_zap_with(ObjectType::DEADLIST, NormFlags::empty(), ObjectType::DEADLIST_HDR, bonus)
}

/// Creates a separate list. Once the pool has livelists, all lists count the blocks freed in them.
fn new_list(cx: &Cx<'_>) -> Result<u64> {
    Bpobj::create_with(cx.mos(), cx.tx(), LIST_BLOCK_BYTES, &new_header(cx.sync.version(), cx.is_active(LIVELIST)))
}

/// The shared empty list, if the pool has one.
fn shared_list(cx: &Cx<'_>) -> Result<Option<u64>> {
    if !cx.is_enabled(EMPTY_BPOBJ) {
        return Ok(None);
    }
    if let Some(id) = cx.directory(directory::EMPTY_BPOBJ)? {
        return Ok(Some(id));
    }
    let id = new_list(cx)?;
    cx.set_directory(directory::EMPTY_BPOBJ, id)?;
    Ok(Some(id))
}

/// Removes `uses` uses of the shared empty list.
fn drop_shared(cx: &Cx<'_>, uses: u64) -> Result<()> {
    if uses == 0 {
        return Ok(());
    }
    cx.feature_add(EMPTY_BPOBJ, i64::try_from(uses).unwrap_or(i64::MAX).wrapping_neg())?;
    match cx.directory(directory::EMPTY_BPOBJ)? {
        Some(id) if !cx.is_active(EMPTY_BPOBJ) => {
            cx.unset_directory(directory::EMPTY_BPOBJ)?;
            cx.free_object(id)
        }
        _ => Ok(()),
    }
}

/// The lists of deadlist `id`, which has keys.
fn keys(cx: &Cx<'_>, id: u64) -> Result<BTreeMap<u64, u64>> {
    let entries = cx.zap(id)?.entries()?;
    let bad = || Error::corrupt("", format!("deadlist {id}: a key names no list by a txg in hexadecimal"));
    entries
        .iter()
        .map(|e| Ok((DeadlistHeader::key(&e.name).ok_or_else(bad)?, e.value.as_u64().ok_or_else(bad)?)))
        .collect()
}

/// Adds an empty list for blocks born after `txg`, if the deadlist has keys.
pub(crate) fn add_key(cx: &Cx<'_>, id: u64, txg: u64) -> Result<()> {
    if is_old(cx, id)? { Ok(()) } else { add_keys(cx, id, &[txg]) }
}

fn add_keys(cx: &Cx<'_>, id: u64, txgs: &[u64]) -> Result<()> {
    if txgs.is_empty() {
        return Ok(());
    }
    let shared = shared_list(cx)?;
    let zap = cx.zap(id)?;
    for txg in txgs {
        let list = shared.map_or_else(|| new_list(cx), Ok)?;
        zap.insert(cx.tx(), format!("{txg:x}").as_bytes(), &ondisk::zap::Value::one(list))?;
    }
    match shared {
        Some(_) => cx.feature_add(EMPTY_BPOBJ, i64::try_from(txgs.len()).unwrap_or(i64::MAX)),
        None => Ok(()),
    }
}

/// Creates a deadlist with the keys of `id` below `max_txg`, all empty: for a clone, or for the
/// head after a snapshot. If `id` has no keys, those that it would have come from the snapshots:
/// `newest`, and the ones before it.
pub(crate) fn create_like(cx: &Cx<'_>, id: u64, max_txg: u64, newest: u64) -> Result<u64> {
    let new = create(cx)?;
    if is_old(cx, new)? {
        return Ok(new);
    }
    let txgs: Vec<u64> = match is_old(cx, id)? {
        true => txgs_before(cx, newest)?,
        false => keys(cx, id)?.range(..max_txg).map(|(txg, _)| *txg).collect(),
    };
    add_keys(cx, new, &txgs)?;
    Ok(new)
}

/// The txgs of the snapshots before `snapshot`, also of those that its origin has.
fn txgs_before(cx: &Cx<'_>, snapshot: u64) -> Result<Vec<u64>> {
    let (mut txgs, mut at) = (BTreeSet::new(), snapshot);
    while at != 0 {
        let phys = cx.dataset(at)?.phys;
        if !txgs.insert(phys.prev_snap_txg.0) {
            return Err(Error::corrupt("", format!("snapshot {at} is not younger than the one before it")));
        }
        at = phys.prev_snap;
    }
    Ok(txgs.into_iter().collect())
}

/// Frees deadlist `id` with its lists, not the blocks in them.
pub(crate) fn free(cx: &Cx<'_>, id: u64) -> Result<()> {
    if is_old(cx, id)? {
        return Bpobj::free(cx.mos(), cx.tx(), id);
    }
    let shared = cx.directory(directory::EMPTY_BPOBJ)?;
    let (empty, own): (Vec<u64>, Vec<u64>) = keys(cx, id)?.into_values().partition(|list| Some(*list) == shared);
    drop_shared(cx, empty.len() as u64)?;
    own.into_iter().try_for_each(|list| Bpobj::free(cx.mos(), cx.tx(), list))?;
    cx.free_object(id)
}

/// Adds `blocks` to deadlist `id`.
pub(crate) fn insert(cx: &Cx<'_>, id: u64, blocks: &[BlkPtr]) -> Result<()> {
    insert_as(cx, id, blocks, false)
}

/// Records in livelist `id` the blocks a clone wrote and the ones of them freed again, in this txg.
pub(crate) fn note_live(cx: &Cx<'_>, id: u64, born: &[BlkPtr], freed: &[BlkPtr]) -> Result<()> {
    let newest = keys(cx, id)?.into_values().next_back();
    let is_full = match newest {
        Some(list) => cx.bpobj(list)?.header().entries > LIVELIST_ENTRIES_MAX,
        None => true,
    };
    if is_full {
        add_key(cx, id, cx.txg() - 1)?;
    }
    insert_as(cx, id, born, false)?;
    insert_as(cx, id, freed, true)
}

/// Drops the livelist of directory `dir`, if it has one: it is no longer valid.
pub(crate) fn remove_livelist(cx: &Cx<'_>, dir: u64) -> Result<()> {
    let Some(list) = cx.field_u64(dir, FIELD_LIVELIST)? else { return Ok(()) };
    free(cx, list)?;
    cx.unset_field(dir, FIELD_LIVELIST)?;
    cx.feature_decrement(LIVELIST)
}

/// Whether deadlist `id` is one unsorted list, as before pool version 26.
pub(crate) fn is_old(cx: &Cx<'_>, id: u64) -> Result<bool> {
    Ok(cx.object(id)?.dnode().object_type == ObjectType::BPOBJ)
}

/// Space of the blocks of deadlist `id` that were born after `min_txg` and not after `max_txg`:
/// keys of it, or 0 and the end.
pub(crate) fn space_range(cx: &Cx<'_>, id: u64, min_txg: u64, max_txg: u64) -> Result<SpaceTriple> {
    Deadlist::open(cx.mos(), id)?.space_range(min_txg, max_txg, &|bp| cx.sync.space_bytes(bp))
}

/// Space of all blocks of deadlist `id`.
pub(crate) fn space(cx: &Cx<'_>, id: u64) -> Result<SpaceTriple> {
    Deadlist::open(cx.mos(), id)?.space(&|bp| cx.sync.space_bytes(bp))
}

/// Moves the blocks of deadlist `id` born after `min_txg`, one of its keys, with their keys to the
/// list that the pool frees from the next txg on. Returns their space.
pub(crate) fn hand_over(cx: &Cx<'_>, id: u64, min_txg: u64) -> Result<SpaceTriple> {
    let missing = || Error::corrupt("", "the object directory has no free_bpobj");
    let free = cx.directory(directory::FREE_BPOBJ)?.ok_or_else(missing)?;
    hand_over_to(cx, id, min_txg, free)
}

/// Like [`hand_over`], with another destination list.
pub(crate) fn hand_over_to(cx: &Cx<'_>, id: u64, min_txg: u64, free: u64) -> Result<SpaceTriple> {
    let mut gone = SpaceTriple::default();
    let shared = cx.directory(directory::EMPTY_BPOBJ)?;
    let (zap, mut unused) = (cx.zap(id)?, 0);
    // Destroyed snapshots left their keys behind: if there are many, nearly all refer to the
    // one empty list.
    for (key, list) in keys(cx, id)?.split_off(&min_txg) {
        if Some(list) == shared {
            unused += 1;
        } else {
            add(&mut gone, crate::deadlist::list_space(cx.mos(), &cx.bpobj(list)?, &|bp| cx.sync.space_bytes(bp))?);
            cx.bpobj(free)?.append_sub(cx.mos(), cx.tx(), list)?;
        }
        zap.remove(cx.tx(), format!("{key:x}").as_bytes())?;
    }
    drop_shared(cx, unused)?;
    count(cx, id, SpaceTriple::default(), gone)?;
    Ok(gone)
}

/// Calls `take` with the blocks of deadlist `id`, some thousand at a time.
pub(crate) fn for_each(cx: &Cx<'_>, id: u64, take: &mut dyn FnMut(&[BlkPtr]) -> Result<()>) -> Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    Deadlist::open(cx.mos(), id)?.for_each(&mut |bp| {
        batch.push(*bp);
        if batch.len() == BATCH {
            take(&batch)?;
            batch.clear();
        }
        Ok(true)
    })?;
    take(&batch)
}

/// Moves all blocks of deadlist `from` to deadlist `id`, which has keys, and frees `from`.
pub(crate) fn merge(cx: &Cx<'_>, id: u64, from: u64) -> Result<()> {
    if is_old(cx, from)? {
        for_each(cx, from, &mut |blocks| insert(cx, id, blocks))?;
        return free(cx, from);
    }
    let all = space(cx, from)?;
    let shared = cx.directory(directory::EMPTY_BPOBJ)?;
    let mut own = keys(cx, id)?;
    let mut unused = 0;
    for (key, list) in keys(cx, from)? {
        unused += take_over(cx, (id, &mut own), key, list, shared)?;
    }
    cx.free_object(from)?;
    drop_shared(cx, unused)?;
    count(cx, id, all, SpaceTriple::default())
}

/// Merges blocks born after `txg` with older ones: the snapshot of that txg is destroyed.
pub(crate) fn remove_key(cx: &Cx<'_>, id: u64, txg: u64) -> Result<()> {
    if is_old(cx, id)? {
        return Ok(());
    }
    let mut own = keys(cx, id)?;
    let Some(list) = own.remove(&txg) else { return Ok(()) };
    cx.zap(id)?.remove(cx.tx(), format!("{txg:x}").as_bytes())?;
    let unused = take_over(cx, (id, &mut own), txg, list, cx.directory(directory::EMPTY_BPOBJ)?)?;
    drop_shared(cx, unused)
}

/// Merges list `list`, which has no owner, into deadlist `id`: into the list with the largest key
/// up to `key`. `keys` are the deadlist's lists by key. Returns how many uses of `shared` were
/// dropped.
fn take_over(
    cx: &Cx<'_>,
    (id, keys): (u64, &mut BTreeMap<u64, u64>),
    key: u64,
    list: u64,
    shared: Option<u64>,
) -> Result<u64> {
    if Some(list) == shared {
        return Ok(1);
    }
    let none = || Error::corrupt("", format!("deadlist {id} has no list for blocks born after txg {key}"));
    let first = keys.keys().next().copied();
    let own_key = keys.range(..=key).next_back().map(|(key, _)| *key).or(first).ok_or_else(none)?;
    let own = keys.get_mut(&own_key).ok_or_else(none)?;
    if Some(*own) != shared {
        cx.bpobj(*own)?.append_sub(cx.mos(), cx.tx(), list)?;
        return Ok(0);
    }
    *own = list;
    cx.zap(id)?.update_u64(cx.tx(), format!("{own_key:x}"), list)?;
    Ok(1)
}

/// Updates the sums of deadlist `id`.
fn count(cx: &Cx<'_>, id: u64, plus: SpaceTriple, minus: SpaceTriple) -> Result<()> {
    let object = cx.object(id)?;
    let mut bonus = object.bonus().to_vec();
    let mut header = DeadlistHeader::parse(&bonus, object.endian()).at_with(|| object.place())?;
    add(&mut header.space, plus);
    add(&mut header.space, negated(minus));
    header.write(&mut bonus, object.endian()).at_with(|| object.place())?;
    object.set_bonus(cx.tx(), bonus)
}

fn insert_as(cx: &Cx<'_>, id: u64, blocks: &[BlkPtr], freed: bool) -> Result<()> {
    if blocks.is_empty() {
        return Ok(());
    }
    let entry = |bp: &BlkPtr| NewEntry { bp: *bp, freed, space_bytes: cx.space_of(bp).used };
    if is_old(cx, id)? {
        return cx.bpobj(id)?.append_all(cx.tx(), blocks.iter().map(entry));
    }
    let keys = keys(cx, id)?;
    let shared = cx.directory(directory::EMPTY_BPOBJ)?;
    let mut by_key = BTreeMap::<u64, Vec<&BlkPtr>>::new();
    let mut sum = SpaceTriple::default();
    for bp in blocks {
        add(&mut sum, cx.space_of(bp));
        let birth = bp.logical_birth().0;
        let key = keys.range(..birth).next_back().or_else(|| keys.iter().next()).map(|(key, _)| *key);
        let none = || Error::corrupt("", format!("deadlist {id} has no list for a block born in txg {birth}"));
        by_key.entry(key.ok_or_else(none)?).or_default().push(bp);
    }
    for (key, blocks) in by_key {
        let mut list = keys[&key];
        if Some(list) == shared {
            let own = new_list(cx)?;
            drop_shared(cx, 1)?;
            cx.zap(id)?.update_u64(cx.tx(), format!("{key:x}"), own)?;
            list = own;
        }
        cx.bpobj(list)?.append_all(cx.tx(), blocks.into_iter().map(entry))?;
    }
    let none = SpaceTriple::default();
    if freed { count(cx, id, none, sum) } else { count(cx, id, sum, none) }
}

fn negated(s: SpaceTriple) -> SpaceTriple {
    let neg = u64::wrapping_neg;
    SpaceTriple { used: neg(s.used), compressed: neg(s.compressed), uncompressed: neg(s.uncompressed) }
}

/// The flag of heads that count exactly what they alone reference, in pools that have it.
pub(super) fn unique_accurate(cx: &Cx<'_>) -> u64 {
    if cx.sync.version() >= version::UNIQUE_ACCURATE { DslDataset::FLAG_UNIQUE_ACCURATE } else { 0 }
}

/// The bytes that only head `phys` references: counted again, unless the count is accurate. It is
/// not in heads that were written before pool version 9.
pub(super) fn unique_bytes(cx: &Cx<'_>, phys: &DslDataset) -> Result<u64> {
    match phys.has(DslDataset::FLAG_UNIQUE_ACCURATE) {
        true => Ok(phys.unique_bytes),
        false => counted_unique_bytes(cx, phys),
    }
}

/// The bytes that only head `phys` references, counted again.
pub(super) fn counted_unique_bytes(cx: &Cx<'_>, phys: &DslDataset) -> Result<u64> {
    let shared = match phys.prev_snap {
        0 => 0,
        previous => {
            let referenced = cx.dataset(previous)?.phys.referenced_bytes;
            referenced.wrapping_sub(space(cx, phys.deadlist)?.used)
        }
    };
    Ok(phys.referenced_bytes.wrapping_sub(shared))
}

/// Makes the count of what only head `id` references accurate. Facts:
/// `dsl_dataset_recalc_head_uniq`.
pub(super) fn count_unique(cx: &Cx<'_>, id: u64) -> Result<()> {
    let mut head = cx.dataset(id)?;
    head.phys.unique_bytes = unique_bytes(cx, &head.phys)?;
    head.phys.flags |= unique_accurate(cx);
    cx.put_dataset(&head)
}
