//! `cachefile`: pools are in the file that it names. `zpool import -c` and OpenZFS's zdb read it.

use crate::rig::{Rig, text};
use std::path::Path;
use std::process::Command;

/// What zdb prints of the configurations in a cache file. `None`: it is not installed.
fn zdb(file: &str) -> Option<String> {
    let run = Command::new("zdb").args(["-C", "-U", file]).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").output();
    run.ok().map(|out| text(&out.stdout) + &text(&out.stderr))
}

fn has(file: &str, pool: &str) -> bool {
    let bytes = std::fs::read(file).unwrap_or_default();
    let found = bytes.windows(pool.len()).any(|window| window == pool.as_bytes());
    if let Some(message) = zdb(file).filter(|_| found) {
        assert!(message.contains(&format!("    name: '{pool}'")), "zdb: {message}");
    }
    found
}

#[test]
fn pools_are_in_their_cache_file_while_they_are_imported() {
    let rig = Rig::new(&["a", "b"]);
    let (one, two) = (rig.path("one"), rig.path("two"));
    rig.good("zpool create -O mountpoint=none -o cachefile=DIR/one tank DIR/d/a");
    rig.good("zpool create -O mountpoint=none -o cachefile=DIR/one other DIR/d/b");
    assert!(has(&one, "tank") && has(&one, "other"));
    let get = || rig.good("zpool get -H -o value,source cachefile tank");
    assert_eq!(get(), format!("{one}\tlocal\n"));
    rig.good("zpool set cachefile=DIR/two tank");
    assert!(!has(&one, "tank") && has(&one, "other") && has(&two, "tank"));
    rig.good("zpool set cachefile=none other");
    assert!(!Path::new(&one).exists(), "a file without pools is removed");
    rig.good("zpool export tank");
    assert!(!Path::new(&two).exists());
    rig.good("zpool import -d DIR/d tank");
    assert_eq!(get(), "-\tdefault\n");
    rig.good("zpool set cachefile=DIR/two tank");
    rig.good("zpool destroy tank");
    assert!(!Path::new(&two).exists());
}

#[test]
fn a_file_that_is_not_a_cache_file_is_unchanged() {
    let rig = Rig::new(&["a"]);
    std::fs::write(rig.path("notes"), "mine\n").expect("written");
    rig.good("zpool create -O mountpoint=none tank DIR/d/a");
    let (code, _, err) = rig.run("zpool set cachefile=DIR/notes tank");
    let message = format!("cannot set property for 'tank': {}: cache file: nvlist: ", rig.path("notes"));
    assert!(code == 1 && err.starts_with(&message), "{code} {err}");
    assert_eq!(std::fs::read_to_string(rig.path("notes")).expect("there"), "mine\n");
    let refused = |value: &str, why: &str| {
        let (code, _, err) = rig.run(&format!("zpool set cachefile={value} tank"));
        assert_eq!(
            (code, err),
            (1, format!("cannot set property for 'tank': {why}\n").replace("DIR", &rig.path("")).replace("//", "/")),
            "{value}"
        );
    };
    refused("here", "property 'cachefile' must be empty, an absolute path, or 'none'");
    refused("DIR/", "'DIR/' is not a valid file");
    refused("DIR/none/file", "'DIR/none' is not a valid directory");
    assert_eq!(rig.good("zpool get -H -o value cachefile tank"), "-\n");
}

/// The file may be older than the pool's last change, and the devices may have other names in the
/// same folder.
#[test]
fn import_uses_only_the_pools_of_a_cache_file() {
    let rig = Rig::new(&["a", "b", "c"]);
    rig.good("zpool create -O mountpoint=none -o cachefile=DIR/cache tank DIR/d/a");
    std::fs::copy(rig.path("cache"), rig.path("old")).expect("copied");
    rig.good("zpool attach tank DIR/d/a DIR/d/b");
    assert_ne!(std::fs::read(rig.path("cache")).expect("there"), std::fs::read(rig.path("old")).expect("there"));
    rig.good("zpool export tank");
    rig.good("zpool create -O mountpoint=none other DIR/d/c");
    rig.good("zpool export other");
    std::fs::rename(rig.path("d/a"), rig.path("d/moved")).expect("renamed");
    let found = rig.good("zpool import -c DIR/old");
    assert!(found.contains("pool: tank") && !found.contains("pool: other"), "{found}");
    let (code, _, err) = rig.run("zpool import -c DIR/old other");
    assert_eq!((code, err.as_str()), (1, "cannot import 'other': no such pool available\n"));
    rig.good("zpool import -c DIR/old tank");
    let status = rig.good("zpool status -P tank");
    assert!(status.contains(&rig.path("d/moved")) && status.contains(&rig.path("d/b")), "{status}");
    assert_eq!(rig.good("zpool status -x"), "all pools are healthy\n");
    rig.good("zpool export tank");
    let (code, _, err) = rig.run("zpool import -c DIR/nosuch tank");
    assert_eq!((code, err.as_str()), (1, "failed to open cache file: No such file or directory\n"));
    std::fs::write(rig.path("wrong"), "no list").expect("written");
    let (code, _, err) = rig.run("zpool import -c DIR/wrong tank");
    assert!(code == 1 && err.starts_with("invalid or corrupt cache file contents: "), "{err}");
    let (code, _, err) = rig.run("zpool import -c DIR/old -d DIR/d tank");
    assert!(code == 2 && err.starts_with("-c is incompatible with -d\n"), "{err}");
}
