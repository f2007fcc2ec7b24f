//! Checks whether all vdevs of a pool have the same redundancy.

use super::{Group, Layout, Leaf, Purpose, Wrong};

/// Size differences up to this are ignored, in bytes.
const FUZZ_BYTES: u64 = 16 << 20;

/// Redundancy of a top-level vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replication {
    /// `file`, `disk`, `mirror`, `raidz` or `draid`.
    pub kind: &'static str,
    /// Number of leaves; 1 for a file or disk.
    pub children: u64,
    /// Parity, for raidz and draid.
    pub parity: u64,
}

impl Replication {
    /// Whether vdevs of both kinds may be in one pool.
    pub fn agree(a: Self, b: Self) -> bool {
        mismatch(a, b).is_none()
    }

    fn of(group: Group, leaves: &[Leaf]) -> Self {
        match group {
            Group::Single => Self { kind: leaves.first().map_or("disk", Leaf::kind), children: 1, parity: 0 },
            Group::Mirror => Self { kind: "mirror", children: leaves.len() as u64, parity: 0 },
            Group::Raidz(parity) => Self { kind: "raidz", children: leaves.len() as u64, parity },
            Group::Draid(draid) => Self { kind: "draid", children: leaves.len() as u64, parity: draid.parity },
        }
    }
}

/// Whether it is a raidz or a draid. Only the parity of these counts, not the number of children.
fn has_parity(level: Replication) -> bool {
    matches!(level.kind, "raidz" | "draid")
}

/// The raidz or draid and the mirror, if the two are one of each.
fn raidz_and_mirror(a: Replication, b: Replication) -> Option<(Replication, Replication)> {
    match (a.kind, b.kind) {
        ("raidz" | "draid", "mirror") => Some((a, b)),
        ("mirror", "raidz" | "draid") => Some((b, a)),
        _ => None,
    }
}

fn mismatch(last: Replication, next: Replication) -> Option<String> {
    let level = |text: String| Some(format!("mismatched replication level: {text}"));
    if let Some((raidz, mirror)) = raidz_and_mirror(last, next) {
        let failures = mirror.children - 1;
        if raidz.parity == failures {
            return None;
        }
        return level(format!(
            "{} and {} vdevs with different redundancy, {} vs. {failures} ({}-way) are present",
            raidz.kind, mirror.kind, raidz.parity, mirror.children
        ));
    }
    if has_parity(last) && has_parity(next) {
        if last.parity == next.parity {
            return None;
        }
        return level(format!(
            "{} and {} vdevs with different redundancy, {} vs. {} are present",
            last.kind, next.kind, last.parity, next.parity
        ));
    }
    if last.kind != next.kind {
        return level(format!("both {} and {} vdevs are present", last.kind, next.kind));
    }
    if last.children != next.children {
        return level(format!("both {}-way and {}-way {} vdevs are present", last.children, next.children, next.kind));
    }
    None
}

fn against_pool(pool: Replication, new: Replication) -> Option<String> {
    let level = |text: String| Some(format!("mismatched replication level: {text}"));
    if let Some((raidz, mirror)) = raidz_and_mirror(pool, new) {
        let failures = mirror.children - 1;
        if raidz.parity == failures {
            return None;
        }
        return level(format!(
            "pool and new vdev with different redundancy, {} and {} vdevs, {} vs. {failures} ({}-way)",
            raidz.kind, mirror.kind, raidz.parity, mirror.children
        ));
    }
    if has_parity(pool) && has_parity(new) {
        if pool.parity == new.parity {
            return None;
        }
        return level(format!(
            "pool and new vdev with different redundancy, {} and {} vdevs, {} vs. {}",
            pool.kind, new.kind, pool.parity, new.parity
        ));
    }
    if pool.kind != new.kind {
        return level(format!("pool uses {} and new vdev is {}", pool.kind, new.kind));
    }
    if pool.children != new.children {
        return level(format!(
            "pool uses {}-way {} and new vdev uses {}-way {}",
            pool.children, pool.kind, new.children, new.kind
        ));
    }
    None
}

/// Fails if the vdevs of a layout have different redundancy, or another than `pool`'s. Log devices
/// do not count. [`Wrong`] has a heading, and a line for each problem.
pub fn check_replication(layout: &Layout, pool: Option<Replication>) -> Result<(), Wrong> {
    let mut lines = Vec::new();
    let mut last: Option<Replication> = None;
    for top in layout.tops.iter().filter(|t| t.purpose != Purpose::Log) {
        let next = Replication::of(top.group, &top.leaves);
        if top.group != Group::Single {
            lines.extend(uneven(next.kind, &top.leaves));
        }
        lines.extend(last.and_then(|last| mismatch(last, next)));
        last = Some(next);
    }
    if let (Some(pool), Some(new), true) = (pool, last, lines.is_empty()) {
        lines.extend(against_pool(pool, new));
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(super::in_use::overridable(super::Flaw::Invalid, &lines))
}

/// The problem if the leaves of a group differ in type or size.
fn uneven(kind: &str, leaves: &[Leaf]) -> Option<String> {
    if leaves.iter().any(|l| l.is_disk) && leaves.iter().any(|l| !l.is_disk) {
        return Some(format!("mismatched replication level: {kind} contains both files and devices"));
    }
    let size = |leaf: &Leaf| {
        use std::io::{Seek, SeekFrom};
        std::fs::File::open(&leaf.path).and_then(|mut f| f.seek(SeekFrom::End(0))).ok().filter(|n| *n > 0)
    };
    let sizes: Vec<u64> = leaves.iter().filter_map(size).collect();
    let differ = sizes.windows(2).any(|pair| pair[0].abs_diff(pair[1]) > FUZZ_BYTES);
    differ.then(|| format!("{kind} contains devices of different sizes"))
}
