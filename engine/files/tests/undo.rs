//! Operations on names that an error interrupts, live and replayed from the intent log: whichever
//! read fails, everything is as before the operation, and repeating it does what it would have
//! done.

use crate::support::Fixture;
use errors::{Error, Result};
use files::vfs::{Attr, Caller, FileKind, NewNode, NodeId, RenameFlags, SetXattr, Time, Vfs};
use files::zpl::backing::{Settings, XattrMode};
use files::zpl::{CreateOptions, FileSystem};
use ondisk::zil::Record;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

fn root() -> Caller {
    Caller { privileged: true, ..Caller::default() }
}

/// Path, attributes, contents of extended attributes.
type Tree = BTreeMap<String, (Attr, Vec<(Vec<u8>, Vec<u8>)>)>;

/// Everything that a file system shows, and the objects that it has.
#[derive(Debug, PartialEq)]
struct Seen {
    tree: Tree,
    unlinked: Vec<u64>,
    objects: Vec<u64>,
}

const OBJECTS_MAX: u64 = 4000;

fn see(f: &Fixture) -> Seen {
    fn walk(fs: &FileSystem, node: NodeId, path: String, tree: &mut Tree) {
        let attr = Attr { blocks_512: 0, ..fs.attr(node).unwrap() };
        let mut xattrs: Vec<_> =
            fs.list_xattr(node).unwrap().into_iter().map(|n| (fs.get_xattr(node, &n).unwrap().unwrap(), n)).collect();
        xattrs.sort();
        if attr.kind == FileKind::Directory {
            let mut entries = Vec::new();
            fs.read_dir(node, 2, &mut |e| {
                entries.push((e.name, e.node));
                true
            })
            .unwrap();
            assert_eq!(attr.size, entries.len() as u64 + 2, "{path}");
            for (name, node) in entries {
                assert_eq!(fs.lookup(NodeId(attr.ino), &name).unwrap().node, node);
                walk(fs, node, format!("{path}/{}", String::from_utf8_lossy(&name)), tree);
            }
        }
        tree.insert(path, (attr, xattrs));
    }
    let mut tree = Tree::new();
    walk(&f.fs, f.fs.root(), String::new(), &mut tree);
    let objects = (1..OBJECTS_MAX).filter(|id| f.objset.object(*id).is_ok()).collect();
    Seen { tree, unlinked: f.fs.unlinked().unwrap(), objects }
}

/// The part that is the same whenever an operation is done. The number of a new file may be another
/// one: the one that a failed attempt freed is not available before the next txg.
fn lasting(f: &Fixture) -> (Vec<(String, Attr)>, usize) {
    f.fs.drain_unlinked().unwrap();
    let seen = see(f);
    assert_eq!(seen.unlinked, []);
    let never = Time { seconds: 0, nanoseconds: 0 };
    let tree = seen.tree.into_iter().map(|(path, (attr, _))| {
        let same = Attr { node: NodeId(0), ino: 0, mtime: never, ctime: never, atime: never, btime: never, ..attr };
        (path, same)
    });
    (tree.collect(), seen.objects.len())
}

fn posix_list() -> Vec<u8> {
    let entries = [(1u16, 6u16, u32::MAX), (2, 4, 77), (4, 4, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)];
    let bytes = entries
        .iter()
        .flat_map(|(tag, bits, id)| [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat());
    2u32.to_le_bytes().into_iter().chain(bytes).collect()
}

/// A file system on disk. Files that operations involve are in different blocks of dnodes, so that
/// each of them is read by itself.
fn base() -> Fixture {
    let f = Fixture::new(
        Settings { posix_acl: true, xattr: XattrMode::Dir, ..Settings::default() },
        &CreateOptions::default(),
    );
    f.backing.embeds.store(false, Ordering::Relaxed);
    let (who, top) = (root(), f.fs.root());
    let far = || {
        for _ in 0..40 {
            let node = f.fs.create_unnamed(&who, top, 0o600, 0).unwrap().node;
            f.fs.open_node(node).unwrap();
        }
    };
    let make = |dir, name: &str, new: &NewNode| {
        far();
        f.fs.create(&who, dir, name.as_bytes(), new, 0o755, 0).unwrap().node
    };
    let a = make(top, "a", &NewNode::Directory);
    let b = make(top, "b", &NewNode::Directory);
    make(a, "file", &NewNode::Regular);
    make(a, "dir", &NewNode::Directory);
    let dir = make(b, "dir", &NewNode::Directory);
    make(dir, "below", &NewNode::Regular);
    make(b, "empty", &NewNode::Directory);
    let target = make(b, "target", &NewNode::Regular);
    far();
    f.fs.set_xattr(&who, target, b"user.x", &[7; 5000], SetXattr::Either).unwrap();
    let inherits = make(top, "inherits", &NewNode::Directory);
    f.fs.set_xattr(&who, inherits, b"system.posix_acl_default", &posix_list(), SetXattr::Either).unwrap();
    let open = make(b, "open", &NewNode::Regular);
    // Fat directories, one of which has leaves without names.
    let (full, rare) = (make(top, "full", &NewNode::Directory), make(top, "rare", &NewNode::Directory));
    let names: Vec<_> = (0..300).map(|i| format!("{i:0200}")).collect();
    for name in &names {
        f.fs.link(&who, open, full, name.as_bytes()).unwrap();
        f.fs.link(&who, open, rare, name.as_bytes()).unwrap();
    }
    for name in &names[1..] {
        f.fs.unlink(&who, rare, name.as_bytes()).unwrap();
    }
    f.sync();
    // The unnamed files leave room for new ones between the others.
    let f = f.reopened();
    f.fs.drain_unlinked().unwrap();
    f.sync();
    f.reopened_cold()
}

type Operation = fn(&FileSystem) -> Result<()>;

fn find(fs: &FileSystem, path: &str) -> Result<NodeId> {
    path.split('/').try_fold(fs.root(), |at, name| Ok(fs.lookup(at, name.as_bytes())?.node))
}

fn rename(fs: &FileSystem, from: &str, to: &str, flags: RenameFlags) -> Result<()> {
    let ((from_dir, from), (to_dir, to)) = (from.rsplit_once('/').unwrap(), to.rsplit_once('/').unwrap());
    fs.rename(&root(), find(fs, from_dir)?, from.as_bytes(), find(fs, to_dir)?, to.as_bytes(), flags)
}

const PLAIN: RenameFlags = RenameFlags { no_replace: false, exchange: false, whiteout: false };
const EXCHANGE: RenameFlags = RenameFlags { exchange: true, ..PLAIN };
const WHITEOUT: RenameFlags = RenameFlags { whiteout: true, ..PLAIN };

/// The operations, and whether each is one record.
const OPERATIONS: [(&str, bool, Operation); 13] = [
    ("move", true, |fs| rename(fs, "a/file", "b/new", PLAIN)),
    ("move a directory", true, |fs| rename(fs, "a/dir", "b/new", PLAIN)),
    ("replace a file with attributes", true, |fs| rename(fs, "a/file", "b/target", PLAIN)),
    ("replace a file in use", true, |fs| rename(fs, "a/file", "b/open", PLAIN)),
    ("replace a directory", true, |fs| rename(fs, "a/dir", "b/empty", PLAIN)),
    ("exchange", true, |fs| rename(fs, "a/file", "b/dir", EXCHANGE)),
    ("leave a whiteout", true, |fs| rename(fs, "a/file", "b/new", WHITEOUT)),
    ("replace and leave a whiteout", true, |fs| rename(fs, "a/file", "b/target", WHITEOUT)),
    ("leave a fat directory", true, |fs| rename(fs, &format!("rare/{:0200}", 0), "full/new", PLAIN)),
    ("remove", true, |fs| fs.unlink(&root(), find(fs, "b")?, b"target")),
    ("remove a directory", true, |fs| fs.rmdir(&root(), find(fs, "b")?, b"empty")),
    ("link", true, |fs| fs.link(&root(), find(fs, "a/file")?, find(fs, "full")?, b"new").map(drop)),
    ("create with an inherited list", false, |fs| {
        fs.create(&root(), find(fs, "inherits")?, b"new", &NewNode::Regular, 0o644, 0).map(drop)
    }),
];

/// Does an operation with more and more reads that succeed, until none fails.
fn interrupt(name: &str, base: &Fixture, operation: &dyn Fn(&FileSystem) -> Result<()>) {
    let reference = base.reopened_cold();
    let before = see(&reference);
    operation(&reference.fs).unwrap();
    let after = lasting(&reference);
    let mut failures = 0;
    for reads in 0.. {
        let f = base.reopened_cold();
        let disk = &f.backing.disk;
        disk.allow_reads(reads);
        let result = operation(&f.fs);
        let failed = disk.failed_reads();
        disk.allow_reads(u64::MAX);
        match result {
            Ok(()) => {}
            Err(Error::Io { .. }) => {
                failures += 1;
                let now = see(&f);
                for (path, was) in &before.tree {
                    assert_eq!(now.tree.get(path), Some(was), "{name}: {path} after {reads} reads");
                }
                assert!(now == before, "{name} after {reads} reads: {now:?}");
                assert!(f.backing.records.lock().is_empty() && !f.backing.has_unlogged(), "{name} after {reads} reads");
                operation(&f.fs).unwrap();
            }
            Err(error) => panic!("{name} after {reads} reads: {error}"),
        }
        assert!(lasting(&f) == after, "{name} after {reads} reads");
        if failed == 0 {
            break;
        }
    }
    assert!(failures > 1, "{name}: {failures} failures");
}

#[test]
fn an_operation_that_a_failed_read_interrupts_changes_nothing_and_can_be_repeated() {
    let base = base();
    for (name, _, operation) in OPERATIONS {
        interrupt(name, &base, &operation);
    }
}

/// A rename whose target, or whose whiteout, could not be read was left half-done: the retry of its
/// record, or the records after it, found names that had moved already.
#[test]
fn a_record_whose_replay_a_failed_read_interrupts_changes_nothing_and_can_be_replayed_again() {
    let base = base();
    for (name, is_one, operation) in OPERATIONS {
        let f = base.reopened_cold();
        operation(&f.fs).unwrap();
        let records = f.backing.records.lock().clone();
        if !is_one {
            continue;
        }
        assert_eq!(records.len(), 1, "{name}");
        let replay = |fs: &FileSystem| {
            fs.replaying(|| {
                let record = Record::parse(&records[0], ondisk::Endian::Little)?;
                let body = record.parse_body()?;
                fs.replay_record(&record, &body)
            })
        };
        interrupt(name, &base, &replay);
    }
}

/// The changes of an interrupted replay are synced with its txg.
#[test]
fn a_record_whose_replay_was_interrupted_can_be_skipped() {
    let (mut reads, mut is_done) = (0, false);
    while !is_done {
        let base = base();
        let f = base.reopened_cold();
        let before = see(&f);
        rename(&f.fs, "a/file", "b/target", WHITEOUT).unwrap();
        let records = f.backing.records.lock().clone();
        let f = base.reopened_cold();
        f.backing.disk.allow_reads(reads);
        let result = f.fs.replaying(|| {
            let record = Record::parse(&records[0], ondisk::Endian::Little)?;
            f.fs.replay_record(&record, &record.parse_body()?)
        });
        is_done = f.backing.disk.failed_reads() == 0;
        f.backing.disk.allow_reads(u64::MAX);
        f.sync();
        let f = f.reopened_cold();
        if result.is_err() {
            assert!(see(&f) == before, "after {reads} reads");
        }
        reads += 3;
    }
}
