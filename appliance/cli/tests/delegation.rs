//! `zfs allow`: what users other than the owner may do in `weir serve`, and what they may not.

use crate::rig::{Rig, is_root, text};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// A user and group without any name or permission on the test machine.
const ANN: u32 = 54_321;
const BEN: u32 = 54_322;

/// A served pool whose socket all users can reach; `None`: the test does not run as root.
fn served(log: &str) -> Option<Rig> {
    if !is_root() {
        println!("skipped: {log}: only root can run commands as other users");
        return None;
    }
    let mut rig = Rig::new(&["a"]);
    rig.serve();
    for (path, mode) in
        [("", 0o711), ("d", 0o711), ("state", 0o711), ("state/run", 0o711), ("state/run/weir.sock", 0o666)]
    {
        set_permissions(rig.path(path), Permissions::from_mode(mode)).expect(path);
    }
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    Some(rig)
}

impl Rig {
    fn command_as(&self, uid: u32, line: &str) -> Command {
        let mut command = self.command(line);
        command.uid(uid).gid(uid);
        command
    }

    fn run_as(&self, uid: u32, line: &str) -> (i32, String, String) {
        let output = self.command_as(uid, line).output().expect("it runs");
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    fn good_as(&self, uid: u32, line: &str) -> String {
        let (code, out, err) = self.run_as(uid, line);
        assert_eq!((code, err.as_str()), (0, ""), "{line}: {out}");
        out
    }

    /// Lets zdb judge the pool, after everything that is delegated was taken back: zdb 2.3 reports
    /// the permissions of each key as leaked, whether OpenZFS or Weir wrote them
    /// (`dump_mos_leaks` counts the ZAP of the keys and not those behind it).
    fn judge_without_delegations(&self, pool: &str) {
        for key in
            [format!("-u {ANN}"), format!("-u {BEN}"), "-u 0".to_owned(), format!("-g {ANN}"), "everyone".to_owned()]
        {
            self.good(&format!("zfs unallow -r {key} {pool}"));
        }
        self.judge(pool);
    }

    /// Runs a command that must be refused with this message.
    fn refused_as(&self, uid: u32, line: &str, message: &str) {
        let (code, out, err) = self.run_as(uid, line);
        assert!(code != 0 && err.lines().next() == Some(message), "{line}: exit {code}: {out}{err}");
    }

    fn exists(&self, name: &str) -> bool {
        self.run(&format!("zfs list {name}")).0 == 0
    }
}

#[test]
fn permissions_are_shown_as_openzfs_shows_them() {
    let rig = Rig::new(&["a"]);
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    rig.good("zfs create tank/a");
    assert_eq!(rig.good("zfs allow tank/a"), "");
    for line in [
        "-u 0 create,mount,snapshot",
        "-l -u 54321 destroy,compress",
        "-d -g 54321 send,@set",
        "-e hold",
        "-c destroy,@set",
        "-s @set release,@other",
        "-s @set rename",
    ] {
        rig.good(&format!("zfs allow {line} tank/a"));
    }
    rig.good("zfs allow everyone diff tank");
    rig.good("zfs unallow -u 0 snapshot tank/a");
    let rule = |name: &str| format!("---- Permissions on {name} {}\n", "-".repeat(70 - 21 - name.len()));
    let expected = format!(
        "{}Permission sets:\n\t@set @other,release,rename\nCreate time permissions:\n\t@set,destroy\nLocal \
         permissions:\n\tuser (unknown: 54321) compression,destroy\nDescendent permissions:\n\tgroup (unknown: 54321) \
         @set,send\nLocal+Descendent permissions:\n\tuser root create,mount\n\teveryone hold\n{}Local+Descendent \
         permissions:\n\teveryone diff\n",
        rule("tank/a"),
        rule("tank")
    );
    assert_eq!(rig.good("zfs allow tank/a"), expected);
    let history = rig.good("zpool history -i tank");
    for line in ["permission update tank/a", "ul$0 create", "permission remove tank/a", "s-$@set rename"] {
        assert!(history.contains(line), "{line}: {history}");
    }
    let wrong = |line: &str, expected_code: i32, message: &str| {
        let (code, _, err) = rig.run(line);
        assert!(code == expected_code && err.starts_with(message), "{line}: exit {code}: {err}");
    };
    wrong(
        "zfs allow tank/nosuch",
        255,
        "cannot open 'tank/nosuch': dataset does not exist\nFailed to open dataset: tank/nosuch",
    );
    wrong("zfs allow nosuch create tank", 2, "zfs: error: invalid user/group nosuch");
    wrong("zfs allow -u 0 scrub tank", 1, "cannot set permissions on 'tank': ");
    wrong("zfs allow -u 0 used tank", 1, "cannot set permissions on 'tank': ");
    // Whether options may follow operands is for the environment to say, as with the C library.
    let posix = |line: &str| rig.command(line).env("POSIXLY_CORRECT", "1").output().expect("it runs").status.code();
    assert_eq!(posix("zfs unallow -s @none -l tank/a"), Some(1), "'-l' is no permission");
    assert_eq!(posix("zfs allow everyone -e tank/a"), Some(1));
    assert_eq!((posix("zfs list -H tank"), posix("zfs list tank -H")), (Some(0), Some(1)));
    rig.good("zfs list tank -H");
    rig.good("zfs unallow -s @none -l tank/a");
    rig.good("zfs unallow -r -u 54321 tank");
    rig.good("zfs unallow -g 54321 tank/a");
    rig.good("zfs unallow -s @set tank/a");
    rig.good("zfs unallow -c tank/a");
    rig.good("zfs unallow everyone tank/a");
    rig.good("zfs unallow -u 0 create,mount tank/a");
    assert_eq!(
        rig.good("zfs allow tank/a"),
        format!("{}Local+Descendent permissions:\n\teveryone diff\n", rule("tank"))
    );
    rig.judge_without_delegations("tank");
}

#[test]
fn nothing_is_allowed_before_it_is_delegated() {
    let Some(rig) = served("nothing is allowed") else { return };
    for line in [
        "create tank/a",
        "create tank/a/b",
        "snapshot tank/a@first",
        "snapshot -r tank/a@s",
        "bookmark tank/a@s tank/a#m",
        "create -V 8M -s tank/v",
    ] {
        rig.good(&format!("zfs {line}"));
    }
    let clone = "zfs clone tank/a@s tank/clone";
    rig.good(clone);
    let denied = [
        ("zfs create tank/x", "cannot create 'tank/x': permission denied"),
        ("zfs create -p tank/x/y", "cannot create 'tank/x/y': permission denied"),
        ("zfs create -V 8M tank/x", "cannot create 'tank/x': permission denied"),
        ("zfs destroy -r tank/a/b", "cannot destroy snapshots: permission denied"),
        ("zfs destroy tank/a@first", "cannot destroy snapshots: permission denied"),
        ("zfs destroy tank/a#m", "cannot destroy bookmark: permission denied"),
        ("zfs snapshot tank/a@t", "cannot create snapshots : permission denied"),
        ("zfs rollback tank/a@s", "cannot rollback 'tank/a': permission denied"),
        ("zfs clone tank/a@s tank/x", "cannot create 'tank/x': permission denied"),
        ("zfs promote tank/clone", "cannot promote 'tank/clone': permission denied"),
        ("zfs hold tag tank/a@s", "cannot hold: permission denied"),
        ("zfs bookmark tank/a@s tank/a#n", "cannot create bookmark 'tank/a#n': permission denied"),
        ("zfs rename tank/a tank/x", "cannot rename 'tank/a': permission denied"),
        ("zfs rename tank/a@s tank/a@t", "cannot rename 'tank/a@s': permission denied"),
        ("zfs set compression=off tank/a", "cannot set property for 'tank/a': permission denied"),
        ("zfs set com.example:x=y tank/a", "cannot set property for 'tank/a': permission denied"),
        ("zfs set userquota@0=1M tank/a", "cannot set property for 'tank/a': permission denied"),
        ("zfs inherit compression tank/a", "cannot inherit compression for 'tank/a': permission denied"),
        ("zfs send tank/a@s", "warning: cannot send 'tank/a@s': permission denied"),
        ("zfs send -R tank/a@s", "warning: cannot send 'tank/a@s': permission denied"),
        ("zfs diff tank/a@s", "Unable to obtain diffs: "),
        ("zfs allow -u 54321 create tank", "cannot set permissions on 'tank': permission denied"),
        ("zfs unallow -u 54321 create tank", "cannot set permissions on 'tank': permission denied"),
        ("zfs mount tank/a", "zfs mount tank/a is for administrators"),
        ("zfs unmount tank/a", "zfs unmount tank/a is for administrators"),
        ("zfs share -a", "zfs share -a is for administrators"),
        ("zpool export tank", "zpool export tank is for administrators"),
        ("zpool set comment=x tank", "zpool set comment=x tank is for administrators"),
    ];
    let before = rig.good("zfs list -H -r -t all -o name,guid,origin tank");
    let is_denied = |line: &str, message: &str| {
        let (code, _, err) = rig.run_as(ANN, line);
        assert!(
            code != 0 && err.lines().next().is_some_and(|line| line.contains(message)),
            "{line}: exit {code}: {err}"
        );
    };
    denied.iter().for_each(|(line, message)| is_denied(line, message));
    // All that is delegated to others, or on other datasets, changes nothing.
    let all = "create,destroy,mount,snapshot,rollback,clone,promote,hold,bookmark,rename,compression,userprop,userquota,send,diff,allow";
    rig.good(&format!("zfs allow -u {BEN} {all} tank"));
    rig.good(&format!("zfs allow -g {BEN} {all} tank"));
    rig.good(&format!("zfs allow -u {ANN} {all} tank/v"));
    rig.good(&format!("zfs allow -s @all {all} tank"));
    denied.iter().for_each(|(line, message)| is_denied(line, message));
    assert_eq!(rig.good("zfs list -H -r -t all -o name,guid,origin tank"), before);
    // Nor does it with delegation off.
    rig.good(&format!("zfs allow -u {ANN} {all} tank"));
    rig.good("zpool set delegation=off tank");
    rig.refused_as(
        ANN,
        "zfs snapshot tank/a@t",
        "cannot create snapshots : delegated administration is disabled on pool",
    );
    rig.good("zpool set delegation=on tank");
    rig.good_as(ANN, "zfs snapshot tank/a@t");
    rig.good(&format!("zfs unallow -u {ANN} snapshot tank"));
    rig.refused_as(ANN, "zfs snapshot tank/a@u", "cannot create snapshots : permission denied");
}

#[test]
fn each_verb_needs_its_permissions_and_no_others() {
    let Some(rig) = served("each verb") else { return };
    for line in
        ["create tank/a", "create tank/a/b", "snapshot tank/a/b@s", "snapshot tank/a/b@later", "create tank/other"]
    {
        rig.good(&format!("zfs {line}"));
    }
    // Each row: what is not enough, what is missing, the verb that then works.
    let rows: &[(&str, &str, &str)] = &[
        ("create", "mount", "create -u tank/a/new"),
        ("create,mount", "compression", "create -u -o compression=off tank/a/lz"),
        ("create,mount", "refreservation", "create -V 8M tank/a/vol"),
        ("", "snapshot", "snapshot tank/a/b@mine"),
        ("snapshot", "userprop", "snapshot -o x:y=z tank/a/b@with"),
        ("clone,create", "mount", "clone -u tank/a/b@s tank/a/clone"),
        ("promote", "mount", "promote tank/a/clone"),
        ("", "rollback", "rollback tank/a/clone@s"),
        ("", "hold", "hold tag tank/a/b@mine"),
        ("hold", "release", "release tag tank/a/b@mine"),
        ("", "bookmark", "bookmark tank/a/b@mine tank/a/b#mark"),
        ("mount", "destroy", "destroy tank/a/b#mark"),
        ("destroy", "mount", "destroy tank/a/b@mine"),
        ("rename,mount", "create", "rename tank/a/new tank/a/renamed"),
        ("mount", "destroy", "destroy tank/a/renamed"),
        ("", "userprop", "set a:b=c tank/a/b"),
        ("userprop", "quota", "set quota=50M tank/a/b"),
        ("quota", "userquota", "set userquota@7=1M tank/a/b"),
        ("quota", "compression", "set compress=off tank/a/b"),
        ("userprop", "compression", "inherit compression tank/a/b"),
        ("", "diff", "diff tank/a/b@later tank/a/b"),
    ];
    for (some, missing, line) in rows {
        let allow = |list: &str, verb: &str| {
            if !list.is_empty() {
                rig.good(&format!("zfs {verb} -u {ANN} {list} tank/a"));
            }
        };
        allow(some, "allow");
        let (code, _, err) = rig.run_as(ANN, &format!("zfs {line}"));
        let is_denied = err.contains("permission denied") || err.contains("delegated permission is needed");
        assert!(code != 0 && is_denied, "{line} with only '{some}': exit {code}: {err}");
        allow(missing, "allow");
        rig.good_as(ANN, &format!("zfs {line}"));
        rig.refused_or_gone(BEN, line);
        allow(some, "unallow");
        allow(missing, "unallow");
    }
    assert!(!rig.exists("tank/a/renamed") && rig.exists("tank/a/lz") && rig.exists("tank/a/clone"));
    // A rename out of the delegated tree needs permissions on the new parent.
    rig.good(&format!("zfs allow -u {ANN} rename,mount,create tank/a"));
    rig.refused_as(ANN, "zfs rename tank/a/lz tank/other/lz", "cannot rename 'tank/a/lz': permission denied");
    rig.good(&format!("zfs allow -u {ANN} mount,create tank/other"));
    rig.good_as(ANN, "zfs rename tank/a/lz tank/other/lz");
    rig.judge_without_delegations("tank");
}

impl Rig {
    fn refused_or_gone(&self, uid: u32, line: &str) {
        let (code, _, err) = self.run_as(uid, &format!("zfs {line}"));
        assert!(code != 0, "{line}: {err}");
    }
}

#[test]
fn a_user_hands_on_what_was_delegated_and_no_more() {
    let Some(rig) = served("hands on") else { return };
    rig.good("zfs create tank/a");
    rig.good(&format!("zfs allow -u {ANN} allow,send,userprop tank/a"));
    rig.good_as(ANN, &format!("zfs allow -u {BEN} send tank/a"));
    let denied = "cannot set permissions on 'tank/a': permission denied";
    for line in [
        format!("allow -u {BEN} hold tank/a"),
        format!("allow -u {BEN} allow tank/a"),
        format!("allow -u {BEN} send,hold tank/a"),
        format!("allow -u {BEN} @set tank/a"),
        format!("unallow -u {BEN} send tank/a"),
        format!("unallow -g {ANN} send tank/a"),
        "unallow -e tank/a".to_owned(),
        "unallow -c tank/a".to_owned(),
        "unallow -s @set tank/a".to_owned(),
    ] {
        rig.refused_as(ANN, &format!("zfs {line}"), denied);
    }
    rig.refused_as(
        ANN,
        &format!("zfs allow -u {ANN} send tank"),
        "cannot set permissions on 'tank': permission denied",
    );
    rig.good_as(ANN, &format!("zfs unallow -u {ANN} userprop tank/a"));
    rig.refused_as(ANN, "zfs set a:b=c tank/a", "cannot set property for 'tank/a': permission denied");
}

#[test]
fn streams_are_sent_and_received_by_users_with_permission() {
    let Some(rig) = served("streams") else { return };
    rig.good("zfs create tank/a");
    rig.good("zfs create tank/secret");
    rig.good("zfs snapshot tank/a@s tank/secret@s");
    let send = |line: &str| {
        let output = rig.command_as(ANN, line).output().expect("it runs");
        (output.status.success(), output.stdout)
    };
    assert_eq!(send("zfs send tank/a@s"), (false, Vec::new()));
    // Snapshots are descendants of their file system.
    rig.good(&format!("zfs allow -l -u {ANN} send tank/a"));
    assert!(!send("zfs send tank/a@s").0);
    rig.good(&format!("zfs allow -u {ANN} send tank/a"));
    let (is_sent, stream) = send("zfs send tank/a@s");
    assert!(is_sent && stream == rig.command("zfs send tank/a@s").output().expect("it runs").stdout);
    assert_eq!(send("zfs send tank/secret@s"), (false, Vec::new()));
    let file = rig.path("stream");
    std::fs::write(&file, &stream).expect("written");
    let receive = |line: &str| {
        let mut command = rig.command_as(ANN, line);
        let input = std::fs::File::open(&file).expect("there");
        let output = command.stdin(Stdio::from(input)).output().expect("it runs");
        (output.status.code().unwrap_or(-1), text(&output.stderr))
    };
    let denied = |line: &str| {
        let (code, err) = receive(line);
        assert!(code != 0 && err.contains("permission denied") && !rig.exists("tank/to/a"), "{line}: {err}");
    };
    rig.good("zfs create tank/to");
    denied("zfs receive tank/to/a");
    for list in ["receive,create", "receive,mount", "create,mount"] {
        rig.good(&format!("zfs allow -u {ANN} {list} tank/to"));
        denied("zfs receive tank/to/a");
        rig.good(&format!("zfs unallow -u {ANN} {list} tank/to"));
    }
    rig.good(&format!("zfs allow -u {ANN} receive,create,mount tank/to"));
    assert_eq!(receive("zfs receive tank/to/a"), (0, String::new()));
    assert!(rig.exists("tank/to/a@s"));
    rig.good("zfs destroy -r tank/to/a");
    // Permission to append is enough where nothing can be destroyed.
    rig.good(&format!("zfs unallow -u {ANN} receive tank/to"));
    denied("zfs receive tank/to/a");
    rig.good(&format!("zfs allow -u {ANN} receive:append tank/to"));
    denied("zfs receive -F tank/to/a");
    assert_eq!(receive("zfs receive tank/to/a"), (0, String::new()));
    rig.good("zfs destroy -r tank/to/a");
    rig.good(&format!("zfs unallow -u {ANN} receive:append tank/to"));
    rig.good(&format!("zfs allow -u {ANN} receive tank/to"));
    // A property without permission is left out.
    let (code, err) = receive("zfs receive -o compression=off tank/to/a");
    assert_eq!((code, err.as_str()), (0, "cannot receive compression property on tank/to/a: permission denied\n"));
    assert_eq!(rig.good("zfs get -H -o source compression tank/to/a"), "default\n");
    rig.good("zfs destroy -r tank/to/a");
    rig.good(&format!("zfs allow -u {ANN} compression tank/to"));
    assert_eq!(receive("zfs receive -o compression=off tank/to/a"), (0, String::new()));
    assert_eq!(rig.good("zfs get -H -o value compression tank/to/a"), "off\n");
    // The origin of a clone is read.
    let (code, err) = receive("zfs receive -o origin=tank/secret@s tank/to/b");
    assert!(code != 0 && err.contains("permission denied") && !rig.exists("tank/to/b"), "{err}");
    rig.judge_without_delegations("tank");
}

#[test]
fn keys_come_from_the_user_and_from_no_file_of_the_owner() {
    let Some(rig) = served("keys") else { return };
    let file = rig.path("key");
    std::fs::write(&file, "a passphrase").expect("written");
    rig.good("zfs create -o encryption=on -o keyformat=passphrase -o keylocation=file://DIR/key tank/e");
    rig.good("zfs unload-key tank/e");
    let load = |line: &str| {
        let mut command = rig.command_as(ANN, line);
        let input = std::fs::File::open(&file).expect("there");
        let output = command.stdin(Stdio::from(input)).output().expect("it runs");
        (output.status.code().unwrap_or(-1), text(&output.stderr))
    };
    assert_eq!(load("zfs load-key -L prompt tank/e"), (255, "Key load error: Permission denied.\n".to_owned()));
    rig.good(&format!("zfs allow -u {ANN} load-key tank/e"));
    let (code, err) = load("zfs load-key tank/e");
    assert!(code == 255 && err.contains("unsupported: key files for users other than the owner"), "{err}");
    assert_eq!(load("zfs load-key -L prompt tank/e"), (0, String::new()));
    rig.good_as(ANN, "zfs unload-key tank/e");
    assert_eq!(load("zfs load-key -L prompt tank/e"), (0, String::new()));
    rig.good(&format!("zfs allow -u {ANN} create,mount,keylocation tank"));
    let (code, err) =
        load("zfs create -u -o encryption=on -o keyformat=passphrase -o keylocation=file://DIR/key tank/mine");
    assert!(code != 0 && err.contains("unsupported: key files"), "{err}");
    let (code, err) = load("zfs change-key tank/e");
    assert_eq!((code, err.as_str()), (255, "Key change error: Permission denied.\n"));
    // A large count of iterations, such as one that was received, does not keep the process busy.
    let mut slow =
        rig.command("zfs create -u -o encryption=on -o keyformat=passphrase -o pbkdf2iters=10000001 tank/slow");
    let input = std::fs::File::open(&file).expect("there");
    assert!(slow.stdin(Stdio::from(input)).status().expect("it runs").success());
    rig.good("zfs unload-key tank/slow");
    rig.good(&format!("zfs allow -u {ANN} load-key tank/slow"));
    let (code, err) = load("zfs load-key tank/slow");
    assert!(code == 255 && err.contains("its pbkdf2iters is 10000001"), "{err}");
}

#[test]
fn creators_own_what_they_create_and_nothing_is_mounted_for_them() {
    if !crate::rig::can_mount() {
        println!("skipped: needs root and /dev/fuse");
        return;
    }
    let mut rig = Rig::new(&["a"]);
    rig.start("serve");
    for (path, mode) in
        [("", 0o711), ("d", 0o711), ("state", 0o711), ("state/run", 0o711), ("state/run/weir.sock", 0o666)]
    {
        set_permissions(rig.path(path), Permissions::from_mode(mode)).expect(path);
    }
    rig.good("zpool create -m DIR/tank tank DIR/d/a");
    rig.good("zfs create tank/a");
    rig.good(&format!("zfs allow -u {ANN} create,mount,destroy,snapshot,rename,rollback,mountpoint,exec tank"));
    rig.good("zfs allow -c userprop tank");
    let (code, _, err) = rig.run_as(ANN, "zfs create tank/a/mine");
    assert_eq!((code, err.as_str()), (1, "filesystem successfully created, but it may only be mounted by root\n"));
    assert_eq!(rig.good("zfs get -H -o value mounted tank/a/mine"), "no\n");
    rig.good_as(ANN, "zfs set a:b=c tank/a/mine");
    rig.good("zfs mount tank/a/mine");
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(rig.path("tank/a/mine")).expect("mounted");
    assert_eq!((meta.uid(), meta.gid()), (ANN, ANN));
    // What is mounted stays as it is.
    let busy = format!("cannot unmount '{}': permission denied", rig.path("tank/a/mine"));
    rig.good_as(ANN, "zfs snapshot tank/a/mine@s");
    rig.refused_as(ANN, "zfs rename tank/a/mine tank/a/other", &busy);
    rig.refused_as(ANN, "zfs rename -u tank/a/mine tank/a/other", &busy);
    rig.refused_as(ANN, "zfs destroy -r tank/a/mine", &busy);
    rig.refused_as(ANN, "zfs destroy -rf tank/a/mine", &busy);
    rig.refused_as(ANN, "zfs set mountpoint=/etc tank/a/mine", &busy);
    assert_eq!(rig.good("zfs get -H -o value mounted tank/a/mine"), "yes\n");
    // A rollback needs its place again: others must not be able to put a link there. The folder of
    // the test is below one that all users can write.
    rig.refused_as(ANN, "zfs rollback tank/a/mine@s", &busy);
    rig.good("zfs unmount tank/a/mine");
    rig.good_as(ANN, "zfs rollback tank/a/mine@s");
    rig.good_as(ANN, "zfs set mountpoint=/nowhere tank/a/mine");
    assert_eq!(rig.good("zfs get -H -o value mounted tank/a/mine"), "no\n");
    rig.good_as(ANN, "zfs rename tank/a/mine tank/a/other");
    rig.good_as(ANN, "zfs destroy -r tank/a/other");
}

#[test]
fn snapshots_are_changed_by_their_directory_with_the_permissions_of_the_commands() {
    let Some(rig) = Rig::mounted() else { return };
    rig.good("zfs create tank/a");
    for path in ["", "tank", "tank/a"] {
        set_permissions(rig.path(path), Permissions::from_mode(0o755)).expect(path);
    }
    let dir = rig.path("tank/a/.zfs/snapshot");
    // Group BEN is a supplementary one, which only the kernel knows.
    let run = |uid: u32, groups: &str, line: &str| {
        let (program, operands) = line.split_once(' ').expect("operands");
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={uid}"), format!("--regid={uid}"), format!("--groups={groups}")]);
        command.arg(program).args(operands.split(' ').map(|name| format!("{dir}/{name}")));
        let output = command.env("LC_ALL", "C").output().expect("setpriv runs");
        (output.status.success(), text(&output.stderr))
    };
    let good = |uid, groups: &str, line: &str| {
        assert_eq!(run(uid, groups, line), (true, String::new()), "{uid} {groups}: {line}");
    };
    let denied = |uid, groups: &str, line: &str| {
        let (is_done, err) = run(uid, groups, line);
        assert!(!is_done && err.contains("Operation not permitted"), "{uid} {groups}: {line}: {err}");
    };
    let names = || rig.good("zfs list -H -o name -t snapshot -r tank");
    let (ben, none) = (BEN.to_string(), "1".to_owned());
    // Root needs no permission.
    good(0, "0", "mkdir root");
    good(0, "0", "mv root kept");
    let rows = [
        ("create,mount,destroy,rename,rollback", "snapshot", "mkdir mine"),
        ("rename,create", "mount", "mv mine moved"),
        ("rename,mount", "create", "mv moved again"),
        ("create,mount,destroy", "rename", "mv again last"),
        ("destroy,snapshot", "mount", "rmdir last"),
        ("mount,snapshot", "destroy", "rmdir kept"),
    ];
    for (some, missing, line) in rows {
        let allow = |verb: &str, list: &str| rig.good(&format!("zfs {verb} -g {BEN} {list} tank/a"));
        let before = names();
        for groups in [&ben, &none] {
            denied(ANN, groups, line);
        }
        allow("allow", some);
        denied(ANN, &ben, line);
        allow("allow", missing);
        // Of a user who is not in the group.
        denied(ANN, &none, line);
        assert_eq!(names(), before, "{line}");
        good(ANN, &ben, line);
        assert_ne!(names(), before, "{line}");
        allow("unallow", some);
        allow("unallow", missing);
    }
    assert_eq!(names(), "");
    // To a user, and with delegation off.
    rig.good(&format!("zfs allow -u {ANN} snapshot tank"));
    good(ANN, &none, "mkdir mine");
    denied(BEN, &ben, "mkdir other");
    rig.good("zpool set delegation=off tank");
    denied(ANN, &none, "mkdir other");
    rig.good("zpool set delegation=on tank");
    rig.good("zfs set snapshot_limit=1 tank/a");
    let (is_done, err) = run(ANN, &none, "mkdir other");
    assert!(!is_done && err.contains("Disk quota exceeded"), "{err}");
    assert_eq!(names(), "tank/a@mine\n");
    // Only directories are snapshots, and only of their own file system.
    let (is_done, _) = run(ANN, &none, "touch file");
    assert!(!is_done);
    rig.good("zfs set snapshot_limit=none tank/a");
    rig.good(&format!("zfs unallow -u {ANN} snapshot tank"));
    rig.judge_without_delegations("tank");
}
