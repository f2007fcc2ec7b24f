//! Which devices `zpool create`, `add` and `replace` take: those that hold nothing of a pool that
//! is imported, whatever their labels say. Facts: zpool_in_use in lib/libzfs/libzfs_import.c.

use crate::rig::Rig;

/// Runs a command that must fail; returns the last line that it prints.
fn refused(rig: &Rig, line: &str) -> String {
    let (code, _, err) = rig.run(line);
    assert_ne!(code, 0, "{line}");
    err.lines().last().unwrap_or_default().replace(&rig.path("d"), "D")
}

#[test]
fn spares_and_caches_of_destroyed_pools_are_free() {
    let rig = Rig::new(&["a", "b", "c", "e", "f"]);
    for leaves in ["destroy", "export"] {
        rig.good("zpool create -f -O mountpoint=none tank DIR/d/a spare DIR/d/b cache DIR/d/c");
        rig.good(&format!("zpool {leaves} tank"));
        rig.good("zpool create -O mountpoint=none other DIR/d/b log DIR/d/c");
        rig.good("zpool destroy other");
    }
    assert_eq!(refused(&rig, "zpool create tank DIR/d/a"), "D/a is part of exported pool 'tank'");
    rig.good("zpool create -f -O mountpoint=none tank DIR/d/a log DIR/d/b spare DIR/d/c cache DIR/d/e");
    // In use, with or without -f; but pools may share a spare.
    for force in ["", "-f "] {
        assert_eq!(refused(&rig, &format!("zpool create {force}x DIR/d/b")), "D/b is part of active pool 'tank'");
        let spare = "D/c is reserved as a hot spare for pool tank";
        assert_eq!(refused(&rig, &format!("zpool create {force}x DIR/d/c")), spare);
        assert_eq!(refused(&rig, &format!("zpool create {force}x DIR/d/f log DIR/d/c")), spare);
        assert_eq!(refused(&rig, &format!("zpool create {force}x DIR/d/e")), "D/e is part of unknown pool 'tank'");
    }
    rig.good("zpool create -O mountpoint=none other DIR/d/f spare DIR/d/c");
    assert_eq!(rig.good("zpool status -x"), "all pools are healthy\n", "both have the same guid for the spare");
    rig.good("zpool destroy other");
    assert_eq!(refused(&rig, "zpool labelclear -f DIR/d/c"), "D/c is a member (SPARE) of pool \"tank\"");
    assert_eq!(refused(&rig, "zpool labelclear DIR/d/e"), "D/e is a member (L2CACHE) of pool \"tank\"");
    // What left an imported pool is free too.
    rig.good("zpool remove tank DIR/d/b");
    rig.good("zpool remove tank DIR/d/c");
    rig.good("zpool remove tank DIR/d/e");
    rig.good("zpool create -O mountpoint=none last DIR/d/b log DIR/d/c cache DIR/d/e");
    rig.judge("tank");
    rig.judge("last");
}

/// The pool that uses the spare locks it, and is not exported while another one could take it.
#[test]
fn pools_of_a_daemon_share_a_spare() {
    let mut rig = Rig::new(&["a", "b", "c", "e", "s"]);
    rig.serve();
    rig.good("zpool create -m none one mirror DIR/d/a DIR/d/b spare DIR/d/s");
    rig.good("zpool create -m none two mirror DIR/d/c DIR/d/e spare DIR/d/s");
    for _ in 0..2 {
        rig.good("zpool replace -w one DIR/d/a DIR/d/s");
        assert!(refused(&rig, "zpool replace two DIR/d/c DIR/d/s").starts_with("D/s is locked by weir"));
        rig.good("zpool detach one DIR/d/s");
        rig.good("zpool export one");
        rig.good("zpool import -d DIR/d one");
    }
    rig.good("zpool replace -w one DIR/d/a DIR/d/s");
    let (code, _, err) = rig.run("zpool export one");
    let first = "cannot export 'one': use '-f' to override the following errors:\n'one' has an active shared spare";
    assert!(code == 1 && err.starts_with(first), "{err}");
    rig.good("zpool export -f one");
    rig.good("zpool import -d DIR/d one");
    assert!(rig.good("zpool status one").contains("INUSE"));
    rig.good("zpool destroy two");
    rig.good("zpool export one");
}

/// A device that leaves a pool keeps labels that name none.
#[test]
fn labels_of_devices_that_left_a_pool_can_be_cleared() {
    let rig = Rig::new(&["a", "b", "c"]);
    rig.good("zpool create -m none tank DIR/d/a log DIR/d/b");
    rig.good("zpool remove tank DIR/d/b");
    rig.good("zpool replace -w tank DIR/d/a DIR/d/c");
    for device in ["a", "b"] {
        rig.good(&format!("zpool labelclear DIR/d/{device}"));
        let again = refused(&rig, &format!("zpool labelclear DIR/d/{device}"));
        assert_eq!(again, format!("failed to clear label for D/{device}"));
    }
}

#[test]
fn a_device_with_lost_labels_can_replace_itself() {
    let mut rig = Rig::new(&["a", "b", "c"]);
    rig.serve();
    rig.good("zpool create -O mountpoint=none tank raidz1 DIR/d/a DIR/d/b DIR/d/c");
    rig.good("zfs create -V 8M tank/volume");
    let message = refused(&rig, "zpool replace -f tank DIR/d/b");
    assert_eq!(message, "D/b is part of active pool 'tank'", "it is complete");
    let zeros = vec![0; 128 << 20];
    std::fs::write(rig.path("d/b"), &zeros).expect("overwritten");
    rig.good("zpool replace -fw tank DIR/d/b");
    assert_eq!(rig.good("zpool status -x"), "all pools are healthy\n");
    rig.good("zpool offline tank DIR/d/c");
    std::fs::write(rig.path("d/c"), &zeros).expect("overwritten");
    rig.good("zpool replace -w tank DIR/d/c");
    assert_eq!(rig.good("zpool status -x"), "all pools are healthy\n");
    rig.good("zpool export tank");
    rig.judge("tank");
}

/// The last copy of the data is not given up.
#[test]
fn a_required_device_cannot_replace_itself() {
    let mut rig = Rig::new(&["a"]);
    rig.serve();
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    // Only the labels: 256 KiB at the start, and 512 KiB at the end.
    let file = std::fs::File::options().write(true).open(rig.path("d/a")).expect("there");
    let zero = |from: u64, bytes: usize| {
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![0; bytes], from).expect("written")
    };
    zero(0, 512 << 10);
    zero((128 << 20) - (512 << 10), 512 << 10);
    let (code, _, err) = rig.run("zpool replace -f tank DIR/d/a");
    assert_eq!(code, 255, "{err}");
    assert!(err.contains("is busy"), "{err}");
    rig.good("zfs create tank/still");
    rig.good("zpool sync -f tank");
    rig.good("zpool export tank");
    rig.judge("tank");
}

/// With -f, contents in the place of a label were overwritten too.
#[test]
fn labelclear_clears_labels_and_nothing_else() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    rig.good("zpool export tank");
    let file = std::fs::File::options().read(true).write(true).open(rig.path("d/a")).expect("there");
    use std::os::unix::fs::FileExt;
    let own: Vec<u8> = (0..4u32 << 20).map(|i| (i % 251) as u8).collect();
    file.write_all_at(&own, 0).expect("written");
    assert_eq!(refused(&rig, "zpool labelclear DIR/d/a"), "D/a is a member of exported pool \"tank\"");
    rig.good("zpool labelclear -f DIR/d/a");
    let mut now = vec![0; own.len()];
    file.read_exact_at(&mut now, 0).expect("read");
    assert!(now == own);
    assert_eq!(refused(&rig, "zpool labelclear -f DIR/d/a"), "failed to clear label for D/a");
}
