//! Mounts a tree in memory whose snapshots come and go.

use super::Mounted;
use crate::fuse::{MountOptions, mount};
use errors::{Error, Result};
use files::memory::MemoryVfs;
use files::namespace::{Child, Control, Namespace, NumberedName, Provider, Way};
use files::vfs::Vfs;
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, openat};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// `tank`, with the `fs_guid` of each snapshot.
#[derive(Default)]
struct Tank {
    is_read_only: bool,
    snapshots: Mutex<BTreeMap<String, u64>>,
}

impl Tank {
    fn take(&self, name: &str, guid: u64) {
        self.snapshots.lock().insert(name.to_owned(), guid);
    }
}

struct TankProvider(Arc<Tank>);

impl Provider for TankProvider {
    fn name(&self) -> String {
        "tank".to_owned()
    }
    fn root(&self) -> Result<Arc<dyn Vfs>> {
        let vfs = MemoryVfs::new();
        Ok(Arc::new(if self.0.is_read_only { vfs } else { vfs.writable() }))
    }
    fn control(&self) -> Control {
        Control::Hidden
    }
    fn children(&self) -> Result<Vec<Child>> {
        Ok(Vec::new())
    }
    fn snapshots(&self) -> Result<Vec<NumberedName>> {
        let all = self.0.snapshots.lock();
        Ok(all.iter().map(|(name, guid)| NumberedName { name: name.clone(), number: *guid }).collect())
    }
    fn volumes(&self) -> Result<Vec<NumberedName>> {
        Ok(Vec::new())
    }
    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>> {
        Err(Error::not_found("tank", key))
    }
    fn changes_snapshots(&self) -> bool {
        true
    }
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        let guid = self.snapshot_guid(name)?;
        let mut vfs = MemoryVfs::new();
        for file in ["a", "b"] {
            vfs.add_file(vfs.root(), file, guid.to_string());
        }
        Ok(Arc::new(vfs.identity(guid)))
    }
    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        self.0.snapshots.lock().get(name).copied().ok_or_else(|| Error::not_found("tank", name))
    }
    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        Err(Error::not_found("tank", name))
    }
    fn way_to(&self, fs_guid: u64) -> Result<Option<Way>> {
        let all = self.0.snapshots.lock();
        Ok(all.iter().find(|(_, guid)| **guid == fs_guid).map(|(name, _)| Way::Snapshot(name.clone())))
    }
}

/// Mounts `tank`, both writable and read-only, and calls `check` with the directory of its
/// snapshots.
fn each_way(name: &str, check: impl Fn(&Path, &Tank)) {
    for is_read_only in [false, true] {
        let tank = Arc::new(Tank { is_read_only, ..Tank::default() });
        let namespace = Namespace::new(Arc::new(TankProvider(tank.clone()))).expect("opens");
        let dir = std::env::temp_dir().join(format!("weir-snap-{name}-{is_read_only}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder to mount at");
        let options = MountOptions { name: "tank".to_owned(), ..MountOptions::default() };
        match mount(Arc::new(namespace), &dir, &options) {
            Ok(handle) => {
                let mounted = Mounted { handle: Some(handle), dir, figures: options.figures.clone() };
                check(&mounted.dir.join(".zfs/snapshot"), &tank);
            }
            Err(e) => {
                println!("skipped: no FUSE here ({e})");
                fs::remove_dir(&dir).expect("still empty");
            }
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let name = |e: io::Result<fs::DirEntry>| e.expect("entry").file_name().into_string().expect("text");
    let mut names: Vec<_> = fs::read_dir(dir).expect("opendir").map(name).collect();
    names.sort();
    names
}

#[test]
fn snapshots_appear_and_disappear_at_once() {
    each_way("appear", |dir, tank| {
        tank.take("s1", 1);
        assert_eq!(names(dir), ["s1"]);
        assert!(!dir.join("s2").exists());
        tank.take("s2", 2);
        assert_eq!(fs::read_to_string(dir.join("s2/a")).expect("there"), "2");
        assert_eq!(names(dir), ["s1", "s2"]);
        // Also those that were in use.
        assert_eq!(fs::read_to_string(dir.join("s1/a")).expect("there"), "1");
        tank.snapshots.lock().remove("s1");
        assert_eq!(names(dir), ["s2"]);
        let missing = fs::metadata(dir.join("s1")).expect_err("gone");
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn cached_entries_of_a_destroyed_snapshot_are_stale() {
    each_way("stale", |dir, tank| {
        tank.take("s", 1);
        let old = File::open(dir.join("s")).expect("there");
        let a = fs::metadata(dir.join("s/a")).expect("there").ino();
        tank.take("s", 2);
        // What is open is noticed within a second.
        std::thread::sleep(Duration::from_millis(1100));
        let found = openat(&old, "b", OFlags::RDONLY, Mode::empty());
        assert_eq!(found.expect_err("gone").raw_os_error(), libc::ESTALE);
        assert_eq!(fs::read_to_string(dir.join("s/a")).expect("there"), "2");
        assert_ne!(fs::metadata(dir.join("s/a")).expect("there").ino(), a, "another file");
        let found = openat(&old, "b", OFlags::RDONLY, Mode::empty());
        assert_eq!(found.expect_err("gone").raw_os_error(), libc::ESTALE);
    });
}

#[test]
fn cached_entries_stay_while_other_snapshots_are_created_and_destroyed() {
    each_way("held", |dir, tank| {
        tank.take("s", 1);
        let held = File::open(dir.join("s")).expect("there");
        // More than keep their numbers without a reference.
        for n in 0..4500 {
            let name = format!("other{n}");
            tank.take(&name, 1000 + n);
            let read = fs::read_to_string(dir.join(&name).join("a")).expect("there");
            assert_eq!(read, (1000 + n).to_string());
            tank.snapshots.lock().remove(&name);
        }
        let a = openat(&held, "a", OFlags::RDONLY, Mode::empty()).expect("there");
        assert_eq!(io::read_to_string(File::from(a)).expect("there"), "1");
    });
}
