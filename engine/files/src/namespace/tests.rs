//! Tests of in-memory trees mounted below one another.

mod life;

use super::layers::OPEN_MAX;
use super::number::OBJECT_BITS;
use super::*;
use crate::memory::MemoryVfs;
use crate::vfs::{Attr, Caller, DirEntry, FileHandle, FileKind, StatFs};
use bytes::Bytes;
use errors::Error;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Dataset {
    name: &'static str,
    visible: AtomicBool,
    children: Vec<(&'static str, Arc<Dataset>)>,
    snapshots: Vec<&'static str>,
    volumes: Vec<&'static str>,
    opened: AtomicUsize,
    /// How often snapshot names were reassigned.
    retaken: AtomicUsize,
    locked: bool,
}

fn dataset(name: &'static str) -> Dataset {
    Dataset {
        name,
        visible: AtomicBool::new(false),
        children: Vec::new(),
        snapshots: vec!["s1", "s2"],
        volumes: vec!["vol", "vol@s1"],
        opened: AtomicUsize::new(0),
        retaken: AtomicUsize::new(0),
        locked: false,
    }
}

fn files(name: &str) -> Arc<dyn Vfs> {
    let mut t = MemoryVfs::new();
    let root = t.root();
    t.add_file(root, "which", name.to_owned());
    t.add_dir(root, "home");
    t.add_dir(root, "last");
    // Snapshots and volumes are not listed.
    let t = t.identity(name.bytes().fold(7, |hash: u64, b| hash.wrapping_mul(31) + u64::from(b)));
    Arc::new(if name.contains('@') { t } else { t.writable() })
}

fn numbered(names: &[&str]) -> Vec<NumberedName> {
    (1..).zip(names).map(|(number, &name)| NumberedName { name: name.to_owned(), number }).collect()
}

impl Provider for Dataset {
    fn name(&self) -> String {
        self.name.to_owned()
    }
    fn root(&self) -> Result<Arc<dyn Vfs>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        if self.locked { Err(Error::KeyUnavailable { place: self.name.to_owned() }) } else { Ok(files(self.name)) }
    }
    fn control(&self) -> Control {
        if self.visible.load(Ordering::Relaxed) { Control::Visible } else { Control::Hidden }
    }
    fn children(&self) -> Result<Vec<Child>> {
        let child = |(place, d): &(&'static str, Arc<Dataset>)| Child {
            place: place.as_bytes().to_vec(),
            key: d.name.to_owned(),
        };
        Ok(self.children.iter().map(child).collect())
    }
    fn snapshots(&self) -> Result<Vec<NumberedName>> {
        Ok(numbered(&self.snapshots))
    }
    fn volumes(&self) -> Result<Vec<NumberedName>> {
        Ok(numbered(&self.volumes))
    }
    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>> {
        let found = self.children.iter().find(|c| c.1.name == key);
        Ok(found.ok_or_else(|| Error::not_found(self.name, key))?.1.clone())
    }
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        let times = self.retaken.load(Ordering::Relaxed);
        Ok(files(&format!("{}@{name}{}", self.name, "'".repeat(times))))
    }
    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        Ok(Arc::new(Volume(name.to_owned().into())))
    }
}

struct Volume(Bytes);

impl Vfs for Volume {
    fn root(&self) -> NodeId {
        NodeId(1)
    }
    fn lookup(&self, _dir: NodeId, _name: &[u8]) -> Result<Attr> {
        Err(Error::invalid("volume", "not a directory"))
    }
    fn attr(&self, _node: NodeId) -> Result<Attr> {
        let mut t = MemoryVfs::new();
        let file = t.add_file(t.root(), "f", self.0.clone());
        Ok(Attr { node: NodeId(1), ..*t.attr_mut(file) })
    }
    fn read_link(&self, _node: NodeId) -> Result<Vec<u8>> {
        Err(Error::invalid("volume", "not a link"))
    }
    fn read(&self, _node: NodeId, _offset: u64, _len: usize) -> Result<Bytes> {
        Ok(self.0.clone())
    }
    fn read_dir(&self, _dir: NodeId, _cookie: u64, _sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        Err(Error::invalid("volume", "not a directory"))
    }
    fn list_xattr(&self, _node: NodeId) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
    fn get_xattr(&self, _node: NodeId, _name: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
    fn seek_data(&self, _node: NodeId, offset: u64) -> Result<Option<u64>> {
        Ok(Some(offset))
    }
    fn seek_hole(&self, _node: NodeId, _offset: u64) -> Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn stat_fs(&self, _node: NodeId) -> Result<StatFs> {
        Err(Error::invalid("volume", "not a file system"))
    }
    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        Ok(FileHandle { fs_guid: 1000 + self.0.len() as u64, object: node.0, generation: 0 })
    }
}

fn tree() -> (Namespace, Arc<Dataset>) {
    let mut locked = dataset("tank/secret");
    locked.locked = true;
    let mut home = dataset("tank/home");
    home.visible = AtomicBool::new(true);
    home.children.push(("ann", Arc::new(dataset("tank/home/ann"))));
    let mut tank = dataset("tank");
    tank.children.push(("home", Arc::new(home)));
    tank.children.push(("new/deep", Arc::new(dataset("tank/deep"))));
    tank.children.push(("new/secret", Arc::new(locked)));
    let tank = Arc::new(tank);
    (Namespace::new(tank.clone()).expect("opens"), tank)
}

fn walk(ns: &Namespace, path: &str) -> Result<Attr> {
    let mut at = ns.attr(ns.root())?;
    for name in path.split('/').filter(|c| !c.is_empty()) {
        at = ns.lookup(at.node, name.as_bytes())?;
        assert_eq!(ns.attr(at.node)?, at, "{path}: attributes are the same both ways");
    }
    Ok(at)
}

fn text(ns: &Namespace, path: &str) -> String {
    let file = walk(ns, path).expect(path);
    String::from_utf8(ns.read(file.node, 0, 100).expect(path).to_vec()).expect("text")
}

fn list(ns: &Namespace, path: &str) -> Vec<String> {
    let dir = walk(ns, path).expect(path).node;
    let (mut names, mut cookie) = (Vec::new(), 0);
    // One at a time, so that every cookie is used.
    loop {
        let before = names.len();
        ns.read_dir(dir, cookie, &mut |e| {
            names.push(String::from_utf8(e.name).expect("text"));
            cookie = e.next_cookie;
            false
        })
        .expect(path);
        if names.len() == before {
            return names;
        }
    }
}

#[test]
fn children_cover_their_place() {
    let (ns, _) = tree();
    assert_eq!(text(&ns, "which"), "tank");
    assert_eq!(text(&ns, "home/which"), "tank/home");
    assert_eq!(text(&ns, "home/ann/which"), "tank/home/ann");
    assert_eq!(text(&ns, "new/deep/which"), "tank/deep");
    assert_eq!(list(&ns, ""), [".", "..", "which", "home", "last", "new"]);
    assert_eq!(list(&ns, "home"), [".", "..", "which", "home", "last", "ann", ".zfs"]);
    assert_eq!(list(&ns, "new"), [".", "..", "deep", "secret"]);
    assert!(matches!(walk(&ns, "new/secret"), Err(Error::KeyUnavailable { .. })));
    assert!(matches!(walk(&ns, "new/none"), Err(Error::NotFound { .. })));
}

#[test]
fn dot_dot_leads_to_the_parent_everywhere() {
    let (ns, _) = tree();
    let at = |p: &str| walk(&ns, p).expect(p).node;
    assert_eq!(at(".."), ns.root());
    assert_eq!(at("home/.."), ns.root());
    assert_eq!(at("home/ann/.."), at("home"));
    assert_eq!(at("new/deep/../.."), ns.root());
    assert_eq!(at(".zfs/.."), ns.root());
    assert_eq!(at(".zfs/snapshot/s1/../../.."), ns.root());
    assert_ne!(at("home/which"), at("home/ann/which"));
}

#[test]
fn the_control_directory_is_found_and_hidden() {
    let (ns, _) = tree();
    assert_eq!(list(&ns, ".zfs"), [".", "..", "snapshot", "volume"]);
    assert_eq!(list(&ns, ".zfs/snapshot"), [".", "..", "s1", "s2"]);
    assert_eq!(text(&ns, ".zfs/snapshot/s2/which"), "tank@s2");
    assert_eq!(text(&ns, "home/.zfs/snapshot/s1/which"), "tank/home@s1");
    assert!(walk(&ns, ".zfs/snapshot/none").is_err());
    assert!(walk(&ns, ".zfs/snapshot/s1/.zfs").is_err(), "a snapshot has none");
    assert_eq!(list(&ns, ".zfs/volume"), [".", "..", "vol", "vol@s1"]);
    let volume = walk(&ns, ".zfs/volume/vol@s1").expect("volume");
    assert_eq!((volume.kind, volume.size), (FileKind::Regular, 6));
    assert_eq!(text(&ns, ".zfs/volume/vol@s1"), "vol@s1");
}

/// It was listed as it was when the tree was opened.
#[test]
fn the_control_directory_is_listed_while_it_is_visible() {
    let home = Arc::new(dataset("tank/home"));
    let ns = Namespace::new(home.clone()).expect("opens");
    let is_listed = || list(&ns, "").contains(&".zfs".to_owned());
    for visible in [false, true, false] {
        home.visible.store(visible, Ordering::Relaxed);
        assert_eq!(is_listed(), visible);
        walk(&ns, ".zfs/snapshot").expect("found, listed or not");
    }
}

#[test]
fn listing_opens_nothing_and_doors_lead_in() {
    let (ns, tank) = tree();
    let home = &tank.children[0].1;
    list(&ns, "");
    assert_eq!(home.opened.load(Ordering::Relaxed), 0);
    let mut door = None;
    ns.read_dir(ns.root(), 0, &mut |e| {
        if e.name == b"home" {
            door = Some(e.node);
        }
        true
    })
    .expect("lists");
    let door = door.expect("there");
    assert!(is_door(door));
    let attr = ns.attr(door).expect("opens");
    assert_eq!(attr, walk(&ns, "home").expect("home"));
    assert_eq!(ns.lookup(door, b"which").expect("in").node, walk(&ns, "home/which").expect("in").node);
    assert_eq!(home.opened.load(Ordering::Relaxed), 1);
}

#[test]
fn changes_apply_to_the_dataset_of_a_name_and_not_across() {
    use crate::vfs::{NewNode, RenameFlags};
    let (ns, _) = tree();
    let who = Caller::default();
    let why = |r: Result<()>| r.expect_err("refused").refusal().expect("not a failure");
    let root = ns.root();
    let home = walk(&ns, "home").expect("home").node;
    let made = ns.create(&who, home, b"new", &NewNode::Regular, 0o644, 0).expect("makes");
    assert_eq!(walk(&ns, "home/new").expect("there"), made);
    assert!(walk(&ns, "new/new").is_err());
    ns.write(&who, made.node, 0, b"text").expect("writes");
    assert_eq!(text(&ns, "home/new"), "text");
    let rename =
        |from, name: &[u8], to, to_name: &[u8]| why(ns.rename(&who, from, name, to, to_name, RenameFlags::default()));
    assert_eq!(rename(home, b"new", root, b"n"), Refusal::CrossDevice);
    assert_eq!(rename(root, b"home", root, b"h"), Refusal::Busy, "a child is mounted there");
    assert_eq!(why(ns.rmdir(&who, root, b"home")), Refusal::Busy);
    assert_eq!(why(ns.rmdir(&who, root, b".zfs")), Refusal::Busy);
    assert_eq!(why(ns.link(&who, made.node, root, b"n").map(drop)), Refusal::CrossDevice);
    let mkdir = |dir, name: &[u8]| why(ns.create(&who, dir, name, &NewNode::Directory, 0o755, 0).map(drop));
    assert_eq!(mkdir(root, b".zfs"), Refusal::Exists);
    assert_eq!(mkdir(walk(&ns, ".zfs/snapshot").expect("there").node, b"s3"), Refusal::ReadOnly);
    assert_eq!(mkdir(walk(&ns, ".zfs/snapshot/s1").expect("there").node, b"d"), Refusal::ReadOnly);
    ns.unlink(&who, home, b"new").expect("unlinks");
    ns.sync_all().expect("nothing to do in memory");
}

fn deep() -> Arc<Dataset> {
    let leaf = Arc::new(dataset("tank/way/to/leaf"));
    let inner = Arc::new(dataset("tank/home/inner"));
    let home = Arc::new(Dataset { children: vec![("inner", inner)], ..dataset("tank/home") });
    Arc::new(Dataset { children: vec![("home", home), ("way/to/leaf", leaf)], ..dataset("tank") })
}

#[test]
fn handles_refer_to_the_same_nodes_in_a_reopened_tree() {
    let paths = [
        "",
        "which",
        "home",
        "home/which",
        "home/inner/which",
        "way",
        "way/to",
        "way/to/leaf/which",
        ".zfs",
        ".zfs/snapshot",
        ".zfs/volume",
        ".zfs/snapshot/s2/which",
        "home/.zfs/snapshot/s1",
        "home/inner/.zfs/snapshot",
    ];
    let before = Namespace::new(deep()).expect("opens");
    let handles: Vec<_> = paths.iter().map(|p| before.handle(walk(&before, p).expect(p).node).expect(p)).collect();
    let different: std::collections::HashSet<_> = handles.iter().collect();
    assert_eq!(different.len(), paths.len());
    // Each in its own tree, so that nothing is open beforehand.
    for (path, handle) in paths.iter().zip(&handles) {
        let after = Namespace::new(deep()).expect("opens");
        let found = after.by_handle(handle).expect(path);
        let expected = walk(&after, path).expect(path);
        assert_eq!((found.kind, found.size), (expected.kind, expected.size), "{path}");
        assert_eq!(after.handle(found.node).expect(path), *handle, "{path}");
    }
}

#[test]
fn a_handle_of_a_missing_node_is_stale() {
    let tree = Namespace::new(deep()).expect("opens");
    let good = tree.handle(walk(&tree, "home/which").expect("exists").node).expect("handle");
    let bad = [
        FileHandle { fs_guid: good.fs_guid + 1, ..good },
        FileHandle { object: good.object + 1000, ..good },
        FileHandle { generation: good.generation + 1, ..good },
        FileHandle { object: FileHandle::MADE | 4 << OBJECT_BITS | 12345, ..good },
        FileHandle { object: FileHandle::MADE | 9 << OBJECT_BITS, ..good },
        FileHandle { object: u64::MAX, ..good },
    ];
    for handle in bad {
        let refused = tree.by_handle(&handle).map(|_| ()).expect_err("leads nowhere").refusal();
        assert_eq!(refused, Some(Refusal::Stale), "{handle:?}");
    }
}

#[test]
fn a_snapshot_belongs_to_the_file_system_that_it_is_of() {
    let tree = Namespace::new(deep()).expect("opens");
    let guid = |path: &str| tree.handle(walk(&tree, path).expect(path).node).expect(path).fs_guid;
    assert_eq!(tree.home_of(guid("home/.zfs/snapshot/s1")).expect("known"), guid("home"));
    assert_eq!(tree.home_of(guid("home")).expect("known"), guid("home"));
    assert!(tree.is_node_read_only(walk(&tree, ".zfs/snapshot/s1").expect("exists").node));
    assert!(!tree.is_node_read_only(walk(&tree, "home/which").expect("exists").node));
}

#[test]
fn a_snapshot_with_the_name_of_a_destroyed_one_shows_its_own_files() {
    let (ns, tank) = tree();
    let old = walk(&ns, ".zfs/snapshot/s1/which").expect("there").node;
    assert_eq!(text(&ns, ".zfs/snapshot/s1/which"), "tank@s1");
    assert_eq!(walk(&ns, ".zfs/snapshot/s1/which").expect("there").node, old);
    tank.retaken.fetch_add(1, Ordering::Relaxed);
    assert_eq!(text(&ns, ".zfs/snapshot/s1/which"), "tank@s1'");
    assert_ne!(walk(&ns, ".zfs/snapshot/s1/which").expect("there").node, old);
}

/// One dataset whose snapshots can be changed, and the files of whose snapshots can be made to
/// fail.
struct Changing {
    snapshots: Mutex<Vec<(String, u64)>>,
    broken: AtomicUsize,
}

/// Owner of files whose reads can be made to fail.
trait Owner: Send + Sync {
    fn is_broken(&self) -> bool {
        false
    }
}

impl Owner for Changing {
    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed) > 0
    }
}

/// Files that hold a reference to their owner while they are open.
struct Owned<T>(MemoryVfs, Arc<T>);

impl<T: Owner> Vfs for Owned<T> {
    fn root(&self) -> NodeId {
        self.0.root()
    }
    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr> {
        self.0.lookup(dir, name)
    }
    fn attr(&self, node: NodeId) -> Result<Attr> {
        self.0.attr(node)
    }
    fn read_link(&self, node: NodeId) -> Result<Vec<u8>> {
        self.0.read_link(node)
    }
    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes> {
        match self.1.is_broken() {
            false => self.0.read(node, offset, len),
            true => Err(Error::corrupt("a block", "its checksum is wrong")),
        }
    }
    fn read_dir(&self, dir: NodeId, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        self.0.read_dir(dir, cookie, sink)
    }
    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>> {
        self.0.list_xattr(node)
    }
    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get_xattr(node, name)
    }
    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>> {
        self.0.seek_data(node, offset)
    }
    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64> {
        self.0.seek_hole(node, offset)
    }
    fn stat_fs(&self, node: NodeId) -> Result<StatFs> {
        self.0.stat_fs(node)
    }
    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        self.0.handle(node)
    }
    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        self.0.by_handle(handle)
    }
}

struct ChangingProvider(Arc<Changing>);

impl Provider for ChangingProvider {
    fn name(&self) -> String {
        "tank".to_owned()
    }
    fn root(&self) -> Result<Arc<dyn Vfs>> {
        Ok(files("tank"))
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
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        let guid = self.snapshot_guid(name)?;
        let mut t = MemoryVfs::new();
        t.add_file(t.root(), "which", format!("tank@{guid}"));
        Ok(Arc::new(Owned(t.identity(guid), self.0.clone())))
    }
    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        let all = self.0.snapshots.lock();
        let found = all.iter().find(|(n, _)| n == name);
        found.map(|(_, guid)| *guid).ok_or_else(|| Error::not_found("tank", name))
    }
    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        Err(Error::not_found("tank", name))
    }
    fn changes_snapshots(&self) -> bool {
        true
    }
    fn take_snapshot(&self, _: &Caller, name: &str) -> Result<()> {
        let mut all = self.0.snapshots.lock();
        if all.iter().any(|(n, _)| n == name) {
            return Err(Refusal::Exists.at(name));
        }
        let guid = 100 + self.0.broken.load(Ordering::Relaxed) as u64 * 50 + all.len() as u64;
        all.push((name.to_owned(), guid));
        Ok(())
    }
    fn rename_snapshot(&self, _: &Caller, from: &str, to: &str) -> Result<()> {
        self.0.snapshots.lock().iter_mut().filter(|(n, _)| n == from).for_each(|(n, _)| *n = to.to_owned());
        Ok(())
    }
    fn destroy_snapshot(&self, _: &Caller, name: &str) -> Result<()> {
        self.0.snapshots.lock().retain(|(n, _)| n != name);
        Ok(())
    }
    fn way_to(&self, fs_guid: u64) -> Result<Option<Way>> {
        let all = self.0.snapshots.lock();
        Ok(all.iter().find(|(_, guid)| *guid == fs_guid).map(|(name, _)| Way::Snapshot(name.clone())))
    }
}

#[test]
fn snapshots_are_taken_renamed_and_destroyed_as_directories() {
    use crate::vfs::{NewNode, RenameFlags};
    let all = Arc::new(Changing { snapshots: Mutex::default(), broken: AtomicUsize::new(0) });
    let ns = Namespace::new(Arc::new(ChangingProvider(all.clone()))).expect("opens");
    let root = Caller { privileged: true, ..Caller::default() };
    let why = |r: Result<()>| r.expect_err("refused").refusal();
    let dir = walk(&ns, ".zfs/snapshot").expect("there").node;
    let mode = |path| walk(&ns, path).expect("there").mode;
    assert_eq!([mode(".zfs/snapshot"), mode(".zfs"), mode(".zfs/volume")], [0o777, 0o555, 0o555]);
    assert!(!ns.is_node_read_only(dir) && ns.is_node_read_only(walk(&ns, ".zfs").expect("there").node));
    let make = |who: &Caller, name: &[u8], new: NewNode| ns.create(who, dir, name, &new, 0o755, 0);
    assert_eq!(why(make(&Caller::default(), b"s1", NewNode::Directory).map(drop)), Some(Refusal::PermissionDenied));
    assert_eq!(why(make(&root, b"s1", NewNode::Regular).map(drop)), Some(Refusal::NotPermitted));
    for wrong in [&b"a/b"[..], b"a@b", b"a%b", b"..", b""] {
        assert!(matches!(make(&root, wrong, NewNode::Directory), Err(Error::Invalid { .. })), "{wrong:?}");
    }
    assert_eq!(why(make(&root, b"\xff", NewNode::Directory).map(drop)), Some(Refusal::NameNotUtf8));
    let made = make(&root, b"s1", NewNode::Directory).expect("taken");
    assert_eq!(walk(&ns, ".zfs/snapshot/s1").expect("there"), made);
    assert_eq!(why(make(&root, b"s1", NewNode::Directory).map(drop)), Some(Refusal::Exists));
    let file = walk(&ns, ".zfs/snapshot/s1/which").expect("there").node;
    let handle = ns.handle(file).expect("a handle");

    let rename = |who: &Caller, to_dir, flags| ns.rename(who, dir, b"s1", to_dir, b"s2", flags);
    let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
    assert!(matches!(rename(&root, dir, exchange), Err(Error::Invalid { .. })));
    assert_eq!(why(rename(&Caller::default(), dir, RenameFlags::default())), Some(Refusal::PermissionDenied));
    assert_eq!(why(rename(&root, ns.root(), RenameFlags::default())), Some(Refusal::ReadOnly));
    rename(&root, dir, RenameFlags::default()).expect("renamed");
    assert_eq!(list(&ns, ".zfs/snapshot"), [".", "..", "s2"]);
    assert_eq!(text(&ns, ".zfs/snapshot/s2/which"), "tank@100");
    assert_eq!(&ns.read(file, 0, 9).expect("open files stay open")[..], b"tank@100");
    assert_eq!(ns.handle(ns.by_handle(&handle).expect("leads there").node).expect("a handle"), handle);

    assert_eq!(why(ns.rmdir(&Caller::default(), dir, b"s2")), Some(Refusal::PermissionDenied));
    let open = walk(&ns, ".zfs/snapshot/s2/which").expect("there").node;
    ns.rmdir(&root, dir, b"s2").expect("destroyed");
    assert_eq!(list(&ns, ".zfs/snapshot"), [".", ".."]);
    assert_eq!(why(ns.read(open, 0, 9).map(drop)), Some(Refusal::Stale));
    assert_eq!(why(ns.attr(open).map(drop)), Some(Refusal::Stale));
}

#[test]
fn open_files_of_a_snapshot_destroyed_elsewhere_are_stale() {
    let all = Arc::new(Changing { snapshots: Mutex::default(), broken: AtomicUsize::new(0) });
    let provider = ChangingProvider(all.clone());
    provider.take_snapshot(&Caller::default(), "s1").expect("taken");
    let ns = Namespace::new(Arc::new(provider)).expect("opens");
    let open = walk(&ns, ".zfs/snapshot/s1/which").expect("there").node;
    all.broken.store(1, Ordering::Relaxed);
    // A device error remains a device error, also under another name.
    assert!(matches!(ns.read(open, 0, 9), Err(Error::Corrupt { .. })));
    all.snapshots.lock()[0].0 = "s2".to_owned();
    assert!(matches!(ns.read(open, 0, 9), Err(Error::Corrupt { .. })));
    all.snapshots.lock().clear();
    for _ in 0..2 {
        assert_eq!(ns.read(open, 0, 9).expect_err("gone").refusal(), Some(Refusal::Stale));
    }
}

#[test]
fn snapshots_that_were_looked_into_do_not_stay_open_and_are_found_again() {
    let all = Arc::new(Changing { snapshots: Mutex::default(), broken: AtomicUsize::new(0) });
    let ns = Namespace::new(Arc::new(ChangingProvider(all.clone()))).expect("opens");
    let rest = Arc::strong_count(&all);
    let take = |name: &str, guid| all.snapshots.lock().push((name.to_owned(), guid));
    let look = |name: &str| walk(&ns, &format!(".zfs/snapshot/{name}/which")).expect(name).node;
    let read = |node| ns.read(node, 0, 9).map(|text| String::from_utf8(text.to_vec()).expect("text"));
    take("kept", 100);
    take("renamed", 101);
    take("retaken", 102);
    take("gone", 103);
    let [kept, renamed, retaken, gone] = ["kept", "renamed", "retaken", "gone"].map(look);
    let handle = ns.handle(renamed).expect("a handle");
    for round in 0..3 {
        for n in 0..2 * OPEN_MAX {
            let (name, guid) = (format!("s{round}-{n}"), 1000 * (round + 1) + n as u64);
            take(&name, guid);
            assert_eq!(read(look(&name)).expect("there"), format!("tank@{guid}"));
            assert_eq!(read(kept).expect("there"), "tank@100", "one in constant use");
            // Each snapshot that was looked up once stayed open until the tree was closed, even
            // after it was destroyed.
            assert!(Arc::strong_count(&all) - rest <= OPEN_MAX);
            all.snapshots.lock().retain(|(n, _)| *n != name);
        }
    }
    let opened = |node| ns.layer_at(file_system_of(node).expect("in one")).expect("known").opened.lock().is_some();
    assert_eq!([kept, renamed, retaken, gone].map(opened), [true, false, false, false]);

    all.snapshots.lock().retain(|(name, _)| name != "gone" && name != "retaken");
    all.snapshots.lock().iter_mut().find(|(name, _)| name == "renamed").expect("there").0 = "other".to_owned();
    take("retaken", 200);
    assert_eq!(read(renamed).expect("there under another name"), "tank@101");
    assert_eq!(ns.handle(renamed).expect("a handle"), handle);
    for node in [gone, retaken] {
        for _ in 0..2 {
            assert_eq!(read(node).expect_err("gone").refusal(), Some(Refusal::Stale));
        }
    }
    assert_eq!(read(look("retaken")).expect("there"), "tank@200");
    assert_ne!(look("retaken"), retaken);
}
