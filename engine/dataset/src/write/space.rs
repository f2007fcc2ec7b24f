//! Space accounting of directories: used, compressed and uncompressed bytes, up to the root, with
//! reservations.
//!
//! A directory contributes the larger of its `used` and its reservation to its parent; the unused
//! part of the reservation is counted there as "reserved by children". Facts:
//! `dsl_dir_diduse_space`, `dsl_dir_diduse_transfer_space`, `dsl_dir_transfer_space`,
//! `dsl_dir_set_reservation_sync_impl` in module/zfs/dsl_dir.c.
//!
//! Invariants:
//!   * the five parts of the breakdown add up to `used`, before and after each function here

use super::cx::Cx;
use errors::Result;
use ondisk::{DslDir, SpaceTriple};

/// A part of the breakdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Head,
    Snapshots,
    Children,
    ChildrenReserved,
    Refreservation,
}

/// A change of space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Delta {
    pub(crate) used: i64,
    pub(crate) compressed: i64,
    pub(crate) uncompressed: i64,
}

impl Delta {
    /// Only used bytes.
    pub(crate) fn used(used: i64) -> Self {
        Self { used, ..Self::default() }
    }

    /// The difference when `plus` is added and `minus` removed.
    pub(crate) fn between(plus: SpaceTriple, minus: SpaceTriple) -> Self {
        let sub = |a: u64, b: u64| a.wrapping_sub(b) as i64;
        Self {
            used: sub(plus.used, minus.used),
            compressed: sub(plus.compressed, minus.compressed),
            uncompressed: sub(plus.uncompressed, minus.uncompressed),
        }
    }

    pub(crate) fn negated(self) -> Self {
        Self {
            used: self.used.wrapping_neg(),
            compressed: self.compressed.wrapping_neg(),
            uncompressed: self.uncompressed.wrapping_neg(),
        }
    }

    /// All space of a directory.
    pub(crate) fn of_dir(dir: &DslDir) -> Self {
        Self {
            used: dir.used_bytes as i64,
            compressed: dir.compressed_bytes as i64,
            uncompressed: dir.uncompressed_bytes as i64,
        }
    }
}

fn part(dir: &mut DslDir, part: Part) -> &mut u64 {
    match part {
        Part::Head => &mut dir.used.head,
        Part::Snapshots => &mut dir.used.snapshots,
        Part::Children => &mut dir.used.children,
        Part::ChildrenReserved => &mut dir.used.children_reserved,
        Part::Refreservation => &mut dir.used.refreservation,
    }
}

/// Change of a directory's contribution to its parent when its usage grows by `delta`.
pub(crate) fn weight_change(used: u64, reserved: u64, delta: i64) -> i64 {
    used.wrapping_add_signed(delta).max(reserved).wrapping_sub(used.max(reserved)) as i64
}

fn add(dir: &mut DslDir, delta: Delta) -> i64 {
    let weight = weight_change(dir.used_bytes, dir.reserved_bytes, delta.used);
    dir.used_bytes = dir.used_bytes.wrapping_add_signed(delta.used);
    dir.compressed_bytes = dir.compressed_bytes.wrapping_add_signed(delta.compressed);
    dir.uncompressed_bytes = dir.uncompressed_bytes.wrapping_add_signed(delta.uncompressed);
    weight
}

/// One directory's part of [`did_use`]; returns the change for the parent.
fn use_in(dir: &mut DslDir, kind: Part, delta: Delta) -> i64 {
    let weight = add(dir, delta);
    if dir.has_breakdown() {
        let field = part(dir, kind);
        *field = field.wrapping_add_signed(delta.used);
    }
    weight
}

/// One directory's part of [`did_use_and_transfer`]; returns the change for the parent.
fn use_and_transfer_in(dir: &mut DslDir, delta: Delta, to_new: i64, (old, new): (Part, Part)) -> i64 {
    let weight = add(dir, delta);
    if dir.has_breakdown() {
        let field = part(dir, old);
        *field = field.wrapping_add_signed(delta.used.wrapping_sub(to_new));
        let field = part(dir, new);
        *field = field.wrapping_add_signed(to_new);
    }
    weight
}

fn above(cx: &Cx<'_>, mut at: u64, mut delta: Delta, mut weight: i64) -> Result<()> {
    while at != 0 {
        let mut dir = cx.dir(at)?;
        let used_below = delta.used;
        delta.used = weight;
        weight = use_and_transfer_in(&mut dir.phys, delta, used_below, (Part::ChildrenReserved, Part::Children));
        at = dir.phys.parent;
        cx.put_dir(&dir)?;
    }
    Ok(())
}

/// Changes the usage of directory `id` by `delta`, as `kind`.
pub(crate) fn did_use(cx: &Cx<'_>, id: u64, kind: Part, delta: Delta) -> Result<()> {
    if delta == Delta::default() {
        return Ok(());
    }
    let mut dir = cx.dir(id)?;
    let weight = use_in(&mut dir.phys, kind, delta);
    cx.put_dir(&dir)?;
    above(cx, dir.phys.parent, delta, weight)
}

/// Changes the usage of directory `id` by `delta`: `new` grows by `to_new` and `old` by the rest.
pub(crate) fn did_use_and_transfer(cx: &Cx<'_>, id: u64, delta: Delta, to_new: i64, parts: (Part, Part)) -> Result<()> {
    if delta == Delta::default() && to_new == 0 {
        return Ok(());
    }
    let mut dir = cx.dir(id)?;
    let weight = use_and_transfer_in(&mut dir.phys, delta, to_new, parts);
    cx.put_dir(&dir)?;
    above(cx, dir.phys.parent, delta, weight)
}

/// Moves bytes from one part of directory `id` to another.
pub(crate) fn transfer(cx: &Cx<'_>, id: u64, bytes: i64, (old, new): (Part, Part)) -> Result<()> {
    let mut dir = cx.dir(id)?;
    if bytes == 0 || !dir.phys.has_breakdown() {
        return Ok(());
    }
    let field = part(&mut dir.phys, old);
    *field = field.wrapping_add_signed(bytes.wrapping_neg());
    let field = part(&mut dir.phys, new);
    *field = field.wrapping_add_signed(bytes);
    cx.put_dir(&dir)
}

/// Sets the reservation of directory `id`.
pub(crate) fn set_reserved(cx: &Cx<'_>, id: u64, bytes: u64) -> Result<()> {
    let mut dir = cx.dir(id)?;
    let used = dir.phys.used_bytes;
    let delta = used.max(bytes).wrapping_sub(used.max(dir.phys.reserved_bytes)) as i64;
    dir.phys.reserved_bytes = bytes;
    cx.put_dir(&dir)?;
    match dir.phys.parent {
        0 => Ok(()),
        parent => did_use(cx, parent, Part::ChildrenReserved, Delta::used(delta)),
    }
}

/// Space that directory `id` and everything below may still use, within the pool's `pool_bytes`.
pub(crate) fn available(cx: &Cx<'_>, id: u64, pool_bytes: u64) -> Result<u64> {
    available_without(cx, id, pool_bytes, 0, 0)
}

/// The same as if `ancestor` used `delta` (at most 0) more: for moving a dataset below it.
pub(crate) fn available_without(cx: &Cx<'_>, id: u64, pool_bytes: u64, ancestor: u64, delta: i64) -> Result<u64> {
    let dir = cx.dir(id)?.phys;
    let mut quota = if dir.quota_bytes == 0 { u64::MAX } else { dir.quota_bytes };
    let mut parent = match dir.parent {
        0 => {
            quota = quota.min(pool_bytes);
            u64::MAX
        }
        parent => available_without(cx, parent, pool_bytes, ancestor, delta)?,
    };
    let mut used = dir.used_bytes;
    if parent != u64::MAX {
        parent = parent.saturating_add(dir.reserved_bytes.saturating_sub(used));
    }
    if id == ancestor {
        used = used.wrapping_add_signed(delta);
        if parent != u64::MAX {
            parent = parent.saturating_add_signed(delta.wrapping_neg());
        }
    }
    Ok(parent.min(quota.saturating_sub(used)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::UsedBreakdown;

    fn dir(used: u64, reserved: u64) -> DslDir {
        let mut bytes = vec![0; DslDir::SIZE_BYTES];
        bytes[0x60] = 1;
        let mut dir = DslDir::parse(&bytes, ondisk::Endian::Little).unwrap();
        dir.used_bytes = used;
        dir.reserved_bytes = reserved;
        dir.used = UsedBreakdown { head: used, ..UsedBreakdown::default() };
        dir
    }

    fn sum(dir: &DslDir) -> u64 {
        let u = dir.used;
        u.head + u.snapshots + u.children + u.children_reserved + u.refreservation
    }

    #[test]
    fn a_reservation_hides_growth_from_the_directory_above() {
        let mut d = dir(100, 1000);
        assert_eq!(use_in(&mut d, Part::Head, Delta::used(400)), 0);
        assert_eq!(use_in(&mut d, Part::Head, Delta::used(700)), 200);
        assert_eq!(use_in(&mut d, Part::Head, Delta::used(-1100)), -200);
        assert_eq!((d.used_bytes, sum(&d)), (100, 100));
    }

    #[test]
    fn space_used_of_a_childs_reservation_moves_from_reserved_to_used() {
        // The child reserved 1000 and used 100: above, 100 are used and 900 reserved.
        let mut parent = dir(1000, 0);
        parent.used = UsedBreakdown { children: 100, children_reserved: 900, ..UsedBreakdown::default() };
        let parts = (Part::ChildrenReserved, Part::Children);
        assert_eq!(use_and_transfer_in(&mut parent, Delta::used(0), 400, parts), 0);
        assert_eq!((parent.used.children, parent.used.children_reserved, parent.used_bytes), (500, 500, 1000));
        assert_eq!(use_and_transfer_in(&mut parent, Delta::used(200), 700, parts), 200);
        assert_eq!((parent.used.children, parent.used.children_reserved, parent.used_bytes), (1200, 0, 1200));
        assert_eq!(sum(&parent), parent.used_bytes);
    }
}
