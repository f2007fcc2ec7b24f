//! Mounts a tree in memory and reads it through system calls.

use super::{Figures, MountHandle, MountOptions, mount};
use files::memory::MemoryVfs;
use files::vfs::{FileKind, Time, Vfs};
use rustix::fs::{SeekFrom, XattrFlags};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod snapshots;
mod write;

const BIG: usize = 3 << 20;

struct Mounted {
    handle: Option<MountHandle>,
    dir: PathBuf,
    figures: Arc<Figures>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            let ended = handle.unmounter().unmount_now().and_then(|()| handle.wait());
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
        let left = fs::remove_dir(&self.dir);
        assert!(left.is_ok() || std::thread::panicking(), "something is left mounted: {left:?}");
    }
}

/// Read tests use /dev/fuse, the default, or io_uring if `WEIR_FUSE_URING=1`. Write tests
/// (`write::each_way`) always use both.
fn over_io_uring() -> bool {
    std::env::var_os("WEIR_FUSE_URING").is_some_and(|value| value == "1")
}

/// Mounts the tree, or prints why this machine cannot.
fn mounted(name: &str, vfs: MemoryVfs) -> Option<Mounted> {
    let dir = std::env::temp_dir().join(format!("weir-fuse-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder to mount at");
    let options = MountOptions { name: format!("tank/{name}"), uring: over_io_uring(), ..MountOptions::default() };
    match mount(Arc::new(vfs), &dir, &options) {
        Ok(handle) => Some(Mounted { handle: Some(handle), dir, figures: options.figures.clone() }),
        Err(e) => {
            println!(
                "skipped: no FUSE here ({e}); it needs /dev/fuse, and fusermount3 (apt install fuse3) without root"
            );
            fs::remove_dir(&dir).expect("still empty");
            None
        }
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 4096) as u8).collect()
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.expect_err("must fail").raw_os_error().expect("from the system")
}

fn tree() -> MemoryVfs {
    let mut t = MemoryVfs::new();
    let root = t.root();
    let file = t.add_file(root, "file", pattern(BIG));
    t.attr_mut(file).mode = 0o4755;
    t.attr_mut(file).uid = 1234;
    t.attr_mut(file).mtime = Time { seconds: -86_400 * 365, nanoseconds: 999_999_999 };
    t.put_xattr(file, "user.colour", "blue");
    t.put_xattr(file, "user.empty", "");
    t.add_link(root, "second name", file);
    t.add_symlink(root, "link", "dir/e00007");
    t.add_symlink(root, "dangling", vec![b'x'; 300]);
    let dir = t.add_dir(root, "dir");
    for i in 0..10_000 {
        t.add_file(dir, format!("e{i:05}"), format!("{i}"));
    }
    let sparse = t.add(root, "sparse", FileKind::Regular, 0o644);
    t.put(sparse, 1 << 20, pattern(128 << 10));
    t.attr_mut(sparse).size = 1 << 40;
    let null = t.add(root, "null", FileKind::CharDevice, 0o666);
    (t.attr_mut(null).rdev_major, t.attr_mut(null).rdev_minor) = (1, 3);
    let disk = t.add(root, "disk", FileKind::BlockDevice, 0o660);
    (t.attr_mut(disk).rdev_major, t.attr_mut(disk).rdev_minor) = (259, 65_537);
    t.add(root, "fifo", FileKind::Fifo, 0o644);
    t.add(root, "socket", FileKind::Socket, 0o755);
    t.add_file(root, b"not \xff utf-8", "x");
    let damaged = t.add_file(root, "damaged", pattern(1 << 20));
    t.break_range(
        damaged,
        512 << 10..640 << 10,
        errors::Error::corrupt("object 9 record 4", "checksum is 1, expected 2"),
    );
    t
}

#[test]
fn requests_of_the_kernel_are_counted_by_kind() {
    let Some(m) = mounted("figures", tree()) else { return };
    assert_eq!(fs::read(m.dir.join("file")).expect("read"), pattern(BIG));
    assert_eq!(errno(fs::metadata(m.dir.join("missing"))), libc::ENOENT);
    let registry = observe::Registry::new();
    registry.add(&[("mount", "tank/figures")], &(m.figures.clone() as Arc<dyn observe::Source>));
    let family = |families: &[observe::Family], name: &str| {
        families.iter().find(|f| f.info.name == name).expect("reported").series.clone()
    };
    let of = |families: &[observe::Family], kind: &str| {
        let series = family(families, "fuse_operation_time").into_iter().find(|s| s.labels[1].1 == kind);
        series.map_or(0, |s| if let observe::Value::Spread(spread) = &s.value { spread.count } else { 0 })
    };
    // An operation is counted after it was answered, so the caller may get here first.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let families = loop {
        let families = registry.collect();
        let all = of(&families, "lookup") >= 2 && of(&families, "read") >= 3;
        if all || std::time::Instant::now() > deadline {
            assert!(all, "{families:?}");
            break families;
        }
        std::thread::yield_now();
    };
    assert_eq!(of(&families, "mkdir"), 0, "{families:?}");
    assert_eq!(family(&families, "fuse_read")[0].value, observe::Value::Count(BIG as u64));
}

#[test]
fn a_tree_shows_through_a_mount_as_it_is() {
    let Some(m) = mounted("tree", tree()) else { return };
    let at = |name: &str| m.dir.join(name);

    let file = fs::metadata(at("file")).expect("stat");
    assert_eq!((file.mode(), file.uid(), file.nlink(), file.size()), (0o104_755, 1234, 2, BIG as u64));
    assert_eq!((file.mtime(), file.mtime_nsec()), (-86_400 * 365, 999_999_999));
    assert_eq!(fs::metadata(at("second name")).expect("stat").ino(), file.ino());
    assert_eq!(fs::metadata(&m.dir).expect("stat").ino(), 34, "the root shows its object number, not FUSE's 1");
    assert_eq!(fs::read(at("file")).expect("read"), pattern(BIG));

    assert_eq!(fs::read_link(at("link")).expect("readlink"), Path::new("dir/e00007"));
    assert_eq!(fs::read(at("link")).expect("read"), b"7");
    assert_eq!(fs::read_link(at("dangling")).expect("readlink").as_os_str().len(), 300);
    assert_eq!(errno(fs::metadata(at("missing"))), libc::ENOENT);

    let mut names: Vec<_> = fs::read_dir(at("dir"))
        .expect("opendir")
        .map(|e| e.expect("entry"))
        .map(|e| (e.file_name(), e.metadata().expect("stat").len()))
        .collect();
    names.sort();
    assert_eq!(names.len(), 10_000);
    assert_eq!((names[9_999].0.to_str(), names[9_999].1), (Some("e09999"), 4));
    for _ in 0..2 {
        let entries = fs::read_dir(&m.dir).expect("opendir");
        assert!(entries.filter_map(Result::ok).any(|e| e.file_name().as_bytes() == b"not \xff utf-8"));
    }

    let null = fs::symlink_metadata(at("null")).expect("stat");
    assert!(null.file_type().is_char_device() && null.rdev() == rustix::fs::makedev(1, 3));
    let disk = fs::symlink_metadata(at("disk")).expect("stat");
    assert!(disk.file_type().is_block_device() && disk.rdev() == rustix::fs::makedev(259, 65_537));
    assert!(fs::symlink_metadata(at("fifo")).expect("stat").file_type().is_fifo());
    assert!(fs::symlink_metadata(at("socket")).expect("stat").file_type().is_socket());

    let space = rustix::fs::statvfs(&m.dir).expect("statvfs");
    assert_eq!((space.f_blocks, space.f_bfree, space.f_namemax), (1 << 20, 1 << 19, 255));
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let ours = format!("tank/tree {} fuse.weir ro,", m.dir.display());
    assert!(mounts.lines().any(|l| l.starts_with(&ours)), "{mounts}");
}

#[test]
fn extended_attributes_show() {
    let Some(m) = mounted("xattr", tree()) else { return };
    let path = m.dir.join("file");
    let mut list = vec![0_u8; 256];
    let len = rustix::fs::listxattr(&path, &mut list[..]).expect("listxattr");
    assert_eq!(&list[..len], b"user.colour\0user.empty\0");
    let mut value = vec![0_u8; 256];
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut value[..]).expect("getxattr"), 4);
    assert_eq!(&value[..4], b"blue");
    assert_eq!(rustix::fs::getxattr(&path, "user.empty", &mut value[..]).expect("getxattr"), 0);
    assert_eq!(rustix::fs::getxattr(&path, "user.none", &mut value[..]).expect_err("none"), rustix::io::Errno::NODATA);
    let set = rustix::fs::setxattr(&path, "user.new", b"x", XattrFlags::empty());
    assert_eq!(set.expect_err("read-only"), rustix::io::Errno::ROFS);
}

#[test]
fn holes_are_found_and_read_as_zeros() {
    let Some(m) = mounted("sparse", tree()) else { return };
    let file = File::open(m.dir.join("sparse")).expect("open");
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(seek(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + (128 << 10)));
    assert_eq!(seek(SeekFrom::Data(2 << 20)), Err(rustix::io::Errno::NXIO));
    assert_eq!(seek(SeekFrom::Hole(1 << 40)), Err(rustix::io::Errno::NXIO));
    let mut buf = vec![1; 8192];
    file.read_exact_at(&mut buf, (1 << 39) - 4096).expect("read");
    assert!(buf.iter().all(|&b| b == 0));
    file.read_exact_at(&mut buf, (1 << 20) - 4096).expect("read");
    assert_eq!(&buf[4096..], &pattern(4096)[..]);
}

#[test]
fn nothing_can_be_written() {
    let Some(m) = mounted("readonly", tree()) else { return };
    assert_eq!(errno(File::create(m.dir.join("new"))), libc::EROFS);
    assert_eq!(errno(File::options().write(true).open(m.dir.join("file"))), libc::EROFS);
    assert_eq!(errno(fs::remove_file(m.dir.join("file"))), libc::EROFS);
    assert_eq!(errno(fs::create_dir(m.dir.join("new"))), libc::EROFS);
    assert_eq!(errno(fs::rename(m.dir.join("file"), m.dir.join("b"))), libc::EROFS);
}

/// Records around a damaged one can be read. The damaged one returns an error, never zeros.
#[test]
fn a_damaged_record_is_an_error_and_its_neighbours_are_not() {
    let Some(m) = mounted("damaged", tree()) else { return };
    let file = File::open(m.dir.join("damaged")).expect("open");
    let mut buf = vec![0; 4096];
    assert_eq!(errno(file.read_exact_at(&mut buf, 520 << 10)), libc::EIO);
    file.read_exact_at(&mut buf, 0).expect("whole");
    assert_eq!(buf, pattern(4096));
}

#[test]
fn waiting_ends_when_another_process_unmounts() {
    let Some(mut m) = mounted("umount", tree()) else { return };
    let handle = m.handle.take().expect("just mounted");
    let mut text = String::new();
    File::open(m.dir.join("link")).and_then(|mut f| f.read_to_string(&mut text)).expect("read");
    assert!(super::is_mount_point(&m.dir));
    super::sys::unmount(&m.dir, false).expect("umount");
    handle.wait().expect("ends well");
    assert!(!super::is_mount_point(&m.dir));
}

#[test]
fn a_tree_in_use_can_be_detached() {
    let Some(mut m) = mounted("busy", tree()) else { return };
    let handle = m.handle.take().expect("just mounted");
    let file = File::open(m.dir.join("file")).expect("open");
    assert_eq!(handle.unmounter().unmount().expect_err("busy").kind(), io::ErrorKind::ResourceBusy);
    handle.unmounter().unmount_now().expect("detach");
    assert!(!super::is_mount_point(&m.dir));
    let mut buf = [0; 10];
    file.read_exact_at(&mut buf, 0).expect("served as long as we live");
    drop(file);
    handle.wait().expect("ends with its last user");
}

/// Pages that are stored without a request equal those that the kernel would have read, and do not
/// change the file's size.
#[test]
fn random_reads_see_the_same_bytes_as_sequential_ones() {
    let mut t = MemoryVfs::new();
    let root = t.root();
    let data = pattern((5 << 20) + 4321);
    t.add_file(root, "file", data.clone());
    let Some(m) = mounted("random", t) else { return };
    let path = m.dir.join("file");
    let file = File::open(&path).expect("open");
    let mut buf = vec![0; 8192];
    let mut at = 1_usize;
    for _ in 0..4000 {
        at = (at * 1_103_515_245 + 12_345) % (data.len() - buf.len());
        file.read_exact_at(&mut buf, at as u64).expect("read");
        assert_eq!(buf, data[at..at + buf.len()], "at {at}");
    }
    assert_eq!(file.metadata().expect("stat").len(), data.len() as u64);
    assert_eq!(fs::read(&path).expect("read"), data);
}

#[test]
fn an_impossible_name_does_not_hide_the_others() {
    let mut t = MemoryVfs::new();
    let root = t.root();
    for name in ["a", "b/c", "", "d"] {
        t.add_file(root, name, "x");
    }
    let Some(m) = mounted("names", t) else { return };
    let names = || {
        let mut names: Vec<_> = fs::read_dir(&m.dir).expect("opendir").map(|e| e.expect("entry").file_name()).collect();
        names.sort();
        names
    };
    assert_eq!((names(), names()), (vec!["a".into(), "d".into()], vec!["a".into(), "d".into()]));
}
