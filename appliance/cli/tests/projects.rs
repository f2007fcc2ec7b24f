//! `zfs project`: the project of files, by their paths in a mounted file system.

use crate::rig::{Rig, text};
use std::fs;

const FAILED: i32 = 255;

#[test]
fn projects_of_a_tree_are_set_checked_listed_and_cleared() {
    let Some(rig) = Rig::mounted() else { return };
    let dir = rig.path("tank/dir");
    fs::create_dir_all(format!("{dir}/sub")).expect("made");
    for name in ["file", "sub/file"] {
        fs::write(format!("{dir}/{name}"), "contents").expect("written");
    }
    let sorted = |line: &str| {
        let mut lines: Vec<String> = rig.good(line).lines().map(|line| line.replace(&dir, "D")).collect();
        lines.sort();
        lines
    };
    let all = |options: &str| sorted(&format!("zfs project {options} DIR/tank/dir").replace("  ", " "));
    assert_eq!(all("-r"), ["    0 - D", "    0 - D/file", "    0 - D/sub", "    0 - D/sub/file"]);
    // One directory alone is listed with its entries, and changed without.
    assert_eq!(all("-p 7"), [""; 0]);
    assert_eq!(all(""), ["    0 - D/file", "    0 - D/sub", "    7 - D"]);
    assert_eq!(all("-d"), ["    7 - D"]);
    let differs = [
        "D - project inherit flag is not set",
        "D/file - project ID is not set properly (0/7)",
        "D/file - project inherit flag is not set",
        "D/sub - project ID is not set properly (0/7)",
        "D/sub - project inherit flag is not set",
    ];
    assert_eq!(all("-c"), differs);
    assert_eq!(all("-cd -p 8").len(), 2);
    // The tree gets the project of its top.
    all("-rs");
    assert_eq!(all("-cr"), [""; 0]);
    assert_eq!(all("-r"), ["    7 P D", "    7 P D/file", "    7 P D/sub", "    7 P D/sub/file"]);
    fs::write(format!("{dir}/sub/new"), "contents").expect("written");
    assert_eq!(sorted("zfs project DIR/tank/dir/sub/new"), ["    7 P D/sub/new"]);
    rig.good("zfs project -p 70000 DIR/tank/dir/sub/new");
    let (code, out, err) = rig.run("zfs project -c0r -p 7 DIR/tank/dir");
    assert_eq!((code, out, err.as_str()), (0, format!("{dir}/sub/new\0"), ""));
    all("-Ckr");
    assert_eq!(all("-r").len(), 5);
    assert!(all("-r").iter().all(|line| line.starts_with("    7 - D") || line == "70000 - D/sub/new"));
    all("-C");
    assert_eq!(all("-d"), ["    0 - D"]);
    all("-Cr");
    assert!(all("-r").iter().all(|line| line.starts_with("    0 - D")));

    // The first target's project is compared with, and an error ends neither the others nor well.
    rig.good("zfs project -p 7 DIR/tank/dir/file");
    let (code, out, err) = rig.run("zfs project -cd DIR/tank/missing DIR/tank/dir DIR/tank/dir/file");
    let expected = format!(
        "failed to stat {}: No such file or directory\n'-d' option on non-dir target {dir}/file\n",
        rig.path("tank/missing")
    );
    assert_eq!((code, out.lines().count(), err), (FAILED, 1, expected));
    let (_, out, _) = rig.run("zfs project -c DIR/tank/dir/file DIR/tank/dir/sub/file");
    assert!(out.contains("sub/file - project ID is not set properly (0/7)\n"), "{out}");
    std::os::unix::fs::symlink("file", format!("{dir}/link")).expect("made");
    assert!(!all("").iter().any(|line| line.ends_with("D/link")), "a link may lead to another user's file");
    for (line, message) in [
        ("zfs project -p 4294967295 DIR/tank/dir", "invalid project ID"),
        ("zfs project -C -s DIR/tank/dir", "cannot specify '-C' '-c' '-s' together"),
        ("zfs project -r", "missing file or directory target(s)"),
    ] {
        let (code, _, err) = rig.run(line);
        assert!(code == 2 && err.starts_with(&format!("{message}\nusage:")), "{line}: {code}: {err}");
    }
    let (code, _, err) = rig.run("zfs project -d /proc/self/status");
    assert!(code == FAILED && err.starts_with("'-d' option on non-dir target"), "{err}");

    // Quotas count what the commands set.
    rig.good("zfs project -p 9 -rs DIR/tank/dir");
    rig.good("zpool sync tank");
    let used = rig.good("zfs get -Hp -o value projectobjused@9 tank");
    assert_eq!(used, "5\n", "two directories and three files");
    rig.judge("tank");
}

#[test]
fn projects_are_changed_with_the_permissions_of_the_caller_only() {
    use std::os::unix::process::CommandExt;
    let Some(rig) = Rig::mounted() else { return };
    fs::write(rig.path("tank/file"), "contents").expect("written");
    for path in ["", "tank"] {
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(rig.path(path), open).expect(path);
    }
    let as_user = |line: &str| {
        let output = rig.command(line).uid(54_321).gid(54_321).output().expect("it runs");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let file = rig.path("tank/file");
    let (code, out, err) = as_user("zfs project DIR/tank/file");
    assert_eq!((code, out, err.as_str()), (Some(0), format!("    0 - {file}\n"), ""));
    let (code, _, err) = as_user("zfs project -p 7 DIR/tank/file");
    assert_eq!((code, err), (Some(FAILED), format!("failed to set xattr for {file}: Operation not permitted\n")));
    assert_eq!(rig.good("zfs project DIR/tank/file"), format!("    0 - {file}\n"));
}
