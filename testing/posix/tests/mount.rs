//! Everything that system calls did to a mounted pool is on its disk. Checked by opening the pool
//! again and verifying it.

use host::device::{Device, MemoryDevice};
use pool::scan;
use posix::LivePool;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, XattrFlags};
use serve::fuse::{MountOptions, mount};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

const DISK_BYTES: usize = 256 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 4096) as u8).collect()
}

/// Mounts the pool, calls `work`, unmounts and exports. Prints a line and returns false if this
/// machine cannot mount.
fn mounted(pool: LivePool, write_back: bool, work: impl FnOnce(&Path)) -> bool {
    let dir = tempfile::tempdir().expect("a folder to mount at");
    let options = MountOptions { name: "tank".to_owned(), write_back, ..MountOptions::default() };
    let handle = match mount(pool.vfs(), dir.path(), &options) {
        Ok(handle) => handle,
        Err(e) => {
            println!("skipped: no FUSE here ({e})");
            return false;
        }
    };
    work(dir.path());
    handle.unmount().expect("unmounts");
    pool.export().expect("exports");
    true
}

fn write_tree(dir: &Path) {
    let at = |name: &str| dir.join(name);
    fs::create_dir_all(at("a/b")).expect("mkdir");
    fs::write(at("a/f"), pattern(1_000_000)).expect("write");
    fs::hard_link(at("a/f"), at("a/b/g")).expect("link");
    std::os::unix::fs::symlink("b/g", at("a/s")).expect("symlink");
    rustix::fs::setxattr(at("a/f"), "user.colour", b"blue", XattrFlags::CREATE).expect("setxattr");
    fs::set_permissions(at("a/b"), fs::Permissions::from_mode(0o750)).expect("chmod");
    let sparse = File::create(at("sparse")).expect("open");
    sparse.write_all_at(&pattern(300_000), 1 << 20).expect("write");
    sparse.set_len(5 << 20).expect("truncate");
    rustix::fs::fallocate(&sparse, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 1 << 20, 128 << 10)
        .expect("punch");
    fs::create_dir(at("many")).expect("mkdir");
    for i in 0..2000 {
        fs::write(at(&format!("many/f{i}")), format!("{i}")).expect("write");
    }
    for i in (0..2000).step_by(2) {
        fs::remove_file(at(&format!("many/f{i}"))).expect("unlink");
    }
    fs::write(at("old"), "old").expect("write");
    fs::write(at("new"), "new").expect("write");
    rustix::fs::renameat_with(CWD, at("old"), CWD, at("new"), RenameFlags::EXCHANGE).expect("exchange");
    let mut gone = File::create(at("gone")).expect("open");
    fs::remove_file(at("gone")).expect("unlink");
    gone.write_all(&pattern(300_000)).expect("write");
    gone.sync_all().expect("fsync");
}

fn check_tree(dir: &Path) {
    let at = |name: &str| dir.join(name);
    assert_eq!(fs::read(at("a/s")).expect("read"), pattern(1_000_000));
    let file = fs::metadata(at("a/f")).expect("stat");
    assert_eq!((file.nlink(), file.len()), (2, 1_000_000));
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(at("a/f"), "user.colour", &mut value[..]), Ok(4));
    assert_eq!(fs::metadata(at("a/b")).expect("stat").mode() & 0o7777, 0o750);
    let sparse = File::open(at("sparse")).expect("open");
    let mut expected = vec![0; 5 << 20];
    expected[(1 << 20) + (128 << 10)..(1 << 20) + 300_000].copy_from_slice(&pattern(300_000)[128 << 10..]);
    assert_eq!(fs::read(at("sparse")).expect("read"), expected);
    assert_eq!(rustix::fs::seek(&sparse, rustix::fs::SeekFrom::Data(0)), Ok((1 << 20) + (128 << 10)));
    let mut names: Vec<_> = fs::read_dir(at("many")).expect("list").map(|e| e.expect("entry").file_name()).collect();
    names.sort();
    assert_eq!(names.len(), 1000);
    assert_eq!(fs::read(at("many/f1999")).expect("read"), b"1999");
    assert_eq!(fs::read(at("old")).expect("read"), b"new");
    assert!(fs::metadata(at("gone")).is_err());
}

fn check(write_back: bool, properties: &[(&str, &str)]) {
    let device: Arc<dyn Device> = Arc::new(MemoryDevice::new("disk", vec![0; DISK_BYTES]));
    let pool = LivePool::create("tank", device.clone(), properties).expect("makes a pool");
    if !mounted(pool, write_back, |dir| {
        write_tree(dir);
        check_tree(dir);
    }) {
        return;
    }
    let again = LivePool::open(device.clone()).expect("opens");
    mounted(again, write_back, check_tree);
    let found = pool::search_devices([device]).pools.remove(0);
    let pool = pool::Pool::open(&found, &pool::OpenOptions::default()).expect("opens");
    let report = scan::verify(&pool, &scan::Options { threads: 1 }, &|_| true).expect("verifies");
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn changes_through_a_mount_are_on_disk() {
    check(false, &[]);
}

#[test]
fn pages_written_back_by_the_kernel_are_on_disk() {
    check(true, &[("xattr", "sa"), ("compression", "zstd"), ("recordsize", "16k")]);
}
