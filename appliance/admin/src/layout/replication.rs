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
        difference(a, b).is_none()
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

/// How the redundancy of two vdevs differs.
enum Difference {
    /// They are a raidz or draid and a mirror. Parity of the one, and devices of the other that may
    /// fail.
    ParityAndCopies {
        raidz: Replication,
        mirror: Replication,
        failures: u64,
    },
    /// Both are raidz or draid.
    Parity,
    Kind,
    Children,
}

/// How two vdevs differ; `None` if they may be in one pool.
fn difference(a: Replication, b: Replication) -> Option<Difference> {
    if let Some((raidz, mirror)) = raidz_and_mirror(a, b) {
        let failures = mirror.children - 1;
        return (raidz.parity != failures).then_some(Difference::ParityAndCopies { raidz, mirror, failures });
    }
    if has_parity(a) && has_parity(b) {
        return (a.parity != b.parity).then_some(Difference::Parity);
    }
    if a.kind != b.kind {
        return Some(Difference::Kind);
    }
    (a.children != b.children).then_some(Difference::Children)
}

/// The problem if two vdevs of a layout differ.
fn mismatch(last: Replication, next: Replication) -> Option<String> {
    let text = match difference(last, next)? {
        Difference::ParityAndCopies { raidz, mirror, failures } => format!(
            "{} and {} vdevs with different redundancy, {} vs. {failures} ({}-way) are present",
            raidz.kind, mirror.kind, raidz.parity, mirror.children
        ),
        Difference::Parity => format!(
            "{} and {} vdevs with different redundancy, {} vs. {} are present",
            last.kind, next.kind, last.parity, next.parity
        ),
        Difference::Kind => format!("both {} and {} vdevs are present", last.kind, next.kind),
        Difference::Children => {
            format!("both {}-way and {}-way {} vdevs are present", last.children, next.children, next.kind)
        }
    };
    Some(format!("mismatched replication level: {text}"))
}

/// The problem if a vdev of a layout differs from those of the pool.
fn against_pool(pool: Replication, new: Replication) -> Option<String> {
    let text = match difference(pool, new)? {
        Difference::ParityAndCopies { raidz, mirror, failures } => format!(
            "pool and new vdev with different redundancy, {} and {} vdevs, {} vs. {failures} ({}-way)",
            raidz.kind, mirror.kind, raidz.parity, mirror.children
        ),
        Difference::Parity => format!(
            "pool and new vdev with different redundancy, {} and {} vdevs, {} vs. {}",
            pool.kind, new.kind, pool.parity, new.parity
        ),
        Difference::Kind => format!("pool uses {} and new vdev is {}", pool.kind, new.kind),
        Difference::Children => {
            format!("pool uses {}-way {} and new vdev uses {}-way {}", pool.children, pool.kind, new.children, new.kind)
        }
    };
    Some(format!("mismatched replication level: {text}"))
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
