//! Pools that the program creates and changes. zdb checks them where it is installed; messages
//! match OpenZFS's.

use crate::rig::{Rig, text};
use std::process::Command;

/// A rig whose command lines say `a` for the image file `a`, and `DISKS` for the directory of
/// images.
struct Disks {
    rig: Rig,
}

impl std::ops::Deref for Disks {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Disks {
    fn new(disks: &[&str]) -> Self {
        Self { rig: Rig::new(disks) }
    }

    fn disks(&self) -> String {
        self.rig.path("d")
    }

    fn path(&self, name: &str) -> String {
        self.rig.path(&format!("d/{name}"))
    }

    fn spelled(&self, line: &str) -> String {
        let word = |word: &str| match word {
            w if w.len() == 1 && w.chars().all(|c| c.is_ascii_lowercase()) => self.path(w),
            "DISKS" => self.disks(),
            w => w.to_owned(),
        };
        line.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    fn run(&self, line: &str) -> (i32, String, String) {
        self.rig.run(&self.spelled(line))
    }

    fn good(&self, line: &str) -> String {
        self.rig.good(&self.spelled(line))
    }

    /// Runs a command that must fail with this text; `DISKS` in it stands for the directory of
    /// images, too.
    fn bad(&self, line: &str, code: i32, err: &str) {
        let expected = format!("{}\n", err.replace("DISKS", &self.disks()));
        let (got, _, message) = self.run(line);
        assert_eq!((got, message), (code, expected), "{line}");
    }
}

#[test]
fn pools_of_every_layout_are_made_and_zdb_finds_nothing_wrong() {
    for layout in
        ["a", "a b", "mirror a b", "raidz1 a b c", "raidz2 a b c d", "raidz3 a b c d e", "mirror a b mirror c d"]
    {
        let rig = Disks::new(&["a", "b", "c", "d", "e"]);
        assert_eq!(rig.good(&format!("zpool create tank {layout}")), "");
        rig.judge("tank");
        let status = rig.good("zpool status -x");
        assert_eq!(status, "all pools are healthy\n", "{layout}");
        assert!(rig.good("zpool history tank").contains(" zpool create tank "));
    }
}

#[test]
fn logs_and_special_devices_and_properties_are_made_too() {
    let rig = Disks::new(&["a", "b", "c"]);
    rig.good("zpool create -o comment=hello -o autotrim=on -o ashift=12 -O compression=zstd -O atime=off -m none tank a log b special c -f");
    rig.judge("tank");
    let get = rig.good("zpool get -H -o property,value,source comment,autotrim,ashift tank");
    assert_eq!(get, "comment\thello\tlocal\nautotrim\ton\tlocal\nashift\t12\tlocal\n");
    let get = rig.good("zfs get -H -o property,value,source compression,atime,mountpoint tank");
    assert_eq!(get, "compression\tzstd\tlocal\natime\toff\tlocal\nmountpoint\tnone\tlocal\n");
}

#[test]
fn devices_of_every_kind_are_added_and_zdb_finds_nothing_wrong() {
    for (layout, added) in [
        ("mirror a b cache c", "mirror d e log f"),
        ("a spare b", "-f raidz1 c d e spare f"),
        ("a", "special b dedup c log mirror d e cache f"),
    ] {
        let rig = Disks::new(&["a", "b", "c", "d", "e", "f"]);
        rig.good(&format!("zpool create -O mountpoint=none tank {layout}"));
        rig.good("zfs create -V 8M tank/volume");
        let (options, devices) = added.strip_prefix("-f ").map_or(("", added), |rest| ("-f ", rest));
        assert_eq!(rig.good(&format!("zpool add {options}tank {devices}")), "", "{added}");
        rig.judge("tank");
        rig.good("zfs create tank/after");
        rig.judge("tank");
        assert_eq!(rig.good("zpool status -x"), "all pools are healthy\n", "{layout} {added}");
        let words = added.split(' ').filter(|w| w.len() == 1).map(|w| rig.path(w));
        let status = rig.good("zpool status -P tank");
        for path in words {
            assert!(status.contains(&path), "{path}: {status}");
        }
        assert!(rig.good("zpool history tank").contains(" zpool add "));
        rig.good("zpool export tank");
        rig.judge("tank");
        rig.good("zpool import -d DISKS tank");
        rig.good("zfs destroy tank/after");
    }
}

#[test]
fn properties_of_devices_are_set_and_errors_cleared() {
    let rig = Disks::new(&["a", "b", "c"]);
    rig.good("zpool create tank mirror a b");
    rig.good("zpool add -f tank c");
    let get =
        |names: &str, device: &str| rig.good(&format!("zpool get -H -o property,value,source {names} tank {device}"));
    rig.good("zpool set comment=left tank mirror-0");
    rig.good("zpool set checksum_n=20 tank a");
    rig.good("zpool set io_t=60 tank root");
    rig.good("zpool set org.example:shelf=7 tank a");
    rig.good("zpool set failfast=off tank a");
    assert_eq!(get("comment,io_t", "mirror-0"), "comment\tleft\tlocal\nio_t\t-\tdefault\n");
    let shown = "checksum_n\t20\tlocal\norg.example:shelf\t7\tlocal\nfailfast\toff\tlocal\nio_n\t-\tdefault\n";
    assert_eq!(get("checksum_n,org.example:shelf,failfast,io_n", "a"), shown);
    assert!(get("all", "a").ends_with("org.example:shelf\t7\tlocal\n"));
    rig.good("zpool set org.example:shelf= tank a");
    assert_eq!(get("org.example:shelf", "a"), "org.example:shelf\t-\tdefault\n");
    rig.good("zpool set checksum_n=none tank a");
    assert_eq!(get("checksum_n", "a"), "checksum_n\t-\tdefault\n");
    rig.good("zpool set allocating=off tank c");
    rig.bad(
        "zpool set allocating=off tank mirror-0",
        1,
        "cannot set property allocating for mirror-0 on tank: no other device of the pool accepts blocks",
    );
    assert_eq!(get("allocating", "c"), "allocating\toff\tlocal\n");
    rig.judge("tank");
    rig.good("zpool set allocating=on tank c");
    rig.judge("tank");
    rig.bad("zpool set comment=x tank nosuch", 22, "cannot find 'nosuch' in 'tank': device not in pool");
    rig.bad(
        "zpool set guid=1 tank a",
        1,
        &format!("cannot set property guid for {} on tank: 'guid' is readonly", rig.path("a")),
    );
    assert!(rig.good("zpool history -i tank").contains("vdev set vdev_guid="));

    rig.good("zpool clear tank");
    rig.good("zpool clear tank a");
    rig.bad("zpool clear tank nosuch", 1, "cannot clear errors for nosuch: no such device in pool");
    rig.judge("tank");
}

#[test]
fn a_temporary_name_is_not_written_to_the_pool() {
    let rig = Disks::new(&["a"]);
    rig.good("zpool create -t brief lasting a");
    assert_eq!(rig.good("zpool list -H -o name"), "brief\n");
    assert_eq!(rig.good("zfs list -H -o name"), "brief\n");
    rig.good("zfs create brief/fs");
    rig.good("zpool export brief");
    rig.judge("lasting");
    assert!(rig.good("zpool import -d DISKS").contains("pool: lasting\n"));
    rig.good("zpool import -t -d DISKS lasting again");
    rig.good("zfs create again/more");
    rig.good("zpool export again");
    rig.good("zpool import -d DISKS lasting");
    assert_eq!(rig.good("zfs list -H -o name"), "lasting\nlasting/fs\nlasting/more\n");
    let upgrade = |line: &str| rig.good(&format!("zpool upgrade {line}"));
    let already = "This system supports ZFS pool feature flags.\n\nPool 'lasting' is already formatted using more current version '5000'.\n\n";
    assert_eq!(upgrade("-V 28 lasting"), already);
    assert!(upgrade("-v").contains("\n 9   refquota and refreservation properties\n 10  Cache devices\n"));
}

#[test]
fn invalid_additions_are_refused_with_openzfs_messages() {
    let rig = Disks::new(&["a", "b", "c", "d", "e"]);
    rig.disk("s", 1 << 20);
    rig.good("zpool create tank mirror a b");
    rig.good("zpool create other c");
    rig.bad("zpool add nosuch d", 1, "cannot open 'nosuch': no such pool");
    rig.bad(
        "zpool add tank mirror c d",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\nDISKS/c is part of active pool 'other'",
    );
    rig.bad(
        "zpool add tank d",
        1,
        "invalid vdev specification\nuse '-f' to override the following errors:\nmismatched replication level: pool uses \
         mirror and new vdev is file",
    );
    rig.bad("zpool add other s", 1, "cannot add to 'other': device is less than the minimum size (64M)");
    rig.bad("zpool add tank mirror d d", 1, "cannot add to 'tank': one or more vdevs refer to the same device");
    rig.bad(
        "zpool add -o ashift=12 other d",
        1,
        "cannot add to 'other': adding devices with different physical sector sizes is not allowed",
    );
    let shown = rig.good("zpool add -n tank mirror d e");
    let expected = "would update 'tank' to the following configuration:\n\n\ttank\n\t  mirror-0\n\t    D/a\n\t    D/b\n\t  mirror\n\
                    \t    D/d\n\t    D/e\n";
    assert_eq!(shown, expected.replace('D', &rig.disks()));
    rig.good("zpool add other spare e");
    rig.bad("zpool add other spare e", 1, "cannot add to 'other': one or more vdevs refer to the same device");
    rig.good("zpool add --allow-replication-mismatch tank d");
    rig.judge("tank");
    rig.judge("other");
    let (code, _, err) = rig.run("zpool add -f --allow-in-use tank d");
    assert!(code == 2 && err.starts_with("'-f' option is not allowed with"), "{err}");
}

#[test]
fn invalid_pools_are_refused_with_openzfs_messages() {
    let rig = Disks::new(&["a", "b", "c", "d", "e", "f", "g"]);
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

#[test]
fn pools_are_exported_imported_renamed_changed_and_destroyed() {
    let rig = Disks::new(&["a", "b", "c"]);
    rig.good("zpool create tank mirror a b");
    rig.good("zpool set comment=hello tank");
    assert_eq!(rig.good("zpool get -H -o value,source comment tank"), "hello\tlocal\n");
    rig.bad("zpool set size=1 tank", 1, "cannot set property for 'tank': 'size' is readonly");
    rig.bad("zpool set autotrim=maybe tank", 1, "cannot set property for 'tank': 'autotrim' must be one of 'on | off'");
    rig.bad("zpool set bootfs=tank/none tank", 1, "cannot set property for 'tank': no such pool or dataset");
    rig.good("zpool set org.example:x=y tank");
    rig.good("zpool reguid tank");
    rig.good("zpool export tank");
    rig.good("zpool import -d DISKS tank new");
    rig.judge("new");
    let history = rig.good("zpool history new");
    for command in ["zpool create tank", "zpool set comment=hello tank", "zpool export tank", "zpool import -d"] {
        assert!(history.contains(command), "{command}: {history}");
    }
    rig.good("zpool export new");
    rig.good("zpool import -d DISKS -o readonly=on new");
    rig.bad("zpool set comment=no new", 1, "cannot set property for 'new': pool is read-only");
    rig.bad("zfs create new/ro", 1, "cannot create 'new/ro': pool is read-only");
    rig.good("zpool export new");
    rig.good("zpool import -d DISKS new");
    rig.good("zpool create -d old c");
    assert!(rig.good("zpool upgrade old").contains("Enabled the following features on 'old':\n  async_destroy\n"));
    rig.judge("old");
    rig.bad("zpool destroy nosuch", 1, "cannot open 'nosuch': no such pool");
    rig.good("zpool destroy new");
    rig.good("zpool destroy old");
    assert_eq!(rig.run("zpool import -d DISKS"), (0, String::new(), "no pools available to import\n".to_owned()));
    assert!(rig.good("zpool import -d DISKS -D").contains(" state: ONLINE (DESTROYED)\n"));
    rig.good("zpool labelclear b");
    rig.bad("zpool labelclear b", 255, "failed to clear label for DISKS/b");
}

/// The lines come from the recorded session, on pools of the same size: the numbers match
/// OpenZFS's, too.
#[test]
fn datasets_are_made_changed_and_destroyed_as_openzfs_does() {
    let rig = Disks::new(&["a", "b", "c"]);
    rig.good("zpool create tank mirror a b");
    rig.good("zpool create rz c");
    rig.good("zfs create tank/a");
    rig.bad("zfs create tank/a", 1, "cannot create 'tank/a': dataset already exists");
    rig.bad("zfs create tank/x/y", 1, "cannot create 'tank/x/y': parent does not exist");
    rig.good("zfs create -p tank/x/y");
    rig.bad("zfs create nosuch/a", 1, "cannot create 'nosuch/a': no such pool 'nosuch'");
    rig.bad(
        "zfs create tank/bad@name",
        1,
        "cannot create 'tank/bad@name': snapshot delimiter '@' is not expected here",
    );
    rig.good("zfs create tank/sp-ace");
    rig.bad("zfs create -o quota=abc tank/q", 1, "cannot create 'tank/q': bad numeric value 'abc'");
    rig.good("zfs create -o quota=10M -o com.example:k=v tank/q");
    assert_eq!(rig.good("zfs create -nv tank/n"), "would create tank/n\n");
    rig.good("zfs create -V 10M tank/vol");
    rig.good("zfs create -V 10M -s -b 16k tank/sparse");
    rig.bad("zfs create -V 10G tank/toobig", 1, "cannot create 'tank/toobig': out of space");
    rig.bad(
        "zfs create -o recordsize=1000 tank/r",
        1,
        "cannot create 'tank/r': 'recordsize' must be power of 2 from 512B to 16M",
    );
    let list = rig.good("zfs list -r tank/vol tank/sparse tank/x tank/q");
    assert_eq!(
        list,
        "NAME          USED  AVAIL  REFER  MOUNTPOINT\ntank/q         24K  9.98M    24K  /tank/q\ntank/sparse    12K  43.7M    \
         12K  -\ntank/vol       12M  55.7M    12K  -\ntank/x         48K  43.7M    24K  /tank/x\ntank/x/y       24K  43.7M    \
         24K  /tank/x/y\n"
    );
    rig.judge("tank");
    rig.good("zfs set compression=zstd-5 tank/x");
    assert_eq!(rig.good("zfs get -H -o value,source compression tank/x/y"), "zstd-5\tinherited from tank/x\n");
    rig.bad("zfs set nosuch=1 tank", 255, "cannot set property for 'tank': invalid property 'nosuch'");
    rig.bad("zfs set used=1 tank", 255, "cannot set property for 'tank': 'used' is readonly");
    rig.bad(
        "zfs set quota=1K tank/a",
        255,
        "cannot set property for 'tank/a': size is less than current used or reserved space",
    );
    rig.bad("zfs set copies=9 tank/a", 255, "cannot set property for 'tank/a': 'copies' must be one of '1 | 2 | 3'");
    rig.bad("zfs set com.example:note=two words tank", 1, "cannot open 'words': dataset does not exist");
    rig.good("zfs inherit compression tank/x");
    rig.bad(
        "zfs inherit quota tank/q",
        1,
        "'quota' property cannot be inherited\nuse 'zfs set quota=none' to clear\nuse 'zfs inherit -S quota' to revert to \
         received value",
    );
    rig.good("zfs set userquota@1000=1M tank/a");
    assert_eq!(rig.good("zfs get -H -o value,source userquota@1000 tank/a"), "1M\tlocal\n");
    rig.good("zfs rename tank/a tank/renamed");
    rig.bad("zfs rename tank/renamed rz/no", 1, "cannot rename to 'rz/no': datasets must be within same pool");
    rig.bad("zfs rename tank/renamed tank/x/y/z/deep", 1, "cannot create 'tank/x/y/z/deep': parent does not exist");
    rig.good("zfs rename -p tank/renamed tank/x/y/z/deep");
    rig.bad(
        "zfs destroy tank/x",
        1,
        "cannot destroy 'tank/x': filesystem has children\nuse '-r' to destroy the following datasets:\ntank/x/y/z/deep\n\
         tank/x/y/z\ntank/x/y",
    );
    rig.good("zfs destroy -r tank/x");
    rig.good("zfs destroy tank/vol");
    rig.judge("tank");
}

/// Before, snapshots were refused, and `-r` did not affect those below.
#[test]
fn user_properties_of_snapshots_are_set_inherited_and_cleared() {
    let rig = Disks::new(&["a"]);
    rig.good("zpool create -O mountpoint=none tank a");
    rig.good("zfs create tank/fs");
    rig.good("zfs create -V 8M tank/fs/volume");
    rig.good("zfs snapshot -r tank@s");
    let get = |of: &str| rig.good(&format!("zfs get -H -o name,value,source u:p {of}"));
    rig.good("zfs set u:p=above tank");
    rig.good("zfs set u:p=head tank/fs");
    rig.good("zfs set u:p=own tank/fs@s tank/fs/volume@s");
    assert_eq!(get("tank/fs@s"), "tank/fs@s\town\tlocal\n");
    rig.good("zfs inherit u:p tank/fs@s");
    assert_eq!(get("tank/fs@s"), "tank/fs@s\thead\tinherited from tank/fs\n");
    let inherited = rig.good("zfs get -H -r -t snapshot -s inherited -o name,value u:p tank");
    assert_eq!(inherited, "tank@s\tabove\ntank/fs@s\thead\n");
    assert_eq!(rig.good("zfs get -H -r -s local -o name u:p tank"), "tank\ntank/fs\ntank/fs/volume@s\n");
    rig.good("zfs inherit -r u:p tank/fs");
    assert_eq!(get("tank/fs/volume@s"), "tank/fs/volume@s\tabove\tinherited from tank\n");
    // Nothing is there to be removed any more.
    rig.good("zfs inherit u:p tank@s tank/fs@s");
    rig.good("zfs inherit -S u:p tank@s");
    rig.bad(
        "zfs set compression=lz4 tank@s",
        255,
        "cannot set property for 'tank@s': this property can not be modified for snapshots",
    );
    let refused = "property doesn't apply to datasets of this type";
    rig.bad("zfs inherit compression tank@s", 1, &format!("cannot inherit compression for 'tank@s': {refused}"));
    rig.bad(
        "zfs inherit recsize tank/fs/volume",
        1,
        &format!("cannot inherit recsize for 'tank/fs/volume': {refused}"),
    );
    rig.good("zfs inherit exec tank@s");
    rig.good("zfs set recordsize=16K tank/fs");
    // Of several, those that can are changed.
    let (code, _, message) = rig.run("zfs inherit recordsize tank/fs/volume tank/fs tank@s");
    assert_eq!((code, message.lines().count()), (1, 2), "{message}");
    assert_eq!(rig.good("zfs get -H -o source recordsize tank/fs"), "default\n");
    rig.good("zfs set recordsize=16K tank/fs");
    rig.good("zfs inherit -r recordsize tank");
    assert_eq!(rig.good("zfs get -H -o source recordsize tank/fs"), "default\n");
    rig.good("zfs bookmark tank@s tank#b");
    rig.bad("zfs inherit u:p tank#b", 1, "cannot open 'tank#b': bookmark delimiter '#' is not expected here");
    rig.bad("zfs inherit u:p tank@no", 1, "cannot open 'tank@no': dataset does not exist");
    rig.bad("zfs inherit -S version tank", 1, "'version' property cannot be reverted to a received value");
    rig.judge("tank");
}

/// Before, only `get` knew them; `inherit` accepted them, and changed nothing.
#[test]
fn short_names_of_properties_are_taken_wherever_one_is_set_and_kept_in_full() {
    let rig = Disks::new(&["a"]);
    rig.good("zpool create -o expand=on -O compress=zstd -O mountpoint=none tank a");
    let pool = |names: &str| rig.good(&format!("zpool get -H -o property,value,source {names} tank"));
    assert_eq!(pool("autoexpand,cap,size").lines().next(), Some("autoexpand\ton\tlocal"));
    rig.good("zpool set replace=on tank");
    assert_eq!(pool("replace"), "autoreplace\ton\tlocal\n");
    rig.bad("zpool set frag=1 tank", 1, "cannot set property for 'tank': 'frag' is readonly");

    let get = |names: &str, of: &str| rig.good(&format!("zfs get -H -o property,value,source {names} {of}"));
    assert_eq!(get("compress", "tank"), "compression\tzstd\tlocal\n");
    rig.good("zfs create -o compress=lz4 -o recsize=16K -o rdonly=off -o dnsize=auto -o reserv=1M tank/fs");
    assert_eq!(
        get("compression,recordsize,readonly,dnodesize,reservation", "tank/fs"),
        "compression\tlz4\tlocal\nrecordsize\t16K\tlocal\nreadonly\toff\tlocal\ndnodesize\tauto\tlocal\n\
         reservation\t1M\tlocal\n"
    );
    rig.good("zfs create -o volblock=8K -o refreserv=none -V 8M tank/volume");
    assert_eq!(get("volblocksize,refreservation", "tank/volume"), "volblocksize\t8K\t-\nrefreservation\tnone\tlocal\n");
    rig.good("zfs set compress=gzip refreserv=2M tank/fs");
    assert_eq!(get("compression,refreservation", "tank/fs"), "compression\tgzip\tlocal\nrefreservation\t2M\tlocal\n");
    rig.good("zfs inherit compress tank/fs");
    assert_eq!(get("compress", "tank/fs"), "compression\tzstd\tinherited from tank\n");
    rig.good("zfs snapshot tank/fs@s");
    rig.good("zfs clone -o compress=lzjb tank/fs@s tank/clone");
    assert_eq!(get("compression", "tank/clone"), "compression\tlzjb\tlocal\n");
    rig.bad("zfs set refer=1 tank/fs", 255, "cannot set property for 'tank/fs': 'refer' is readonly");
    rig.bad("zfs set COMPRESS=lz4 tank/fs", 255, "cannot set property for 'tank/fs': invalid property 'COMPRESS'");
    assert_eq!(rig.run("zfs get COMPRESS tank/fs").0, 2);
    rig.judge("tank");
    rig.good("zpool export tank");
    rig.good("zpool import -N -o rdonly=on -d DISKS tank");
    assert_eq!(pool("rdonly"), "readonly\ton\t-\n");
}

#[test]
fn encrypted_datasets_are_made_with_their_key_which_can_be_changed() {
    let rig = Disks::new(&["a"]);
    let key = |name: &str, text: &str| {
        let path = rig.folder().join(name);
        std::fs::write(&path, text).expect("written");
        format!("file://{}", path.display())
    };
    let (first, second) = (key("k1", "password1\n"), key("k2", "password2\n"));
    rig.good("zpool create tank a");
    rig.good(&format!("zfs create -o encryption=on -o keyformat=passphrase -o keylocation={first} tank/enc"));
    rig.bad(
        "zfs create -o encryption=on tank/enc2",
        1,
        "cannot create 'tank/enc2': Keyformat required for new encryption root.",
    );
    rig.good("zfs create tank/enc/sub");
    let status = "aes-256-gcm\ntank/enc\navailable\n";
    assert_eq!(rig.good("zfs get -H -o value encryption,encryptionroot,keystatus tank/enc/sub"), status);
    rig.good("zfs unload-key tank/enc");
    rig.bad("zfs create tank/enc/no", 1, "cannot create 'tank/enc/no': encryption key not loaded");
    rig.bad("zfs mount tank/enc", 1, "cannot mount 'tank/enc': encryption key not loaded");
    rig.good("zfs load-key tank/enc");
    rig.good(&format!("zfs change-key -o keylocation={second} tank/enc"));
    rig.good("zfs unload-key tank/enc");
    rig.bad(
        &format!("zfs load-key -L {first} tank/enc"),
        255,
        "Key load error: Incorrect key provided for 'tank/enc'.",
    );
    rig.good("zfs load-key tank/enc");

    // A dataset that inherits its key becomes an encryption root. Its format is not taken from the
    // inherited key.
    let sub = || rig.good("zfs get -H -o value encryptionroot,keylocation tank/enc/sub");
    let needed = "Key change error: Keyformat required for new encryption root.";
    rig.bad("zfs change-key tank/enc/sub", 255, needed);
    rig.bad(&format!("zfs change-key -o keylocation={first} tank/enc/sub"), 255, needed);
    let not_root = "Key change error: Key inheritting can only be performed on encryption roots.";
    rig.bad("zfs change-key -i tank/enc/sub", 255, not_root);
    assert_eq!(sub(), "tank/enc\nnone\n");
    rig.good(&format!("zfs change-key -o keyformat=passphrase -o keylocation={first} -o my:key=own tank/enc/sub"));
    assert_eq!(sub(), format!("tank/enc/sub\n{first}\n"));
    assert_eq!(rig.good("zfs get -H -o value my:key tank/enc/sub"), "own\n");
    rig.good("zfs unload-key tank/enc/sub");
    rig.bad("zfs change-key -i tank/enc/sub", 255, "Key change error: Key must be loaded.");
    rig.good("zfs load-key tank/enc/sub");
    let user_only = "Key change error: Only user properties may be set with 'zfs change-key -i'";
    rig.bad("zfs change-key -i -o keyformat=raw tank/enc/sub", 255, user_only);
    rig.good("zfs change-key -i tank/enc/sub");
    assert_eq!(sub(), "tank/enc\nnone\n");
    rig.bad("zfs change-key -i tank/enc", 255, "Key change error: Parent must be encrypted.");
    rig.bad("zfs change-key tank", 255, "Key change error: Dataset not encrypted.");
    rig.good("zfs snapshot tank/enc@s");
    rig.good("zfs clone tank/enc@s tank/enc/clone");
    let clone = "Key change error: Keys cannot be changed on clones.";
    rig.bad("zfs change-key -o keyformat=passphrase tank/enc/clone", 255, clone);
    rig.bad(
        "zfs change-key -o compression=lz4 tank/enc",
        255,
        "Key change error: Only keyformat, keylocation, pbkdf2iters, and user properties may be set with this command.",
    );
    rig.judge("tank");
}

/// The part of a recorded session of OpenZFS 2.3.2 that is about snapshots, with an additional pool
/// and without files.
#[test]
fn snapshots_and_clones_are_created_and_destroyed_like_in_openzfs() {
    let rig = Disks::new(&["a", "b"]);
    rig.good("zpool create -O mountpoint=none tank a");
    rig.good("zpool create -O mountpoint=none rz b");
    for name in ["a", "q", "x", "x/y"] {
        rig.good(&format!("zfs create tank/{name}"));
    }
    rig.good("zfs create -V 8M -s tank/vol");
    assert_eq!(rig.good("zfs snapshot -o com.example:why=first tank/a@s1"), "");
    assert_eq!(rig.good("zfs get -H -o value,source com.example:why tank/a@s1"), "first\tlocal\n");
    rig.bad("zfs snapshot tank/a@s1", 1, "cannot create snapshot 'tank/a@s1': dataset already exists");
    rig.good("zfs snapshot tank/a@s2 tank/q@s2");
    rig.good("zfs snap -r tank@all");
    assert_eq!(rig.run("zfs snapshot tank/a").0, 2);
    let (code, _, err) = rig.run("zfs snapshot tank/nosuch@x");
    assert!(code == 2 && err.starts_with("cannot open 'tank/nosuch': dataset does not exist\nusage:"), "{err}");
    rig.bad(
        "zfs snapshot tank/a@t tank/a@u",
        1,
        "cannot create snapshots : multiple snapshots of same fs not allowed\nno snapshots were created",
    );
    rig.bad(
        "zfs snapshot tank/a@t tank/q@s2",
        1,
        "cannot create snapshot 'tank/q@s2': dataset already exists\nno snapshots were created",
    );
    rig.bad("zfs snapshot tank/a@b%d", 1, "cannot create snapshot 'tank/a@b%d': invalid character '%' in name");
    let names =
        "tank@all\ntank/a@s1\ntank/a@s2\ntank/a@all\ntank/q@s2\ntank/q@all\ntank/vol@all\ntank/x@all\ntank/x/y@all\n";
    assert_eq!(rig.good("zfs list -H -o name -t snapshot"), names);
    rig.judge("tank");

    rig.good("zfs clone tank/a@s1 tank/cl");
    rig.bad("zfs clone tank/a@nosuch tank/c2", 1, "cannot open 'tank/a@nosuch': dataset does not exist");
    rig.bad("zfs clone tank/a@s1 rz/c2", 1, "cannot create 'rz/c2': source and target pools differ");
    rig.bad("zfs clone tank/a@s1 tank/no/c2", 1, "cannot create 'tank/no/c2': parent does not exist");
    rig.good("zfs clone -p -o compression=off tank/vol@all tank/deep/er/vol");
    assert_eq!(rig.good("zfs get -H -o value origin,volsize tank/deep/er/vol"), "tank/vol@all\n8M\n");
    rig.bad(
        "zfs destroy tank/a@s1",
        1,
        "cannot destroy 'tank/a@s1': snapshot has dependent clones\nuse '-R' to destroy the following datasets:\ntank/cl",
    );
    assert_eq!(rig.good("zfs destroy -nvR tank/a@s1"), "would destroy tank/a@s1\nwould reclaim 0B\n");
    rig.bad(
        "zfs destroy tank/a",
        1,
        "cannot destroy 'tank/a': filesystem has children\nuse '-r' to destroy the following datasets:\ntank/a@s1\ntank/a@s2\n\
         tank/a@all",
    );
    rig.bad(
        "zfs destroy -nvr tank/a",
        1,
        "cannot destroy 'tank/a': filesystem has dependent clones\nuse '-R' to destroy the following datasets:\ntank/cl",
    );
    rig.good("zfs promote tank/cl");
    rig.bad("zfs promote tank/cl", 1, "cannot promote 'tank/cl': not a cloned filesystem");
    assert_eq!(rig.good("zfs get -H -o value origin tank/a tank/cl"), "tank/cl@s1\n-\n");
    rig.good("zfs promote tank/a");
    rig.bad(
        "zfs rollback tank/a@s1",
        1,
        "cannot rollback to 'tank/a@s1': more recent snapshots or bookmarks exist\nuse '-r' to force deletion of the \
         following snapshots and bookmarks:\ntank/a@s2\ntank/a@all",
    );
    rig.good("zfs rollback -r tank/a@s1");
    rig.bad("zfs rename tank/a@all tank/a@whole", 1, "cannot open 'tank/a@all': dataset does not exist");
    rig.bad(
        "zfs rename tank/q@all tank/a@all",
        1,
        "cannot rename to 'tank/a@all': snapshots must be part of same dataset",
    );
    rig.good("zfs rename tank/q@all first");
    rig.bad("zfs rename tank/q@first @s2", 1, "cannot rename 'tank/q@first': dataset already exists");
    rig.good("zfs snapshot tank/x@s2");
    rig.bad(
        "zfs rename -r tank@all tank@s2",
        1,
        "cannot rename 'tank@all': a child dataset already has a snapshot with the new name",
    );
    rig.good("zfs destroy tank/x@s2");
    rig.judge("tank");

    rig.bad(
        "zfs destroy tank/x",
        1,
        "cannot destroy 'tank/x': filesystem has children\nuse '-r' to destroy the following datasets:\ntank/x/y@all\n\
         tank/x/y\ntank/x@all",
    );
    rig.good("zfs destroy -r tank/x");
    rig.good("zfs hold keep tank/q@s2");
    rig.bad("zfs hold keep tank/q@s2", 1, "cannot hold snapshot 'tank/q@s2': tag already exists on this dataset");
    rig.bad("zfs hold keep tank/q@no", 1, "cannot hold snapshot 'tank/q@no': dataset does not exist");
    let holds = rig.good("zfs holds -H tank/q@s2");
    assert!(holds.starts_with("tank/q@s2\tkeep\t"), "{holds}");
    rig.bad(
        "zfs destroy tank/q@s2",
        1,
        "cannot destroy snapshot tank/q@s2: it's being held. Run 'zfs holds -r tank/q@s2' to see holders.",
    );
    rig.good("zfs destroy -d tank/q@s2");
    rig.bad(
        "zfs release nokeep tank/q@s2",
        1,
        "cannot release hold from snapshot 'tank/q@s2': no such tag on this dataset",
    );
    rig.good("zfs release keep tank/q@s2");
    rig.good("zfs bookmark tank/a@s1 #b1");
    rig.bad("zfs bookmark tank/a@s1 tank/a#b1", 1, "cannot create bookmark 'tank/a#b1': bookmark exists");
    rig.bad(
        "zfs bookmark tank/a@s1 tank/q#b1",
        1,
        "cannot create bookmark 'tank/q#b1': source is not an ancestor of the new bookmark's dataset",
    );
    rig.good("zfs bookmark tank/a#b1 tank/a#b2");
    assert_eq!(rig.run("zfs bookmark tank/a@s1").0, 2);
    assert_eq!(rig.good("zfs list -H -o name -t bookmark"), "tank/a#b1\ntank/a#b2\n");
    rig.good("zfs destroy tank/a#b1");
    rig.bad("zfs destroy tank/a#b1", 1, "bookmark 'tank/a#b1' does not exist.");
    for n in 1..=5 {
        rig.good(&format!("zfs snapshot tank/q@r{n}"));
    }
    let would = "would destroy tank/q@r2\nwould destroy tank/q@r3\nwould destroy tank/q@r4\nwould reclaim 0B\n";
    assert_eq!(rig.good("zfs destroy -nv tank/q@r2%r4"), would);
    rig.good("zfs destroy tank/q@r2%r4");
    assert_eq!(rig.good("zfs list -H -t snapshot -o name tank/q"), "tank/q@first\ntank/q@r1\ntank/q@r5\n");
    rig.bad("zfs destroy tank/q@no", 1, "could not find any snapshots to destroy; check snapshot names.");
    assert_eq!(rig.good("zfs destroy -p tank/q@%r1,no"), "destroy\ttank/q@first\ndestroy\ttank/q@r1\nreclaim\t0\n");
    rig.good("zfs destroy -R tank/a");
    assert!(rig.run("zfs list tank/cl").0 == 1);
    rig.judge("tank");
    let history = rig.good("zpool history tank");
    assert!(history.contains(" zfs snap -r tank@all") || history.contains(" zfs snapshot -r tank@all"), "{history}");
}

#[test]
fn a_mounted_pool_is_written_and_commands_reach_it_meanwhile() {
    let rig = Disks::new(&["a", "b"]);
    let place = rig.folder().join("mnt");
    std::fs::create_dir(&place).expect("a folder");
    rig.good("zpool create tank mirror a b");
    rig.good("zfs create -o compression=lz4 tank/sub");
    let (code, _, err) = rig.run(&format!("mount tank {}", place.display()));
    if code != 0 {
        println!("skipped: this machine cannot mount FUSE: {err}");
        return;
    }
    std::fs::write(place.join("file"), vec![7; 3 << 20]).expect("written");
    std::fs::write(place.join("sub/other"), "text").expect("written");
    rig.good("zfs create tank/beside");
    rig.good("zfs set compression=zstd tank/sub");
    // A snapshot holds what was just written, appears at once, and disappears at once.
    rig.good("zfs snapshot -r tank@now");
    std::fs::write(place.join("sub/other"), "changed").expect("written");
    let shown = |place: &std::path::Path| {
        let all = std::fs::read_dir(place).expect("a folder").map(|e| e.expect("an entry").file_name());
        all.map(|n| n.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&place.join(".zfs/snapshot")), ["now"]);
    assert_eq!(std::fs::read_to_string(place.join("sub/.zfs/snapshot/now/other")).expect("read"), "text");
    rig.good("zfs rename -r tank@now tank@then");
    assert_eq!(shown(&place.join("sub/.zfs/snapshot")), ["then"]);
    assert_eq!(std::fs::read_to_string(place.join("sub/.zfs/snapshot/then/other")).expect("read"), "text");
    rig.good("zfs destroy -r tank@then");
    assert_eq!(shown(&place.join("sub/.zfs/snapshot")), [""; 0]);
    let gone = std::fs::read_to_string(place.join("sub/.zfs/snapshot/then/other"));
    assert_eq!(gone.expect_err("it was read a moment ago").kind(), std::io::ErrorKind::NotFound);
    std::fs::write(place.join("sub/other"), "text").expect("written");
    rig.good("zpool sync tank");
    rig.good("zpool clear tank");
    assert_eq!(rig.good("zfs get -H -o value compression tank/sub"), "zstd\n");
    rig.bad("zfs destroy tank/sub", 1, &format!("cannot unmount '{}': pool or dataset is busy", place.display()));
    // A command with another state directory names the process that has the pool.
    let other = tempfile::tempdir().expect("a folder");
    let disks = rig.disks();
    let import = ["zpool", "import", "-f", "-d", disks.as_str(), "tank"];
    let out = Command::new(env!("CARGO_BIN_EXE_weir")).args(import).env("WEIR_STATE", other.path()).output();
    let err = text(&out.expect("it runs").stderr);
    assert!(err.starts_with("cannot import 'tank': pool is in use by another process"), "{err}");
    assert!(rig.run("inspect txgs tank").1.contains("waiting_bytes"));
    rig.good(&format!("umount {}", place.display()));
    rig.judge("tank");
    assert_eq!(rig.good("cat tank/sub:/other"), "text");
    // Exporting unmounts. What the command prints besides depends on the kernel.
    let (code, _, err) = rig.run(&format!("mount tank {}", place.display()));
    assert_eq!(code, 0, "{err}");
    assert_eq!(std::fs::read(place.join("file")).expect("read"), vec![7; 3 << 20]);
    rig.good("zpool export tank");
    assert!(std::fs::read_dir(&place).expect("a folder").next().is_none());
    rig.good("zpool import -d DISKS tank");
    assert_eq!(rig.good("cat tank/sub:/other"), "text");
}

/// Regression: the search for dependents of such a dataset returned to it without end, and the
/// server's stack overflowed.
#[test]
fn a_dataset_that_is_a_clone_of_one_below_it_is_not_destroyed_until_it_is_promoted() {
    let rig = Disks::new(&["a"]);
    rig.good("zpool create tank a");
    rig.good("zfs create tank/fs");
    rig.good("zfs snapshot tank/fs@snap");
    rig.good("zfs clone tank/fs@snap tank/fs/clone");
    rig.good("zfs promote tank/fs/clone");
    rig.bad(
        "zfs destroy tank/fs",
        1,
        "cannot destroy 'tank/fs': filesystem has children\nuse '-r' to destroy the following datasets:\n\
         tank/fs/clone@snap\ntank/fs/clone",
    );
    let circle = "cannot determine dependent datasets: recursive dependency at 'tank/fs'";
    for line in ["destroy -r tank/fs", "destroy -R tank/fs", "destroy -r tank", "destroy -R tank/fs/clone@snap"] {
        rig.bad(&format!("zfs {line}"), 1, circle);
    }
    assert_eq!(rig.good("zfs get -H -o value origin tank/fs tank/fs/clone"), "tank/fs/clone@snap\n-\n");
    rig.good("zfs promote tank/fs");
    rig.good("zfs destroy -r tank/fs");
    assert_eq!(rig.good("zfs list -H -o name"), "tank\n");
}

/// Regression: umount(8) returns before the serving process has closed the pool, and the next mount
/// failed because the pool was in use.
/// Without a server, a pool whose root has no mount point was an error.
#[test]
fn mount_all_skips_datasets_that_are_not_mounted_automatically() {
    let rig = Disks::new(&["a"]);
    rig.good("zpool create -m none tank a");
    rig.good("zfs mount -a");
    for property in ["mountpoint=legacy", "canmount=off mountpoint=/nowhere", "canmount=noauto"] {
        rig.good(&format!("zfs set {property} tank"));
        rig.good("zfs mount -a");
    }
    assert!(!std::path::Path::new("/nowhere").exists());
}

#[test]
fn an_unmounted_dataset_can_be_mounted_again_immediately() {
    let rig = Disks::new(&["a"]);
    let place = rig.folder().join("mnt");
    std::fs::create_dir(&place).expect("a folder");
    rig.good("zpool create tank a");
    let mount = format!("mount tank {}", place.display());
    for round in 0..4u8 {
        let (code, _, err) = rig.run(&mount);
        if code != 0 && round == 0 {
            println!("skipped: this machine cannot mount FUSE: {err}");
            return;
        }
        assert_eq!(code, 0, "{err}");
        std::fs::write(place.join("file"), vec![round; 8 << 20]).expect("written");
        let status = Command::new("umount").arg(&place).status().expect("umount runs");
        if !status.success() {
            println!("skipped: umount is for root");
            rig.good(&format!("umount {}", place.display()));
            return;
        }
    }
    assert_eq!(rig.run(&mount).0, 0);
    assert_eq!(std::fs::read(place.join("file")).expect("read"), vec![3; 8 << 20]);
    rig.good(&format!("umount {}", place.display()));
}
