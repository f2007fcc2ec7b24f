//! Sample pools for output tests: OpenZFS 2.3.2 printed the status and properties of the same
//! pools.

use admin::view::PoolView;
use pool::property::PropertyContext;
use pool::stats::PoolStats;
use pool::status::{PoolStatus, Progress, ScanKind, ScanStatus, VdevAux, VdevClass, VdevState, VdevStatus};

/// A file vdev of 128 MiB.
pub fn file(name: &str, guid: u64) -> VdevStatus {
    let path = format!("/tmp/v/{name}");
    VdevStatus {
        name: path.clone(),
        kind: "file".into(),
        guid,
        path: Some(path),
        phys_bytes: 128 << 20,
        ..VdevStatus::default()
    }
}

/// A group vdev with these children.
pub fn group(name: &str, kind: &str, guid: u64, children: Vec<VdevStatus>) -> VdevStatus {
    VdevStatus { name: name.into(), kind: kind.into(), guid, children, ..VdevStatus::default() }
}

fn of(class: VdevClass, vdev: VdevStatus) -> VdevStatus {
    VdevStatus { class, ..vdev }
}

/// The pool of `zpool create rz raidz1 c d e log f cache g spare h`.
pub fn rz() -> PoolView {
    let leaves = vec![file("c", 6031755513585773043), file("d", 6868831469964973938), file("e", 9166545588933518191)]
        .into_iter()
        .map(|l| VdevStatus { replace_bytes: 128 << 20, ..l })
        .collect();
    let raidz = VdevStatus {
        alloc_bytes: 237568,
        space_bytes: 369098752,
        dspace_bytes: 245825536,
        replace_bytes: 369098752,
        fragmentation_percent: Some(4),
        parity: 1,
        ashift: 9,
        ..group("raidz1-0", "raidz", 12689509970353140250, leaves)
    };
    let log = VdevStatus {
        space_bytes: 112 << 20,
        dspace_bytes: 112 << 20,
        replace_bytes: 122159104,
        fragmentation_percent: Some(0),
        id: 1,
        ..file("f", 4263214465188303807)
    };
    let cache = VdevStatus {
        space_bytes: 129498624,
        replace_bytes: 128 << 20,
        fragmentation_percent: Some(0),
        ..file("g", 15788974605942414706)
    };
    let root = VdevStatus {
        alloc_bytes: 237568,
        space_bytes: 369098752,
        dspace_bytes: 245825536,
        ..group("rz", "root", 14999580463317378616, vec![raidz, of(VdevClass::Log, log)])
    };
    let status = PoolStatus {
        name: "rz".into(),
        guid: 14999580463317378616,
        version: 5000,
        config_txg: 4,
        root,
        caches: vec![of(VdevClass::Cache, cache)],
        spares: vec![of(VdevClass::Spare, file("h", 5867256931654923822))],
        ..PoolStatus::default()
    };
    let stats = PoolStats {
        size_bytes: 369098752,
        allocated_bytes: 286720,
        free_bytes: 368812032,
        fragmentation_percent: Some(4),
        ..PoolStats::default()
    };
    PoolView { properties: context(&status, stats), status, ..PoolView::default() }
}

/// The pool of `zpool create tank mirror a b`.
pub fn tank() -> PoolView {
    let mirror = VdevStatus {
        alloc_bytes: 143872,
        space_bytes: 117440512,
        fragmentation_percent: Some(9),
        ..group("mirror-0", "mirror", 2, vec![file("a", 3), file("b", 4)])
    };
    let status = PoolStatus {
        name: "tank".into(),
        guid: 8077149827012158919,
        version: 5000,
        config_txg: 4,
        root: group("tank", "root", 8077149827012158919, vec![mirror]),
        ..PoolStatus::default()
    };
    let stats = PoolStats {
        size_bytes: 117440512,
        allocated_bytes: 143872,
        free_bytes: 117296640,
        fragmentation_percent: Some(9),
        ..PoolStats::default()
    };
    PoolView { properties: context(&status, stats), status, ..PoolView::default() }
}

/// `rz` later: without log and spare, with an added mirror, scrubbed, and with `d` missing.
pub fn degraded() -> PoolStatus {
    let gone = VdevStatus {
        state: VdevState::CantOpen,
        aux: VdevAux::OpenFailed,
        not_present: true,
        ..file("d", 6868831469964973938)
    };
    let raidz = VdevStatus {
        state: VdevState::Degraded,
        ..group("raidz1-0", "raidz", 1, vec![file("j", 2), gone, file("e", 3)])
    };
    let mirror = VdevStatus { id: 2, ..group("mirror-2", "mirror", 4, vec![file("k", 5), file("l", 6)]) };
    let hole = VdevStatus { kind: "hole".into(), id: 1, name: "hole-1".into(), ..VdevStatus::default() };
    let root = VdevStatus {
        state: VdevState::Degraded,
        ..group("rz", "root", 14999580463317378616, vec![raidz, hole, mirror])
    };
    PoolStatus {
        name: "rz".into(),
        guid: 14999580463317378616,
        version: 5000,
        root,
        caches: vec![of(VdevClass::Cache, file("g", 7))],
        scan: Some(ScanStatus {
            kind: ScanKind::Scrub,
            state: Progress::Finished,
            start_time: 1795257671,
            end_time: 1795257672,
            to_examine_bytes: 9175040,
            examined_bytes: 9175040,
            skipped_bytes: 116736,
            processed_bytes: 1961984,
            ..ScanStatus::default()
        }),
        ..PoolStatus::default()
    }
}

fn context(status: &PoolStatus, stats: PoolStats) -> PropertyContext {
    PropertyContext {
        name: status.name.clone(),
        guid: status.guid,
        version: status.version,
        health: admin::health::pool_state(status).into(),
        stats,
        ..PropertyContext::default()
    }
}
