//! Pools that the program makes and changes, judged by zdb where it is installed; messages are OpenZFS's.

use std::path::Path;
use std::process::{Command, Output};

/// A folder with image files and a state folder.
struct Rig {
    dir: tempfile::TempDir,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Rig {
    fn new(disks: &[&str]) -> Self {
        let rig = Self { dir: tempfile::tempdir().expect("a folder") };
        std::fs::create_dir(rig.dir.path().join("d")).expect("a folder");
        for disk in disks {
            rig.disk(disk, 128 << 20);
        }
        rig
    }

    fn disk(&self, name: &str, bytes: u64) {
        std::fs::File::create(self.path(name)).and_then(|f| f.set_len(bytes)).expect("an image file");
    }

    fn disks(&self) -> String {
        self.dir.path().join("d").display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join("d").join(name).display().to_string()
    }

    /// Runs a command line; words of one letter are image files.
    fn run(&self, line: &str) -> (i32, String, String) {
        let words = line.split(' ').map(|word| match word {
            w if w.len() == 1 && w.chars().all(|c| c.is_ascii_lowercase()) => self.path(w),
            "DISKS" => self.disks(),
            w => w.to_owned(),
        });
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(words)
            .env("WEIR_STATE", self.dir.path().join("state"))
            .output()
            .expect("it runs");
        (status.code().unwrap_or(-1), text(&stdout), text(&stderr))
    }

    fn good(&self, line: &str) -> String {
        let (code, out, err) = self.run(line);
        assert_eq!((code, err.as_str()), (0, ""), "{line}: {out}");
        out
    }

    /// Runs a command that must fail with this text; `DISKS` in it stands for the folder of images.
    fn bad(&self, line: &str, code: i32, err: &str) {
        let expected = format!("{}\n", err.replace("DISKS", &self.disks()));
        let (got, _, said) = self.run(line);
        assert_eq!((got, said), (code, expected), "{line}");
    }

    /// What zdb finds when it reads every block of a pool, and adds them all up.
    fn judge(&self, pool: &str) {
        if !Path::new("/usr/sbin/zdb").exists() && !Path::new("/sbin/zdb").exists() {
            println!("skipped: zdb is not installed (Debian: zfsutils-linux)");
            return;
        }
        let output = Command::new("zdb").args(["-e", "-p", &self.disks(), "-bcc", pool]).output().expect("zdb runs");
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success() && said.contains("No leaks"), "zdb -bcc {pool}: {said}");
    }
}

#[test]
fn pools_of_every_layout_are_made_and_zdb_finds_nothing_wrong() {
    for layout in
        ["a", "a b", "mirror a b", "raidz1 a b c", "raidz2 a b c d", "raidz3 a b c d e", "mirror a b mirror c d"]
    {
        let rig = Rig::new(&["a", "b", "c", "d", "e"]);
        assert_eq!(rig.good(&format!("zpool create tank {layout}")), "");
        rig.judge("tank");
        let status = rig.good("zpool status -x");
        assert_eq!(status, "all pools are healthy\n", "{layout}");
        assert!(rig.good("zpool history tank").contains(" zpool create tank "));
    }
}

#[test]
fn logs_and_special_devices_and_properties_are_made_too() {
    let rig = Rig::new(&["a", "b", "c"]);
    rig.good("zpool create -o comment=hello -o autotrim=on -o ashift=12 -O compression=zstd -O atime=off -m none tank a log b special c -f");
    rig.judge("tank");
    let get = rig.good("zpool get -H -o property,value,source comment,autotrim,ashift tank");
    assert_eq!(get, "comment\thello\tlocal\nautotrim\ton\tlocal\nashift\t12\tlocal\n");
    let get = rig.good("zfs get -H -o property,value,source compression,atime,mountpoint tank");
    assert_eq!(get, "compression\tzstd\tlocal\natime\toff\tlocal\nmountpoint\tnone\tlocal\n");
}

#[test]
fn what_cannot_become_a_pool_is_refused_in_openzfs_words() {
    let rig = Rig::new(&["a", "b", "c", "d", "e", "f", "g"]);
    rig.disk("s", 1 << 20);
    rig.good("zpool create tank a");
    let reserved = |name: &str, why: &str| format!("cannot create '{name}': {why}\npool name may have been omitted");
    rig.bad("zpool create tank c", 1, "cannot create 'tank': pool already exists");
    rig.bad(
        "zpool create other a",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\nDISKS/a is part of active pool 'tank'",
    );
    rig.bad("zpool create xx /nosuch", 1, "cannot resolve path '/nosuch'");
    rig.bad("zpool create xx s", 1, "cannot create 'xx': one or more devices is less than the minimum size (64M)");
    rig.bad(
        "zpool create xx mirror c d e mirror f g",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\nmismatched replication level: both 3-way \
         and 2-way mirror vdevs are present",
    );
    rig.bad("zpool create xx raidz2 c d", 1, "invalid vdev specification: raidz2 requires at least 3 devices");
    rig.bad("zpool create mirror c", 1, &reserved("mirror", "name is reserved"));
    rig.bad("zpool create 9bad c", 1, &reserved("9bad", "name must begin with a letter"));
    rig.bad(
        "zpool create -o ashift=99 xx c",
        1,
        "invalid 'ashift=99' property: only values between 9 and 16 are allowed.",
    );
    rig.bad("zpool create -o nosuch=1 xx c", 1, "property 'nosuch' is not a valid pool or vdev property");
    rig.bad(
        "zpool create -o feature@nosuch=enabled xx c",
        1,
        "cannot create 'xx': feature 'nosuch' unsupported by kernel",
    );
    let (code, _, err) = rig.run("zpool create -O compression=nope xx c");
    assert!(code == 1 && err.starts_with("cannot create 'xx': 'compression' must be one of 'on | off | lzjb"), "{err}");
    let shown = rig.good("zpool create -n xx mirror c d");
    let paths = (rig.path("c"), rig.path("d"));
    assert_eq!(
        shown,
        format!(
            "would create 'xx' with the following layout:\n\n\txx\n\t  mirror\n\t    {}\n\t    {}\n",
            paths.0, paths.1
        )
    );
    assert_eq!(rig.good("zpool list -H -o name"), "tank\n");
}
