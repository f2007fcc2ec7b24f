//! `multihost=on`: two hosts, which differ in `$ZFS_HOSTID` and the state directory, and one disk.
//!
//! Heartbeats are five times as frequent as by default, so that imports wait for 4 to 5 seconds.

use crate::rig::{Rig, text};
use std::process::Command;
use std::time::{Duration, Instant};

const SERVE: &str = "serve --no-mount --set multihost.interval_ms=200 --set multihost.history=100";

fn as_host(mut command: Command, id: &str) -> Command {
    command.env("ZFS_HOSTID", id);
    command
}

/// A command on the other host, which has no daemon. Returns the exit code and both outputs.
fn elsewhere(rig: &Rig, id: &str, line: &str) -> (i32, String) {
    let mut command = as_host(rig.command(line), id);
    let output = command.env("WEIR_STATE", rig.path("other")).output().expect("it runs");
    (output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr))
}

fn served() -> Rig {
    let mut rig = Rig::new(&["a"]);
    rig.launch(as_host(rig.command(SERVE), "0x11111111"));
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    rig.good("zpool set multihost=on tank");
    rig
}

fn heartbeats(rig: &Rig) -> usize {
    let table = rig.good("inspect multihost tank");
    assert!(table.starts_with("id         txg        timestamp  error  duration   mmp_delay"), "{table}");
    table.lines().skip(1).filter(|line| line.split_whitespace().nth(3) == Some("0")).count()
}

#[test]
fn a_pool_in_use_is_refused_with_openzfs_words_and_imported_after_a_kill() {
    let mut rig = served();
    rig.wait("no heartbeats", |rig| heartbeats(rig) > 2);
    let (code, out) = elsewhere(&rig, "0x22222222", "zpool import -d DIR/d");
    assert_eq!(code, 0, "{out}");
    assert!(out.contains("state: UNAVAIL\nstatus: The pool is currently imported by another system.\n"), "{out}");
    assert!(out.contains("(hostid=11111111)\n\tbefore it can be safely imported.\n"), "{out}");
    let export = "Export the pool on the other system, then run 'zpool import'.\n";
    for (force, hostid) in [("", "(hostid: 0x11111111)\n"), ("-f ", "(hostid=11111111).\n")] {
        let (code, out) = elsewhere(&rig, "0x22222222", &format!("zpool import {force}-d DIR/d tank"));
        assert!(out.starts_with("cannot import 'tank': pool is imported on "), "{out}");
        assert!(code == 1 && out.ends_with(&format!("{hostid}{export}")), "{code}: {out}");
    }
    let (code, out) = elsewhere(&rig, "0", "zpool import -f -d DIR/d tank");
    assert!(
        code == 1 && out.contains("pool has the multihost property on and the\nsystem's hostid is not set."),
        "{out}"
    );

    rig.signal("-KILL");
    let begun = Instant::now();
    let (code, out) = elsewhere(&rig, "0x22222222", "zpool import -d DIR/d tank");
    assert!(code == 1 && out.contains("pool was previously in use from another system."), "{out}");
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    let (code, out) = elsewhere(&rig, "0x22222222", "zpool import -f -d DIR/d tank");
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(begun.elapsed() >= Duration::from_secs(8), "{:?}", begun.elapsed());
    let (code, out) = elsewhere(&rig, "0x22222222", "zfs create tank/other");
    assert_eq!((code, out.as_str()), (0, ""));

    // The first host comes back, still believes that it has the pool, and waits: no process on the
    // second host holds it. Only -f, or an export, would give it back.
    let (code, out) = elsewhere(&rig, "0x22222222", "zpool export tank");
    assert_eq!((code, out.as_str()), (0, ""));
    rig.judge("tank");
    rig.launch(as_host(rig.command(SERVE), "0x11111111"));
    rig.good("zfs list tank/other");
    rig.good("zpool set multihost=off tank");
    rig.good("zpool export tank");
    rig.judge("tank");
}

#[test]
fn a_pool_whose_heartbeats_fail_is_suspended_and_cleared() {
    let rig = served();
    // Only labels: rules for a whole device spare them.
    rig.good("inject -d DIR/d/a -L uber -e io -T write tank");
    rig.wait("not suspended", |rig| rig.run("zpool status tank").1.contains("state: SUSPENDED"));
    let status = rig.run("zpool status tank").1;
    assert!(
        status.contains("multihost writes failed or were delayed") && status.contains("msg/ZFS-8000-MM"),
        "{status}"
    );
    rig.good("inject -c all");
    let begun = Instant::now();
    rig.good("zpool clear tank");
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(rig.good("zpool status tank").contains("state: ONLINE"));
    rig.good("zfs create tank/after");
    rig.good("zpool export tank");
    rig.judge("tank");
}

#[test]
fn multihost_needs_a_hostid() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.launch(as_host(rig.command(SERVE), "0"));
    let (code, _, err) = rig.run("zpool create -o multihost=on tank DIR/d/a");
    assert_eq!((code, err.as_str()), (1, "cannot create 'tank': requires a non-zero system hostid\n"));
    rig.good("zpool create tank DIR/d/a");
    let (code, _, err) = rig.run("zpool set multihost=on tank");
    assert_eq!((code, err.as_str()), (1, "cannot set property for 'tank': requires a non-zero system hostid\n"));
}
