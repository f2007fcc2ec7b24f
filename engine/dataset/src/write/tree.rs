//! Datasets found by name in the live MOS, and the steps of creating and removing them.
//!
//! Facts: `dsl_dir_create_sync`, `dsl_dir_destroy_sync` in module/zfs/dsl_dir.c,
//! `dsl_dataset_create_sync_dd` in module/zfs/dsl_dataset.c.

use super::cx::Cx;
use super::limits::{self, Counted};
use super::{deadlist, feature, permissions};
use crate::name::{DatasetName, Tail};
use errors::{Error, Refusal, Result};
use object::{ObjectSet, Zap};
use ondisk::zap::NormFlags;
use ondisk::zap::Value as ZapValue;
use ondisk::{BlkPtr, DslDataset, DslDir, Endian, ObjectType, ObjsetKind, Txg, version};

/// Reason for refusing what a newer pool version is needed for.
pub(super) const TOO_OLD: &str = "pool must be upgraded";

/// The directory, and its snapshot, that datasets are based on that are no clones.
pub(super) const ORIGIN: &str = "$ORIGIN";

/// Maximum length of a dataset name, without its NUL.
pub(crate) const NAME_MAX: usize = 255;
/// Maximum nesting depth of directories (`zfs_max_dataset_nesting`).
pub(super) const DEPTH_MAX: usize = 50;
/// Txg of a new pool's first objects.
pub const TXG_INITIAL: u64 = 4;

/// A dataset found by name.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) dir: u64,
    pub(crate) head: u64,
    /// The snapshot, if the name contains one.
    pub(crate) snapshot: Option<u64>,
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    host::clock::seconds()
}

/// A unique number, not 0.
pub(crate) fn unique() -> u64 {
    loop {
        let number = host::random::u64();
        if number != 0 {
            return number;
        }
    }
}

/// A number of 56 bits: an fsid, or the identity of a set of IVs.
pub(crate) fn unique_fsid() -> u64 {
    loop {
        let number = unique() >> 8;
        if number != 0 {
            return number;
        }
    }
}

/// Rejects name components that a new dataset, snapshot or bookmark cannot have.
fn check_component(name: &str, component: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | ' ');
    if let Some(bad) = component.chars().find(|c| !allowed(*c)) {
        return Err(Error::invalid(name, format!("invalid character '{bad}' in name")));
    }
    Ok(())
}

/// Rejects names that a new snapshot or bookmark cannot have; splits valid ones.
pub(crate) fn check_new_tail(name: &str) -> Result<DatasetName<'_>> {
    let parsed = DatasetName::parse(name)?;
    let (Tail::Snapshot(short) | Tail::Bookmark(short)) = parsed.tail else {
        return Err(Error::invalid(name, "a snapshot has '@' in its name, a bookmark '#'"));
    };
    if name.len() > NAME_MAX {
        return Err(Refusal::NameTooLong.at(name));
    }
    check_component(name, short)?;
    Ok(parsed)
}

/// Rejects names that a new dataset cannot have.
pub(crate) fn check_new_name(name: &str) -> Result<()> {
    let parsed = DatasetName::parse(name)?;
    if parsed.tail != Tail::Head {
        return Err(Error::invalid(name, "a file system or volume has no '@' or '#' in its name"));
    }
    if name.len() > NAME_MAX || name.split('/').count() > DEPTH_MAX {
        return Err(Refusal::NameTooLong.at(name));
    }
    for component in name.split('/').skip(1) {
        check_component(name, component)?;
        if component == "." || component == ".." {
            return Err(Error::invalid(name, format!("'{component}' is not a valid dataset name")));
        }
    }
    Ok(())
}

/// Directory `name`; `None` if it does not exist.
pub(crate) fn find_dir(cx: &Cx<'_>, name: &str) -> Result<Option<u64>> {
    let mut parts = name.split('/');
    if parts.next() != Some(cx.mos().store().name()) {
        return Ok(None);
    }
    let mut at = cx.root_dir()?;
    for part in parts {
        let children = cx.dir(at)?.phys.children_zap;
        match cx.zap(children)?.lookup_u64(part)? {
            Some(id) => at = id,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// The full name of directory `dir`.
pub(crate) fn name_of(cx: &Cx<'_>, dir: u64) -> Result<String> {
    let (mut parts, mut at) = (Vec::new(), dir);
    loop {
        let parent = cx.dir(at)?.phys.parent;
        if parent == 0 || parts.len() > DEPTH_MAX {
            break;
        }
        let names = cx.zap(cx.dir(parent)?.phys.children_zap)?.entries()?;
        let missing = || Error::corrupt("", format!("directory {at} is not among those below its parent"));
        let entry = names.iter().find(|e| e.value.as_u64() == Some(at)).ok_or_else(missing)?;
        parts.push(String::from_utf8_lossy(&entry.name).into_owned());
        at = parent;
    }
    parts.push(cx.mos().store().name().to_owned());
    parts.reverse();
    Ok(parts.join("/"))
}

/// The file system, volume or snapshot `name`.
pub(crate) fn find(cx: &Cx<'_>, name: &str) -> Result<Node> {
    let parsed = DatasetName::parse(name)?;
    let missing = || Error::not_found(name, "the dataset");
    let dir = find_dir(cx, parsed.dir)?.ok_or_else(missing)?;
    let head = cx.dir(dir)?.phys.head_dataset;
    if head == 0 {
        return Err(missing());
    }
    let snapshot = match parsed.tail {
        Tail::Head => None,
        Tail::Snapshot(short) => {
            let (id, _) = snapshot_of(cx, &cx.dataset(head)?.phys, short)?.ok_or_else(missing)?;
            Some(id)
        }
        Tail::Bookmark(_) => return Err(Error::invalid(name, "a bookmark cannot be changed")),
    };
    Ok(Node { name: name.to_owned(), dir, head, snapshot })
}

/// The value of `short` in a ZAP of snapshots or bookmarks of head `head`, with its name as stored
/// there.
pub(crate) fn lookup(zap: &Zap, head: &DslDataset, short: &str) -> Result<Option<(ZapValue, Vec<u8>)>> {
    match head.has(DslDataset::FLAG_CI_DATASET) {
        true => zap.lookup_normalised(short.as_bytes(), false),
        false => Ok(zap.lookup(short)?.map(|value| (value, short.as_bytes().to_vec()))),
    }
}

/// Snapshot `short` of head `head`, with its name as stored on disk.
pub(crate) fn snapshot_of(cx: &Cx<'_>, head: &DslDataset, short: &str) -> Result<Option<(u64, Vec<u8>)>> {
    let found = lookup(&cx.zap(head.snapnames_zap)?, head, short)?;
    Ok(found.and_then(|(value, name)| Some((value.as_u64()?, name))))
}

/// The parent directory for a new dataset of that name, and its name within the parent. The parent
/// must be a file system.
pub(crate) fn find_parent<'n>(cx: &Cx<'_>, name: &'n str) -> Result<(u64, &'n str)> {
    check_new_name(name)?;
    let Some((above, last)) = name.rsplit_once('/') else {
        return Err(Error::invalid(name, "a pool cannot be created or renamed as a dataset"));
    };
    let parent = find_dir(cx, above)?.ok_or_else(|| Error::not_found(above, "the parent dataset"))?;
    if cx.zap(cx.dir(parent)?.phys.children_zap)?.lookup_u64(last)?.is_some() {
        return Err(Refusal::Exists.at(name));
    }
    let head = cx.dir(parent)?.phys.head_dataset;
    let bp = if head == 0 { BlkPtr::HOLE } else { cx.dataset(head)?.phys.bp };
    if bp.is_hole() || kind(cx, head, &bp)? != ObjsetKind::FileSystem {
        return Err(Error::invalid(above, "only a file system can have datasets below it"));
    }
    Ok((parent, last))
}

/// Creates a directory, named `name` in `parent` (0: the pool's root).
pub(crate) fn create_dir(cx: &Cx<'_>, parent: u64, name: &str) -> Result<u64> {
    let mut phys = DslDir::parse(&[0; DslDir::SIZE_BYTES], Endian::Little)?;
    phys.creation_time = now();
    phys.parent = parent;
    phys.props_zap = cx.create_zap(ObjectType::DSL_PROPS)?;
    phys.children_zap = cx.create_zap(ObjectType::DSL_DIR_CHILD_MAP)?;
    if cx.sync.version() >= version::USED_BREAKDOWN {
        phys.flags = DslDir::FLAG_USED_BREAKDOWN;
    }
    let mut bonus = vec![0; DslDir::SIZE_BYTES];
    phys.write(&mut bonus, Endian::Little)?;
    let id = cx.create_object(ObjectType::DSL_DIR, 512, (ObjectType::DSL_DIR, bonus))?.id();
    if parent == 0 {
        cx.set_directory(ondisk::pool_dir::directory::ROOT_DATASET, id)?;
    } else {
        cx.zap(cx.dir(parent)?.phys.children_zap)?.insert(cx.tx(), name.as_bytes(), &ZapValue::one(id))?;
        // A hidden clone is temporary: OpenZFS does not count it either.
        if !name.starts_with(['$', '%']) {
            limits::adjust(cx, parent, Counted::FileSystems, 1)?;
        }
    }
    Ok(id)
}

/// Creates a head for directory `dir`, based on `origin` (`$ORIGIN@$ORIGIN` if it is not a clone;
/// `None` for `$ORIGIN` itself, and before pool version 11).
pub(crate) fn create_head(cx: &Cx<'_>, dir: u64, origin: Option<u64>, flags: u64) -> Result<u64> {
    let mut phys = DslDataset::parse(&[0; DslDataset::SIZE_BYTES], Endian::Little)?;
    phys.dir = dir;
    phys.flags = flags | deadlist::unique_accurate(cx);
    phys.fsid_guid = unique_fsid();
    phys.guid = unique();
    phys.snapnames_zap =
        cx.create_zap_with(ObjectType::DSL_DS_SNAP_MAP, NormFlags::TO_UPPER, ObjectType::NONE, Vec::new())?;
    phys.creation_time = now();
    // The origin's snapshot counts as taken in txg 1, before anything was written.
    phys.creation_txg = Txg(if cx.txg() == TXG_INITIAL { 1 } else { cx.txg() });
    let id = cx
        .create_object(ObjectType::DSL_DATASET, 512, (ObjectType::DSL_DATASET, vec![0; DslDataset::SIZE_BYTES]))?
        .id();
    match origin {
        None => phys.deadlist = deadlist::create(cx)?,
        Some(origin) => stand_on(cx, dir, (id, &mut phys), origin)?,
    }
    let object = cx.object(id)?;
    let mut bonus = object.bonus().to_vec();
    phys.write(&mut bonus, object.endian())?;
    object.set_bonus(cx.tx(), bonus)?;
    cx.change_dir(dir, |dir| dir.head_dataset = id)?;
    permissions::give_to_creator(cx, dir)?;
    Ok(id)
}

/// The new head `id` starts with the contents of `origin`.
fn stand_on(cx: &Cx<'_>, dir: u64, (id, phys): (u64, &mut DslDataset), origin: u64) -> Result<()> {
    let mut from = cx.dataset(origin)?;
    phys.prev_snap = origin;
    phys.prev_snap_txg = from.phys.creation_txg;
    phys.referenced_bytes = from.phys.referenced_bytes;
    phys.compressed_bytes = from.phys.compressed_bytes;
    phys.uncompressed_bytes = from.phys.uncompressed_bytes;
    phys.bp = from.phys.bp;
    phys.flags |= from.phys.flags & (DslDataset::FLAG_INCONSISTENT | DslDataset::FLAG_CI_DATASET);
    for (feature, value) in feature::of_dataset(cx, origin)? {
        feature::activate_with(cx, id, feature, &value)?;
    }
    let from_dir = cx.dir(from.phys.dir)?.phys;
    let origin_head = cx.dataset(from_dir.head_dataset)?.phys;
    phys.deadlist = deadlist::create_like(cx, origin_head.deadlist, phys.prev_snap_txg.0, origin)?;
    from.phys.num_children += 1;
    cx.put_dataset(&from)?;
    if cx.sync.version() >= version::NEXT_CLONES {
        add_int(cx, next_clones(cx, origin)?, id)?;
    }
    cx.change_dir(dir, |dir| dir.origin = origin)?;
    match cx.sync.version() >= version::DIR_CLONES {
        true => add_int(cx, clones(cx, from.phys.dir)?, id),
        false => Ok(()),
    }
}

/// The ZAP of the states after `snapshot` in its clones. Creates it if there is none.
pub(super) fn next_clones(cx: &Cx<'_>, snapshot: u64) -> Result<u64> {
    match cx.dataset(snapshot)?.phys.next_clones_zap {
        0 => {
            let zap = cx.create_zap(ObjectType::NEXT_CLONES)?;
            cx.change_dataset(snapshot, |phys| phys.next_clones_zap = zap)?;
            Ok(zap)
        }
        zap => Ok(zap),
    }
}

/// The ZAP of the clones whose origins are snapshots of the dataset of directory `dir`. Creates it
/// if there is none.
pub(super) fn clones(cx: &Cx<'_>, dir: u64) -> Result<u64> {
    match cx.dir(dir)?.phys.clones_zap {
        0 => {
            let zap = cx.create_zap(ObjectType::DSL_CLONES)?;
            cx.change_dir(dir, |dir| dir.clones_zap = zap)?;
            Ok(zap)
        }
        zap => Ok(zap),
    }
}

/// Adds `number` to a ZAP that is a set of numbers: each is its own key, in hexadecimal.
pub(crate) fn add_int(cx: &Cx<'_>, zap: u64, number: u64) -> Result<()> {
    cx.zap(zap)?.insert(cx.tx(), format!("{number:x}").as_bytes(), &ZapValue::one(number))
}

/// Removes `number` from such a set; some early versions did not store it.
pub(crate) fn remove_int(cx: &Cx<'_>, zap: u64, number: u64) -> Result<()> {
    let key = format!("{number:x}");
    match cx.zap(zap)?.lookup_u64(&key)? {
        Some(_) => cx.zap(zap)?.remove(cx.tx(), key.as_bytes()),
        None => Ok(()),
    }
}

/// What a dataset holds, according to its root block.
pub(crate) fn kind(cx: &Cx<'_>, id: u64, root: &BlkPtr) -> Result<ObjsetKind> {
    Ok(ObjectSet::open(cx.mos().store().clone(), root, id, None)?.phys().kind)
}

/// The directories from `id` up to the root.
pub(super) fn ancestors(cx: &Cx<'_>, id: u64) -> Result<Vec<u64>> {
    let (mut found, mut at) = (Vec::new(), id);
    while at != 0 && found.len() < 256 {
        found.push(at);
        at = cx.dir(at)?.phys.parent;
    }
    Ok(found)
}

/// The ZAP of the holds on a snapshot; `None` if it never had one.
pub(super) fn holds_zap(cx: &Cx<'_>, phys: &DslDataset) -> Result<Option<Zap>> {
    match phys.userrefs_zap {
        0 => Ok(None),
        id => cx.zap(id).map(Some),
    }
}

/// Number of holds on a snapshot.
pub(crate) fn hold_count(cx: &Cx<'_>, phys: &DslDataset) -> Result<u64> {
    holds_zap(cx, phys)?.map_or(Ok(0), |zap| zap.count())
}
