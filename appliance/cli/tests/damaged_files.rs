//! The error log: damaged files are named in every file system, snapshot and clone that has the
//! damaged block, and forgotten once the block is right or gone everywhere.
//!
//! Blocks are made unreadable by injection (`weir inject`), which scrubs must meet as reads do.

use crate::rig::Rig;

const NONE: &str = "errors: No known data errors\n";

impl Rig {
    /// Reads a file of the mounted pool.
    fn read(&self, file: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.path(file))
    }

    /// Fails the reads of a file until rules are removed, and reads it.
    fn damage(&self, file: &str) {
        self.good(&format!("inject -a -t data -e checksum tank:/{file}"));
        assert!(self.read(&format!("tank/{file}")).is_err(), "neither this process's cache nor the kernel's has it");
        self.good("zpool sync tank");
    }

    fn damaged_names(&self) -> Vec<String> {
        let status = self.good("zpool status -v tank");
        let listed = status.lines().filter_map(|line| line.strip_prefix("        "));
        let dir = self.folder().display().to_string();
        listed.map(|name| name.replace(&dir, "DIR")).collect()
    }

    /// A pool with a file, a snapshot and a clone of it.
    fn with_clone(options: &str) -> Option<Self> {
        let rig = Self::mounted()?;
        rig.good("zpool destroy tank");
        rig.good(&format!("zpool create {options} -m DIR/tank tank DIR/d/a"));
        std::fs::write(rig.path("tank/f"), vec![7; 300_000]).expect("written");
        rig.good("zfs snapshot tank@s");
        rig.good("zfs clone tank@s tank/c");
        Some(rig)
    }
}

#[test]
fn damage_is_named_in_snapshots_and_clones_until_it_is_gone() {
    let Some(rig) = Rig::with_clone("-o feature@head_errlog=enabled") else { return };
    rig.damage("f");
    let all = ["DIR/tank/f", "tank@s:/f", "DIR/tank/c/f"];
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let expected = |names: &[&str]| sorted(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(sorted(rig.damaged_names()), expected(&all));
    // A scrub of the log meets the injected error, too.
    rig.good("zpool scrub -e -w tank");
    assert_eq!(sorted(rig.damaged_names()), expected(&all));
    std::fs::remove_file(rig.path("tank/f")).expect("removed");
    rig.good("zfs snapshot tank/c@t");
    assert_eq!(sorted(rig.damaged_names()), expected(&["tank@s:/f", "DIR/tank/c/f", "tank/c@t:/f"]));
    rig.good("zfs promote tank/c");
    assert_eq!(sorted(rig.damaged_names()), expected(&["tank/c@s:/f", "DIR/tank/c/f", "tank/c@t:/f"]));
    // The dataset in which it was found goes, the damage stays.
    rig.good("inject -c all");
    std::fs::remove_file(rig.path("tank/c/f")).expect("removed");
    rig.good("zfs destroy tank/c@t");
    assert_eq!(sorted(rig.damaged_names()), expected(&["tank/c@s:/f"]));
    // Nothing has it any more: the entry is removed when it is looked up.
    rig.good("zfs snapshot tank/c@u");
    rig.good("zfs promote tank");
    rig.good("zfs destroy -r tank/c");
    rig.good("zfs destroy tank@s");
    assert_eq!(rig.damaged_names(), Vec::<String>::new());
    rig.good("zpool sync tank");
    assert!(rig.good("zpool status -v tank").contains(NONE));
}

#[test]
fn a_scrub_of_the_log_forgets_what_can_be_read_again() {
    let Some(rig) = Rig::with_clone("-o feature@head_errlog=enabled") else { return };
    rig.damage("f");
    rig.good("inject -c all");
    rig.good("zpool scrub -e -w tank");
    assert!(rig.good("zpool status -v tank").contains(NONE));
    assert!(rig.read("tank/f").is_ok());
}

#[test]
fn an_old_log_gets_the_new_form_when_the_feature_is_enabled() {
    let Some(rig) = Rig::with_clone("-o feature@head_errlog=disabled") else { return };
    rig.damage("f");
    assert_eq!(rig.damaged_names(), ["DIR/tank/f"]);
    rig.good("zpool set feature@head_errlog=enabled tank");
    assert_eq!(rig.damaged_names().len(), 3, "{:?}", rig.damaged_names());
    rig.good("inject -c all");
    rig.good("zpool scrub -w tank");
    assert!(rig.good("zpool status -v tank").contains(NONE));
    rig.good("zpool export tank");
    rig.judge("tank");
}

#[test]
fn a_block_with_one_good_copy_is_read() {
    let Some(rig) = Rig::mounted() else { return };
    rig.good("zfs create -o copies=3 tank/m");
    std::fs::write(rig.path("tank/m/f"), vec![7; 300_000]).expect("written");
    rig.good("inject -a -t data -C 0,1 -e io tank/m:/f");
    rig.good("zpool scrub -w tank");
    let status = rig.good("zpool status tank");
    assert!(status.contains("with 0 errors") && status.contains(NONE), "{status}");
    assert!(rig.read("tank/m/f").is_ok());
    rig.good("inject -a -t data -C 2 -e io tank/m:/f");
    assert!(rig.read("tank/m/f").is_err());
    assert!(rig.good("inject").contains(" 0,1 "));
    rig.good("inject -c all");
    rig.good("inject -a");
    assert!(rig.read("tank/m/f").is_ok());
}
