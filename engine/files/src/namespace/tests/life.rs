//! How numbers of snapshots and volumes live and die.

use super::*;
use crate::namespace::layers::CLOSED_KEPT;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// A dataset with any number of snapshots and volumes, each with its `fs_guid`.
#[derive(Default)]
struct Many {
    snapshots: Mutex<BTreeMap<String, u64>>,
    volumes: Mutex<BTreeMap<String, u64>>,
    last_guid: AtomicU64,
}

type Names = Mutex<BTreeMap<String, u64>>;

impl Many {
    fn add(&self, names: &Names, name: &str) -> u64 {
        let guid = self.last_guid.fetch_add(1, Ordering::Relaxed) + 1;
        names.lock().insert(name.to_owned(), guid);
        guid
    }
    fn take(&self, name: &str) -> u64 {
        self.add(&self.snapshots, name)
    }
    fn destroy(&self, name: &str) {
        self.snapshots.lock().remove(name);
    }
    fn entries(names: &Names) -> Vec<NumberedName> {
        names.lock().iter().map(|(name, &number)| NumberedName { name: name.clone(), number }).collect()
    }
    fn guid(names: &Names, name: &str) -> Result<u64> {
        names.lock().get(name).copied().ok_or_else(|| Error::not_found("tank", name))
    }
}

struct ManyProvider(Arc<Many>);

/// Its open snapshots and volumes hold one reference each.
impl Owner for Many {}

impl Provider for ManyProvider {
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
        Ok(Many::entries(&self.0.snapshots))
    }
    fn volumes(&self) -> Result<Vec<NumberedName>> {
        Ok(Many::entries(&self.0.volumes))
    }
    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>> {
        Err(Error::not_found("tank", key))
    }
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        let guid = self.snapshot_guid(name)?;
        let mut t = MemoryVfs::new();
        t.add_file(t.root(), "which", guid.to_string());
        Ok(Arc::new(Owned(t.identity(guid), self.0.clone())))
    }
    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        Many::guid(&self.0.snapshots, name)
    }
    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        let guid = self.volume_guid(name)?;
        // A file would do; what matters is its identity.
        let mut t = MemoryVfs::new();
        t.add_file(t.root(), "which", guid.to_string());
        Ok(Arc::new(Owned(t.identity(guid), self.0.clone())))
    }
    fn volume_guid(&self, name: &str) -> Result<u64> {
        Many::guid(&self.0.volumes, name)
    }
    fn way_to(&self, fs_guid: u64) -> Result<Option<Way>> {
        let name_in =
            |names: &Names| names.lock().iter().find(|(_, guid)| **guid == fs_guid).map(|(name, _)| name.clone());
        let snapshot = name_in(&self.0.snapshots).map(Way::Snapshot);
        Ok(snapshot.or_else(|| name_in(&self.0.volumes).map(Way::Volume)))
    }
}

struct Rig {
    many: Arc<Many>,
    ns: Namespace,
    /// References to `many` that are no open snapshot's.
    rest: usize,
}

impl Rig {
    fn new() -> Self {
        let many = Arc::new(Many::default());
        let ns = Namespace::new(Arc::new(ManyProvider(many.clone()))).expect("opens");
        let rest = Arc::strong_count(&many);
        Self { many, ns, rest }
    }
    /// The tree as another server shows it.
    fn again(&self) -> Namespace {
        Namespace::new(Arc::new(ManyProvider(self.many.clone()))).expect("opens")
    }
    fn open(&self) -> usize {
        Arc::strong_count(&self.many) - self.rest
    }
    fn look(&self, name: &str) -> Result<NodeId> {
        Ok(walk(&self.ns, &format!(".zfs/snapshot/{name}/which"))?.node)
    }
    fn read(&self, node: NodeId) -> Result<u64> {
        let text = self.ns.read(node, 0, 20)?;
        Ok(std::str::from_utf8(&text).expect("text").parse().expect("a guid"))
    }
    fn is_stale(&self, node: NodeId) -> bool {
        matches!(self.ns.attr(node).map_err(|e| e.refusal()), Err(Some(Refusal::Stale)))
    }
}

#[test]
fn more_snapshots_than_16_bits_count_are_listed_and_entered() {
    // Each listed snapshot took one of 65,535 numbers for as long as the tree was served.
    const COUNT: usize = 70_000;
    let rig = Rig::new();
    for n in 0..COUNT {
        rig.many.take(&format!("s{n:05}"));
    }
    let dir = walk(&rig.ns, ".zfs/snapshot").expect("there").node;
    let (mut doors, mut cookie) = (Vec::new(), 0);
    loop {
        let before = doors.len();
        let full = before + 10_000;
        let step = rig.ns.read_dir(dir, cookie, &mut |e| {
            cookie = e.next_cookie;
            doors.push(e.node);
            doors.len() < full
        });
        step.expect("lists");
        if doors.len() == before {
            break;
        }
    }
    assert_eq!((doors.len(), rig.open()), (COUNT + 2, 0));
    let mut seen = std::collections::HashSet::new();
    for n in 0..COUNT {
        let node = rig.look(&format!("s{n:05}")).expect("there");
        assert!(seen.insert(node), "a unique number");
        assert_eq!(rig.read(node).expect("there"), n as u64 + 1);
        assert!(rig.open() <= OPEN_MAX);
    }
    // Nothing refers to them, so their numbers are not known any more, except for the newest.
    assert!(rig.ns.layer_count() <= OPEN_MAX + CLOSED_KEPT, "{}", rig.ns.layer_count());
    let door = doors[2];
    assert_eq!(rig.ns.attr(door).expect("opens"), walk(&rig.ns, ".zfs/snapshot/s00000").expect("there"));
}

/// Lists a directory in pieces of `piece` entries, each in a tree that was opened again, as after a
/// restart, and calls `between` after each.
fn list_in_pieces(open: &dyn Fn() -> Namespace, path: &str, piece: usize, between: &mut dyn FnMut()) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let ns = open();
        let dir = walk(&ns, path).expect(path).node;
        let before = names.len();
        let step = ns.read_dir(dir, cookie, &mut |e| {
            assert!(e.next_cookie > cookie && e.next_cookie < i64::MAX as u64 - 3, "{:#x}", e.next_cookie);
            cookie = e.next_cookie;
            names.push(String::from_utf8(e.name).expect("text"));
            names.len() < before + piece
        });
        step.expect(path);
        if names.len() == before {
            return names;
        }
        between();
    }
}

/// The names that begin with `k`, which exist all the time, must be there once each.
fn assert_kept(listed: &[String], count: usize) {
    let mut kept: Vec<_> = listed.iter().filter(|name| name.starts_with('k')).collect();
    kept.sort();
    let all = kept.len();
    kept.dedup();
    assert_eq!((kept.len(), all), (count, count), "{listed:?}");
    assert_eq!(&listed[..2], [".", ".."]);
}

#[test]
fn a_permanent_entry_is_listed_once_while_others_change() {
    // Cookies were positions: destroying a snapshot that was already listed hid another one, and a
    // new one before it showed it twice.
    for (piece, round) in [1, 2, 3].into_iter().flat_map(|piece| (0..20).map(move |round| (piece, round))) {
        let rig = Rig::new();
        for n in 0..12 {
            for (names, path) in [(&rig.many.snapshots, "snapshot"), (&rig.many.volumes, "volume")] {
                rig.many.add(names, &format!("kept-{path}-{n}"));
                rig.many.add(names, &format!("a{n}"));
                rig.many.add(names, &format!("z{n}"));
            }
        }
        for (names, path) in [(&rig.many.snapshots, ".zfs/snapshot"), (&rig.many.volumes, ".zfs/volume")] {
            let mut steps = round;
            let listed = list_in_pieces(&|| rig.again(), path, piece, &mut || {
                steps += 1;
                names.lock().remove(&format!("a{}", steps % 12));
                names.lock().remove(&format!("z{}", steps * 5 % 12));
                if steps % 3 == 0 {
                    // Renamed, it is still the same one.
                    let old = format!("kept-{}-{}", &path[5..], steps % 12);
                    let renamed = names.lock().remove(&old);
                    if let Some(guid) = renamed {
                        names.lock().insert(format!("k{old}"), guid);
                    }
                }
                if steps < 20 {
                    rig.many.add(names, &format!("a{}", steps * 7 % 12));
                }
            });
            let guids = |name: &String| name.trim_start_matches("kkept").trim_start_matches("kept").to_owned();
            let same: Vec<String> = listed
                .iter()
                .map(|name| if name.starts_with('k') { format!("k{}", guids(name)) } else { name.clone() })
                .collect();
            assert_kept(&same, 12);
        }
    }
}

#[test]
fn a_permanent_child_is_listed_once_while_others_change() {
    let places = |what: &str| (0..8).flat_map(|n| [format!("{what}{n}"), format!("way/{what}{n}")]).collect::<Vec<_>>();
    let children = Mutex::new(Vec::new());
    let open = || {
        let child = |place: &String| (&*place.clone().leak(), Arc::new(dataset(place.clone().leak())));
        let children = children.lock().iter().map(child).collect();
        Namespace::new(Arc::new(Dataset { visible: true.into(), children, ..dataset("tank") })).expect("opens")
    };
    // After a different number of entries each time, some children are destroyed, or created.
    for (path, at, destroys) in
        ["", "way"].iter().flat_map(|p| (2..24).flat_map(move |n| [(p, n, true), (p, n, false)]))
    {
        *children.lock() = [places("kept"), if destroys { places("gone") } else { Vec::new() }].concat();
        let mut step = 0;
        let listed = list_in_pieces(&open, path, 1, &mut || {
            step += 1;
            if step == at {
                let mut children = children.lock();
                children.retain(|place| !place.contains("gone"));
                if !destroys {
                    children.splice(0..0, places("new"));
                }
            }
        });
        assert_kept(&listed, 8);
        assert!(!path.is_empty() || listed.iter().filter(|name| *name == ".zfs" || *name == "way").count() == 2);
    }
}

#[test]
fn a_server_survives_any_number_of_created_and_destroyed_snapshots() {
    let rig = Rig::new();
    let kept = rig.many.take("kept");
    let node = rig.look("kept").expect("there");
    rig.ns.open_node(node).expect("there");
    for n in 0..70_000 {
        let name = format!("s{n}");
        let guid = rig.many.take(&name);
        assert_eq!(rig.read(rig.look(&name).expect("there")).expect("there"), guid);
        if n % 1000 == 0 {
            list(&rig.ns, ".zfs/snapshot");
        }
        rig.many.destroy(&name);
    }
    assert!(rig.open() <= OPEN_MAX && rig.ns.layer_count() <= OPEN_MAX + CLOSED_KEPT + 1);
    assert!(rig.ns.node_count() < 10, "{} synthetic directories and doors", rig.ns.node_count());
    assert_eq!(rig.read(node).expect("in use all the time"), kept);
}

#[test]
fn a_number_stays_while_something_refers_to_it() {
    let rig = Rig::new();
    rig.ns.idle.lock().closed_kept = 10;
    let guids = ["held", "free"].map(|name| rig.many.take(name));
    let [held, free] = ["held", "free"].map(|name| rig.look(name).expect("there"));
    let handles = [held, free].map(|node| rig.ns.handle(node).expect("a handle"));
    rig.ns.open_node(held).expect("there");
    rig.ns.open_node(held).expect("there");
    let others = |from: usize| {
        for n in from..from + OPEN_MAX + 20 {
            rig.many.take(&format!("other{n}"));
            rig.look(&format!("other{n}")).expect("there");
        }
    };
    others(0);
    assert_eq!(rig.read(held).expect("there"), guids[0]);
    assert!(rig.is_stale(free), "closed, and its number is forgotten");
    // A handle leads to it all the same, and so does the name, under another number.
    for (handle, guid) in handles.iter().zip(guids) {
        let found = rig.ns.by_handle(handle).expect("leads there").node;
        assert_eq!((rig.read(found).expect("there"), rig.ns.handle(found).expect("a handle")), (guid, *handle));
    }
    assert_ne!(rig.look("free").expect("there"), free);
    rig.ns.close_node(held);
    others(1000);
    assert_eq!(rig.read(held).expect("there is another reference"), guids[0]);
    others(2000);
    // It is closed now, which `close_node` does not change.
    rig.ns.close_node(held);
    assert!(rig.open() <= OPEN_MAX);
    others(3000);
    assert!(rig.is_stale(held));
    assert_eq!(rig.read(rig.look("held").expect("there")).expect("there"), guids[0]);
    rig.ns.close_node(held);
}

#[test]
fn a_node_of_a_destroyed_snapshot_is_stale_and_never_a_file_of_another() {
    let rig = Rig::new();
    rig.many.take("s");
    let old = rig.look("s").expect("there");
    let door_of = |name: &[u8]| {
        let dir = walk(&rig.ns, ".zfs/snapshot").expect("there").node;
        let mut door = None;
        let step = rig.ns.read_dir(dir, 0, &mut |e| {
            door = door.or((e.name == name).then_some(e.node));
            true
        });
        step.map(|()| door).expect("lists")
    };
    let door = door_of(b"s").expect("listed");
    // As the kernel holds what it knows.
    rig.ns.open_node(old).expect("there");
    let handle = rig.ns.handle(old).expect("a handle");
    rig.many.destroy("s");
    let new = rig.many.take("s");
    // Its blocks are reused some time after it was destroyed. Data without a checksum does not
    // report this.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for _ in 0..2 {
        assert!(rig.is_stale(old));
        assert_eq!(rig.read(old).expect_err("gone").refusal(), Some(Refusal::Stale));
        assert_eq!(rig.ns.by_handle(&handle).expect_err("gone").refusal(), Some(Refusal::Stale));
    }
    let now = rig.look("s").expect("there");
    assert_eq!(rig.read(now).expect("there"), new);
    assert_ne!(now, old);
    assert_eq!(rig.ns.layer_count(), 1, "removed entries are forgotten");
    rig.ns.close_node(old);
    // A door leads to what has the name, and nowhere once a listing no longer has it.
    assert_eq!(rig.ns.attr(door).expect("there"), walk(&rig.ns, ".zfs/snapshot/s").expect("there"));
    rig.many.destroy("s");
    assert!(matches!(rig.ns.attr(door), Err(Error::NotFound { .. })));
    assert_eq!(door_of(b"s"), None);
    assert!(rig.is_stale(door));
}

#[test]
fn a_renamed_snapshot_keeps_its_number() {
    let rig = Rig::new();
    let guid = rig.many.take("old");
    let node = rig.look("old").expect("there");
    rig.many.destroy("old");
    rig.many.snapshots.lock().insert("new".to_owned(), guid);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(rig.read(node).expect("there"), guid);
    assert_eq!(rig.look("new").expect("there"), node);
    let retaken = rig.many.take("old");
    assert_eq!(rig.read(rig.look("old").expect("there")).expect("there"), retaken);
    assert_eq!(rig.read(node).expect("there"), guid);
}

#[test]
fn a_volume_that_was_destroyed_and_created_again_shows_its_own_data() {
    // The first one of that name was shown until the tree was closed, and stayed open.
    let rig = Rig::new();
    let look = |name: &str| walk(&rig.ns, &format!(".zfs/volume/{name}/which")).expect("there").node;
    for round in 0..2 * OPEN_MAX {
        let name = format!("v{}", round % 3);
        let guid = rig.many.add(&rig.many.volumes, &name);
        let node = look(&name);
        assert_eq!(rig.read(node).expect("there"), guid);
    }
    for n in 0..2 * OPEN_MAX {
        let guid = rig.many.add(&rig.many.volumes, &format!("other{n}"));
        assert_eq!(rig.read(look(&format!("other{n}"))).expect("there"), guid);
    }
    assert!(rig.open() <= OPEN_MAX);
}

#[test]
fn threads_never_get_a_file_of_another_snapshot() {
    // Threads that enter, hold and leave snapshots while others are taken and destroyed under the
    // same few names. Numbers are dropped early, to make it happen often.
    const NAMES: u64 = 150;
    const ROUNDS: u64 = 3000;
    let rig = Rig::new();
    rig.ns.idle.lock().closed_kept = 5;
    for n in 0..NAMES {
        rig.many.take(&format!("s{n}"));
    }
    let run = |thread: u64| {
        let mut chance = rig::Chance::new(thread);
        let mut random = move |below: u64| chance.below(below);
        let mut held: Vec<(NodeId, u64, FileHandle)> = Vec::new();
        let mut counts = [0_u64; 3];
        for _ in 0..ROUNDS {
            let name = format!("s{}", random(NAMES));
            match random(10) {
                0 => {
                    rig.many.destroy(&name);
                    rig.many.take(&name);
                }
                1 => drop(list(&rig.ns, ".zfs")),
                2 if !held.is_empty() => {
                    let (node, ..) = held.swap_remove(random(held.len() as u64) as usize);
                    rig.ns.close_node(node);
                }
                3..=5 if !held.is_empty() => {
                    let (node, guid, handle) = &held[random(held.len() as u64) as usize];
                    match rig.read(*node) {
                        Ok(found) => assert_eq!(found, *guid),
                        Err(error) => {
                            assert_eq!(error.refusal(), Some(Refusal::Stale), "{error}");
                            let exists = rig.many.snapshots.lock().values().any(|g| g == guid);
                            assert!(!exists, "a number that is referred to was forgotten");
                            counts[1] += 1;
                        }
                    }
                    if let Ok(attr) = rig.ns.by_handle(handle)
                        && let Ok(found) = rig.read(attr.node)
                    {
                        assert_eq!(found, *guid);
                    }
                }
                _ => {
                    let Ok(attr) = rig.ns.lookup(rig.ns.root(), b".zfs") else { continue };
                    let Ok(attr) = rig.ns.lookup(attr.node, b"snapshot") else { continue };
                    let Ok(root) = rig.ns.lookup(attr.node, name.as_bytes()) else { continue };
                    let Ok(file) = rig.ns.lookup(root.node, b"which") else { continue };
                    let (Ok(handle), Ok(guid)) = (rig.ns.handle(file.node), rig.read(file.node)) else { continue };
                    assert_eq!(handle.fs_guid, guid);
                    counts[0] += 1;
                    if held.len() < 40 && rig.ns.open_node(file.node).is_ok() {
                        held.push((file.node, guid, handle));
                        counts[2] += 1;
                    }
                }
            }
        }
        held.iter().for_each(|(node, ..)| rig.ns.close_node(*node));
        counts
    };
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=4).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|t| t.join().expect("ends well")).collect::<Vec<_>>()
    });
    let sum = |i: usize| counts.iter().map(|c| c[i]).sum::<u64>();
    assert!(sum(0) > ROUNDS && sum(1) > 0 && sum(2) > 100, "all cases occurred: {counts:?}");
    assert!(rig.open() <= OPEN_MAX + 4 && rig.ns.layer_count() <= OPEN_MAX + 5 + 4, "{}", rig.ns.layer_count());
}
