//! Pools whose devices fail, from the user's point of view: what is printed, what still works, and
//! that no synced data is lost.
//!
//! Tests that mount run in a mount namespace of their own and need root and /dev/fuse; without
//! these they print so and pass. Device errors are real: a sparse image on a full tmpfs, a file
//! that the test truncates or deletes.

use crate::rig::{Rig, is_root, text};
use std::fs;
use std::process::{Command, Output};

/// A rig with a directory for mounts, `m`.
fn with_mount_point(disks: &[&str]) -> Rig {
    let rig = Rig::new(disks);
    fs::create_dir(rig.path("m")).expect("a folder");
    rig
}

impl Rig {
    fn cut(&self, name: &str, bytes: u64) {
        let disk = self.folder().join("d").join(name);
        fs::File::options().write(true).open(disk).and_then(|f| f.set_len(bytes)).expect("cut");
    }

    /// Runs a script with `weir` as a function, in the directory that has disks in d and a mount
    /// point at m.
    fn script(&self, wrapper: &[&str], script: &str) -> Output {
        let head = format!("weir() {{ {:?} \"$@\"; }}\n{HELP}", env!("CARGO_BIN_EXE_weir"));
        let mut words = wrapper.iter().copied().chain(["bash", "-c"]);
        let mut command = Command::new(words.next().expect("bash at least"));
        command.args(words).arg(format!("{head}{script}"));
        command.current_dir(self.folder()).env("WEIR_STATE", self.path("state"));
        command.output().expect("it runs")
    }

    /// Runs a script that must succeed.
    fn good_script(&self, wrapper: &[&str], script: &str) -> String {
        let Output { status, stdout, stderr } = self.script(wrapper, script);
        assert!(status.success(), "{script}\n{}\n{}", text(&stdout), text(&stderr));
        text(&stdout) + &text(&stderr)
    }
}

/// Functions for scripts: `up` mounts, and `down` unmounts and waits for the server to end, with a
/// limit.
const HELP: &str = r#"
set -u
fail() { echo "FAILED: $*"; [ ! -e log ] || cat log; exit 1; }
up() { weir mount tank m --foreground > log 2>&1 & server=$!
    for i in $(seq 300); do mountpoint -q m && return; sleep 0.1; done; fail "not mounted"; }
down() { timeout 60 umount m || fail "umount"
    timeout 60 tail --pid=$server -f /dev/null || fail "the server stays"; }
"#;

const PRIVATE: [&str; 4] = ["unshare", "-m", "--propagation", "private"];

fn can_mount() -> bool {
    let can = crate::rig::can_mount();
    if !can {
        println!("skipped: mounting in a name space of its own needs root and /dev/fuse");
    }
    can
}

#[test]
fn a_pool_held_by_another_process_is_refused_and_the_process_named() {
    let rig = with_mount_point(&["a"]);
    rig.good_script(&["env"], "weir zpool create tank $PWD/d/a");
    let held = fs::File::options().write(true).open(rig.path("d/a")).expect("opened");
    held.try_lock().expect("no other process holds it");
    let pid = std::process::id();
    for command in ["zfs set atime=off tank", "zfs create tank/x", "zpool set comment=x tank", "zpool export tank"] {
        let Output { status, stderr, .. } = rig.script(&["env"], &format!("weir {command}"));
        let message = text(&stderr);
        assert!(!status.success() && message.contains("in use by another process"), "{command}: {message}");
        assert!(message.contains(&format!("pid {pid}")), "{command}: {message}");
    }
    let other = rig.script(&["env"], "WEIR_STATE=$PWD/other weir zpool import -f -d d tank");
    assert!(text(&other.stderr).contains("in use by another process"), "{}", text(&other.stderr));
    // Reading is allowed.
    assert!(rig.good_script(&["env"], "weir zpool status tank").contains("state: ONLINE"));
    drop(held);
    rig.good_script(&["env"], "weir zfs set atime=off tank && weir zpool export tank");
}

#[test]
fn a_pool_on_media_that_take_no_writes_can_be_read() {
    let rig = with_mount_point(&["a"]);
    rig.good_script(&["env"], "weir zpool create -O com.example:note=hello tank $PWD/d/a && weir zpool export tank");
    let (wrapper, freeze) = match is_root() {
        true => (&PRIVATE[..], "mount --bind d d && mount -o remount,bind,ro d || exit 0\n"),
        false => (&["env"][..], "chmod 400 d/a\n"),
    };
    let script = r#"
        weir zpool import -d $PWD/d tank 2> message || fail "import"
        grep -q "is imported read-only: .*d/a" message || fail "$(cat message)"
        [ "$(weir zfs get -H -o value com.example:note tank)" = hello ] || fail "property"
        weir zfs set atime=off tank 2> message && fail "set"
        grep -q "read-only" message || fail "$(cat message)"
        weir verify tank > message || fail "$(cat message)"
        weir zpool export tank || fail "export"
        weir zpool import -o readonly=on -d $PWD/d tank || fail "import read-only"
        weir zpool export tank || fail "export"
    "#;
    rig.good_script(wrapper, &format!("{freeze}{script}"));
}

#[test]
fn a_device_that_shrank_while_offline_is_named_and_nothing_is_lost_once_it_is_restored() {
    let rig = with_mount_point(&["a"]);
    rig.good_script(&["env"], "weir zpool create tank $PWD/d/a && weir zfs create tank/kept && weir zpool export tank");
    rig.cut("a", 100 << 20);
    let message = rig.good_script(&["env"], "weir zpool import -d $PWD/d tank; weir zfs list -H -o name");
    assert!(
        message.contains("d/a: the device is smaller than the pool believes") && message.contains("tank/kept"),
        "{message}"
    );
    rig.good_script(&["env"], "weir zpool export tank");
    rig.cut("a", 128 << 20);
    rig.good_script(
        &["env"],
        "weir zpool import -d $PWD/d tank && weir zfs create tank/more && weir zpool export tank",
    );
}

#[test]
fn a_log_that_cannot_be_read_to_its_end_is_reported_by_inspect_and_verify() {
    // `inspect log` listed no log, and `verify` found only the device missing, with nothing lost.
    if !can_mount() {
        return;
    }
    let script = r#"
        weir zpool create tank $PWD/d/a log $PWD/d/log || fail "create"
        up
        echo old > m/old && sync m/old && echo promised > m/promised && sync m/promised || fail "write"
        # `weir` is a function, so the server is a child of the job.
        kill -9 $(pgrep -P $server); wait $server 2> /dev/null; umount -l m
        weir verify -d $PWD/d tank > message || fail "before: $(cat message)"
        # Opening the pool for writing claims the log, and nothing is mounted that replays it.
        weir zfs set com.example:note=claimed tank && weir zpool export tank || fail "claim"
        weir inspect log -d $PWD/d tank > message && grep -q promised message || fail "$(cat message)"
        grep -q "cannot be read" message && fail "$(cat message)"
        weir verify -d $PWD/d tank > message || fail "claimed: $(cat message)"
        mv d/log away
        weir inspect log -d $PWD/d tank > message || fail "inspect"
        grep -qE "block [0-9]+ of the intent log cannot be read \(.*missing .*log\): the last record found is 0, expected [0-9]+, which the import in txg [0-9]+ found" message || fail "$(cat message)"
        weir verify -d $PWD/d tank > message; [ $? = 2 ] || fail "exit code: $(cat message)"
        grep -q "^verdict: DATA LOST. Records of 1 intent log cannot be read" message || fail "$(cat message)"
        grep -qE "^  tank: block [0-9]+ of the intent log cannot be read .* the last record found is 0, expected" message || fail "$(cat message)"
        weir verify --json -d $PWD/d tank | grep -qE '"error": ?"block [0-9]+ of the intent log' || fail "json"
        mv away d/log
        weir verify -d $PWD/d tank > message || fail "back: $(cat message)"
        weir zpool import -d $PWD/d tank && up && [ "$(cat m/promised)" = promised ] || fail "replay"
        down
        weir zpool export tank || fail "export"
    "#;
    rig_in_private(&["a", "log"], script);
}

#[test]
fn a_pool_without_its_log_device_is_imported_only_with_an_option() {
    let rig = with_mount_point(&["a", "log"]);
    let script = r#"
        weir zpool create tank $PWD/d/a log $PWD/d/log && weir zfs create tank/kept && weir zpool export tank || fail "create"
        mv d/log away
        weir zpool import -d $PWD/d tank > message 2>&1 && fail "imported without -m"
        grep -q "^The devices below are missing or corrupted, use '-m' to import the pool anyway:$" message || fail "$(cat message)"
        grep -q "^cannot import 'tank': one or more devices is currently unavailable$" message || fail "$(cat message)"
        weir zpool list tank 2> /dev/null && fail "it is imported all the same"
        weir zpool import -m -d $PWD/d tank 2> message || fail "import -m: $(cat message)"
        weir zfs list -H -o name tank/kept && weir zfs create tank/more || fail "use"
        weir zpool status tank > message
        grep -q "state: DEGRADED" message && grep -q "UNAVAIL" message || fail "$(cat message)"
        weir zpool export tank || fail "export"
        mv away d/log
        weir zpool import -d $PWD/d tank && weir zfs list -H -o name tank/more || fail "import with the log"
        weir zpool status -x tank | grep -q "is healthy" || fail "$(weir zpool status tank)"
        weir zpool export tank || fail "export"
    "#;
    rig.good_script(&["env"], script);
}

#[test]
fn devices_with_exchanged_paths_are_identified_by_their_labels() {
    let rig = with_mount_point(&["a", "b", "c", "x"]);
    let script = r#"
        weir zpool create tank $PWD/d/a $PWD/d/b && weir zfs create tank/kept && weir zpool export tank
        mv d/a d/t; mv d/b d/a; mv d/t d/b
        weir zpool import -d $PWD/d tank && weir zfs create tank/more && weir verify tank > message || fail "$(cat message)"
        weir zpool status -P tank | grep -q "$PWD/d/b  *ONLINE" || fail "$(weir zpool status -P tank)"
        weir zpool destroy tank
        weir zpool create -f tank mirror $PWD/d/a $PWD/d/b && weir zpool create -f other $PWD/d/x && weir zpool export tank
        weir zfs create other/kept && weir zpool export other
        mv d/a a; mv d/x d/a
        weir zpool import -d $PWD/d tank || fail "import with one side"
        weir zpool status tank | grep -q "state: DEGRADED" || fail "$(weir zpool status tank)"
        weir zfs create tank/more || fail "create"
        weir zpool import -d $PWD/d other && weir zfs list -H other/kept || fail "the pool whose device stands there"
    "#;
    rig.good_script(&["env"], script);
}

#[test]
fn a_full_disk_below_suspends_writes_and_everything_ends_without_a_kill() {
    if !can_mount() {
        return;
    }
    let script = r#"
        mount -t tmpfs -o size=24m none d || fail "tmpfs"
        truncate -s 128M d/a
        weir zpool create -O compression=off tank $PWD/d/a || fail "create"
        up
        echo promised > m/kept; sync m/kept || fail "fsync"
        dd if=/dev/urandom of=m/big bs=1M count=40 2> /dev/null
        sync m/big 2> /dev/null && fail "an fsync that nothing could be written for"
        # Changes are refused, at once, and reads answered.
        timeout 30 mkdir m/no 2> /dev/null && fail "a change of a pool that cannot write"
        [ "$(timeout 30 cat m/kept)" = promised ] || fail "reads"
        down
        grep -q "suspended: .*d/a: No space left on device" log || fail "what the log says"
        # With free space again, it continues from what was promised.
        mount -o remount,size=200m d
        up
        [ "$(cat m/kept)" = promised ] || fail "what was promised is gone"
        echo more > m/more; sync m/more || fail "fsync after"
        down
        weir verify tank > message || fail "$(cat message)"
        # It can be exported while it cannot write.
        mount -o remount,size=26m d; dd if=/dev/zero of=d/junk bs=1M 2> /dev/null
        up; dd if=/dev/urandom of=m/big2 bs=1M count=40 conv=fsync 2> /dev/null && fail "written on a full disk"
        down
        weir zpool export tank || fail "export"
        [ -z "$(weir zpool list -H)" ] || fail "still there"
    "#;
    rig_in_private(&["none"], script);
}

#[test]
fn truncating_or_deleting_a_side_of_a_mirror_in_use_loses_nothing() {
    if !can_mount() {
        return;
    }
    let script = r#"
        weir zpool create tank mirror $PWD/d/a $PWD/d/b || fail "create"
        up; head -c 3000000 /dev/urandom > m/one; sync m/one
        truncate -s 20M d/b
        for i in 1 2 3; do head -c 9000000 /dev/urandom > m/two$i; sync m/two$i || fail "fsync"; done
        (cd m && sha256sum * > ../sums)
        down
        grep -q "d/b error=the file was cut to [0-9]* bytes while in use, it had 134217728" log || fail "what the log says"
        up; (cd m && sha256sum --quiet -c ../sums) || fail "contents"; down
        rm d/b; truncate -s 128M d/b
        up; (cd m && sha256sum --quiet -c ../sums) || fail "contents of one side"; down
        weir zpool status tank | grep -q DEGRADED || fail "$(weir zpool status tank)"
    "#;
    rig_in_private(&["a", "b"], script);
    let script = r#"
        weir zpool create tank mirror $PWD/d/a $PWD/d/b || fail "create"
        up; head -c 3000000 /dev/urandom > m/one; sync m/one
        rm d/a
        head -c 3000000 /dev/urandom > m/two; sync m/two || fail "fsync"
        (cd m && sha256sum * > ../sums)
        down
        grep -q "d/a error=the file was deleted or replaced while in use" log || fail "what the log says"
        up; (cd m && sha256sum --quiet -c ../sums) || fail "contents"; down
    "#;
    rig_in_private(&["a", "b"], script);
}

fn rig_in_private(disks: &[&str], script: &str) {
    with_mount_point(disks).good_script(&PRIVATE, script);
}
