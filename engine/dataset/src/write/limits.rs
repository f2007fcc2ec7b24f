//! Counts of file systems and snapshots, maintained where `filesystem_limit` or `snapshot_limit`
//! was ever set.
//!
//! Facts: `dsl_fs_ss_count_adjust`, `dsl_dir_init_fs_ss_count` in module/zfs/dsl_dir.c. What the
//! limits forbid: `super::limit_check`.

use super::cx::Cx;
use errors::Result;
use ondisk::DslDir;
use ondisk::dsl_dir::{FIELD_FILESYSTEM_COUNT, FIELD_SNAPSHOT_COUNT};
use ondisk::zap::Value as ZapValue;

/// The feature that is active when counts are kept anywhere.
pub(crate) const FEATURE: &str = "com.joyent:filesystem_limits";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    FileSystems,
    Snapshots,
}

impl Counted {
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::FileSystems => FIELD_FILESYSTEM_COUNT,
            Self::Snapshots => FIELD_SNAPSHOT_COUNT,
        }
    }

    /// The property with the limit.
    pub(super) fn limit(self) -> &'static str {
        match self {
            Self::FileSystems => "filesystem_limit",
            Self::Snapshots => "snapshot_limit",
        }
    }
}

/// Changes the count of directory `id` and of its ancestors, as far up as counts are kept.
pub(crate) fn adjust(cx: &Cx<'_>, id: u64, what: Counted, delta: i64) -> Result<()> {
    let mut at = id;
    while at != 0 && delta != 0 {
        let Some(count) = cx.field_u64(at, what.field())? else { break };
        cx.set_field(at, what.field(), &ZapValue::one(count.saturating_add_signed(delta)))?;
        at = cx.dir(at)?.phys.parent;
    }
    Ok(())
}

/// The counts of directory `id`, if they are kept.
pub(crate) fn counts(cx: &Cx<'_>, id: u64) -> Result<(u64, u64)> {
    let of = |what: Counted| cx.field_u64(id, what.field()).map(Option::unwrap_or_default);
    Ok((of(Counted::FileSystems)?, of(Counted::Snapshots)?))
}

/// Initializes the counts of a new directory, if the pool keeps any.
pub(crate) fn start(cx: &Cx<'_>, id: u64) -> Result<()> {
    if cx.is_active(FEATURE) {
        cx.set_field(id, FIELD_FILESYSTEM_COUNT, &ZapValue::one(0))?;
        cx.set_field(id, FIELD_SNAPSHOT_COUNT, &ZapValue::one(0))?;
    }
    Ok(())
}

/// Counts directory `id` and everything below, unless already done; returns its counts.
pub(crate) fn initialise(cx: &Cx<'_>, id: u64) -> Result<(u64, u64)> {
    if cx.field_u64(id, FIELD_FILESYSTEM_COUNT)?.is_some() {
        return counts(cx, id);
    }
    let dir = cx.dir(id)?.phys;
    let (mut file_systems, mut snapshots) = (0_u64, own_snapshots(cx, &dir)?);
    for child in children(cx, &dir)? {
        let (below_fs, below_snapshots) = initialise(cx, child)?;
        file_systems = file_systems.saturating_add(below_fs).saturating_add(1);
        snapshots = snapshots.saturating_add(below_snapshots);
    }
    cx.set_field(id, FIELD_FILESYSTEM_COUNT, &ZapValue::one(file_systems))?;
    cx.set_field(id, FIELD_SNAPSHOT_COUNT, &ZapValue::one(snapshots))?;
    Ok((file_systems, snapshots))
}

/// The counts of a directory, whether they are kept or not.
pub(crate) fn counts_below(cx: &Cx<'_>, id: u64) -> Result<(u64, u64)> {
    if cx.field_u64(id, FIELD_FILESYSTEM_COUNT)?.is_some() {
        return counts(cx, id);
    }
    let dir = cx.dir(id)?.phys;
    let (mut file_systems, mut snapshots) = (0_u64, own_snapshots(cx, &dir)?);
    for child in children(cx, &dir)? {
        let (below_fs, below_snapshots) = counts_below(cx, child)?;
        file_systems = file_systems.saturating_add(below_fs).saturating_add(1);
        snapshots = snapshots.saturating_add(below_snapshots);
    }
    Ok((file_systems, snapshots))
}

/// The directories directly below, without those that are not counted: `$MOS`, `$FREE` and
/// `$ORIGIN` are internal, and hidden clones are temporary.
fn children(cx: &Cx<'_>, dir: &DslDir) -> Result<Vec<u64>> {
    let entries = cx.zap(dir.children_zap)?.entries()?;
    let counted = entries.iter().filter(|e| !matches!(e.name.first(), Some(b'$' | b'%')));
    Ok(counted.filter_map(|e| e.value.as_u64()).collect())
}

fn own_snapshots(cx: &Cx<'_>, dir: &DslDir) -> Result<u64> {
    if dir.head_dataset == 0 {
        return Ok(0);
    }
    let names = cx.zap(cx.dataset(dir.head_dataset)?.phys.snapnames_zap)?.entries()?;
    Ok(names.iter().filter(|e| !e.name.starts_with(b"%")).count() as u64)
}

/// A limit is set on directory `id`: from now on, counts are kept for it, all directories below,
/// and all above up to the next that keeps counts.
pub(crate) fn activate(cx: &Cx<'_>, id: u64) -> Result<()> {
    if !cx.is_active(FEATURE) {
        cx.feature_increment(FEATURE)?;
    }
    initialise(cx, id).map(drop)
}
