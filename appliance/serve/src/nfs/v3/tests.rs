//! Calls procedures over a tree in memory, as a client does but without a socket.

use super::*;
use crate::nfs::exports::{FixedExports, Share, ShareOptions, Watched};
use crate::nfs::handle::{HANDLE_BYTES, HandleKey, checks};
use crate::nfs::locks::LockTable;
use crate::nfs::mountd;
use crate::nfs::rpc::{Peer, Registry};
use files::memory::MemoryVfs;
use files::namespace::{Child, Control, Namespace, NumberedName, Provider};
use files::vfs::{Caller, NewNode, Vfs};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server, and a user on a client.
pub(super) struct Rig {
    registry: Registry,
    pub exports: Arc<FixedExports>,
    pub vfs: Arc<dyn Vfs>,
    /// How often a snapshot was opened.
    opened: Arc<AtomicUsize>,
    client: SocketAddr,
    uid: u32,
    groups: Vec<u32>,
    xid: std::cell::Cell<u32>,
}

/// A dataset with snapshots of these names. Counts how often one is opened.
struct Tank(parking_lot::Mutex<Vec<String>>, Arc<AtomicUsize>);

impl Provider for Tank {
    fn name(&self) -> String {
        "tank".to_owned()
    }
    fn root(&self) -> errors::Result<Arc<dyn Vfs>> {
        let mut vfs = MemoryVfs::new().identity(5).writable();
        let top = vfs.root();
        vfs.attr_mut(top).mode = 0o777;
        vfs.add_dir(top, "home");
        Ok(Arc::new(vfs))
    }
    fn control(&self) -> Control {
        Control::Hidden
    }
    fn children(&self) -> errors::Result<Vec<Child>> {
        Ok(vec![Child { place: b"home".to_vec(), key: "tank/home".to_owned() }])
    }
    fn snapshots(&self) -> errors::Result<Vec<NumberedName>> {
        let number = |name: &str| name.bytes().fold(1, |n: u64, b| n.wrapping_mul(257) + u64::from(b)) >> 16;
        Ok(self.0.lock().iter().map(|name| NumberedName { name: name.clone(), number: number(name) }).collect())
    }
    fn changes_snapshots(&self) -> bool {
        true
    }
    fn take_snapshot(&self, _: &Caller, name: &str) -> errors::Result<()> {
        self.0.lock().push(name.to_owned());
        Ok(())
    }
    fn rename_snapshot(&self, _: &Caller, from: &str, to: &str) -> errors::Result<()> {
        self.0.lock().iter_mut().filter(|name| *name == from).for_each(|name| *name = to.to_owned());
        Ok(())
    }
    fn destroy_snapshot(&self, _: &Caller, name: &str) -> errors::Result<()> {
        self.0.lock().retain(|n| n != name);
        Ok(())
    }
    fn volumes(&self) -> errors::Result<Vec<NumberedName>> {
        Ok(Vec::new())
    }
    fn open_child(&self, _key: &str) -> errors::Result<Arc<dyn Provider>> {
        Ok(Arc::new(Home))
    }
    fn open_snapshot(&self, _name: &str) -> errors::Result<Arc<dyn Vfs>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let mut vfs = MemoryVfs::new().identity(6);
        vfs.add_file(vfs.root(), "old", "existed");
        Ok(Arc::new(vfs))
    }
    fn open_volume(&self, name: &str) -> errors::Result<Arc<dyn Vfs>> {
        Err(errors::Error::not_found("tank", name))
    }
}

struct Home;

impl Provider for Home {
    fn name(&self) -> String {
        "tank/home".to_owned()
    }
    fn root(&self) -> errors::Result<Arc<dyn Vfs>> {
        let mut vfs = MemoryVfs::new().identity(7).writable();
        let top = vfs.root();
        vfs.attr_mut(top).mode = 0o777;
        Ok(Arc::new(vfs))
    }
    fn control(&self) -> Control {
        Control::Hidden
    }
    fn children(&self) -> errors::Result<Vec<Child>> {
        Ok(Vec::new())
    }
    fn snapshots(&self) -> errors::Result<Vec<NumberedName>> {
        Ok(Vec::new())
    }
    fn volumes(&self) -> errors::Result<Vec<NumberedName>> {
        Ok(Vec::new())
    }
    fn open_child(&self, key: &str) -> errors::Result<Arc<dyn Provider>> {
        Err(errors::Error::not_found("home", key))
    }
    fn open_snapshot(&self, name: &str) -> errors::Result<Arc<dyn Vfs>> {
        Err(errors::Error::not_found("home", name))
    }
    fn open_volume(&self, name: &str) -> errors::Result<Arc<dyn Vfs>> {
        Err(errors::Error::not_found("home", name))
    }
}

fn share(vfs: &Arc<dyn Vfs>, path: &str, fs_guid: u64, options: &str) -> Share {
    let options = ShareOptions::parse(options).expect("options").expect("shared");
    Share { path: path.to_owned(), dataset: path.to_owned(), pool_guid: 1, fs_guid, vfs: vfs.clone(), options }
}

impl Rig {
    /// `tank` and `tank/home`, shared with these options, for user 1000.
    pub fn new(options: &str) -> Self {
        let opened = Arc::new(AtomicUsize::new(0));
        let tank = Tank(parking_lot::Mutex::new(vec!["s1".to_owned()]), opened.clone());
        let vfs: Arc<dyn Vfs> = Arc::new(Namespace::new(Arc::new(tank)).expect("opens"));
        let shares = vec![share(&vfs, "/tank", 5, options), share(&vfs, "/tank/home", 7, options)];
        let exports = Arc::new(FixedExports::new(shares));
        let core = Arc::new(Core {
            exports: Watched::new(exports.clone(), true),
            handles: HandleKey::new([1; 32]),
            locks: Arc::new(LockTable::new(100)),
            grace: Arc::default(),
            verifier: [9; 8],
            changes: Default::default(),
            figures: Arc::default(),
        });
        let mut registry = Registry::default();
        registry.add(Arc::new(V3::new(core.clone())));
        registry.add(Arc::new(side_acl::SideAcl::new(core.clone())));
        mountd::Mount::versions(&core).into_iter().for_each(|p| registry.add(p));
        let client = ([10, 0, 0, 1], 700).into();
        Self { registry, exports, vfs, opened, client, uid: 1000, groups: vec![100], xid: std::cell::Cell::new(1) }
    }

    pub fn user(mut self, uid: u32) -> Self {
        self.uid = uid;
        self
    }

    /// Makes a call. The result starts with the status.
    pub fn raw(&self, program: u32, procedure: u32, args: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut w = Writer::new();
        self.xid.set(self.xid.get() + 1);
        for n in [self.xid.get(), 0, 2, program, 3, procedure, 1] {
            w.u32(n);
        }
        let mut sys = Writer::new();
        sys.u32(0);
        sys.opaque(b"client");
        sys.u32(self.uid);
        sys.u32(100);
        sys.u32(self.groups.len() as u32);
        self.groups.iter().for_each(|g| sys.u32(*g));
        w.opaque(&sys.to_vec());
        w.u32(0);
        w.u32(0);
        args(&mut w);
        let mut out = Writer::new();
        let peer = Peer::datagram(self.client, ([10, 0, 0, 2], 2049).into());
        self.registry.answer(&peer, &w.to_vec(), &mut out).expect("a message");
        let out = out.to_vec();
        // After the XID: REPLY, MSG_ACCEPTED, empty verifier, SUCCESS.
        assert_eq!(out[4..24], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "{out:?}");
        out[24..].to_vec()
    }

    fn call(&self, procedure: u32, args: impl FnOnce(&mut Writer)) -> (Status, Vec<u8>) {
        let answer = self.raw(PROGRAM, procedure, args);
        let (status, rest) = answer.split_first_chunk::<4>().expect("a status");
        (Status(u32::from_be_bytes(*status)), rest.to_vec())
    }

    pub fn mount(&self, path: &str) -> Result<Vec<u8>> {
        let answer = self.raw(mountd::PROGRAM, 1, |w| w.opaque(path.as_bytes()));
        let mut r = Reader::new(&answer);
        match r.u32().expect("a status") {
            0 => Ok(r.opaque(64).expect("a handle").to_vec()),
            status => Err(Status(status)),
        }
    }

    fn lookup(&self, dir: &[u8], name: &str) -> Result<Vec<u8>> {
        match self.call(3, |w| {
            w.opaque(dir);
            w.opaque(name.as_bytes());
        }) {
            (Status::OK, rest) => Ok(Reader::new(&rest).opaque(64).expect("a handle").to_vec()),
            (status, _) => Err(status),
        }
    }

    /// Creates a file and returns its handle.
    fn create(&self, dir: &[u8], name: &str, how: u32, set: impl FnOnce(&mut Writer)) -> Result<Vec<u8>> {
        let (status, rest) = self.call(8, |w| {
            w.opaque(dir);
            w.opaque(name.as_bytes());
            w.u32(how);
            set(w);
        });
        made(status, &rest)
    }

    pub fn file(&self, dir: &[u8], name: &str, bits: u32) -> Vec<u8> {
        self.create(dir, name, 1, mode(bits)).expect("made")
    }

    pub fn dir(&self, dir: &[u8], name: &str, bits: u32) -> Vec<u8> {
        let (status, rest) = self.call(9, |w| {
            w.opaque(dir);
            w.opaque(name.as_bytes());
            mode(bits)(w);
        });
        made(status, &rest).expect("made")
    }

    fn write(&self, file: &[u8], offset: u64, data: &[u8], stable: u32) -> Status {
        self.call(7, |w| {
            w.opaque(file);
            w.u64(offset);
            w.u32(data.len() as u32);
            w.u32(stable);
            w.opaque(data);
        })
        .0
    }

    fn read(&self, file: &[u8], offset: u64, count: u32) -> Result<(Vec<u8>, bool)> {
        let (status, rest) = self.call(6, |w| {
            w.opaque(file);
            w.u64(offset);
            w.u32(count);
        });
        if status != Status::OK {
            return Err(status);
        }
        let mut r = Reader::new(&rest);
        skip_post(&mut r);
        let (count, is_end) = (r.u32().expect("count"), r.bool().expect("eof"));
        let data = r.opaque(1 << 20).expect("data").to_vec();
        assert_eq!((data.len(), r.is_empty()), (count as usize, true));
        Ok((data, is_end))
    }

    fn names(&self, dir: &[u8], plus: bool, count: u32) -> Vec<String> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let (status, rest) = self.call(if plus { 17 } else { 16 }, |w| {
                w.opaque(dir);
                w.u64(cookie);
                w.fixed(&[0; 8]);
                w.u32(count);
                if plus {
                    w.u32(4 * count);
                }
            });
            assert_eq!(status, Status::OK);
            assert!(rest.len() + 4 <= if plus { 4 * count } else { count } as usize);
            let mut r = Reader::new(&rest);
            skip_post(&mut r);
            r.fixed::<8>().expect("verifier");
            while r.bool().expect("more") {
                r.u64().expect("number");
                names.push(String::from_utf8(r.opaque(255).expect("name").to_vec()).expect("text"));
                cookie = r.u64().expect("cookie");
                if plus {
                    skip_post(&mut r);
                    if r.bool().expect("has a handle") {
                        r.opaque(64).expect("handle");
                    }
                }
            }
            if r.bool().expect("end") {
                return names;
            }
        }
    }
}

fn made(status: Status, rest: &[u8]) -> Result<Vec<u8>> {
    if status != Status::OK {
        return Err(status);
    }
    let mut r = Reader::new(rest);
    assert!(r.bool().expect("a handle follows"));
    Ok(r.opaque(64).expect("handle").to_vec())
}

fn skip_post(r: &mut Reader<'_>) {
    if r.bool().expect("attributes follow") {
        r.fixed::<84>().expect("attributes");
    }
}

/// `sattr3` with only a mode.
fn mode(mode: u32) -> impl Fn(&mut Writer) {
    move |w| [1, mode, 0, 0, 0, 0, 0].into_iter().for_each(|n| w.u32(n))
}

/// Regression: calls that change a node verified its handle twice, once while they held the node's
/// lock.
#[test]
fn each_handle_of_a_call_is_verified_once() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let file = rig.file(&root, "f", 0o600);
    checks::take();
    assert_eq!(rig.write(&file, 0, b"abc", 0), Status::OK);
    assert_eq!(checks::take(), 1, "WRITE");
    rig.read(&file, 0, 3).expect("reads");
    assert_eq!(checks::take(), 1, "READ");
    rig.file(&root, "g", 0o600);
    assert_eq!(checks::take(), 1, "CREATE");
    let status = rig.call(14, |w| [&root[..], b"g", &root, b"h"].into_iter().for_each(|bytes| w.opaque(bytes))).0;
    assert_eq!((status, checks::take()), (Status::OK, 2), "RENAME");
    let status = rig.call(15, |w| [&file[..], &root, b"i"].into_iter().for_each(|bytes| w.opaque(bytes))).0;
    assert_eq!((status, checks::take()), (Status::OK, 2), "LINK");
    let forged = [&root[..HANDLE_BYTES - 1], &[!root[HANDLE_BYTES - 1]]].concat();
    let status = rig.call(14, |w| [&forged[..], b"h", &root, b"g"].into_iter().for_each(|bytes| w.opaque(bytes))).0;
    assert_eq!((status, checks::take()), (Status::STALE, 2), "RENAME from a forged handle");
}

#[test]
fn a_file_is_made_written_read_and_removed() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let file = rig.create(&root, "f", 1, mode(0o640)).expect("made");
    assert_eq!(rig.create(&root, "f", 1, mode(0o640)), Err(Status::EXIST));
    assert_eq!(rig.create(&root, "f", 0, mode(0o777)).as_ref(), Ok(&file), "unchecked: there already");
    assert_eq!(rig.write(&file, 3, b"hello", 0), Status::OK);
    assert_eq!(rig.write(&file, 0, b"abc", 2), Status::OK);
    assert_eq!(rig.read(&file, 0, 5), Ok((b"abche".to_vec(), false)));
    assert_eq!(rig.read(&file, 5, 500), Ok((b"llo".to_vec(), true)));
    assert_eq!(rig.read(&file, 500, 5), Ok((Vec::new(), true)));
    assert_eq!(rig.read(&root, 0, 5), Err(Status::ISDIR));
    assert_eq!(rig.lookup(&root, "f").as_ref(), Ok(&file));
    let attr = rig.vfs.lookup(rig.vfs.root(), b"f").expect("exists");
    assert_eq!((attr.mode, attr.uid, attr.gid), (0o640, 1000, 100));
    let named = |w: &mut Writer, name: &[u8]| {
        w.opaque(&root);
        w.opaque(name);
    };
    assert_eq!(rig.call(13, |w| named(w, b"f")).0, Status::NOTDIR);
    assert_eq!(rig.call(12, |w| named(w, b"f")).0, Status::OK);
    assert_eq!(rig.call(12, |w| named(w, b"f")).0, Status::NOENT);
    assert_eq!(rig.read(&file, 0, 5), Err(Status::STALE));
}

#[test]
fn an_exclusive_create_that_comes_again_finds_its_own_file() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let verifier = |v: &'static [u8; 8]| move |w: &mut Writer| w.fixed(v);
    let file = rig.create(&root, "x", 2, verifier(b"\xff1234567")).expect("made");
    assert_eq!(rig.create(&root, "x", 2, verifier(b"\xff1234567")).as_ref(), Ok(&file));
    assert_eq!(rig.create(&root, "x", 2, verifier(b"\xff1234568")), Err(Status::EXIST));
    assert_eq!(rig.write(&file, 0, b"used", 0), Status::OK, "the owner writes whatever the mode");
    assert_eq!(rig.create(&root, "x", 2, verifier(b"\xff1234567")), Err(Status::EXIST));
}

#[test]
fn attributes_before_and_after_frame_a_change() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let file = rig.create(&root, "f", 1, mode(0o644)).expect("made");
    let (status, rest) = rig.call(7, |w| {
        w.opaque(&file);
        w.u64(0);
        w.u32(3);
        w.u32(0);
        w.opaque(b"abc");
    });
    let mut r = Reader::new(&rest);
    assert_eq!((status, r.bool(), r.u64()), (Status::OK, Ok(true), Ok(0)));
    r.fixed::<16>().expect("times");
    assert_eq!(r.bool(), Ok(true));
    let attr = r.fixed::<84>().expect("attributes");
    assert_eq!(&attr[20..28], 3_u64.to_be_bytes());
    assert_eq!((r.u32(), r.u32(), r.fixed::<8>()), (Ok(3), Ok(0), Ok([9; 8])));
    r.end().expect("no more");
    // A guard that does not match the change time.
    let (status, _) = rig.call(2, |w| {
        w.opaque(&file);
        mode(0o600)(w);
        w.u32(1);
        w.u64(12345 << 32);
    });
    assert_eq!(status, Status::NOT_SYNC);
}

#[test]
fn directories_are_listed_in_pieces_of_any_size() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let who = Caller { privileged: true, ..Caller::default() };
    let mut expected = vec![".".to_owned(), "..".to_owned(), "home".to_owned()];
    for i in 0..200 {
        let name = format!("name-{i:0>width$}", width = i % 60);
        rig.vfs.create(&who, rig.vfs.root(), name.as_bytes(), &NewNode::Regular, 0o644, 0).expect("made");
        expected.push(name);
    }
    expected.sort();
    for (plus, count) in [(false, 300), (false, 32_768), (true, 400), (true, 8192)] {
        let mut names = rig.names(&root, plus, count);
        names.sort();
        assert_eq!(names, expected, "{plus} {count}");
    }
    let (status, _) = rig.call(16, |w| {
        w.opaque(&root);
        w.u64(0);
        w.fixed(&[0; 8]);
        w.u32(120);
    });
    assert_eq!(status, Status::TOOSMALL);
}

#[test]
fn datasets_beneath_and_snapshots_are_entered_as_far_as_they_are_shared() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let fsid = |handle: &[u8]| {
        let (status, rest) = rig.call(1, |w| w.opaque(handle));
        assert_eq!(status, Status::OK);
        u64::from_be_bytes(rest[44..52].try_into().expect("eight bytes"))
    };
    let home = rig.lookup(&root, "home").expect("shared");
    assert_eq!((fsid(&root), fsid(&home)), (5, 7));
    assert_eq!(rig.mount("/tank/home").as_ref(), Ok(&home));
    assert_eq!(rig.lookup(&home, "..").as_ref(), Ok(&home), "a share's root is its own parent");
    let control = rig.lookup(&root, ".zfs").expect("found by name");
    let snapshot = rig.lookup(&rig.lookup(&control, "snapshot").expect("exists"), "s1").expect("exists");
    assert_eq!(fsid(&snapshot), 6);
    let old = rig.lookup(&snapshot, "old").expect("exists");
    assert_eq!(rig.read(&old, 0, 100), Ok((b"existed".to_vec(), true)));
    assert_eq!(rig.create(&snapshot, "new", 1, mode(0o644)), Err(Status::ROFS));
    assert_eq!(rig.create(&control, "new", 1, mode(0o644)), Err(Status::ROFS));
    assert_eq!(rig.names(&control, true, 4096), [".", "..", "snapshot", "volume"]);
    // The child is no longer shared.
    rig.exports.set(vec![share(&rig.vfs, "/tank", 5, "ro")]);
    assert_eq!(rig.lookup(&root, "home"), Err(Status::ACCES));
    assert_eq!(rig.lookup(&home, "x"), Err(Status::STALE));
    assert_eq!(rig.create(&root, "new", 1, mode(0o644)), Err(Status::ROFS));
    assert_eq!(rig.read(&old, 0, 100), Ok((b"existed".to_vec(), true)), "a snapshot belongs to its dataset");
}

#[test]
fn a_client_outside_the_list_gets_nothing_at_mount_and_later() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let file = rig.create(&root, "f", 1, mode(0o666)).expect("made");
    rig.exports.set(vec![share(&rig.vfs, "/tank", 5, "rw=10.9.9.9")]);
    assert_eq!(rig.mount("/tank"), Err(Status::ACCES));
    assert_eq!(rig.mount("/elsewhere"), Err(Status::ACCES));
    assert_eq!(rig.lookup(&root, "f"), Err(Status::ACCES));
    assert_eq!(rig.read(&file, 0, 1), Err(Status::ACCES));
    assert_eq!(rig.write(&file, 0, b"x", 0), Status::ACCES);
    // Other procedures and programs are refused as well.
    let with_name = |w: &mut Writer| {
        w.opaque(&root);
        w.opaque(b"f");
        (0..10).for_each(|_| w.u32(0));
    };
    for procedure in 1..=21 {
        let args = |w: &mut Writer| match procedure {
            3 | 8..=10 | 12 | 13 => with_name(w),
            14 => {
                w.opaque(&root);
                w.opaque(b"f");
                w.opaque(&root);
                w.opaque(b"g");
            }
            15 => {
                w.opaque(&file);
                w.opaque(&root);
                w.opaque(b"g");
            }
            _ => {
                w.opaque(&file);
                (0..10).for_each(|_| w.u32(0));
            }
        };
        // MKNOD of type 0 has no more arguments, SYMLINK has a target.
        let args = |w: &mut Writer| match procedure {
            11 => {
                w.opaque(&root);
                w.opaque(b"n");
                w.u32(7);
                (0..6).for_each(|_| w.u32(0));
            }
            _ => args(w),
        };
        assert_eq!(
            rig.call(procedure, args).0,
            Status::ACCES,
            "{}",
            observe::Layer::Nfs3.operations()[procedure as usize]
        );
    }
    for procedure in 1..=2 {
        let answer = rig.raw(side_acl::PROGRAM, procedure, |w| {
            w.opaque(&file);
            (0..5).for_each(|_| w.u32(0));
        });
        assert_eq!(answer[..4], Status::ACCES.0.to_be_bytes());
    }
    // Shared again while the server runs.
    rig.exports.set(vec![share(&rig.vfs, "/tank", 5, "rw")]);
    assert_eq!(rig.read(&file, 0, 1), Ok((Vec::new(), true)));
}

#[test]
fn forged_handles_open_nothing() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let (file, home) = (rig.file(&root, "f", 0o666), rig.mount("/tank/home").expect("mounts"));
    let own = rig.file(&home, "own", 0o666);
    for bit in 0..8 * file.len() {
        let mut forged = file.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let expected = if bit < 32 { Status::BADHANDLE } else { Status::STALE };
        assert_eq!(rig.read(&forged, 0, 1), Err(expected), "bit {bit}");
        assert_eq!(rig.write(&forged, 0, b"x", 0), expected, "bit {bit}");
    }
    for len in 0..file.len() {
        assert_eq!(rig.read(&file[..len], 0, 1), Err(Status::BADHANDLE));
    }
    // The identity of a file in another file system, with the MAC of an accessible one.
    let mut mixed = file.clone();
    mixed[12..20].copy_from_slice(&own[12..20]);
    assert_eq!(rig.read(&mixed, 0, 1), Err(Status::STALE));
    // Genuine handles of a sibling that was shared and no longer is.
    rig.exports.set(vec![share(&rig.vfs, "/tank", 5, "rw")]);
    for handle in [&home, &own] {
        assert_eq!(rig.read(handle, 0, 1), Err(Status::STALE));
        assert_eq!(rig.lookup(handle, "own"), Err(Status::STALE));
    }
    assert_eq!(rig.lookup(&root, "home"), Err(Status::ACCES), "nor by its name");
    assert_eq!(rig.mount("/tank/home"), Err(Status::ACCES));
    // The same file system in another pool.
    let mut other = share(&rig.vfs, "/tank", 5, "rw");
    other.pool_guid = 2;
    rig.exports.set(vec![other]);
    assert_eq!(rig.read(&file, 0, 1), Err(Status::STALE));
}

#[test]
fn root_is_squashed_unless_the_share_trusts_it() {
    let rig = Rig::new("rw").user(0);
    let root = rig.mount("/tank").expect("mounts");
    rig.create(&root, "a", 1, mode(0o644)).expect("made");
    assert_eq!(rig.vfs.lookup(rig.vfs.root(), b"a").expect("exists").uid, 65534);
    rig.exports.set(vec![share(&rig.vfs, "/tank", 5, "rw,no_root_squash")]);
    rig.create(&root, "b", 1, mode(0o644)).expect("made");
    assert_eq!(rig.vfs.lookup(rig.vfs.root(), b"b").expect("exists").uid, 0);
}

#[test]
fn names_move_and_nodes_get_further_names() {
    let rig = Rig::new("rw");
    let root = rig.mount("/tank").expect("mounts");
    let file = rig.create(&root, "f", 1, mode(0o644)).expect("made");
    let (status, rest) = rig.call(9, |w| {
        w.opaque(&root);
        w.opaque(b"d");
        mode(0o755)(w);
    });
    let dir = made(status, &rest).expect("made");
    let rename = |from: (&[u8], &str), to: (&[u8], &str)| {
        rig.call(14, |w| {
            for (dir, name) in [from, to] {
                w.opaque(dir);
                w.opaque(name.as_bytes());
            }
        })
        .0
    };
    assert_eq!(rename((&root, "f"), (&dir, "g")), Status::OK);
    assert_eq!(rig.lookup(&dir, "g").as_ref(), Ok(&file), "the handle stays");
    assert_eq!(rename((&root, "f"), (&dir, "g")), Status::NOENT);
    assert_eq!(rename((&root, "d"), (&dir, "below")), Status::INVAL);
    let home = rig.lookup(&root, "home").expect("shared");
    assert_eq!(rename((&dir, "g"), (&home, "g")), Status::XDEV);
    let link = |node: &[u8], dir: &[u8], name: &str| {
        rig.call(15, |w| {
            w.opaque(node);
            w.opaque(dir);
            w.opaque(name.as_bytes());
        })
        .0
    };
    assert_eq!(link(&file, &root, "h"), Status::OK);
    assert_eq!(link(&file, &root, "h"), Status::EXIST);
    assert_eq!(link(&dir, &root, "i"), Status::PERM);
    assert_eq!(rig.vfs.lookup(rig.vfs.root(), b"h").expect("exists").links, 2);
    for (procedure, kind, expected) in [(11, 7, Status::OK), (11, 4, Status::PERM), (11, 1, Status::BADTYPE)] {
        let (status, _) = rig.call(procedure, |w| {
            w.opaque(&root);
            w.opaque(format!("node{kind}").as_bytes());
            w.u32(kind);
            mode(0o600)(w);
            w.u64(1 << 32 | 3);
        });
        assert_eq!(status, expected);
    }
    let (status, rest) = rig.call(10, |w| {
        w.opaque(&root);
        w.opaque(b"link");
        mode(0o777)(w);
        w.opaque(b"d/g");
    });
    let symlink = made(status, &rest).expect("made");
    let (status, rest) = rig.call(5, |w| w.opaque(&symlink));
    let mut r = Reader::new(&rest);
    skip_post(&mut r);
    assert_eq!((status, r.opaque(100)), (Status::OK, Ok(&b"d/g"[..])));
}

#[test]
fn root_that_is_not_squashed_changes_snapshots_by_their_directory() {
    let open = |options: &str, uid: u32| {
        let rig = Rig::new(options).user(uid);
        let root = rig.mount("/tank").expect("mounts");
        let control = rig.lookup(&root, ".zfs").expect("there");
        let dir = rig.lookup(&control, "snapshot").expect("there");
        (rig, dir)
    };
    let mkdir = |rig: &Rig, dir: &[u8], name: &str| {
        let (status, rest) = rig.call(9, |w| {
            w.opaque(dir);
            w.opaque(name.as_bytes());
            mode(0o755)(w);
        });
        made(status, &rest)
    };
    let remove = |rig: &Rig, dir: &[u8], name: &str| {
        let named = |w: &mut Writer| {
            w.opaque(dir);
            w.opaque(name.as_bytes());
        };
        rig.call(13, named).0
    };
    for (options, uid, why) in
        [("rw,no_root_squash", 1000, Status::ACCES), ("rw", 0, Status::ACCES), ("ro,no_root_squash", 0, Status::ROFS)]
    {
        let (rig, dir) = open(options, uid);
        assert_eq!(mkdir(&rig, &dir, "new"), Err(why), "{options} {uid}");
        assert_eq!(remove(&rig, &dir, "s1"), why, "{options} {uid}");
        let opened = rig.opened.load(Ordering::Relaxed);
        for plus in [false, true] {
            assert_eq!(rig.names(&dir, plus, 4096), [".", "..", "s1"]);
        }
        assert_eq!(rig.opened.load(Ordering::Relaxed), opened, "there may be thousands");
    }
    let (rig, dir) = open("rw,no_root_squash", 0);
    let taken = mkdir(&rig, &dir, "new").expect("taken");
    assert_eq!(rig.lookup(&dir, "new").as_ref(), Ok(&taken));
    let renamed = rig.call(14, |w| {
        w.opaque(&dir);
        w.opaque(b"new");
        w.opaque(&dir);
        w.opaque(b"newer");
    });
    assert_eq!(renamed.0, Status::OK);
    assert_eq!(rig.names(&dir, true, 4096), [".", "..", "s1", "newer"]);
    assert_eq!(remove(&rig, &dir, "s1"), Status::OK);
    assert_eq!(rig.names(&dir, false, 4096), [".", "..", "newer"]);
    assert_eq!(rig.create(&dir, "file", 1, mode(0o644)), Err(Status::PERM));
}
