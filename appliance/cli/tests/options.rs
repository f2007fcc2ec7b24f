//! No option is accepted and ignored: each does what zfs(8) and zpool(8) say, or is refused by
//! name.
//!
//! The tests run as root and as another user; what needs mounts is left out where there is no FUSE.

use crate::rig::{Rig, SERVE, can_mount};

/// A pool with `tank/open`, `tank/secret`, whose key is in a file, and `tank/secret/a` below it.
fn encrypted(rig: &Rig) {
    std::fs::write(rig.path("d/key"), [7; 32]).expect("a key");
    rig.good("zpool create -O mountpoint=DIR/m/tank tank DIR/d/a");
    rig.good("zfs create tank/open");
    rig.good("zfs create -o encryption=on -o keyformat=raw -o keylocation=file://DIR/d/key tank/secret");
    rig.good("zfs create tank/secret/a");
}

fn status(rig: &Rig) -> String {
    rig.good("zfs get -H -o value keystatus tank/secret/a")
}

fn is_mounted(rig: &Rig, name: &str) -> bool {
    rig.good(&format!("zfs get -H -o value mounted {name}")) == "yes\n"
}

#[test]
fn mount_loads_the_key_of_the_encryption_root() {
    let mut rig = Rig::new(&["a"]);
    rig.start(SERVE);
    encrypted(&rig);
    for line in ["-l tank/secret/a", "-l tank/secret", "-a -l", "-Rl tank/secret", "-lv -a"] {
        rig.run("zfs unmount -a");
        rig.good("zfs unload-key tank/secret");
        assert_eq!(status(&rig), "unavailable\n");
        let (code, out, err) = rig.run(&format!("zfs mount {line}"));
        assert_eq!(status(&rig), "available\n", "{line}: {err}");
        if can_mount() {
            assert_eq!((code, err.as_str()), (0, ""), "{line}");
            assert_eq!(is_mounted(&rig, "tank/secret/a"), line != "-l tank/secret", "{line}");
            assert_eq!(is_mounted(&rig, "tank/open"), line.contains("-a"), "{line}");
            assert_eq!(out, if line.contains('v') { "Mounting ZFS filesystems: (4/4)\n" } else { "" });
        }
    }
    rig.run("zfs unmount -a");
    rig.good("zfs unload-key tank/secret");
    std::fs::remove_file(rig.path("d/key")).expect("there");
    for line in ["-l tank/secret/a", "-a -l", "-Rl tank/secret"] {
        let (code, _, err) = rig.run(&format!("zfs mount {line}"));
        assert_eq!(code, 1, "{line}");
        let first = "Key load error: Failed to open key material file";
        assert!(err.starts_with(first) && err.matches("Key load error").count() == 1, "{line}: {err}");
    }
    assert_eq!(is_mounted(&rig, "tank/open"), can_mount(), "those without a key are mounted");
    assert!(rig.signal("-TERM").success());
}

/// Without a daemon too.
#[test]
fn change_key_loads_the_key_of_the_encryption_root() {
    let rig = Rig::new(&["a"]);
    encrypted(&rig);
    rig.good("zfs unload-key tank/secret");
    rig.good("zfs change-key -l -o keyformat=raw -o keylocation=file://DIR/d/key tank/secret/a");
    assert_eq!(rig.good("zfs get -H -o value encryptionroot tank/secret/a"), "tank/secret/a\n");
    // With several roots, those whose key is not loaded are left out.
    rig.good("zfs unload-key tank/secret/a");
    assert_eq!(rig.good("zfs unload-key -a"), "1 / 1 key(s) successfully unloaded\n");
    assert_eq!(rig.good("zfs unload-key -a"), "");
    assert_eq!(rig.run("zfs unload-key tank/secret").0, 255);
    rig.good("zfs load-key -a");
    rig.good("zfs change-key -i tank/secret/a");
    rig.good("zfs unload-key tank/secret");
    let (_, _, err) = rig.run("zfs mount -l tank/secret/a");
    assert_eq!(status(&rig), "available\n", "{err}");
    rig.run("zfs unmount -u tank/secret/a");
    rig.good("zpool export tank");
}

#[test]
fn unmount_unloads_the_keys_of_the_roots_that_it_unmounts() {
    let mut rig = Rig::new(&["a"]);
    rig.start(SERVE);
    encrypted(&rig);
    if !can_mount() {
        println!("skipped: only root mounts one file system inside another");
        return;
    }
    rig.good("zfs mount -a");
    rig.good("zfs unmount -u tank/secret/a");
    assert_eq!(status(&rig), "available\n", "it is not an encryption root");
    rig.good("zfs unmount -u tank/secret");
    assert_eq!(status(&rig), "unavailable\n");
    rig.good("zfs mount -al");
    // A clone elsewhere uses the key: nothing is changed.
    rig.good("zfs snapshot tank/secret@s");
    rig.good("zfs clone tank/secret@s tank/clone");
    rig.good("zfs mount tank/clone");
    assert_eq!(rig.run("zfs unmount -u tank/secret").0, 255);
    assert!(is_mounted(&rig, "tank/secret") && is_mounted(&rig, "tank/secret/a"));
    assert_eq!(status(&rig), "available\n");
    rig.good("zfs unmount tank/clone");
    rig.good("zfs unmount -ua");
    assert_eq!(status(&rig), "unavailable\n");
    assert!(rig.signal("-TERM").success());
}

#[test]
fn mount_heeds_its_options_for_all_file_systems() {
    let mut rig = Rig::new(&["a"]);
    rig.start(SERVE);
    encrypted(&rig);
    for (line, first) in [
        ("-l", "missing filesystem argument (specify -a for all)"),
        ("-o ro", "missing filesystem argument (specify -a for all)"),
        ("-R", "no dataset provided"),
        ("-j -a", "too many arguments"),
        ("-a tank", "too many arguments"),
        ("-j tank", "too many arguments"),
    ] {
        let (code, _, err) = rig.run(&format!("zfs mount {line}"));
        assert_eq!(code, 2, "{line}");
        assert!(err.starts_with(&format!("{first}\nusage:\n")), "{line}: {err}");
    }
    assert_eq!(rig.run("zfs mount -R tank/no").2, "cannot open 'tank/no': dataset does not exist\n");
    let refused = rig.run("zfs mount -a -o nosuch");
    assert_eq!((refused.0, refused.2.as_str()), (1, "cannot mount 'tank': unsupported: mount option 'nosuch'\n"));
    if !can_mount() {
        println!("skipped: only root mounts one file system inside another");
        return;
    }
    // Makes the directories.
    rig.good("zfs mount -a");
    rig.good("zfs unmount -a");
    rig.good("zfs mount -a -o ro");
    assert!(std::fs::write(rig.path("m/tank/open/f"), "no").is_err());
    rig.good("zfs unmount -a");
    rig.good("zfs set overlay=off tank/open");
    rig.good("zfs mount tank");
    std::fs::write(rig.path("m/tank/open/f"), "an existing file").expect("written");
    let why = format!("cannot mount '{}': directory is not empty\n", rig.path("m/tank/open"));
    assert_eq!(rig.run("zfs mount tank/open"), (1, String::new(), why));
    rig.good("zfs mount -O tank/open");
    rig.good("zfs mount -o remount,ro,noatime tank/open");
    let temporary = "readonly\ton\ttemporary\natime\toff\ttemporary\nexec\ton\tdefault\n";
    assert_eq!(rig.good("zfs get -H -o property,value,source readonly,atime,exec tank/open"), temporary);
    assert!(std::fs::write(rig.path("m/tank/open/f"), "no").is_err());
    rig.good("zfs mount -o remount tank/open");
    assert_eq!(rig.good("zfs get -H -o value,source readonly,atime tank/open"), "off\tdefault\non\tdefault\n");
    std::fs::write(rig.path("m/tank/open/f"), "yes").expect("written");
    rig.good("zfs rename -u tank/secret tank/moved");
    rig.good("zfs mount tank/moved");
    let mounts = || rig.good("zfs mount").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let place = |name: &str| rig.path(&format!("m/tank/{name}"));
    assert!(mounts().contains(&place("moved")));
    rig.good("zfs rename -u tank/moved tank/again");
    let now = mounts();
    assert!(now.contains(&"tank/again".to_owned()) && now.contains(&place("moved")), "{now:?}");
    assert!(!now.contains(&place("again")), "{now:?}");
    assert!(rig.signal("-TERM").success());
}

#[test]
fn share_refuses_unreadable_datasets() {
    let mut rig = Rig::new(&["a"]);
    rig.start(SERVE);
    encrypted(&rig);
    rig.good("zfs set sharenfs=on tank/secret/a");
    rig.good("zfs unshare tank/secret/a");
    rig.good("zfs unload-key tank/secret");
    let locked = "cannot share 'tank/secret/a': encryption key not loaded\n";
    assert_eq!(rig.run("zfs share tank/secret/a"), (1, String::new(), locked.to_owned()));
    rig.good("zfs share -a");
    let not_shared = "cannot unshare 'tank/secret/a': not currently shared\n";
    assert_eq!(rig.run("zfs unshare tank/secret/a").2, not_shared);
    rig.good("zfs share -l tank/secret/a");
    rig.good("zfs unshare tank/secret/a");
    assert!(rig.signal("-TERM").success());
}

#[test]
fn share_refuses_file_systems_that_clients_cannot_see() {
    let mut rig = Rig::new(&["a"]);
    rig.start(SERVE);
    rig.good("zpool create -m none tank DIR/d/a");
    for (options, why) in [
        ("-o mountpoint=legacy", "legacy mountpoint\nuse share(8) to share this filesystem"),
        ("-o mountpoint=none", "no mountpoint set"),
        ("-o mountpoint=DIR/m/off -o canmount=off", "'canmount' property is set to 'off'"),
    ] {
        rig.good(&format!("zfs create -o sharenfs=on {options} tank/fs"));
        let line = format!("cannot share 'tank/fs': {why}\n");
        assert_eq!(rig.run("zfs share tank/fs"), (1, String::new(), line));
        assert_eq!(rig.good("zfs share -a"), "");
        rig.good("zfs destroy tank/fs");
    }
    assert!(rig.signal("-TERM").success());
}

#[test]
fn a_forced_sync_writes_the_configuration_to_the_labels() {
    let mut rig = Rig::new(&["a"]);
    rig.start(SERVE);
    rig.good("zpool create -m none tank DIR/d/a");
    rig.good("zpool sync tank");
    let txg = || {
        let label = rig.good("inspect label DIR/d/a");
        let line = label.lines().find(|line| line.trim_start().starts_with("txg ")).expect("a txg").to_owned();
        line.split_whitespace().last().expect("a number").parse::<u64>().expect("a txg")
    };
    let before = txg();
    rig.good("zpool sync tank");
    assert_eq!(txg(), before, "nothing of the devices has changed");
    rig.good("zpool sync -f tank");
    assert!(txg() > before);
    assert!(rig.signal("-TERM").success());
}

#[test]
fn import_sets_the_properties_that_it_is_given() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -m none tank DIR/d/a");
    rig.good("zpool export tank");
    for (option, why) in [
        ("size=1", "cannot import pool 'tank': 'size' is readonly\n"),
        ("autotrim=maybe", "cannot import pool 'tank': 'autotrim' must be one of 'on | off'\n"),
        ("nosuch=1", "property 'nosuch' is not a valid pool or vdev property\n"),
        ("ro,discard", "unsupported: mount option 'discard'\n"),
        ("altroot=x", "cannot import pool 'tank': bad alternate root 'x'\n"),
    ] {
        let (code, _, err) = rig.run(&format!("zpool import -d DIR/d -o {option} tank"));
        assert_eq!((code, err.as_str()), (1, why), "{option}");
    }
    rig.good("zpool import -s -d DIR/d -o comment=hello -o org.example:a=b -o autotrim=on -o cachefile=none tank");
    let values = rig.good("zpool get -H -o value comment,autotrim,org.example:a,cachefile tank");
    assert_eq!(values, "hello\non\nb\nnone\n");
}

/// Import and split mount what they import with the mount options of `-o`.
#[test]
fn file_systems_are_mounted_with_the_options_of_an_import() {
    if !can_mount() {
        return;
    }
    let mut rig = Rig::new(&["a", "b"]);
    rig.start("serve");
    rig.good("zpool create -m DIR/m/tank tank mirror DIR/d/a DIR/d/b");
    rig.good("zpool split -o rw -o ro -R DIR/split tank two");
    let file = |root: &str| std::fs::write(format!("{}{}/f", rig.path(root), rig.path("m/tank")), "");
    let error = file("split").expect_err("mounted read-only");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    rig.good("zpool export two");
    rig.good("zpool import -d DIR/d -o ro -o rw,noexec -R DIR/again two");
    file("again").expect("the last -o counts");
    rig.good("zpool export two");
}

#[test]
fn a_pool_is_not_created_with_a_used_mount_point_or_wrong_share_options() {
    let mut rig = Rig::new(&["a"]);
    let (code, _, err) = rig.run("zpool create -m none -O sharenfs=ON tank DIR/d/a");
    assert_eq!((code, err.as_str()), (1, "cannot create 'tank': 'sharenfs' cannot be set to invalid options\n"));
    if can_mount() {
        rig.start("serve");
        for options in ["-m DIR/d", "-n -R DIR -m /d", "-o altroot=DIR -m none -O mountpoint=/d"] {
            let (code, _, err) = rig.run(&format!("zpool create {options} tank DIR/d/a"));
            let why = "use '-m' option to provide a different default\n";
            assert_eq!(err, format!("mountpoint '{}' exists and is not empty\n{why}", rig.path("d")), "{options}");
            assert_eq!(code, 1, "{options}");
        }
    }
    assert_eq!(rig.good("zpool list -H -o name"), "");
}

#[test]
fn a_pool_without_a_top_level_device_is_imported_read_only_where_that_is_allowed() {
    let mut rig = Rig::new(&["a", "b"]);
    rig.good("zpool create -m none tank DIR/d/a DIR/d/b");
    rig.good("zfs create tank/a");
    rig.good("zpool export tank");
    std::fs::rename(rig.path("d/b"), rig.path("b")).expect("moved");
    rig.serve();
    for (line, allowed) in [("-d DIR/d tank", 1), ("-o readonly=on -d DIR/d tank", 0)] {
        rig.good(&format!("config set import.missing_vdevs={allowed}"));
        let (code, _, err) = rig.run(&format!("zpool import {line}"));
        assert!(code == 1 && err.starts_with("cannot import 'tank': no such pool or dataset\n"), "{err}");
    }
    rig.good("config set import.missing_vdevs=1");
    rig.good("zpool import -o readonly=on -d DIR/d tank");
    assert_eq!(rig.good("zpool list -H -o health tank"), "DEGRADED\n");
    assert_eq!(rig.good("zfs list -H -o name -r tank"), "tank\ntank/a\n");
    rig.good("zpool export tank");
    std::fs::rename(rig.path("b"), rig.path("d/b")).expect("moved");
    rig.good("zpool import -d DIR/d tank");
    assert_eq!(rig.good("zpool status -x"), "all pools are healthy\n");
}

#[test]
fn a_resilver_is_restarted_only_with_resilver_defer() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -d -m none tank DIR/d/a");
    let (code, _, err) = rig.run("zpool resilver tank");
    let why = "cannot restart resilver on tank: this action requires the resilver_defer feature\n";
    assert_eq!((code, err.as_str()), (1, why));
    rig.good("zpool set feature@resilver_defer=enabled tank");
    rig.good("zpool resilver tank");
}

/// As `zpool export -F` of OpenZFS: for another process, the pool is as after a crash.
#[test]
fn a_hard_export_leaves_labels_and_cache_file_as_they_are() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -m none -o cachefile=DIR/cache tank DIR/d/a");
    rig.good("zfs create tank/a");
    rig.good("zpool export -F tank");
    assert_eq!(rig.good("zpool list -H -o name"), "");
    let (code, _, err) = rig.run("zpool labelclear DIR/d/a");
    assert_eq!(code, 1);
    assert!(err.contains("is a member of potentially active pool \"tank\""), "{err}");
    rig.good("zpool import -c DIR/cache tank");
    rig.good("zfs get name tank/a");
}

#[test]
fn options_without_an_effect_are_refused_by_name() {
    let rig = Rig::new(&["a", "b"]);
    rig.good("zpool create -m none tank mirror DIR/d/a DIR/d/b");
    rig.good("zfs snapshot tank@s");
    for (line, code, first) in [
        ("zfs hold -t tag tank@s", 2, "invalid option 't'\n"),
        ("zpool import -C", 2, "invalid option 'C'\n"),
        ("zpool import -E", 2, "invalid option 'E'\n"),
        ("zpool split -R /nosuch -o discard tank two", 1, "unsupported: mount option 'discard'\n"),
        ("zpool split -R nosuch tank two", 1, "cannot import pool 'two': bad alternate root 'nosuch'\n"),
        ("zpool split -o ro tank two", 2, "setting mntopts is only valid when importing the pool\n"),
        ("zpool split -R /nosuch -o size=1 tank two", 1, "cannot import pool 'two': 'size' is readonly\n"),
    ] {
        let (given, _, err) = rig.run(line);
        assert_eq!(given, code, "{line}: {err}");
        assert!(err.starts_with(first), "{line}: {err}");
    }
    assert_eq!(rig.good("zpool list -H -o name"), "tank\n");
    assert_eq!(rig.good("zfs holds -H tank@s"), "");
}

/// Runs a command whose standard input has these bytes; returns the exit code and the errors.
fn with_input(rig: &Rig, line: &str, input: &[u8]) -> (i32, String) {
    use std::io::Write;
    let mut command = rig.command(line);
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // A command that reads less than it gets is no error.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let out = child.wait_with_output().expect("it ends");
    (out.status.code().unwrap_or(-1), crate::rig::text(&out.stderr))
}

/// Keys came from standard input only where one was created; `load-key` wanted a terminal.
#[test]
fn keys_are_read_from_standard_input_where_it_is_no_terminal() {
    for serves in [false, true] {
        let mut rig = Rig::new(&["a"]);
        if serves {
            rig.serve();
        }
        rig.good("zpool create -O mountpoint=none tank DIR/d/a");
        let good = |line: &str, input: &[u8]| assert_eq!(with_input(&rig, line, input), (0, String::new()), "{line}");
        let (phrase, hex) = (b"correct horse\nand more\n", b"0123456789abcdef".repeat(4));
        good("zfs create -o encryption=on -o keyformat=passphrase tank/phrase", phrase);
        good("zfs create -o encryption=on -o keyformat=raw tank/raw", &[10; 32]);
        good("zfs create -o encryption=on -o keyformat=hex tank/hex", &hex);
        rig.good("zfs unload-key -a");
        let wrong = with_input(&rig, "zfs load-key tank/phrase", b"wrong horse\n");
        assert_eq!(wrong, (255, "Key load error: Incorrect key provided for 'tank/phrase'.\n".to_owned()));
        assert_eq!(with_input(&rig, "zfs load-key tank/phrase", b"correct horse\r\n").0, 255, "CR is part of it");
        good("zfs load-key tank/phrase", phrase);
        assert_eq!(with_input(&rig, "zfs load-key tank/raw", &[10; 33]).0, 255, "too long");
        good("zfs load-key tank/raw", &[10; 32]);
        // Without an end of the line.
        good("zfs load-key tank/hex", &hex);
        assert_eq!(rig.good("zfs get -H -o value keystatus tank/phrase tank/raw tank/hex"), "available\n".repeat(3));
        good("zfs change-key tank/phrase", b"another horse\n");
        rig.good("zfs unload-key -a");
        assert_eq!(with_input(&rig, "zfs load-key tank/phrase", phrase).0, 255);
        good("zfs load-key tank/phrase", b"another horse\n");
        rig.good("zpool export tank");
        // One line for each key, in the order of the names.
        let lines = [&hex[..], b"\nanother horse\n", &[10; 32]].concat();
        good("zpool import -l -d DIR/d tank", &lines);
        assert_eq!(rig.good("zfs get -H -o value keystatus tank/phrase tank/raw tank/hex"), "available\n".repeat(3));
    }
}

#[test]
fn quotas_are_set_when_a_file_system_is_created_and_shown_by_name() {
    let mut rig = Rig::new(&["a"]);
    rig.good("zpool create -O mountpoint=none -O userquota@root=1G tank DIR/d/a");
    rig.good("zfs create -o userquota@root=5M -o groupobjquota@0=7 -o projectquota@9=1G tank/a");
    rig.serve();
    rig.good("zfs create -o projectobjquota@9=3 -o compress=off tank/b");
    let get = |names: &str, of: &str| rig.good(&format!("zfs get -H -o property,value,source {names} {of}"));
    assert_eq!(get("userquota@root", "tank"), "userquota@root\t1G\tlocal\n");
    let all = "userquota@root,userquota@0,groupobjquota@root,projectquota@9,userused@root";
    assert_eq!(
        get(all, "tank/a"),
        "userquota@root\t5M\tlocal\nuserquota@0\t5M\tlocal\ngroupobjquota@root\t7\tlocal\n\
         projectquota@9\t1G\tlocal\nuserused@root\t512B\tlocal\n"
    );
    assert_eq!(get("projectobjquota@9", "tank/b"), "projectobjquota@9\t3\tlocal\n");
    assert_eq!(get("userquota@no-such-user", "tank/a"), "userquota@no-such-user\t-\t-\n");
    assert_eq!(rig.good("zfs list -H -o userquota@root tank/a"), "5M\n");
    // A clone has those of its snapshot, and others if they are given.
    rig.good("zfs snapshot tank/a@s");
    rig.good("zfs clone -o userquota@root=6M -o quota=1G tank/a@s tank/clone");
    assert_eq!(
        get("userquota@root,groupobjquota@0", "tank/clone"),
        "userquota@root\t6M\tlocal\ngroupobjquota@0\t7\tlocal\n"
    );
    assert_eq!(get("userquota@root", "tank/a"), "userquota@root\t5M\tlocal\n");
    let bad = |line: &str, err: &str| assert_eq!(rig.run(line).2, format!("{err}\n"), "{line}");
    bad(
        "zfs clone -o userquota@no-such-user=1 tank/a@s tank/c",
        "cannot create 'tank/c': 'userquota@no-such-user' has an invalid user/group name",
    );
    bad(
        "zfs create -o userquota@no-such-user=1 tank/c",
        "cannot create 'tank/c': 'userquota@no-such-user' has an invalid user/group name",
    );
    bad("zfs create -o userquota@root=1x tank/c", "cannot create 'tank/c': invalid numeric suffix 'x'");
    bad(
        "zfs create -o userquota@root=1G -V 8M tank/c",
        "cannot create 'tank/c': 'userquota@root' does not apply to datasets of this type",
    );
    bad("zfs list tank/c", "cannot open 'tank/c': dataset does not exist");
    // What exists is left as it is.
    rig.good("zfs create -p -o userquota@root=6M tank/a");
    assert_eq!(get("userquota@root", "tank/a"), "userquota@root\t5M\tlocal\n");
}

#[test]
fn invalid_property_values_are_refused() {
    let rig = Rig::new(&["a"]);
    let bad = |line: &str, err: &str| {
        let (code, _, message) = rig.run(line);
        assert!(code != 0 && message.lines().next() == Some(err), "{line}: {code} {message}");
    };
    for dry in ["-n ", ""] {
        let create = |option: &str| format!("zpool create {dry}-O {option} tank DIR/d/a");
        bad(&create("doesnotexist=on"), "property 'doesnotexist' is not a valid filesystem property");
        bad(&create("volsize=1G"), "property 'volsize' is not a valid filesystem property");
        bad(&create("atime=on -O atime=off"), "property 'atime' specified multiple times");
    }
    rig.good("zpool create -O mountpoint=none -O checksum=noparity tank DIR/d/a");
    bad("zfs create -V 1.01BB tank/v", "bad volume size '1.01BB': invalid numeric suffix 'BB'");
    bad("zfs create -V 1z tank/v", "bad volume size '1z': numeric value is too large");
    bad("zfs create -V 8M -b 1x tank/v", "bad volume block size '1x': invalid numeric suffix 'x'");
    bad("zfs set reservation=0bb tank", "cannot set property for 'tank': invalid numeric suffix 'bb'");
    rig.good("zfs create -V 8M tank/v");
    bad("zpool set bootfs=tank/v tank", "cannot set property for 'tank': operation not supported on this type of pool");
    rig.good("zpool set bootfs=tank tank");
    rig.good("zpool scrub -ew tank");
    rig.disk("b", 128 << 20);
    rig.good("zpool create -O mountpoint=none -o feature@head_errlog=disabled old DIR/d/b");
    bad("zpool scrub -ew old", "cannot scrub old: operation not supported on this type of pool");
    rig.good("zfs set keylocation=none tank");
    let key = |of: &str| rig.good(&format!("zfs get -H -o value keylocation {of}"));
    assert_eq!(key("tank"), "none\n");
    bad(
        "zfs set keylocation=prompt tank",
        "cannot set property for 'tank': keylocation must be 'none' for unencrypted datasets",
    );
    assert_eq!(with_input(&rig, "zfs create -o encryption=on -o keyformat=raw tank/e", &[1; 32]).0, 0);
    rig.good("zfs create tank/e/below");
    let set = |location: &str, of: &str, why: &str| {
        bad(&format!("zfs set keylocation={location} {of}"), &format!("cannot set property for '{of}': {why}"));
    };
    set("none", "tank/e", "keylocation must not be 'none' for encrypted datasets");
    set("none", "tank/e/below", "keylocation must not be 'none' for encrypted datasets");
    set("prompt", "tank/e/below", "keylocation may only be set on encryption roots");
    set("/key", "tank/e", "invalid keylocation");
    // A depth selects descendants of any kind, and 0 is a depth.
    assert_eq!(rig.run("zfs list -d 0 -t snapshot tank"), (0, String::new(), "no datasets available\n".to_owned()));
    assert_eq!(rig.run("zfs get -H -d 0 -t snapshot used tank"), (0, String::new(), String::new()));
    bad("zfs list -t filesystem tank/v", "cannot open 'tank/v': operation not applicable to datasets of this type");
    rig.judge("tank");
}

#[test]
fn create_checks_shares_and_names_the_ancestors_that_it_creates() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    for (line, name) in [("zfs create", "tank/a"), ("zfs create -p", "tank/b/a")] {
        let (code, _, err) = rig.run(&format!("{line} -o sharenfs=ON {name}"));
        let expected = format!("cannot create '{name}': 'sharenfs' cannot be set to invalid options\n");
        assert_eq!((code, err), (1, expected));
    }
    let said = |line: &str| rig.good(&format!("zfs create -p {line}"));
    assert_eq!(said("-nv tank/b/a"), "would create ancestors of tank/b/a\nwould create tank/b/a\n");
    assert_eq!(said("-P tank/b/a"), "create_ancestors\ttank/b/a\ncreate\ttank/b/a\n");
    assert_eq!(said("-v tank/b/c"), "create ancestors of tank/b/c\ncreate tank/b/c\n");
    assert_eq!(said("-v -o compression=off tank/b/c"), "", "it exists");
    assert_eq!(rig.good("zfs get -H -o source compression tank/b/c"), "default\n");
}

#[test]
fn zstd_is_an_active_feature_as_soon_as_a_dataset_is_to_use_it() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    let state = || rig.good("zpool get -H -o value feature@zstd_compress tank");
    assert_eq!(state(), "enabled\n");
    rig.good("zfs create -o compress=zstd-7 tank/a");
    rig.good("zfs create tank/b");
    rig.good("zfs set compress=zstd-fast-10 tank/b");
    rig.good("zfs snapshot tank/a@s");
    rig.good("zfs clone tank/a@s tank/clone");
    assert_eq!(state(), "active\n");
    rig.judge("tank");
    rig.good("zfs destroy -R tank/a");
    rig.good("zfs set compress=lz4 tank/b");
    assert_eq!(state(), "active\n", "blocks may be compressed with it");
    rig.good("zfs destroy tank/b");
    assert_eq!(state(), "enabled\n");
    rig.judge("tank");
}
