//! Mounts a tree in memory for writing and changes it through system calls.

use super::{Mounted, errno, pattern};
use crate::fuse::{MountOptions, mount};
use files::memory::MemoryVfs;
use files::vfs::Vfs;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, XattrFlags,
};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

/// Mounts the tree with and without write-back and io_uring, and calls `check` with each
/// combination, or prints why this machine cannot.
fn each_way(name: &str, build: impl Fn() -> MemoryVfs, check: impl Fn(&Path, &MemoryVfs)) {
    for (write_back, uring) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut vfs = build().writable();
        let root = vfs.root();
        vfs.attr_mut(root).uid = rustix::process::geteuid().as_raw();
        let vfs = Arc::new(vfs);
        let dir = std::env::temp_dir().join(format!("weir-write-{name}-{write_back}-{uring}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder to mount at");
        let options = MountOptions { name: format!("tank/{name}"), write_back, uring, ..MountOptions::default() };
        match mount(vfs.clone(), &dir, &options) {
            Ok(handle) => {
                let mounted = Mounted { handle: Some(handle), dir, figures: options.figures.clone() };
                check(&mounted.dir, &vfs);
            }
            Err(e) => {
                println!("skipped: no FUSE here ({e})");
                fs::remove_dir(&dir).expect("still empty");
            }
        }
    }
}

fn plain(name: &str, check: impl Fn(&Path, &MemoryVfs)) {
    each_way(name, MemoryVfs::new, check);
}

fn names(dir: &Path) -> Vec<String> {
    let name = |e: std::io::Result<fs::DirEntry>| e.expect("entry").file_name().into_string().expect("text");
    let mut names: Vec<_> = fs::read_dir(dir).expect("opendir").map(name).collect();
    names.sort();
    names
}

#[test]
fn a_tree_is_built_and_taken_down_through_system_calls() {
    plain("build", |dir, vfs| {
        let at = |name: &str| dir.join(name);
        fs::create_dir_all(at("a/b/c")).expect("mkdir");
        fs::write(at("a/f"), pattern(300_000)).expect("write");
        fs::hard_link(at("a/f"), at("a/b/g")).expect("link");
        std::os::unix::fs::symlink("b/g", at("a/s")).expect("symlink");
        rustix::fs::mknodat(CWD, at("a/p"), FileType::Fifo, Mode::from(0o640), 0).expect("mkfifo");
        assert_eq!(fs::read(at("a/s")).expect("read"), pattern(300_000));
        assert_eq!(fs::metadata(at("a/f")).expect("stat").nlink(), 2);
        assert_eq!(names(&at("a")), ["b", "f", "p", "s"]);
        fs::rename(at("a/f"), at("a/b/c/h")).expect("rename");
        assert_eq!(errno(fs::metadata(at("a/f"))), libc::ENOENT);
        assert_eq!(errno(fs::remove_dir(at("a/b"))), libc::ENOTEMPTY);
        assert_eq!(errno(fs::rename(at("a"), at("a/b/x"))), libc::EINVAL);
        let exchange = rustix::fs::renameat_with(CWD, at("a/b"), CWD, at("a/s"), RenameFlags::EXCHANGE);
        exchange.expect("exchange");
        assert_eq!(fs::read(at("a/s/c/h")).expect("read"), pattern(300_000));
        assert_eq!(fs::read_link(at("a/b")).expect("readlink"), Path::new("b/g"));
        let kept = rustix::fs::renameat_with(CWD, at("a/p"), CWD, at("a/s"), RenameFlags::NOREPLACE);
        assert_eq!(kept.expect_err("there"), rustix::io::Errno::EXIST);
        fs::remove_dir_all(at("a")).expect("rm -r");
        assert_eq!(names(dir), Vec::<String>::new());
        assert_eq!(errno(File::create(at(&"n".repeat(256)))), libc::ENAMETOOLONG);
        let root = vfs.attr(vfs.root()).expect("root");
        assert_eq!((root.links, root.size), (2, 2));
    });
}

/// A file without a name exists as long as it is open or mapped. Then it is gone and its space is
/// free again.
#[test]
fn an_unlinked_file_lives_as_long_as_it_is_open() {
    plain("unlinked", |dir, vfs| {
        let path = dir.join("f");
        let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).expect("open");
        file.write_all(b"before").expect("write");
        fs::remove_file(&path).expect("unlink");
        file.write_all(b" and after").expect("write");
        let mut text = String::new();
        file.read_at(&mut [0; 4], 0).expect("read");
        File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)))
            .and_then(|mut f| f.read_to_string(&mut text))
            .expect("read");
        assert_eq!(text, "before and after");
        assert_eq!(file.metadata().expect("stat").nlink(), 0);
        let inside = dir.join("d");
        fs::create_dir(&inside).expect("mkdir");
        let open_dir = File::open(&inside).expect("opendir");
        fs::remove_dir(&inside).expect("rmdir");
        assert!(open_dir.metadata().is_ok());
        drop((file, open_dir));
        // The kernel sends FORGET asynchronously.
        for _ in 0..200 {
            if vfs.node_count() == 1 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} nodes are left", vfs.node_count());
    });
}

#[test]
fn a_file_without_a_name_is_made_and_may_get_one() {
    plain("unnamed", |dir, vfs| {
        let open = || File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(dir);
        let Ok(mut file) = open() else { return println!("skipped: this kernel's FUSE makes no files without a name") };
        file.write_all(b"text").expect("write");
        assert_eq!((file.metadata().expect("stat").nlink(), names(dir).len()), (0, 0));
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        rustix::fs::linkat(CWD, path, CWD, dir.join("f"), AtFlags::SYMLINK_FOLLOW).expect("linkat");
        assert_eq!(fs::read(dir.join("f")).expect("read"), b"text");
        drop((file, open().expect("another")));
        for _ in 0..200 {
            if vfs.node_count() == 2 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} nodes are left", vfs.node_count());
    });
}

#[test]
fn sizes_holes_and_ranges_are_as_requested() {
    plain("ranges", |dir, _| {
        let open = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(true).open(dir.join(name)).expect("open")
        };
        let (a, b) = (open("a"), open("b"));
        a.write_all_at(&pattern(1 << 20), 0).expect("write");
        a.set_len(3 << 20).expect("truncate");
        rustix::fs::fallocate(&a, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 256 << 10, 256 << 10)
            .expect("punch");
        assert_eq!(rustix::fs::seek(&a, SeekFrom::Hole(0)), Ok(256 << 10));
        assert_eq!(rustix::fs::seek(&a, SeekFrom::Data(256 << 10)), Ok(512 << 10));
        assert_eq!(rustix::fs::seek(&a, SeekFrom::Data(1 << 20)), Err(rustix::io::Errno::NXIO));
        rustix::fs::fallocate(&a, FallocateFlags::empty(), 3 << 20, 100).expect("reserve");
        assert_eq!(a.metadata().expect("stat").len(), (3 << 20) + 100);
        let mut buf = vec![1; 8192];
        a.read_exact_at(&mut buf, (256 << 10) - 4096).expect("read");
        assert_eq!((&buf[..4096], &buf[4096..]), (&pattern(256 << 10)[(256 << 10) - 4096..], &[0; 4096][..]));
        b.write_all_at(b"head", 0).expect("write");
        let (mut from, mut to) = (100, 4);
        let copied = rustix::fs::copy_file_range(&a, Some(&mut from), &b, Some(&mut to), 5000).expect("copy");
        assert_eq!(copied, 5000);
        let mut text = vec![0; 5004];
        b.read_exact_at(&mut text, 0).expect("read");
        assert_eq!((&text[..4], &text[4..]), (&b"head"[..], &pattern(5100)[100..]));
        a.sync_all().expect("fsync");
        File::open(dir).and_then(|d| d.sync_all()).expect("fsync of a directory");
    });
}

/// Data written through a mapping is not a hole, even before the server has seen it: `cp` asks
/// where data is and would lose it.
#[test]
fn data_that_only_the_kernel_has_is_not_a_hole() {
    plain("mapped", |dir, vfs| {
        let file = File::options().read(true).write(true).create_new(true).open(dir.join("f")).expect("open");
        file.set_len(4 << 20).expect("truncate");
        let mut written = super::super::sys::tests::map_and_write(&file, 2 << 20, b"mapped").expect("mmap");
        assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)), Ok(2 << 20));
        let node = vfs.lookup(vfs.root(), b"f").expect("there").node;
        assert_eq!(&vfs.read(node, 2 << 20, 6).expect("read")[..], b"mapped");
        assert_eq!(written.read(0, 6), b"mapped", "the mapping still works");
        written.write(1, b"M");
        file.sync_all().expect("fsync");
        assert_eq!(&vfs.read(node, 2 << 20, 6).expect("read")[..], b"mMpped");
    });
}

/// The kernel caches what it has seen for a year, unless it is notified of a change by others.
#[test]
fn changes_by_others_are_visible_once_notified() {
    let vfs = Arc::new(MemoryVfs::new().writable());
    let dir = std::env::temp_dir().join(format!("weir-write-others-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder to mount at");
    let Ok(handle) = mount(vfs.clone(), &dir, &MountOptions::default()) else {
        return fs::remove_dir(&dir).expect("still empty");
    };
    let changed = handle.changed();
    let m = Mounted { handle: Some(handle), dir, figures: Arc::default() };
    let (who, root) = (files::vfs::Caller::default(), vfs.root());
    fs::write(m.dir.join("f"), "old").expect("write");
    assert_eq!(errno(fs::metadata(m.dir.join("g"))), libc::ENOENT);
    assert_eq!(names(&m.dir), ["f"]);
    let node = vfs.lookup(root, b"f").expect("there").node;
    vfs.write(&who, node, 0, b"newer").expect("writes");
    vfs.create(&who, root, b"g", &files::vfs::NewNode::Regular, 0o644, 0).expect("makes");
    assert_eq!(fs::read(m.dir.join("f")).expect("read"), b"old");
    changed.node(node).expect("notified");
    changed.node(root).expect("notified");
    changed.name(root, b"g").expect("notified");
    assert_eq!(fs::read(m.dir.join("f")).expect("read"), b"newer");
    assert_eq!(fs::metadata(m.dir.join("g")).expect("stat").len(), 0);
    assert_eq!(names(&m.dir), ["f", "g"]);
}

/// Without a notification the kernel revalidates by itself, soon enough.
#[test]
fn changes_by_others_are_visible_in_a_shared_mount() {
    let vfs = Arc::new(MemoryVfs::new().writable());
    let dir = std::env::temp_dir().join(format!("weir-write-shared-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder to mount at");
    let options = MountOptions { shared: true, write_back: true, ..MountOptions::default() };
    let Ok(handle) = mount(vfs.clone(), &dir, &options) else {
        return fs::remove_dir(&dir).expect("still empty");
    };
    let m = Mounted { handle: Some(handle), dir, figures: options.figures.clone() };
    let (who, root) = (files::vfs::Caller::default(), vfs.root());
    fs::write(m.dir.join("f"), "old").expect("write");
    assert_eq!(errno(fs::metadata(m.dir.join("g"))), libc::ENOENT);
    assert_eq!(names(&m.dir), ["f"]);
    let node = vfs.lookup(root, b"f").expect("there").node;
    assert_eq!(&vfs.read(node, 0, 3).expect("read")[..], b"old", "nothing is withheld");
    assert_eq!(fs::read(m.dir.join("f")).expect("read"), b"old");
    vfs.write(&who, node, 0, b"newer").expect("writes");
    vfs.create(&who, root, b"g", &files::vfs::NewNode::Regular, 0o644, 0).expect("makes");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(fs::read(m.dir.join("f")).expect("read"), b"newer");
    assert_eq!(fs::metadata(m.dir.join("g")).expect("stat").len(), 0);
    assert_eq!(names(&m.dir), ["f", "g"]);
}

/// With write-back, the kernel's flusher sends pages and times concurrently. Whichever arrives
/// first, the times remain those that the kernel has shown.
#[test]
fn times_that_were_seen_are_the_same_after_unmounting() {
    for write_back in [false, true] {
        let vfs = Arc::new(MemoryVfs::new().writable());
        let dir = std::env::temp_dir().join(format!("weir-write-times-{write_back}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder to mount at");
        let options = MountOptions { write_back, ..MountOptions::default() };
        let Ok(handle) = mount(vfs.clone(), &dir, &options) else {
            return fs::remove_dir(&dir).expect("still empty");
        };
        let m = Mounted { handle: Some(handle), dir, figures: options.figures.clone() };
        let mut seen = Vec::new();
        for round in 0..3 {
            let files: Vec<_> = (0..200)
                .map(|i| {
                    let mut file = File::create(m.dir.join(format!("{round}-{i}"))).expect("create");
                    file.write_all(&pattern(100 + i * 50)).expect("write");
                    file
                })
                .collect();
            let top = File::open(&m.dir).expect("open");
            rustix::fs::syncfs(&top).expect("syncfs");
            for (i, file) in files.iter().enumerate() {
                let stat = file.metadata().expect("stat");
                seen.push((format!("{round}-{i}"), (stat.mtime(), stat.mtime_nsec() as u32)));
            }
        }
        drop(m);
        let moved = seen.iter().filter(|(name, mtime)| {
            let now = vfs.lookup(vfs.root(), name.as_bytes()).expect("there").mtime;
            (now.seconds, now.nanoseconds) != *mtime
        });
        assert_eq!(moved.count(), 0, "of {} files, write-back: {write_back}", seen.len());
    }
}

#[test]
fn reading_an_empty_file_moves_its_access_time() {
    plain("empty", |dir, _| {
        let path = dir.join("f");
        File::create(&path).expect("create");
        let old = Timespec { tv_sec: 5, tv_nsec: 6 };
        let times = Timestamps { last_access: old, last_modification: old };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).expect("utimensat");
        assert_eq!(fs::metadata(&path).expect("stat").atime(), 5);
        assert_eq!(fs::read(&path).expect("read"), b"");
        assert!(fs::metadata(&path).expect("stat").atime() > 1_000_000);
    });
}

#[test]
fn the_time_of_birth_shows() {
    plain("birth", |dir, vfs| {
        fs::write(dir.join("f"), "x").expect("write");
        let born = vfs.lookup(vfs.root(), b"f").expect("there").btime;
        let old = Timespec { tv_sec: 5, tv_nsec: 6 };
        let times = Timestamps { last_access: old, last_modification: old };
        rustix::fs::utimensat(CWD, dir.join("f"), &times, AtFlags::empty()).expect("utimensat");
        let stat = fs::metadata(dir.join("f")).expect("statx");
        let Ok(shown) = stat.created() else { return println!("skipped: this kernel's FUSE reports no birth times") };
        let shown = shown.duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        assert_eq!((shown.as_secs() as i64, shown.subsec_nanos()), (born.seconds, born.nanoseconds));
    });
}

#[test]
fn attributes_modes_and_times_are_set() {
    plain("attributes", |dir, vfs| {
        let path = dir.join("f");
        fs::write(&path, "text").expect("write");
        fs::set_permissions(&path, Permissions::from_mode(0o6751)).expect("chmod");
        assert_eq!(fs::metadata(&path).expect("stat").mode() & 0o7777, 0o6751);
        let node = vfs.lookup(vfs.root(), b"f").expect("there").node;
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1000), Some(1001)).expect("chown");
            let stat = fs::metadata(&path).expect("stat");
            assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o7777), (1000, 1001, 0o751));
        }
        let (old, older) = (Timespec { tv_sec: -1, tv_nsec: 999_999_999 }, Timespec { tv_sec: -5, tv_nsec: 0 });
        let times = Timestamps { last_access: old, last_modification: older };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).expect("utimensat");
        let stat = fs::metadata(&path).expect("stat");
        assert_eq!((stat.atime(), stat.atime_nsec(), stat.mtime()), (-1, 999_999_999, -5));
        assert_eq!(vfs.attr(node).expect("there").mtime.seconds, -5);
        rustix::fs::setxattr(&path, "user.a", b"1", XattrFlags::CREATE).expect("setxattr");
        let again = rustix::fs::setxattr(&path, "user.a", b"1", XattrFlags::CREATE);
        assert_eq!(again.expect_err("there"), rustix::io::Errno::EXIST);
        rustix::fs::removexattr(&path, "user.a").expect("removexattr");
        let gone = rustix::fs::removexattr(&path, "user.a");
        assert_eq!(gone.expect_err("gone"), rustix::io::Errno::NODATA);
    });
}

/// A user's write clears setuid, and the kernel does not show it any longer. The test reads only
/// the mode, which the kernel keeps cached when contents change.
#[test]
fn setuid_is_visibly_cleared_when_another_user_writes() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    plain("setuid", |dir, vfs| {
        fs::set_permissions(dir, Permissions::from_mode(0o777)).expect("chmod");
        for command in ["printf x >> $0", "dd if=/dev/zero of=$0 bs=4096 count=1 oflag=direct conv=notrunc 2>/dev/null"]
        {
            let path = dir.join("f");
            fs::write(&path, vec![1; 8192]).expect("write");
            std::os::unix::fs::chown(&path, Some(65534), Some(65534)).expect("chown");
            fs::set_permissions(&path, Permissions::from_mode(0o6755)).expect("chmod");
            let mode = || {
                let mask = rustix::fs::StatxFlags::MODE;
                rustix::fs::statx(CWD, &path, AtFlags::empty(), mask).expect("statx").stx_mode & 0o7777
            };
            assert_eq!(mode(), 0o6755);
            use std::os::unix::process::CommandExt;
            let mut shell = std::process::Command::new("sh");
            let status = shell.arg("-c").arg(command).arg(&path).uid(65534).gid(65534).status().expect("a shell");
            assert!(status.success(), "{command}: {status}");
            assert_eq!(mode(), 0o755, "{command}");
            let node = vfs.lookup(vfs.root(), b"f").expect("there").node;
            assert_eq!(vfs.attr(node).expect("there").mode, 0o755, "{command}");
        }
    });
}

/// The directory's default ACL determines a new file's permissions, and the umask does not.
#[test]
fn default_lists_are_handed_down() {
    plain("acl", |dir, vfs| {
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, bits, id) in [(1, 7, u32::MAX), (2, 6, 1000), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
        {
            list.extend_from_slice(&u16::to_le_bytes(tag));
            list.extend_from_slice(&u16::to_le_bytes(bits));
            list.extend_from_slice(&u32::to_le_bytes(id));
        }
        rustix::fs::setxattr(dir, "system.posix_acl_default", &list, XattrFlags::empty()).expect("setfacl -d");
        File::options().write(true).create_new(true).mode(0o666).open(dir.join("f")).expect("open");
        fs::create_dir(dir.join("d")).expect("mkdir");
        assert_eq!(fs::metadata(dir.join("f")).expect("stat").mode() & 0o777, 0o660);
        let mut value = [0; 64];
        let len = rustix::fs::getxattr(dir.join("f"), "system.posix_acl_access", &mut value[..]).expect("getfacl");
        assert_eq!(len, list.len());
        rustix::fs::getxattr(dir.join("d"), "system.posix_acl_default", &mut value[..]).expect("getfacl -d");
        fs::set_permissions(dir.join("f"), Permissions::from_mode(0o604)).expect("chmod");
        rustix::fs::getxattr(dir.join("f"), "system.posix_acl_access", &mut value[..]).expect("getfacl");
        let node = vfs.lookup(vfs.root(), b"f").expect("there").node;
        assert_eq!(Some(value[..len].to_vec()), vfs.get_xattr(node, b"system.posix_acl_access").expect("reads"));
    });
}

#[test]
fn past_the_cache_and_through_it_are_the_same_file() {
    plain("direct", |dir, _| {
        let path = dir.join("f");
        let cached = File::options().read(true).write(true).create_new(true).open(&path).expect("open");
        let flags = OFlags::RDWR | OFlags::DIRECT;
        let direct = File::from(rustix::fs::open(&path, flags, Mode::empty()).expect("open O_DIRECT"));
        let mut block = super::super::sys::tests::Aligned([7; 8192]);
        direct.write_all_at(&block.0, 0).expect("write");
        let mut buf = vec![0; 8192];
        cached.read_exact_at(&mut buf, 0).expect("read");
        assert_eq!(buf, block.0);
        cached.write_all_at(&[9; 100], 4000).expect("write");
        direct.read_exact_at(&mut block.0, 0).expect("read");
        assert_eq!((block.0[3999], block.0[4000], block.0[4100]), (7, 9, 7));
    });
}

#[test]
fn a_full_file_system_returns_enospc_and_keeps_its_contents() {
    each_way(
        "full",
        || MemoryVfs::new().limit(1 << 20),
        |dir, _| {
            fs::write(dir.join("fits"), pattern(512 << 10)).expect("write");
            let mut file = File::create(dir.join("f")).expect("open");
            let written = file.write_all(&pattern(2 << 20)).and_then(|()| file.sync_all());
            assert_eq!(errno(written), libc::ENOSPC);
            assert_eq!(fs::read(dir.join("fits")).expect("read"), pattern(512 << 10));
        },
    );
}

#[test]
fn projects_are_read_and_set() {
    plain("project", |dir, vfs| {
        use super::super::sys::tests::{get_project, set_project};
        let d = dir.join("d");
        fs::create_dir(&d).expect("mkdir");
        let open = File::open(&d).expect("open");
        assert_eq!(get_project(&open).expect("ioctl"), (0, false));
        set_project(&open, 42, true).expect("ioctl");
        assert_eq!(get_project(&open).expect("ioctl"), (42, true));
        let file = File::create(d.join("f")).expect("open");
        // OpenZFS keeps the flag of a regular file, where it means nothing.
        assert_eq!(get_project(&file).expect("ioctl"), (42, true));
        set_project(&file, 42, false).expect("ioctl");
        assert_eq!(get_project(&file).expect("ioctl"), (42, false));
        set_project(&file, 7, true).expect("ioctl");
        assert_eq!(get_project(&file).expect("ioctl"), (7, true));
        set_project(&file, 42, true).expect("ioctl");
        assert_eq!(vfs.lookup(vfs.lookup(vfs.root(), b"d").expect("d").node, b"f").expect("f").project, 42);
        fs::write(dir.join("g"), "x").expect("write");
        assert_eq!(errno(fs::rename(dir.join("g"), d.join("g"))), libc::EXDEV);
    });
}

#[test]
fn dos_flags_are_read_and_set() {
    plain("dosflags", |dir, vfs| {
        use super::super::sys::tests::{dos_flags, set_dos_flags};
        let file = File::create(dir.join("f")).expect("open");
        let (hidden, read_only) = (1 << 33, 1 << 32);
        set_dos_flags(&file, hidden | read_only).expect("ioctl");
        assert_eq!(dos_flags(&file).expect("ioctl"), hidden | read_only);
        set_dos_flags(&file, read_only).expect("ioctl");
        assert_eq!(dos_flags(&file).expect("ioctl"), read_only);
        // Flags that are no DOS flags.
        assert_eq!(errno(set_dos_flags(&file, 1)), libc::EOPNOTSUPP);
        let node = vfs.lookup(vfs.root(), b"f").expect("f").node;
        assert_eq!(vfs.dos_flags(node).expect("flags").bits(), read_only);
    });
}

/// Random small reads make the server store whole records without a request. A write in between
/// must always win.
#[test]
fn records_given_unasked_never_undo_a_write() {
    plain("ahead", |dir, _| {
        let path = dir.join("f");
        let mut data = pattern(4 << 20);
        fs::write(&path, &data).expect("write");
        let mut at = 7_usize;
        for round in 0..300 {
            let reader = File::open(&path).expect("open");
            rustix::fs::fadvise(&reader, 0, None, rustix::fs::Advice::DontNeed).expect("fadvise");
            let mut buf = vec![0; 8192];
            for _ in 0..8 {
                at = (at * 1_103_515_245 + 12_345) % (data.len() - buf.len());
                reader.read_exact_at(&mut buf, at as u64).expect("read");
                assert_eq!(buf, data[at..at + buf.len()], "round {round} at {at}");
            }
            let writer = File::options().write(true).open(&path).expect("open");
            let new = vec![round as u8; 5000];
            writer.write_all_at(&new, at as u64).expect("write");
            data[at..at + new.len()].copy_from_slice(&new);
        }
        assert_eq!(fs::read(&path).expect("read"), data);
    });
}

/// Many threads create, write, rename and remove in one directory. Afterwards it contains exactly
/// what each thread left.
#[test]
fn concurrent_writers_leave_the_result_of_each() {
    plain("crowd", |dir, vfs| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for i in 0..50 {
                        let (name, other) = (dir.join(format!("t{thread}-{i}")), dir.join(format!("u{thread}-{i}")));
                        fs::write(&name, pattern(i * 1000)).expect("write");
                        fs::rename(&name, &other).expect("rename");
                        assert_eq!(fs::read(&other).expect("read"), pattern(i * 1000));
                        if i % 2 == 0 {
                            fs::remove_file(&other).expect("unlink");
                        }
                        // A listing may contain any names of other threads that come and go
                        // meanwhile, even both names of a rename. The names of this thread are
                        // known.
                        let mine = format!("u{thread}-");
                        let listed = names(dir).into_iter().filter(|n| n.starts_with(&mine)).count();
                        assert_eq!(listed, i.div_ceil(2), "of thread {thread} after {i}");
                    }
                });
            }
        });
        let left = names(dir);
        assert_eq!(left.len(), 8 * 25);
        assert!(left.iter().all(|n| n.starts_with('u')));
        assert_eq!(vfs.attr(vfs.root()).expect("root").size, 2 + 200);
    });
}

#[test]
fn a_mount_can_be_read_only_though_the_tree_is_not() {
    let vfs = Arc::new(MemoryVfs::new().writable());
    let dir = std::env::temp_dir().join(format!("weir-write-ro-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder to mount at");
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let Ok(handle) = mount(vfs, &dir, &options) else { return fs::remove_dir(&dir).expect("still empty") };
    let m = Mounted { handle: Some(handle), dir, figures: options.figures.clone() };
    assert_eq!(errno(File::create(m.dir.join("f"))), libc::EROFS);
}

/// Writes that continue after the tree was detached are not lost when the server ends.
#[test]
fn writes_to_a_detached_tree_are_kept() {
    let mut vfs = MemoryVfs::new().writable();
    let root = vfs.root();
    vfs.attr_mut(root).uid = rustix::process::geteuid().as_raw();
    let vfs = Arc::new(vfs);
    let dir = std::env::temp_dir().join(format!("weir-write-detached-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder to mount at");
    let Ok(handle) = mount(vfs.clone(), &dir, &MountOptions::default()) else {
        return fs::remove_dir(&dir).expect("still empty");
    };
    let mut file = File::create(dir.join("f")).expect("open");
    handle.unmounter().unmount_now().expect("detached");
    file.write_all(b"late").expect("still served");
    drop(file);
    handle.wait().expect("synced");
    fs::remove_dir(&dir).expect("nothing is left mounted");
    let node = vfs.lookup(root, b"f").expect("there").node;
    assert_eq!(&vfs.read(node, 0, 9).expect("reads")[..], b"late");
}
