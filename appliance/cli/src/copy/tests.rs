//! Copies a tree in memory to a directory, and checks the result.

use super::{Options, Report, copy, damage::DamageMap};
use files::memory::MemoryVfs;
use files::vfs::{FileKind, NodeId, Time, Vfs};
use indicatif::ProgressBar;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 4096) as u8).collect()
}

fn run(vfs: &MemoryVfs, node: NodeId, to: &Path, change: impl FnOnce(&mut Options)) -> u64 {
    let mut options = Options { recursive: true, ..Options::default() };
    change(&mut options);
    let report = Report::new(ProgressBar::hidden());
    copy(vfs, &vfs.attr(node).expect("made"), "tank:/", to, &options, &report).expect("starts");
    report.failed()
}

#[test]
fn a_tree_comes_out_with_all_that_it_has() {
    let mut t = MemoryVfs::new();
    let root = t.root();
    let dir = t.add_dir(root, "dir");
    t.attr_mut(dir).mode = 0o555;
    t.attr_mut(dir).mtime = Time { seconds: -1000, nanoseconds: 7 };
    let big = t.add_file(dir, "big", pattern((9 << 20) + 123));
    t.attr_mut(big).mode = 0o640;
    t.put_xattr(big, "user.colour", "blue");
    t.add_link(root, "big again", big);
    for i in 0..300 {
        t.add_file(dir, format!("small{i}"), pattern(i * 1000));
    }
    let link = t.add_symlink(root, "link", "dir/big");
    t.attr_mut(link).mtime = Time { seconds: 5, nanoseconds: 6 };
    let sparse = t.add(root, "sparse", FileKind::Regular, 0o644);
    t.put(sparse, 1 << 30, pattern(128 << 10));
    t.attr_mut(sparse).size = 1 << 33;
    t.add(root, "fifo", FileKind::Fifo, 0o604);
    t.add_file(root, b"not \xff utf-8", "x");

    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    for again in [false, true] {
        assert_eq!(run(&t, root, &out, |_| ()), 0, "again: {again}");
        assert_eq!(fs::read(out.join("dir/big")).expect("read"), pattern((9 << 20) + 123));
        for i in 0..300 {
            assert_eq!(fs::read(out.join(format!("dir/small{i}"))).expect("read"), pattern(i * 1000));
        }
        let meta = fs::symlink_metadata(out.join("dir")).expect("stat");
        assert_eq!((meta.mode() & 0o7777, meta.mtime(), meta.mtime_nsec()), (0o555, -1000, 7));
        let meta = fs::metadata(out.join("big again")).expect("stat");
        assert_eq!((meta.nlink(), meta.mode(), meta.mtime_nsec()), (2, 0o100_640, 123_456_789));
        assert_eq!(fs::read_link(out.join("link")).expect("readlink"), Path::new("dir/big"));
        assert_eq!(fs::symlink_metadata(out.join("link")).expect("stat").mtime(), 5);
        let meta = fs::metadata(out.join("sparse")).expect("stat");
        assert_eq!(meta.size(), 1 << 33);
        assert!(meta.blocks() * 512 < 1 << 20, "holes stay holes");
        let mut value = [0; 16];
        // Not every file system for temporary directories has extended attributes.
        if let Ok(n) = rustix::fs::getxattr(out.join("dir/big"), "user.colour", &mut value[..]) {
            assert_eq!(&value[..n], b"blue");
        }
        let meta = fs::symlink_metadata(out.join("fifo")).expect("stat");
        assert!(meta.file_type().is_fifo() && meta.permissions().mode() & 0o777 == 0o604);
        if !rustix::process::geteuid().is_root() {
            break; // Writing again into a directory of mode 555 takes root.
        }
    }
}

#[test]
fn a_damaged_file_is_only_copied_on_request() {
    let mut t = MemoryVfs::new();
    let root = t.root();
    let file = t.add_file(root, "file", pattern(4 << 20));
    let bad = 2 << 20..(2 << 20) + (256 << 10);
    t.break_range(file, bad.clone(), errors::Error::corrupt("object 35", "checksum is 1, expected 2"));
    t.add_file(root, "whole", "abc");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");

    assert_eq!(run(&t, root, &out, |_| ()), 1);
    assert!(!out.join("file").exists());
    assert_eq!(fs::read(out.join("whole")).expect("the others do"), b"abc");

    assert_eq!(run(&t, root, &out, |o| o.best_effort = true), 1);
    let mut expected = pattern(4 << 20);
    expected[bad.start as usize..bad.end as usize].fill(0);
    assert_eq!(fs::read(out.join("file")).expect("read"), expected);
    let map = fs::read(DamageMap::path_for(&out.join("file"))).expect("a map");
    let map: serde_json::Value = serde_json::from_slice(&map).expect("JSON");
    assert_eq!(map["unreadable_bytes"], 256 << 10);
    assert_eq!(
        (&map["unreadable"][0]["offset"], &map["unreadable"][0]["bytes"]),
        (&(2 << 20).into(), &(256 << 10).into())
    );
    assert_eq!(map["unreadable"].as_array().map(Vec::len), Some(1));
}

/// A malicious pool: two entries of one name, the first a link that leads out of the target.
#[test]
fn a_link_in_the_tree_does_not_lead_out_of_the_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).expect("mkdir");
    fs::write(outside.join("victim"), "untouched").expect("write");
    let mut t = MemoryVfs::new();
    let root = t.root();
    t.add_symlink(root, "a", outside.as_os_str().as_encoded_bytes());
    let dir = t.add_dir(root, "a");
    t.add_file(dir, "victim", "overwritten");
    t.add_symlink(root, "b", outside.join("victim").as_os_str().as_encoded_bytes());
    t.add_file(root, "b", "overwritten");
    t.add_file(root, "../outside/victim", "overwritten");
    let circle = t.add_dir(root, "circle");
    t.add_link(circle, "circle", circle);
    let out = folder.path().join("out");
    assert!(run(&t, root, &out, |_| ()) >= 3);
    assert_eq!(fs::read_to_string(outside.join("victim")).expect("read"), "untouched");
    assert_eq!(fs::read_dir(&outside).expect("list").count(), 1);
}

#[test]
fn a_volume_is_a_file() {
    let mut t = MemoryVfs::new();
    let volume = t.add(t.root(), "volume", FileKind::Regular, 0o600);
    t.put(volume, 0, pattern(3 << 20));
    t.attr_mut(volume).size = 1 << 30;
    t.attr_mut(volume).block_bytes = 16 << 10;
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out.img");
    assert_eq!(run(&t, volume, &out, |o| o.recursive = false), 0);
    let meta = fs::metadata(&out).expect("stat");
    assert_eq!((meta.size(), meta.blocks()), (1 << 30, (3 << 20) / 512));
}

/// Paths longer than a system call accepts: 5,000 levels.
#[test]
fn a_tree_that_is_deeper_than_paths_can_be_long_comes_out() {
    const LEVELS: usize = 5_000;
    let mut t = MemoryVfs::new();
    let root = t.root();
    let mut at = root;
    for level in 0..LEVELS {
        at = t.add_dir(at, if level % 2 == 0 { "a" } else { "b" });
    }
    t.attr_mut(at).mtime = Time { seconds: 77, nanoseconds: 0 };
    t.add_file(at, "file", "at the bottom");
    t.add_symlink(at, "link", "file");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    assert_eq!(run(&t, root, &out, |_| ()), 0);
    // Removed from the top: each level moves up once, so that no path is long.
    for level in 0..LEVELS {
        let (name, next) = if level % 2 == 0 { ("a", "b") } else { ("b", "a") };
        let here = out.join(name);
        if level + 1 == LEVELS {
            assert_eq!(fs::read_to_string(here.join("file")).expect("read"), "at the bottom");
            assert_eq!(fs::read_link(here.join("link")).expect("readlink"), Path::new("file"));
            assert_eq!(fs::metadata(&here).expect("stat").mtime(), 77);
            return;
        }
        fs::rename(here.join(next), out.join(next)).expect("moves up");
        fs::remove_dir(here).expect("is empty");
    }
}
