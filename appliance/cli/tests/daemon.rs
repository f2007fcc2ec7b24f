//! Commands run by `weir serve` print the same as without it, and its pools survive a clean end and
//! a kill.

use crate::rig::{Rig, SERVE, is_root, text};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

impl Rig {
    /// Runs a command and masks what differs from run to run: directories, guids, dates.
    fn plain(&self, line: &str) -> (i32, String, String) {
        let (code, out, err) = self.run(line);
        let plain = |text: String| {
            let text = text.replace(&self.path(""), "DIR/");
            let mut out = String::new();
            let mut digits = String::new();
            for c in text.chars().chain(['\n']) {
                if c.is_ascii_digit() {
                    digits.push(c);
                    continue;
                }
                // Numbers of at least 10 digits are 64-bit guids; a line that begins with a year is
                // a date.
                out += if digits.len() >= 10 { "N" } else { &digits };
                digits.clear();
                out.push(c);
            }
            let date = |line: &str| match line.get(..5) {
                Some(start) if start.starts_with("20") && start.ends_with('-') => {
                    format!("DATE{}\n", &line[19.min(line.len())..])
                }
                _ => format!("{line}\n"),
            };
            out.lines().map(date).collect::<String>()
        };
        (code, plain(out), plain(err))
    }
}

/// The commands that run both ways, in this order.
const TRANSCRIPT: &[&str] = &[
    "zpool list",
    "zpool status",
    "zfs list",
    "zpool import",
    "zpool create -n tank mirror DIR/d/a DIR/d/b",
    "zpool create tank mirror DIR/d/a DIR/d/b",
    "zpool create tank DIR/d/c",
    "zpool create other DIR/d/a",
    "zpool create mirror DIR/d/c",
    "zpool create -o comment=hello -O compression=zstd -m none second DIR/d/c",
    "zpool list -H -o name,size,health,altroot",
    "zpool status",
    "zpool status -x",
    "zpool status nosuch",
    "zpool get -H -o property,value,source comment,readonly,version tank",
    "zpool set comment=other tank",
    "zpool set nosuch=1 tank",
    "zpool set comment=x nosuch",
    "zpool get comment",
    "zfs create tank/a",
    "zfs create tank/a",
    "zfs create -p tank/b/c/d",
    "zfs create nosuch/x",
    "zfs create tank/no/parent",
    "zfs create -V 8M -s tank/vol",
    "zfs create -o compression=nope tank/x",
    "zfs create -nv -o atime=off tank/dry",
    "zfs list -r -o name,type,mountpoint tank",
    "zfs list -H -o name -t volume",
    "zfs list nosuch",
    "zfs set atime=off tank/a",
    "zfs set quota=10M recordsize=8K tank/a",
    "zfs set recordsize=7 tank/a",
    "zfs set userquota@1000=5M tank/a",
    "zfs get -H -o name,property,value,source atime,quota,recordsize,userquota@1000 tank/a",
    "zfs get -r -H -o name,value,source compression second tank",
    "zfs inherit atime tank/a",
    "zfs inherit quota tank/a",
    "zfs rename tank/a tank/renamed",
    "zfs rename tank/renamed second/x",
    "zfs rename tank/nosuch tank/y",
    "zfs userspace tank/renamed",
    "zfs snapshot tank/renamed@one",
    "zfs snapshot tank/renamed@one",
    "zfs snapshot -r tank@two",
    "zfs hold keep tank/renamed@one",
    "zfs destroy tank/renamed@one",
    "zfs release keep tank/renamed@one",
    "zfs bookmark tank/renamed@one #mark",
    "zfs rename tank/renamed@one @first",
    "zfs clone tank/renamed@first tank/clone",
    "zfs promote tank/clone",
    "zfs list -r -H -o name,origin -t all tank",
    "zfs rollback tank/clone@first",
    "zfs rollback -r tank/renamed@two",
    "zfs destroy -Rv tank/clone",
    "zfs destroy -v tank/vol@%",
    "zfs list -r -H -o name -t all tank",
    "zfs destroy tank/b",
    "zfs destroy -rv tank/b",
    "zfs destroy tank",
    "zfs holds tank@x",
    "zfs load-key tank/renamed",
    "zfs mount nosuch",
    "zfs unmount tank",
    "zfs frobnicate",
    "zpool",
    "zfs version",
    "zpool sync",
    "zpool clear tank",
    "zpool clear tank nosuch",
    "zpool reguid tank",
    "zpool history",
    "zpool export nosuch",
    "zpool export second",
    "zpool import -d .",
    "zpool import -d DIR/d second third",
    "zpool import -d DIR/d -o readonly=on nosuch",
    "zpool list -H -o name,health",
    "zpool export third",
    "zpool import -d DIR/d -o readonly=on third",
    "zfs create third/x",
    "zpool get -H -o value readonly third",
    "zpool destroy third",
    "zpool export third",
    "zpool labelclear DIR/d/a",
    "zpool destroy tank",
    "zpool import -D -d DIR/d",
    "zpool list",
];

#[test]
fn commands_in_the_daemon_print_the_same_as_without_it() {
    let (alone, mut served) = (Rig::new(&["a", "b", "c"]), Rig::new(&["a", "b", "c"]));
    served.serve();
    let mut different = Vec::new();
    for line in TRANSCRIPT {
        let (a, b) = (alone.plain(line), served.plain(line));
        if a != b {
            different.push(format!("weir {line}\nalone: {}\n{}{}\nserved: {}\n{}{}", a.0, a.1, a.2, b.0, b.1, b.2));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
    assert!(served.signal("-TERM").success());
}

#[test]
fn two_concurrent_clients_both_get_their_output() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.serve();
    std::thread::scope(|scope| {
        for (pool, disk) in [("one", "a"), ("two", "b")] {
            let rig = &rig;
            scope.spawn(move || {
                rig.good(&format!("zpool create -m none {pool} DIR/d/{disk}"));
                (0..5).for_each(|n| drop(rig.good(&format!("zfs create {pool}/{n}"))));
            });
        }
    });
    std::thread::scope(|scope| {
        for half in ["x", "y"] {
            let rig = &rig;
            scope.spawn(move || (0..5).for_each(|n| drop(rig.good(&format!("zfs create one/{half}{n}")))));
        }
    });
    assert_eq!(rig.good("zfs list -H -o name").lines().count(), 22);
    assert!(rig.signal("-INT").success());
    // The pools stay usable without the daemon.
    assert_eq!(rig.good("zfs list -H -o name").lines().count(), 22);
    rig.good("zfs create one/after");
}

/// Regression: a command that had looked up a pool reopened it after another command had exported
/// or destroyed it. The server kept the devices of a pool that no list showed. Devices that left a
/// pool also stayed open while anything still referred to an earlier state of it.
#[test]
fn a_command_that_ended_has_released_the_devices_that_it_was_to_release() {
    const ROUND: &[&str] = &[
        "zpool create -f -m none p mirror DIR/d/a DIR/d/b",
        "zpool offline p DIR/d/a",
        "zpool online p DIR/d/a",
        "zpool destroy -f p",
        "zpool create -f -m none p mirror DIR/d/a DIR/d/b",
        "zpool add p spare DIR/d/c",
        "zpool remove p DIR/d/c",
        "zpool create -f -m none q DIR/d/c",
        "zpool destroy q",
        "zpool add -f p cache DIR/d/c",
        "zpool remove p DIR/d/c",
        "zpool create -f -m none q DIR/d/c",
        "zpool destroy q",
        "zpool add -f p log DIR/d/c",
        "zpool remove p DIR/d/c",
        "zpool detach p DIR/d/b",
        "zpool create -f -m none q DIR/d/b",
        "zpool export q",
        "zpool import -d DIR/d q",
        "zpool destroy q",
        "zpool export p",
        "zpool import -d DIR/d p",
        "zpool export p",
        "zpool import -d DIR/d p",
        "zpool destroy p",
    ];
    let mut rig = Rig::new(&["a", "b", "c"]);
    rig.serve();
    let (rig, over) = (&rig, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Other commands read the pools at the same time, and may find one that is being destroyed.
        for line in ["zpool status", "zfs list -t all", "zpool list -v"] {
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    rig.run(line);
                }
            });
        }
        let all = (0..2).flat_map(|_| ROUND).map(|line| (line, rig.run(line)));
        let wrong: Vec<_> = all.filter(|(_, message)| *message != (0, String::new(), String::new())).take(1).collect();
        over.store(true, Ordering::SeqCst);
        assert!(wrong.is_empty(), "{wrong:?}");
    });
}

#[test]
fn a_second_daemon_is_refused_and_a_killed_one_leaves_nothing() {
    let mut rig = Rig::new(&["a"]);
    rig.serve();
    rig.good("zpool create -m none tank DIR/d/a");
    let (code, _, err) = rig.run("serve");
    assert!(code != 0 && err.contains("another process is serving this state folder"), "{code}: {err}");
    rig.good("zfs create tank/before");
    rig.signal("-KILL");
    assert!(Path::new(&rig.path("state/run/weir.sock")).exists(), "it could not clean up");
    assert_eq!(rig.good("zfs list -H -o name"), "tank\ntank/before\n");
    assert!(!Path::new(&rig.path("state/run/weir.sock")).exists(), "the command did");
    rig.good("zfs create tank/between");
    rig.serve();
    assert_eq!(rig.good("zfs list -H -o name"), "tank\ntank/before\ntank/between\n");
    rig.signal("-KILL");
    rig.serve();
    assert_eq!(rig.good("zpool status -x"), "all pools are healthy\n");
    rig.good("zpool export tank");
    assert_eq!(rig.good("zpool list -H"), "");
    assert!(rig.signal("-TERM").success());
}

#[test]
fn prompts_of_a_command_go_to_its_client() {
    use std::io::Write;
    let mut rig = Rig::new(&["a"]);
    rig.serve();
    rig.good("zpool create -m none tank DIR/d/a");
    let mut create = rig
        .command("zfs create -o encryption=on -o keyformat=passphrase tank/secret")
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    create.stdin.take().expect("a pipe").write_all(b"correct horse\n").expect("written");
    assert!(create.wait().expect("it ends").success());
    let keystatus = || rig.good("zfs get -H -o value keystatus tank/secret");
    assert_eq!(keystatus(), "available\n");
    rig.good("zfs unload-key tank/secret");
    assert_eq!(keystatus(), "unavailable\n");
    std::fs::write(rig.path("wrong"), "wrong horse\n").expect("written");
    std::fs::write(rig.path("right"), "correct horse\n").expect("written");
    let (code, _, err) = rig.run("zfs load-key -L file://DIR/wrong tank/secret");
    assert_eq!((code, err.as_str()), (255, "Key load error: Incorrect key provided for 'tank/secret'.\n"));
    rig.good("zfs load-key -L file://DIR/right tank/secret");
    assert_eq!(keystatus(), "available\n");
}

#[test]
fn one_damaged_pool_hinders_no_other() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.good("zpool create -m none bad DIR/d/a");
    rig.good("zpool create -m none good DIR/d/b");
    std::fs::remove_file(rig.path("d/a")).expect("removed");
    rig.serve();
    let (code, out, err) = rig.run("zpool list -H -o name,health");
    assert_eq!((code, out.as_str()), (1, "good\tONLINE\n"), "{err}");
    rig.good("zfs create good/x");
    assert!(rig.signal("-TERM").success());
}

/// Before, the record of the import was removed first, and a pool without one cannot be opened:
/// destroy failed, and export left the labels active.
#[test]
fn pools_whose_devices_appear_after_the_start_are_exported_and_destroyed() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.good("zpool create -m none one DIR/d/a");
    rig.good("zpool create -m none two DIR/d/b");
    let rename = |from: &str, to: &str| std::fs::rename(rig.path(from), rig.path(to)).expect("renamed");
    rename("d", "away");
    std::fs::create_dir(rig.path("d")).expect("a folder");
    rig.serve();
    std::fs::remove_dir(rig.path("d")).expect("it is empty");
    std::fs::rename(rig.path("away"), rig.path("d")).expect("renamed");
    rig.good("zpool export one");
    rig.good("zpool destroy two");
    assert_eq!(rig.good("zpool list -H -o name"), "");
    let destroyed = rig.good("zpool import -D -d DIR/d");
    assert!(destroyed.contains("pool: two") && destroyed.contains("(DESTROYED)"), "{destroyed}");
    let label = rig.good("inspect label DIR/d/a");
    assert!(label.contains("state"), "{label}");
    rig.good("zpool import -d DIR/d one");
}

/// The inner pool's disk is a file in a file system of the outer pool, whose quota makes the inner
/// pool's writes fail. Skipped if FUSE cannot be used.
#[test]
fn a_suspended_pool_is_cleared_or_exported_over_the_socket() {
    let outer = Rig::new(&["a"]);
    outer.good("zpool create -m none outer DIR/d/a");
    outer.good("zfs create -o compression=off -o primarycache=metadata outer/disks");
    let place = outer.path("mnt");
    std::fs::create_dir(&place).expect("a folder");
    let (code, _, err) = outer.run("mount -o nowriteback outer/disks DIR/mnt");
    if code != 0 {
        println!("skipped: this machine cannot mount FUSE: {err}");
        return;
    }
    std::fs::File::create(format!("{place}/disk")).and_then(|f| f.set_len(96 << 20)).expect("an image file");
    let mut inner = Rig::new(&["b"]);
    inner.serve();
    inner.good(&format!("zpool create -m none inner {place}/disk"));
    inner.good("zpool create -m none well DIR/d/b");
    assert!(inner.good("inspect txgs well").contains("waiting_bytes"));
    let suspend = |inner: &Rig| {
        for n in 0..200 {
            let (code, _, err) = inner.run(&format!("zfs create inner/{n}"));
            if code != 0 {
                return err;
            }
        }
        panic!("the quota of the outer pool keeps nothing from the inner one");
    };
    // A quota below the used space is refused: set it to exactly the used space.
    let choke = || {
        outer.good("zpool sync outer");
        let used = outer.good("zfs get -Hp -o value used outer/disks");
        outer.good(&format!("zfs set quota={} outer/disks", used.trim()));
    };
    choke();
    let err = suspend(&inner);
    assert!(err.contains("suspended") || err.contains("error"), "{err}");
    // Other pools are not affected, the suspended one is still readable, and a failed clear reports
    // an error.
    inner.good("zfs create well/x");
    inner.good("zfs list -r inner");
    let (code, _, _) = inner.run("zpool clear inner");
    assert_eq!(code, 1);
    outer.good("zfs set quota=none outer/disks");
    inner.good("zpool clear inner");
    inner.good("zfs create inner/after");
    choke();
    suspend(&inner);
    let (code, _, err) = inner.run("zpool export inner");
    assert_eq!(code, 0, "{err}");
    assert_eq!(inner.good("zpool list -H -o name"), "well\n");
    assert!(inner.signal("-TERM").success());
    outer.good("zfs set quota=none outer/disks");
    inner.good(&format!("zpool import -f -d {place} inner"));
    inner.good("zfs create inner/again");
    // A suspended pool does not delay the end of the daemon.
    inner.serve();
    choke();
    suspend(&inner);
    let began = Instant::now();
    assert!(inner.signal("-TERM").success());
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    outer.good("zfs set quota=none outer/disks");
    inner.good("zfs list inner/again");
    inner.good("zpool export inner");
    outer.good("zpool export outer");
}

/// Skipped without root, which mounting one file system inside another needs, and where FUSE is not
/// available.
#[test]
fn file_systems_are_mounted_according_to_their_properties() {
    let mut rig = Rig::new(&["a"]);
    rig.start("serve");
    let (code, _, err) = rig.run("zpool create -m DIR/m/tank tank DIR/d/a");
    if !err.is_empty() {
        assert!(code == 0 || err.contains("cannot mount"), "{err}");
        println!("skipped: {err}");
        return;
    }
    let mounted =
        || rig.good("zfs mount").replace(&rig.path(""), "").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    if !is_root() {
        println!("skipped: only root mounts one file system inside another");
        return;
    }
    rig.good("zfs create -p tank/a/b");
    rig.good("zfs create -u tank/not");
    rig.good("zfs create -o canmount=noauto tank/neither");
    assert_eq!(mounted(), ["tank", "m/tank", "tank/a", "m/tank/a", "tank/a/b", "m/tank/a/b"]);
    let file = |name: &str| rig.path(&format!("m/{name}"));
    rig.good("zfs create -p tank/gone/deep");
    rig.good("zfs create tank/gone/full");
    rig.good("zfs create -o mountpoint=DIR/m/own tank/gone/own");
    std::fs::write(file("tank/gone/full/f"), "released with its file system").expect("written");
    rig.good("zfs destroy -r tank/gone");
    assert!(!Path::new(&file("tank/gone")).exists(), "mount points once stayed as empty directories");
    assert!(Path::new(&file("own")).exists(), "an explicit one stays");
    std::fs::write(file("tank/a/b/f"), "here").expect("written");
    paths_stand_for_the_datasets_whose_mounts_hold_them(&rig);
    rig.good("zfs rename tank/a tank/c");
    assert_eq!(mounted(), ["tank", "m/tank", "tank/c", "m/tank/c", "tank/c/b", "m/tank/c/b"]);
    rig.good("zfs set mountpoint=DIR/m/else tank/c/b");
    assert_eq!(std::fs::read_to_string(file("else/f")).expect("read"), "here");
    rig.good("zfs set readonly=on tank/c/b");
    assert!(std::fs::write(file("else/g"), "no").is_err());
    rig.good("zfs inherit readonly tank/c/b");
    std::fs::write(file("else/g"), "yes").expect("written");
    // Busy: nothing is changed.
    let held = std::fs::File::open(file("else/g")).expect("opened");
    let busy = format!("cannot unmount '{}': pool or dataset is busy\n", file("else"));
    for line in [
        "zfs set mountpoint=none tank/c/b",
        "zfs destroy -r tank/c",
        "zfs destroy -rf tank/c",
        "zfs unmount tank/c/b",
        "zfs unmount -f tank/c/b",
        "zpool export tank",
    ] {
        assert_eq!((rig.run(line).0, rig.run(line).2), (1, busy.clone()), "{line}");
    }
    assert_eq!(rig.good("zfs get -H -o value mounted tank/c/b"), "yes\n");
    drop(held);
    rig.good("zfs mount -a");
    a_new_mount_point_mounts(&rig);
    rig.good("zfs set canmount=off tank/c");
    let all = ["tank/c/b", "m/else", "tank", "m/tank", "tank/not", "m/tank/not"];
    assert_eq!(mounted(), all);
    rig.good("zpool export tank");
    assert_eq!(mounted(), [""; 0]);
    rig.good("zpool import -N -d DIR/d tank");
    assert_eq!(mounted(), [""; 0]);
    rig.good("zpool export tank");
    rig.good("zpool import -d DIR/d tank");
    assert_eq!(mounted(), all);
    // A killed daemon leaves dead mounts; the next one removes them and mounts again.
    rig.signal("-KILL");
    rig.start("serve");
    let deadline = Instant::now() + Duration::from_secs(20);
    while std::fs::read_to_string(rig.path("m/else/f")).is_err() {
        assert!(Instant::now() < deadline, "{}", rig.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    rig.good("zfs destroy -r tank/c");
    assert!(rig.signal("-TERM").success());
    let left = std::fs::read_to_string("/proc/self/mounts").expect("there");
    assert!(!left.contains(&rig.path("")), "{left}");
}

/// File systems that were not mounted once stayed so. Facts: `changelist_postfix`.
fn a_new_mount_point_mounts(rig: &Rig) {
    let is_mounted = |name: &str| rig.good("zfs mount").split_whitespace().any(|word| word == name);
    rig.good("zfs create -u -o mountpoint=DIR/m/first tank/placed");
    rig.good("zfs create -u tank/placed/below");
    rig.good("zfs create -u -o canmount=noauto tank/placed/by-name");
    rig.good("zfs set -u mountpoint=DIR/m/second tank/placed");
    assert!(!is_mounted("tank/placed"));
    rig.good("zfs set mountpoint=DIR/m/third tank/placed");
    assert!(is_mounted("tank/placed") && is_mounted("tank/placed/below") && !is_mounted("tank/placed/by-name"));
    rig.good("zfs mount tank/placed/by-name");
    // It stays, and with it what it is mounted in.
    let (code, _, err) = rig.run("zfs unmount -a");
    assert_eq!((code, err.contains("pool or dataset is busy")), (1, true), "{err}");
    assert!(is_mounted("tank/placed") && !is_mounted("tank/placed/below") && is_mounted("tank/placed/by-name"));
    rig.good("zfs unmount tank/placed");
    std::fs::write(rig.path("m/file"), "no directory").expect("written");
    let (code, _, err) = rig.run("zfs set mountpoint=DIR/m/file tank/placed");
    assert_eq!((code, err.contains("failed to create mountpoint")), (0, true), "{err}");
    assert!(!is_mounted("tank/placed"));
    rig.good("zfs destroy -r tank/placed");
    rig.good("zfs mount -R tank tank/c");
    rig.good("zfs mount -a");
}

/// Before, a path was no name of a dataset.
fn paths_stand_for_the_datasets_whose_mounts_hold_them(rig: &Rig) {
    let listed = |line: &str| rig.good(&format!("zfs list -H -o name {line}"));
    assert_eq!(listed("DIR/m/tank"), "tank\n");
    assert_eq!(listed("DIR/m/tank/a/b/f"), "tank/a/b\n");
    assert_eq!(listed("DIR/m/tank/a/b/../b/. tank/not DIR/m/tank"), "tank\ntank/a/b\ntank/not\n");
    assert_eq!(listed("-r DIR/m/tank/a"), "tank/a\ntank/a/b\n");
    // What is not mounted is a folder of what is.
    std::fs::create_dir_all(rig.path("m/tank/not/below")).expect("made");
    assert_eq!(listed("DIR/m/tank/not/below"), "tank\n");
    std::os::unix::fs::symlink(rig.path("m/tank/a"), rig.path("link")).expect("made");
    assert_eq!(rig.good("zfs get -H -o name,value type DIR/link"), "tank/a\tfilesystem\n");
    assert!(rig.good("zfs userspace -H -o type DIR/m/tank/a").contains("User"));
    let mut inside = rig.command("zfs list -H -o name ./b");
    let inside = inside.current_dir(rig.path("m/tank/a")).output().expect("it runs");
    assert_eq!((text(&inside.stdout), text(&inside.stderr)), ("tank/a/b\n".to_owned(), String::new()));
    let (missing, elsewhere) = (rig.path("m/tank/a/no"), rig.path("d"));
    for (line, out, err) in [
        ("zfs list DIR/m/tank/a/no", "", format!("cannot open '{missing}': No such file or directory\n")),
        ("zfs list DIR/d", "", format!("'{elsewhere}': not a ZFS filesystem\n")),
        ("zfs get -H -o name type DIR/d tank/a", "tank/a\n", format!("'{elsewhere}': not a ZFS filesystem\n")),
    ] {
        assert_eq!(rig.run(line), (1, out.to_owned(), err), "{line}");
    }
    std::fs::remove_dir_all(rig.path("m/tank/not")).expect("removed");
}

/// The messages are those of OpenZFS 2.3.2 for the same commands, recorded with its kernel module.
#[test]
fn share_and_unshare_complain_like_openzfs() {
    let mut rig = Rig::new(&["a"]);
    rig.start(SERVE);
    rig.good("zpool create -O mountpoint=/nosuch/tank tank DIR/d/a");
    rig.good("zfs create -o sharenfs=on tank/a");
    rig.good("zfs create -V 8M tank/v");
    rig.good("zfs snapshot tank@s");
    let both = "share [-l] <-a [nfs|smb] | filesystem>";
    let usage = "unshare <-a [nfs|smb] | filesystem|mountpoint>";
    for (line, first, usage) in [
        ("unshare", "missing filesystem argument", usage),
        ("unshare -x tank", "invalid option 'x'", usage),
        ("unshare -a tank", "share type must be one of: nfs, smb", usage),
        ("unshare -a nfs smb", "too many arguments", usage),
        ("unshare nfs tank", "too many arguments", usage),
        ("share", "missing filesystem argument (specify -a for all)", both),
        ("share -a tank", "share type must be one of: nfs, smb", both),
        ("share nfs tank", "too many arguments", both),
    ] {
        let (code, out, err) = rig.run(&format!("zfs {line}"));
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(err.starts_with(&format!("{first}\nusage:\n\t{usage}\n")), "{line}: {err}");
    }
    let legacy = "use exports(5) or smb.conf(5) to unshare this filesystem";
    let place = "use exportfs(8) or smbcontrol(1) to unshare this filesystem";
    for (line, code, err) in [
        ("unshare tank", 1, format!("cannot unshare 'tank': legacy share\n{legacy}\n")),
        ("unshare /nosuch/tank", 1, format!("cannot unshare '/nosuch/tank': legacy share\n{place}\n")),
        ("unshare tank/v", 1, "cannot open 'tank/v': operation not applicable to datasets of this type\n".into()),
        ("unshare tank@s", 1, "cannot open 'tank@s': snapshot delimiter '@' is not expected here\n".into()),
        ("unshare nfs", 1, "cannot open 'nfs': dataset does not exist\n".into()),
        (
            "unshare /nosuch",
            1,
            "cannot open '/nosuch': No such file or directory\ncannot unshare '/nosuch': not currently mounted\n"
                .into(),
        ),
        ("unshare /proc", 1, "cannot unshare '/proc': not a ZFS filesystem\n".into()),
        ("share /nosuch/tank", 1, "cannot open '/nosuch/tank': leading slash in name\n".into()),
        ("share tank/a", 1, "cannot share 'tank/a': filesystem already shared\n".into()),
        ("unshare tank/a", 0, String::new()),
        ("unshare tank/a", 1, "cannot unshare 'tank/a': not currently shared\n".into()),
        ("unshare /nosuch/tank/a/", 1, "cannot unshare '/nosuch/tank/a/': not currently shared\n".into()),
        ("share -a smb", 0, String::new()),
        ("unshare tank/a", 1, "cannot unshare 'tank/a': not currently shared\n".into()),
        ("share -a nfs", 0, String::new()),
        ("unshare -a smb", 0, String::new()),
        ("unshare /nosuch/tank/a", 0, String::new()),
    ] {
        assert_eq!(rig.run(&format!("zfs {line}")), (code, String::new(), err), "{line}");
    }
    assert!(rig.signal("-TERM").success());
}

/// `-l` was accepted and ignored.
#[test]
fn share_loads_the_keys_of_shared_datasets() {
    let mut rig = Rig::new(&["a"]);
    std::fs::write(rig.path("d/key"), [7; 32]).expect("a key");
    rig.start(SERVE);
    rig.good("zpool create -O mountpoint=/nosuch/tank tank DIR/d/a");
    rig.good("zfs create -o encryption=on -o keyformat=raw -o keylocation=file://DIR/d/key tank/secret");
    rig.good("zfs create -o sharenfs=on tank/secret/a");
    rig.good("zfs create -o sharenfs=on tank/open");
    let status = |rig: &Rig| rig.good("zfs get -H -o value keystatus tank/secret/a");
    let already = |name: &str| (1, String::new(), format!("cannot share '{name}': filesystem already shared\n"));
    for line in ["zfs share -l tank/secret/a", "zfs share -a -l", "zfs share -al nfs"] {
        rig.good("zfs unload-key tank/secret");
        assert_eq!(status(&rig), "unavailable\n");
        assert_eq!(rig.run(line), (0, String::new(), String::new()), "{line}");
        assert_eq!(status(&rig), "available\n", "{line}");
    }
    for name in ["tank/secret/a", "tank/open"] {
        assert_eq!(rig.run(&format!("zfs share -l {name}")), already(name));
    }
    // One whose key cannot be loaded stays as it is, and the others are shared.
    rig.good("zfs unload-key tank/secret");
    rig.good("zfs unshare tank/secret/a");
    rig.good("zfs unshare tank/open");
    std::fs::remove_file(rig.path("d/key")).expect("there");
    let (code, out, err) = rig.run("zfs share -al");
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.starts_with("Key load error: Failed to open key material file"), "{err}");
    assert_eq!(rig.run("zfs share tank/open"), already("tank/open"));
    assert_eq!(rig.run("zfs unshare tank/secret/a").2, "cannot unshare 'tank/secret/a': not currently shared\n");
    assert!(rig.signal("-TERM").success());
}

/// Files below a folder that other users than the owner may read, list, enter or write, and that no
/// folder above closes to them.
fn open_to_others(folder: &Path, below: &str, found: &mut Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let meta = entry.metadata().expect("there");
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if meta.file_type().is_symlink() || meta.permissions().mode() & 0o077 == 0 {
            continue;
        }
        if meta.is_dir() {
            open_to_others(&entry.path(), &format!("{name}/"), found);
        }
        found.push(name);
    }
}

/// The command with the mask that most users have for new files, whatever the mask of this process
/// is. A shell sets it: a mask set here would apply to the tests that run at the same time, too.
fn usual_mask(command: Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022 && exec \"$@\"", "sh"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    shell
}

/// Before, every user could read the names of NFS clients and open the lock files, and so could
/// keep the daemon from starting.
#[test]
fn the_state_folder_shows_others_which_pools_are_imported_and_no_more() {
    let mut rig = Rig::new(&["a"]);
    std::fs::write(rig.path("d/key"), [7; 32]).expect("a key");
    rig.launch(usual_mask(rig.command(SERVE)));
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    rig.good("zfs create -o encryption=on -o keyformat=raw -o keylocation=file://DIR/d/key tank/secret");
    rig.good("zpool scrub -w tank");
    let state = rig.path("state");
    let list = |rig: &Rig| {
        let mut found = Vec::new();
        open_to_others(Path::new(&rig.path("state")), "", &mut found);
        found.sort();
        found
    };
    assert_eq!(list(&rig), ["pools.json", "run"], "while the daemon runs");
    for name in ["nfs-lock-clients", "nfs-secret", "v4-clients", "audit.log", "events.log", "keys", "tls", "lock"] {
        assert!(Path::new(&state).join(name).exists(), "{name} is looked at");
    }
    rig.signal("-TERM");
    assert!(usual_mask(rig.command("zpool export tank")).status().expect("it runs").success());
    assert_eq!(list(&rig), ["pools.json", "run"], "after it");
}
