//! Environments on a pool in image files, and what a machine would mount.

use super::*;
use crate::create::{CreateRequest, create};
use crate::layout::Layout;
use crate::write::{WritablePool, maker};
use dataset::write::{self, NewDataset};

struct Machine {
    pool: WritablePool,
    _folder: tempfile::TempDir,
}

const ROOT: &str = "rpool/ROOT/debian";

impl Machine {
    /// A pool as installers create it: a root with `/var` and a file system that is not mounted,
    /// and homes that all environments share.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = folder.path().join("disk");
        std::fs::File::create(&disk).and_then(|f| f.set_len(256 << 20)).expect("an image file");
        let layout = Layout::parse(&[disk.display().to_string()]).expect("a layout");
        let request = CreateRequest { name: "rpool".to_owned(), layout, ..CreateRequest::default() };
        let this = Self { pool: create(&request).expect("a pool"), _folder: folder };
        this.make("rpool/ROOT", &[("mountpoint", "none"), ("canmount", "off")]);
        this.make(ROOT, &[("mountpoint", "/"), ("canmount", "noauto"), ("compression", "gzip-9"), (UUID, "one")]);
        this.make("rpool/ROOT/debian/var", &[]);
        this.make("rpool/ROOT/debian/usr", &[("canmount", "off")]);
        this.make("rpool/home", &[("mountpoint", "/home")]);
        activate(&this.pool, "debian", None).expect("activated");
        this
    }

    fn make(&self, name: &str, properties: &[(&str, &str)]) {
        let properties = properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let new = NewDataset { name: name.to_owned(), properties, ..NewDataset::default() };
        write::create(&self.pool.live, &new, maker()).unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    fn all(&self) -> Vec<Environment> {
        find(&self.pool.live.synced().expect("datasets"), None).expect("environments")
    }

    fn one(&self, name: &str) -> Environment {
        self.all().into_iter().find(|e| e.name == name).unwrap_or_else(|| panic!("no environment {name}"))
    }

    fn copy(&self, from: &str, name: &str) {
        let source = self.one(from);
        let short = snapshot_name(&self.all());
        snapshot(&self.pool, &source, &short).expect("a snapshot");
        let new = NewEnvironment { name, snapshot: &short, uuid: "two", ..NewEnvironment::default() };
        clone_into(&self.pool, &self.one(from), &new).expect("a clone");
    }

    fn is(&self, dataset: &str, name: &str) -> String {
        property(&self.pool.live.synced().expect("datasets"), dataset, name).expect(dataset).unwrap_or_default()
    }

    /// What a machine mounts automatically, and the environment that it boots.
    fn mounted(&self) -> Vec<String> {
        let datasets = self.pool.live.synced().expect("datasets");
        let mut places = Vec::new();
        for entry in datasets.list(&["rpool"], &ListOptions::heads()).expect("a list").entries {
            let name = entry.name();
            let boots = self.all().iter().any(|e| e.on_boot && e.root() == name);
            if (self.is(name, "canmount") == "on" || boots) && self.is(name, "mountpoint").starts_with('/') {
                places.push(format!("{name} {}", self.is(name, "mountpoint")));
            }
        }
        places
    }

    fn files(&self, dataset: &str) -> files::Folder {
        files::Folder::open(&self.pool, dataset).expect("opened").expect("it needs no key")
    }

    fn write(&self, dataset: &str, path: &str, text: &str) {
        self.files(dataset).replace(path, text).expect("written");
    }

    fn read(&self, dataset: &str, path: &str) -> Option<String> {
        self.files(dataset).read(path).expect("read")
    }
}

#[test]
fn one_environment_is_mounted_after_creating_and_activating_others() {
    let m = Machine::new();
    let of = |name: &str| {
        let mut all =
            vec!["rpool /rpool".to_owned(), format!("rpool/ROOT/{name} /"), format!("rpool/ROOT/{name}/var /var")];
        all.push("rpool/home /home".to_owned());
        all
    };
    assert_eq!(m.mounted(), of("debian"));
    m.copy("debian", "next");
    assert_eq!(m.mounted(), of("debian"), "the new one is not mounted");
    assert_eq!(m.one("next").parts.len(), 3);
    assert_eq!(m.is("rpool/ROOT/next", UUID), "two", "it differs from the other one");
    assert_eq!(m.is("rpool/ROOT/next", "compression"), "gzip-9", "local properties are copied");
    activate(&m.pool, "next", None).expect("activated");
    assert_eq!(m.mounted(), of("next"));
    let next = m.one("next");
    assert!(next.on_boot && next.parts.iter().all(|p| p.origin.is_none()), "it has no origin: {next:?}");
    activate(&m.pool, "debian", None).expect("activated");
    assert_eq!(m.mounted(), of("debian"));
    m.copy("next", "third");
    activate(&m.pool, "third", None).expect("activated");
    assert_eq!(m.mounted(), of("third"));
}

#[test]
fn clones_take_over_the_snapshots_they_depend_on() {
    let m = Machine::new();
    for name in ["a", "b"] {
        m.copy("debian", name);
    }
    activate(&m.pool, "b", None).expect("activated");
    let debian = m.one("debian");
    assert_eq!(named_snapshot(&m.pool, &debian).expect("known"), None);
    promote_dependents(&m.pool, &debian).expect("promoted");
    let debian = m.one("debian");
    for part in debian.parts.iter().rev() {
        assert_eq!(part.snapshots, [], "{}", part.name);
        write::destroy(&m.pool.live, &part.name).expect("destroyed");
    }
    forget_origins(&m.pool, &debian, false).expect("forgotten");
    assert_eq!(m.all().iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    // The clone of `b` is the last that depends on it.
    let a = m.one("a");
    for part in a.parts.iter().rev() {
        write::destroy(&m.pool.live, &part.name).expect("destroyed");
    }
    let gone = forget_origins(&m.pool, &a, false).expect("forgotten");
    assert_eq!(gone.len(), 3, "{gone:?}");
}

#[test]
fn a_snapshot_of_a_part_is_none_of_the_environment() {
    let m = Machine::new();
    write::snapshot(&m.pool.live, &["rpool/ROOT/debian@alone".to_owned()], &[]).expect("a snapshot");
    let debian = m.one("debian");
    assert_eq!(debian.without("alone").len(), 2);
    assert_eq!(debian.without("none").len(), 3);
    assert_eq!(named_snapshot(&m.pool, &debian).expect("known").as_deref(), Some("rpool/ROOT/debian@alone"));
    let new = NewEnvironment { name: "x", snapshot: "alone", ..NewEnvironment::default() };
    let error = clone_into(&m.pool, &debian, &new).expect_err("it must not be created").to_string();
    assert!(error.contains("not a snapshot of the whole environment"), "{error}");
    assert_eq!(m.all().len(), 1, "nothing is left of it");
}

#[test]
fn menus_follow_where_there_are_menus() {
    let m = Machine::new();
    let made = MenuChange::Made { root: "rpool/ROOT/next".into(), like: ROOT.into(), title: "next".into() };
    assert_eq!(refresh_menus(&m.pool, "rpool", &made).expect("looked").changed, Vec::<String>::new());
    assert_eq!(m.read("rpool", "boot"), None, "nothing is put where no menu was");
    m.write(ROOT, "boot/vmlinuz-6.1.0-28", "");
    m.write(ROOT, "boot/initrd.img-6.1.0-28", "");
    let written = write_menus(&m.pool, "rpool", &m.all()).expect("written").changed;
    assert_eq!(written, ["boot/menu.lst", "boot/loader/entries/debian-6.1.0-28.conf"]);
    assert_eq!(write_menus(&m.pool, "rpool", &m.all()).expect("written").changed, Vec::<String>::new());
    m.copy("debian", "next");
    let changed = refresh_menus(&m.pool, "rpool", &made).expect("changed").changed;
    assert_eq!(changed, ["boot/menu.lst", "boot/loader/entries/next-6.1.0-28.conf"]);
    assert_eq!(
        m.read("rpool", "boot/menu.lst").as_deref(),
        Some("title debian\nbootfs rpool/ROOT/debian\ntitle next\nbootfs rpool/ROOT/next\n")
    );
    let entry = m.read("rpool", "boot/loader/entries/next-6.1.0-28.conf").expect("an entry");
    assert!(entry.contains("linux /ROOT/next@/boot/vmlinuz-6.1.0-28\n"), "{entry}");
    assert!(entry.contains("options root=ZFS=rpool/ROOT/next ro\n"), "{entry}");
    let renamed = MenuChange::Renamed { from: "rpool/ROOT/next".into(), to: "rpool/ROOT/later".into() };
    refresh_menus(&m.pool, "rpool", &renamed).expect("changed");
    assert!(m.read("rpool", "boot/loader/entries/next-6.1.0-28.conf").is_none());
    assert!(m.read("rpool", "boot/loader/entries/later-6.1.0-28.conf").expect("moved").starts_with("title later\n"));
    refresh_menus(&m.pool, "rpool", &MenuChange::Gone { root: "rpool/ROOT/later".into() }).expect("changed");
    assert_eq!(m.read("rpool", "boot/menu.lst").as_deref(), Some("title debian\nbootfs rpool/ROOT/debian\n"));
    assert!(m.read("rpool", "boot/loader/entries/later-6.1.0-28.conf").is_none());
}

#[test]
fn environments_of_other_systems_are_found() {
    let m = Machine::new();
    // ZFSBootMenu: anywhere, by mount point; a legacy mount point with the property on; one that is
    // hidden.
    m.make("rpool/void", &[("mountpoint", "/"), ("canmount", "noauto")]);
    m.make("rpool/old", &[("mountpoint", "legacy"), (OFFERED, "on")]);
    m.make("rpool/hidden", &[("mountpoint", "/"), ("canmount", "noauto"), (OFFERED, "off")]);
    m.make("rpool/data", &[("mountpoint", "legacy")]);
    let names = |all: Vec<Environment>| all.into_iter().map(|e| e.name).collect::<Vec<_>>();
    assert_eq!(names(m.all()), ["debian", "old", "void"]);
    // FreeBSD: the container is the parent of `bootfs`; `-r beroot`.
    m.make("rpool/BE", &[("mountpoint", "none")]);
    m.make("rpool/BE/default", &[("mountpoint", "none")]);
    let datasets = m.pool.live.synced().expect("datasets");
    assert_eq!(names(find(&datasets, Some("rpool/BE")).expect("found")), ["default"]);
    activate(&m.pool, "default", Some("rpool/BE")).expect("activated");
    assert_eq!(names(m.all()), ["debian", "default", "old", "void"]);
    let left = shared(&m.pool.live.synced().expect("datasets"), &m.all()).expect("known");
    assert_eq!(left, [("rpool/home".to_owned(), "/home".to_owned())]);
}
