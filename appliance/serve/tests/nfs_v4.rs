//! Tests of NFSv4 over trees in memory, with a small client and no socket.

#[path = "nfs_v4/client.rs"]
mod client;

use bytes::Bytes;
use client::{Client, House, OK, Ops, house, share};
use errors::{Error, Result};
use files::memory::MemoryVfs;
use files::namespace::{Child, Control, Namespace, NumberedName, Provider};
use files::vfs::{Attr, DirEntry, FileHandle, NodeId, StatFs, Vfs};
use parking_lot::Mutex;
use proptest::prelude::*;
use serve::nfs::handle::WireHandle;
use serve::nfs::locks::{LockOwner, LockRange};
use serve::nfs::v4::{ClientRecords, NoRecords};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const NOENT: u32 = 2;
const ACCESS: u32 = 13;
const EXIST: u32 = 17;
const INVAL: u32 = 22;
const ROFS: u32 = 30;
const STALE: u32 = 70;
const BADHANDLE: u32 = 10001;
const SAME: u32 = 10009;
const DENIED: u32 = 10010;
const EXPIRED_GRACE: u32 = 10013;
const SHARE_DENIED: u32 = 10015;
const RESOURCE: u32 = 10018;
const NOFILEHANDLE: u32 = 10020;
const NOT_SAME: u32 = 10027;
const BADXDR: u32 = 10036;
const OP_ILLEGAL: u32 = 10044;
const NXIO: u32 = 6;
const NOXATTR: u32 = 10095;
const MINOR_VERS_MISMATCH: u32 = 10021;
const OP_NOT_IN_SESSION: u32 = 10071;
const CONN_NOT_BOUND_TO_SESSION: u32 = 10055;
const WRONG_CRED: u32 = 10082;
const DELAY: u32 = 10008;
const BIND_CONN_TO_SESSION: u32 = 41;
const DESTROY_SESSION: u32 = 44;
const DESTROY_CLIENTID: u32 = 57;

fn tree(fs_guid: u64) -> MemoryVfs {
    let mut vfs = MemoryVfs::new().identity(fs_guid);
    let root = vfs.root();
    vfs.attr_mut(root).mode = 0o777;
    vfs.add_file(root, "hello", "hello, world");
    let dir = vfs.add_dir(root, "dir");
    for i in 0..300 {
        vfs.add_file(dir, format!("file{i:03}"), "x");
    }
    vfs
}

fn two_shares() -> House {
    let (a, b) = (Arc::new(tree(5).writable()), Arc::new(tree(6).writable()));
    let shares = vec![share("/srv/a", 5, a, "rw,no_root_squash"), share("/b", 6, b, "ro")];
    house(shares, Arc::new(NoRecords))
}

#[test]
fn one_tree_leads_to_all_shares_and_back() {
    let house = two_shares();
    for minor in 0..3 {
        let mut client = Client::new(&house, minor, &format!("c{minor}"));
        // READDIR of the root, with fileids and fsids.
        let mut reply =
            client.run(Ops::default().root().op(26).u64(0).fixed([0; 8]).u32(4096).u32(4096).bits(&[8, 20]));
        reply.skip(&[24, 26]).u64();
        let mut names = Vec::new();
        while reply.u32() == 1 {
            reply.u64();
            names.push((String::from_utf8(reply.opaque()).unwrap(), {
                reply.bits();
                reply.opaque()[..16].to_vec()
            }));
        }
        assert_eq!(reply.u32(), 1, "all of it");
        assert_eq!(names.iter().map(|n| &n.0[..]).collect::<Vec<_>>(), ["b", "srv"]);
        assert_ne!(names[0].1, names[1].1, "a share is a separate file system");
        assert_eq!(names[0].1[..8], 6_u64.to_be_bytes());
        // Upwards: from the share into the tree above it.
        let (root, srv) = (client.handle("/"), client.handle("/srv"));
        let mut reply = client.run(Ops::default().path("/srv/a/dir").op(16).op(16).getfh().op(16).getfh());
        reply.skip(&[24, 15, 15, 15, 16, 16, 10]);
        assert_eq!(reply.opaque(), srv);
        reply.skip(&[16, 10]);
        assert_eq!(reply.opaque(), root);
        assert_eq!(client.run(Ops::default().root().op(16)).status, NOENT);
        assert_eq!(client.run(Ops::default().path("/srv/none")).status, NOENT);
        // Nothing above the shares can be changed.
        let mkdir = Ops::default().path("/srv").op(6).u32(2).opaque("new").bits(&[]).u32(0);
        assert_eq!(client.run(mkdir).status, ROFS);
        let mkdir = Ops::default().path("/b").op(6).u32(2).opaque("new").bits(&[]).u32(0);
        assert_eq!(client.run(mkdir).status, ROFS, "a share for reading");
    }
}

/// Regression: a compound of 4.0 with many READs had a reply of hundreds of MiB, more than the
/// memory for the answers of all clients.
#[test]
fn a_compound_of_many_reads_has_a_bounded_reply() {
    let mut vfs = MemoryVfs::new().identity(5);
    vfs.add_file(vfs.root(), "big", "x".repeat(1 << 20));
    let house = house(vec![share("/srv", 5, Arc::new(vfs), "rw")], Arc::new(NoRecords));
    let mut client = Client::new(&house, 0, "c");
    let big = client.handle("/srv/big");
    let reads = (0..3).fold(Ops::default().put(&big), |ops, _| ops.read(&[0; 16], 0, 1 << 20));
    let mut reply = client.run(reads);
    assert_eq!(reply.status, RESOURCE);
    assert!(reply.bytes.len() > 1 << 20 && reply.bytes.len() < 2 << 20, "{}", reply.bytes.len());
    reply.skip(&[22, 25]);
    let _is_end = reply.u32();
    assert!(reply.opaque().iter().all(|byte| *byte == b'x'), "entries that fit are returned");
}

#[test]
fn a_long_directory_comes_in_pieces_and_once() {
    let house = two_shares();
    let mut client = Client::new(&house, 1, "c");
    let dir = client.handle("/b/dir");
    let (mut cookie, mut names) = (0, BTreeSet::new());
    loop {
        let mut reply =
            client.run(Ops::default().put(&dir).op(26).u64(cookie).fixed([0; 8]).u32(0).u32(1000).bits(&[1, 4]));
        assert_eq!(reply.status, OK);
        reply.skip(&[22, 26]).u64();
        assert!(reply.bytes.len() < 1200);
        while reply.u32() == 1 {
            cookie = reply.u64();
            assert!(names.insert(reply.opaque()));
            assert_eq!((reply.bits(), reply.opaque().len()), (vec![1, 4], 12));
        }
        if reply.u32() == 1 {
            break;
        }
    }
    assert_eq!(names.len(), 300);
    let tiny = Ops::default().put(&dir).op(26).u64(0).fixed([0; 8]).u32(0).u32(30).bits(&[]);
    assert_eq!(client.run(tiny).status, 10005);
    let bad = Ops::default().put(&dir).op(26).u64(1).fixed([0; 8]).u32(0).u32(3000).bits(&[]);
    assert_eq!(client.run(bad).status, 10003);
}

#[test]
fn files_are_made_written_read_and_removed() {
    let house = two_shares();
    for minor in 0..3 {
        let mut client = Client::new(&house, minor, &format!("c{minor}"));
        let dir = client.handle("/srv/a");
        let (id, file) = client.open(&dir, "owner", (3, 0), "new", true).unwrap();
        let mut reply = client.run(
            Ops::default().put(&file).getattr(&[3]).write(&id, 3, 0, b"data").op(5).u64(0).u32(0).getattr(&[3, 4, 33]),
        );
        reply.skip(&[22, 9]).bits();
        let before = reply.opaque();
        reply.skip(&[38]);
        assert_eq!((reply.u32(), reply.u32()), (4, 0));
        let verifier = reply.u64();
        reply.skip(&[5]);
        assert_eq!(reply.u64(), verifier);
        reply.skip(&[9]).bits();
        let after = reply.opaque();
        assert_ne!(before[..], after[..8], "the change shows");
        assert_eq!(after[8..], [&7_u64.to_be_bytes()[..], &0o644_u32.to_be_bytes()].concat());
        let mut reply = client.run(Ops::default().put(&file).read(&id, 0, 100));
        reply.skip(&[22, 25]);
        assert_eq!((reply.u32(), reply.opaque()), (1, b"\0\0\0data".to_vec()));
        // An open file exists without its name.
        let mut reply = client.run(Ops::default().put(&dir).op(28).opaque("new").put(&file).read(&id, 3, 4));
        assert_eq!(reply.status, OK);
        reply.skip(&[22, 28]).change_info();
        reply.skip(&[22, 25]);
        assert_eq!((reply.u32(), reply.opaque()), (1, b"data".to_vec()));
        let mut reply = client.run(Ops::default().put(&file).op(4).u32(3).state(&id));
        assert_eq!((reply.status, reply.next(22), reply.next(4)), (OK, OK, OK));
        assert_eq!(client.run(Ops::default().put(&file)).status, STALE);
    }
}

#[test]
fn a_repeated_request_is_executed_once() {
    let house = two_shares();
    let mut client = Client::new(&house, 1, "c");
    let dir = client.handle("/srv/a");
    let mkdir = || Ops::default().put(&dir).op(6).u32(2).opaque("once").bits(&[33]).u32(4).u32(0o700);
    let record = client.record(&mkdir(), 77);
    let first = client.send(&record);
    assert_eq!(client.parse(first.clone()).status, OK);
    assert_eq!(client.send(&record), first, "also over another connection, at another time");
    assert_eq!(client.run(mkdir()).status, EXIST, "it was created");
    // 4.0 uses the seqids of its owners.
    let mut old = Client::new(&house, 0, "old");
    let open = |client: &Client| Ops::default().put(&dir).open(client, "o", 9, (3, 0), "by-old", true).getfh();
    let mut first = old.run(open(&old));
    let mut again = old.run(open(&old));
    assert_eq!((first.status, again.status), (OK, OK));
    first.skip(&[22, 18]);
    again.skip(&[22, 18]);
    assert_eq!(first.opened(), again.opened(), "the same state, and no step of its sequence");
}

#[test]
fn reservations_and_locks_hold_between_clients_and_versions() {
    let house = two_shares();
    let (mut a, mut b) = (Client::new(&house, 1, "a"), Client::new(&house, 0, "b"));
    let dir = a.handle("/srv/a");
    let (open_a, file) = a.open(&dir, "o", (3, 2), "hello", false).unwrap();
    assert_eq!(b.open(&dir, "o", (2, 0), "hello", false), Err(SHARE_DENIED));
    let (open_b, _) = b.open(&dir, "p", (1, 0), "hello", false).unwrap();
    let mut reply = a.run(Ops::default().put(&file).lock(&a, &open_a, "l", (10, 10), true));
    assert_eq!(reply.status, OK);
    reply.skip(&[22, 12]);
    let lock_a = reply.state();
    let ask = |b: &Client| Ops::default().put(&file).op(13).u32(1).u64(0).u64(u64::MAX).u64(b.id).opaque("l");
    let mut reply = b.run(ask(&b));
    assert_eq!(reply.status, DENIED);
    reply.skip(&[22]);
    assert_eq!((reply.next(13), reply.u64(), reply.u64(), reply.u32(), reply.u64()), (DENIED, 10, 10, 2, a.id));
    // Locks of NLM conflict with those of version 4, and vice versa.
    let nlm = LockOwner::Nlm { host: Arc::from(*b"h"), owner: Arc::from(*b"o"), process: 1 };
    let key = house.core.handles.open(&file).unwrap().file;
    assert!(house.core.locks.lock(key, &nlm, LockRange { start: 15, last: 15 }, true).is_err());
    house.core.locks.lock(key, &nlm, LockRange { start: 50, last: 59 }, true).unwrap();
    let mut reply = a.run(Ops::default().put(&file).lock(&a, &open_a, "l", (50, 1), true));
    assert_eq!(reply.status, DENIED);
    reply.skip(&[22]);
    assert_eq!((reply.next(12), reply.u64(), reply.u64()), (DENIED, 50, 10));
    // After LOCKU, B's lock is granted.
    let mut reply = a.run(Ops::default().put(&file).op(14).u32(2).u32(0).state(&lock_a).u64(0).u64(u64::MAX));
    reply.skip(&[22, 14]);
    house.core.locks.release(|_| true);
    let lock = Ops::default().put(&file).op(12).u32(1).u32(0).u64(0).u64(u64::MAX);
    let lock = lock.u32(1).u32(3).state(&open_b).u32(1).u64(b.id).opaque("l");
    assert_eq!(b.run(lock).status, OK);
    assert_eq!(a.run(ask(&a)).status, OK, "both read");
    assert_eq!(a.run(Ops::default().put(&file).lock(&a, &open_a, "l", (0, 0), true)).status, INVAL);
}

#[derive(Default)]
struct Kept(Mutex<BTreeSet<Vec<u8>>>);

impl ClientRecords for Kept {
    fn load(&self) -> Vec<Vec<u8>> {
        self.0.lock().iter().cloned().collect()
    }
    fn add(&self, name: &[u8]) {
        self.0.lock().insert(name.to_vec());
    }
    fn remove(&self, name: &[u8]) {
        self.0.lock().remove(name);
    }
}

#[test]
fn after_a_restart_clients_reclaim_their_state_before_others_may_take_it() {
    let records = Arc::new(Kept::default());
    let vfs: Arc<dyn Vfs> = Arc::new(tree(5).writable());
    let start = || house(vec![share("/a", 5, vfs.clone(), "rw,no_root_squash")], records.clone());
    let before = start();
    let mut a = Client::new(&before, 1, "a");
    let dir = a.handle("/a");
    let (open, file) = a.open(&dir, "o", (3, 3), "hello", false).unwrap();
    drop(before);
    // In another run the file handle is valid, the session is not.
    let after = start();
    let mut again = Client { session: a.session, ..Client::plain(&after, 1, [10, 0, 0, 1]) };
    assert_eq!(again.run(Ops::default().put(&file)).status, 10052);
    let mut thief = Client::new(&after, 1, "b");
    assert_eq!(thief.open(&dir, "o", (1, 0), "hello", false), Err(EXPIRED_GRACE));
    assert_eq!(thief.run(Ops::default().put(&file).read(&[0; 16], 0, 10)).status, EXPIRED_GRACE);
    again.exchange_id("a", 1);
    let reclaim =
        |c: &Client| Ops::default().put(&file).op(18).u32(0).u32(3).u32(3).u64(c.id).opaque("o").u32(0).u32(1).u32(0);
    assert_eq!(thief.run(reclaim(&thief)).status, 10033, "it had no state");
    let mut reply = again.run(reclaim(&again));
    assert_eq!(reply.status, OK);
    reply.skip(&[22, 18]);
    let reclaimed = reply.opened();
    assert_ne!(reclaimed, open);
    assert_eq!(again.run(Ops::default().op(58).u32(0)).status, OK);
    assert_eq!(again.run(Ops::default().put(&file).read(&reclaimed, 0, 10)).status, OK);
    assert_eq!(thief.open(&dir, "o", (1, 0), "hello", false), Err(SHARE_DENIED));
    assert_eq!(records.load(), [b"a".to_vec(), b"b".to_vec()]);
}

#[test]
fn a_client_that_no_list_names_gets_nothing_by_path_or_by_handle() {
    let vfs = Arc::new(tree(5).writable());
    let house = house(vec![share("/a", 5, vfs, "rw=10.0.0.1,no_root_squash")], Arc::new(NoRecords));
    let mut known = Client::new(&house, 1, "known");
    let file = known.handle("/a/hello");
    let mut other = Client::plain(&house, 1, [10, 0, 0, 2]);
    other.exchange_id("other", 1);
    assert_eq!(other.run(Ops::default().path("/a")).status, ACCESS);
    assert_eq!(other.run(Ops::default().put(&file)).status, ACCESS);
    let mut reply = other.run(Ops::default().root().op(26).u64(0).fixed([0; 8]).u32(0).u32(4096).bits(&[]));
    reply.skip(&[24, 26]).u64();
    assert_eq!((reply.u32(), reply.u32()), (0, 1), "it is not even listed");
    let mut forged = file.clone();
    forged[20] ^= 1;
    assert_eq!(known.run(Ops::default().put(&forged)).status, STALE);
    assert_eq!(known.run(Ops::default().put(b"short")).status, BADHANDLE);
}

#[test]
fn another_host_or_user_can_neither_use_nor_end_a_session() {
    let house = two_shares();
    let mut owner = Client::new(&house, 1, "owner");
    let (session, _) = owner.session.unwrap();
    let root = || Ops::default().root();
    // On a free slot, with the correct sequence ID.
    let mut thief = Client { address: [10, 0, 0, 2], ..owner.clone() };
    assert_eq!(thief.run(root()).status, CONN_NOT_BOUND_TO_SESSION);
    let plain = Client { session: None, ..owner.clone() };
    let alone = |address, uid, number: u32, id: &[u8]| {
        let mut client = Client { uid, address, ..plain.clone() };
        let bind = |ops: Ops| if number == BIND_CONN_TO_SESSION { ops.u32(1).u32(0) } else { ops };
        client.run(bind(Ops::default().op(number).fixed(id))).status
    };
    let id = owner.id.to_be_bytes();
    assert_eq!(alone([10, 0, 0, 2], 0, DESTROY_SESSION, &session), CONN_NOT_BOUND_TO_SESSION);
    assert_eq!(alone([10, 0, 0, 1], 1000, DESTROY_SESSION, &session), WRONG_CRED);
    assert_eq!(alone([10, 0, 0, 2], 1000, BIND_CONN_TO_SESSION, &session), WRONG_CRED);
    assert_eq!(alone([10, 0, 0, 2], 0, DESTROY_CLIENTID, &id), WRONG_CRED);
    assert_eq!(alone([10, 0, 0, 1], 1000, DESTROY_CLIENTID, &id), WRONG_CRED);
    // Users of the client's host share its session. A new address of the client must be bound
    // first.
    let mut user = Client { uid: 1000, ..owner.clone() };
    assert_eq!(user.run(root()).status, OK);
    owner.session = user.session;
    assert_eq!(alone([10, 0, 0, 3], 0, BIND_CONN_TO_SESSION, &session), OK);
    owner.address = [10, 0, 0, 3];
    assert_eq!(owner.run(root()).status, OK);
    assert_eq!(alone([10, 0, 0, 3], 0, DESTROY_SESSION, &session), OK);
}

/// Times that a user sets, or tar restores, may equal those of a verifier.
#[test]
fn an_exclusive_open_of_a_file_with_such_times_needs_the_rights_of_any_other_open() {
    let house = two_shares();
    let mut root = Client::new(&house, 1, "c");
    let (dir, file) = (root.handle("/srv/a"), root.handle("/srv/a/hello"));
    let times = Ops::default().u32(1).u64(0x11).u32(0).u32(1).u64(0x22).u32(0).w.to_vec();
    let set = Ops::default().put(&file).op(34).fixed([0; 16]).bits(&[48, 54]).opaque(&times);
    assert_eq!(root.run(set).status, OK);
    let verifier = [0, 0, 0, 0x11, 0, 0, 0, 0x22];
    let open = |client: &mut Client, name: &str, verifier: [u8; 8], attrs: &Ops| {
        let ops = Ops::default().put(&dir).op(18).u32(0).u32(3).u32(0).u64(client.id).opaque("o");
        client.run(ops.u32(1).u32(3).fixed(verifier).fixed(attrs.w.to_vec()).u32(0).opaque(name)).status
    };
    let none = Ops::default().bits(&[]).u32(0);
    let mut ada = Client { uid: 1815, ..root.clone() };
    assert_eq!(open(&mut ada, "hello", verifier, &none), ACCESS, "mode 0644 of root");
    assert_eq!(open(&mut ada, "hello", [7; 8], &none), EXIST);
    // A retry of Ada's own request: it gets the requested access, despite the mode.
    let locked = Ops::default().bits(&[33]).u32(4).u32(0o000);
    assert_eq!(open(&mut ada, "mine", [9; 8], &locked), OK);
    assert_eq!(open(&mut ada, "mine", [9; 8], &locked), OK);
    let mut other = Client { uid: 1816, ..ada.clone() };
    assert_eq!(open(&mut other, "mine", [9; 8], &locked), ACCESS);
}

/// A tree whose reads panic, or whose device does not answer, while `is_broken`.
struct Faulty {
    tree: MemoryVfs,
    is_broken: AtomicBool,
}

impl Vfs for Faulty {
    fn root(&self) -> NodeId {
        self.tree.root()
    }
    fn lookup(&self, dir: NodeId, name: &[u8]) -> Result<Attr> {
        self.tree.lookup(dir, name)
    }
    fn attr(&self, node: NodeId) -> Result<Attr> {
        self.tree.attr(node)
    }
    fn read_link(&self, node: NodeId) -> Result<Vec<u8>> {
        self.tree.read_link(node)
    }
    fn read(&self, node: NodeId, offset: u64, len: usize) -> Result<Bytes> {
        assert!(!self.is_broken.load(Ordering::SeqCst), "as tests require");
        self.tree.read(node, offset, len)
    }
    fn read_dir(&self, dir: NodeId, cookie: u64, sink: &mut dyn FnMut(DirEntry) -> bool) -> Result<()> {
        self.tree.read_dir(dir, cookie, sink)
    }
    fn list_xattr(&self, node: NodeId) -> Result<Vec<Vec<u8>>> {
        self.tree.list_xattr(node)
    }
    fn get_xattr(&self, node: NodeId, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.tree.get_xattr(node, name)
    }
    fn seek_data(&self, node: NodeId, offset: u64) -> Result<Option<u64>> {
        self.tree.seek_data(node, offset)
    }
    fn seek_hole(&self, node: NodeId, offset: u64) -> Result<u64> {
        self.tree.seek_hole(node, offset)
    }
    fn stat_fs(&self, node: NodeId) -> Result<StatFs> {
        self.tree.stat_fs(node)
    }
    fn handle(&self, node: NodeId) -> Result<FileHandle> {
        self.tree.handle(node)
    }
    fn by_handle(&self, handle: &FileHandle) -> Result<Attr> {
        self.tree.by_handle(handle)
    }
    fn open_node(&self, node: NodeId) -> Result<()> {
        assert!(!self.is_broken.load(Ordering::SeqCst), "as tests require");
        self.tree.open_node(node)
    }
    fn home_of(&self, fs_guid: u64) -> Result<u64> {
        let broken = || Err(Error::io("vdev 0", std::io::Error::from_raw_os_error(5)));
        if self.is_broken.load(Ordering::SeqCst) { broken() } else { Ok(if fs_guid == 70 { 5 } else { fs_guid }) }
    }
}

fn faulty() -> (House, Arc<Faulty>) {
    let vfs = Arc::new(Faulty { tree: tree(5).writable(), is_broken: AtomicBool::new(false) });
    (house(vec![share("/a", 5, vfs.clone(), "rw,no_root_squash")], Arc::new(NoRecords)), vfs)
}

/// Regression: the slot or the owner remained in use, so that every further request was answered
/// with NFS4ERR_DELAY.
#[test]
fn after_a_request_that_panicked_its_slot_and_its_owner_can_be_used() {
    let (house, vfs) = faulty();
    for minor in [0, 1] {
        let mut client = Client::new(&house, minor, &format!("c{minor}"));
        let (dir, file) = (client.handle("/a"), client.handle("/a/hello"));
        let read = || Ops::default().put(&file).read(&[0; 16], 0, 5);
        vfs.is_broken.store(true, Ordering::SeqCst);
        let open = |client: &Client, seqid| Ops::default().put(&dir).open(client, "o", seqid, (1, 0), "hello", false);
        for ops in [read(), open(&client, 1)] {
            let mut broken = client.clone();
            catch_unwind(AssertUnwindSafe(|| broken.run(ops))).err().expect("it panics");
            client.session = broken.session;
        }
        vfs.is_broken.store(false, Ordering::SeqCst);
        assert_eq!(client.run(read()).status, OK);
        assert_eq!(client.run(open(&client, 2)).status, OK);
    }
}

#[test]
fn a_snapshot_with_a_failed_share_lookup_is_retried() {
    let (house, vfs) = faulty();
    let mut client = Client::new(&house, 1, "c");
    let file = FileHandle { fs_guid: 70, object: 1, generation: 1 };
    let handle = house.core.handles.seal(&WireHandle { pool_guid: 1, file });
    vfs.is_broken.store(true, Ordering::SeqCst);
    assert_eq!(client.run(Ops::default().put(&handle)).status, DELAY);
    vfs.is_broken.store(false, Ordering::SeqCst);
    assert_eq!(client.run(Ops::default().put(&handle)).status, STALE, "found, and it does not contain the file");
    let unknown = FileHandle { fs_guid: 71, ..file };
    let unknown = house.core.handles.seal(&WireHandle { pool_guid: 1, file: unknown });
    assert_eq!(client.run(Ops::default().put(&unknown)).status, STALE);
}

/// A dataset with some snapshots. Counts how often one is opened.
struct Snapshots(Arc<AtomicUsize>);

impl Provider for Snapshots {
    fn name(&self) -> String {
        "t".to_owned()
    }
    fn root(&self) -> Result<Arc<dyn Vfs>> {
        Ok(Arc::new(tree(80)))
    }
    fn control(&self) -> Control {
        Control::Hidden
    }
    fn children(&self) -> Result<Vec<Child>> {
        Ok(Vec::new())
    }
    fn snapshots(&self) -> Result<Vec<NumberedName>> {
        Ok((1..=9).map(|number| NumberedName { name: format!("s{number}"), number }).collect())
    }
    fn volumes(&self) -> Result<Vec<NumberedName>> {
        Ok(Vec::new())
    }
    fn open_child(&self, key: &str) -> Result<Arc<dyn Provider>> {
        Err(Error::not_found("t", key))
    }
    fn open_snapshot(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(tree(self.snapshot_guid(name)?)))
    }
    fn snapshot_guid(&self, name: &str) -> Result<u64> {
        let number = name.strip_prefix('s').and_then(|n| n.parse::<u64>().ok());
        number.map(|n| 80 + n).ok_or_else(|| Error::not_found("t", name))
    }
    fn open_volume(&self, name: &str) -> Result<Arc<dyn Vfs>> {
        Err(Error::not_found("t", name))
    }
}

#[test]
fn listing_the_names_of_snapshots_opens_none() {
    // Each listed snapshot was opened, also for attributes that are known without that.
    let opens = Arc::new(AtomicUsize::new(0));
    let vfs = Arc::new(Namespace::new(Arc::new(Snapshots(opens.clone()))).unwrap());
    let house = house(vec![share("/t", 80, vfs, "rw")], Arc::new(NoRecords));
    let mut client = Client::new(&house, 1, "c");
    let dir = client.handle("/t/.zfs/snapshot");
    let mut list = |bits: &[u32]| {
        let mut reply = client.run(Ops::default().put(&dir).op(26).u64(0).fixed([0; 8]).u32(0).u32(8000).bits(bits));
        assert_eq!(reply.status, OK);
        reply.skip(&[22, 26]).u64();
        let mut found = Vec::new();
        while reply.u32() == 1 {
            reply.u64();
            let name = String::from_utf8(reply.opaque()).unwrap();
            found.push((name, reply.bits(), reply.opaque()));
        }
        assert_eq!((reply.u32(), found.len()), (1, 9));
        found
    };
    // `type`, `fsid`, `rdattr_error` and `mounted_on_fileid`; then with `fileid`.
    let (bits, more) = ([1, 8, 11, 55], [1, 8, 11, 20, 55]);
    let names = list(&bits);
    assert_eq!(opens.load(Ordering::SeqCst), 0);
    let opened = list(&more);
    assert!(opens.load(Ordering::SeqCst) >= 9);
    for (unopened, opened) in names.iter().zip(&opened) {
        assert_eq!((&unopened.0, &unopened.1[..], &opened.1[..]), (&opened.0, &bits[..], &more[..]));
        let (values, all) = (&unopened.2, &opened.2);
        assert_eq!((values.len(), all.len()), (32, 40));
        assert_eq!((&values[..24], &values[24..]), (&all[..24], &all[32..]), "{}", unopened.0);
    }
}

#[test]
fn rights_count_for_users_and_lists_decide_by_their_order() {
    let house = two_shares();
    let mut root = Client::new(&house, 1, "c");
    let file = root.handle("/srv/a/hello");
    let mut ada = Client { uid: 1815, ..root.clone() };
    ada.exchange_id("ada", 1);
    ada.run(Ops::default().op(58).u32(0));
    let access = |c: &mut Client| {
        let mut reply = c.run(Ops::default().put(&file).op(3).u32(0x3f));
        reply.skip(&[22, 3]);
        (reply.u32(), reply.u32())
    };
    assert_eq!(access(&mut ada).1, 0x01, "mode 0644: reading");
    // With an ACL: ada is denied reading, others are allowed; she may write.
    let ace = |w: Ops, kind: u32, mask: u32, who: &str| w.u32(kind).u32(0).u32(mask).opaque(who);
    let list = ace(ace(ace(Ops::default().u32(3), 1, 1, "1815"), 0, 6, "1815@local"), 0, 1, "EVERYONE@").w.to_vec();
    let set = Ops::default().put(&file).op(34).fixed([0; 16]).bits(&[12]).opaque(&list);
    assert_eq!(root.run(set).status, 10039, "a number has no domain");
    let list = ace(ace(ace(Ops::default().u32(3), 1, 1, "1815"), 0, 6, "1815"), 0, 1, "EVERYONE@").w.to_vec();
    let set = |list: &[u8]| Ops::default().put(&file).op(34).fixed([0; 16]).bits(&[12]).opaque(list);
    let mut reply = root.run(set(&list));
    assert_eq!(reply.status, OK);
    reply.skip(&[22, 34]);
    assert_eq!(reply.bits(), [12]);
    assert_eq!(access(&mut ada).1, 0x0c);
    assert_eq!(ada.run(set(&list)).status, 1, "it is not hers");
    let mut reply = root.run(Ops::default().put(&file).getattr(&[12, 33]));
    reply.skip(&[22, 9]).bits();
    let returned = reply.opaque();
    assert_eq!(returned[..list.len()], list);
    assert_eq!(returned[list.len()..], 0o444_u32.to_be_bytes(), "the mode grants everyone's access");
    // chmod removes the ACL.
    root.run(Ops::default().put(&file).op(34).fixed([0; 16]).bits(&[33]).opaque(0o640_u32.to_be_bytes()));
    assert_eq!(access(&mut ada).1, 0);
}

#[test]
fn every_supported_attribute_is_returned_and_can_be_compared() {
    let house = two_shares();
    for minor in 0..3 {
        let mut client = Client::new(&house, minor, &format!("c{minor}"));
        for path in ["/", "/srv", "/srv/a", "/srv/a/hello", "/b/dir"] {
            let handle = client.handle(path);
            let mut reply = client.run(Ops::default().put(&handle).getattr(&[0]));
            reply.skip(&[22, 9]).bits();
            reply.u32();
            let supported = reply.bits();
            let readable: Vec<u32> = supported.iter().copied().filter(|n| ![48, 54, 74, 81].contains(n)).collect();
            let mut reply = client.run(Ops::default().put(&handle).getattr(&readable));
            assert_eq!(reply.status, OK, "{path}");
            reply.skip(&[22, 9]);
            assert_eq!(reply.bits(), readable);
            reply.opaque();
            for number in readable.into_iter().filter(|n| *n != 11) {
                let mut reply = client.run(Ops::default().put(&handle).getattr(&[number]));
                reply.skip(&[22, 9]).bits();
                let value = reply.opaque();
                let verify = |op| Ops::default().put(&handle).op(op).bits(&[number]).opaque(&value);
                assert_eq!(client.run(verify(37)).status, OK, "attribute {number} of {path}");
                assert_eq!(client.run(verify(17)).status, SAME);
                let other: Vec<u8> = value.iter().map(|b| b ^ 1).collect();
                let verify = Ops::default().put(&handle).op(37).bits(&[number]).opaque(&other);
                assert_eq!(client.run(verify).status, NOT_SAME);
            }
        }
    }
}

#[test]
fn holes_space_copies_and_named_values_are_there_in_the_last_version() {
    let house = two_shares();
    let mut client = Client::new(&house, 2, "c");
    let dir = client.handle("/srv/a");
    let (id, file) = client.open(&dir, "o", (3, 0), "sparse", true).unwrap();
    let at = |file: &[u8]| Ops::default().put(file);
    // ALLOCATE extends, SEEK finds data, COPY copies, READ_PLUS reports data and holes.
    assert_eq!(client.run(at(&file).op(59).state(&id).u64(0).u64(1 << 20).write(&id, 500_000, 2, b"data")).status, OK);
    let mut reply = client.run(at(&file).op(69).state(&id).u64(0).u32(0));
    assert_eq!(reply.status, OK);
    reply.skip(&[22, 69]);
    assert_eq!(reply.u32(), 0);
    assert!(reply.u64() <= 500_000);
    assert_eq!(client.run(at(&file).op(69).state(&id).u64(2 << 20).u32(0)).status, NXIO);
    let (to, copy) = client.open(&dir, "o", (3, 0), "copy", true).unwrap();
    let ops = at(&file).op(32).put(&copy).op(60).state(&id).state(&to).u64(499_998).u64(10).u64(8).u32(1).u32(1).u32(0);
    let mut reply = client.run(ops);
    assert_eq!(reply.status, OK);
    reply.skip(&[22, 32, 22, 60]);
    assert_eq!((reply.u32(), reply.u64()), (0, 8));
    let mut reply = client.run(at(&copy).op(68).state(&to).u64(10).u32(8));
    assert_eq!(reply.status, OK);
    reply.skip(&[22, 68]);
    assert_eq!((reply.u32(), reply.u32()), (1, 1), "the end, in one piece");
    assert_eq!((reply.u32(), reply.u64(), reply.opaque()), (0, 10, b"\0\0data\0\0".to_vec()));
    assert_eq!(client.run(at(&file).op(62).state(&id).u64(0).u64(1 << 20)).status, OK);
    // Extended attributes.
    let set = |how, name: &str, value: &str| at(&file).op(73).u32(how).opaque(name).opaque(value);
    assert_eq!(client.run(set(2, "colour", "red")).status, NOXATTR);
    assert_eq!(client.run(set(1, "colour", "red")).status, OK);
    assert_eq!(client.run(set(1, "colour", "red")).status, EXIST);
    let mut reply = client.run(at(&file).op(72).opaque("colour"));
    reply.skip(&[22, 72]);
    assert_eq!(reply.opaque(), b"red");
    client.run(set(0, "shape", "round"));
    let mut reply = client.run(at(&file).op(74).u64(0).u32(1000));
    reply.skip(&[22, 74]);
    let next = reply.u64();
    assert_eq!((reply.u32(), reply.opaque(), reply.opaque(), reply.u32()), (2, b"colour".into(), b"shape".into(), 1));
    let mut reply = client.run(at(&file).op(74).u64(next).u32(1000));
    reply.skip(&[22, 74]).u64();
    assert_eq!((reply.u32(), reply.u32()), (0, 1));
    assert_eq!(client.run(at(&file).op(75).opaque("shape")).status, OK);
    assert_eq!(client.run(at(&file).op(72).opaque("shape")).status, NOXATTR);
}

#[test]
fn operations_of_other_versions_are_refused_by_name() {
    let house = two_shares();
    let mut old = Client::new(&house, 0, "old");
    let mut reply = old.run(Ops::default().op(53));
    assert_eq!((reply.status, reply.u32(), reply.u32()), (OP_ILLEGAL, 10044, OP_ILLEGAL));
    assert_eq!(old.run(Ops::default().op(10)).status, NOFILEHANDLE);
    assert_eq!(old.run(Ops::default().root().op(15)).status, BADXDR);
    let mut new = Client::plain(&house, 1, [10, 0, 0, 1]);
    assert_eq!(new.run(Ops::default().root()).status, OP_NOT_IN_SESSION);
    new.minor = 3;
    assert_eq!(new.run(Ops::default().root()).status, MINOR_VERS_MISMATCH);
    let mut new = Client::new(&house, 1, "new");
    assert_eq!(new.run(Ops::default().op(35)).status, 10004, "SETCLIENTID exists only in 4.0");
    assert_eq!(new.run(Ops::default().op(59)).status, OP_ILLEGAL, "ALLOCATE is of 4.2");
}

fn any_op() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![Just(0_u32), Just(1), 0..80_u32, any::<u32>(), Just(u32::MAX)];
    (0..80_u32, prop::collection::vec(word, 0..24))
        .prop_map(|(op, words)| std::iter::once(op).chain(words).flat_map(u32::to_be_bytes).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_input_makes_the_server_panic_or_desynchronize(minor in 0..4_u32, ops in prop::collection::vec(any_op(), 0..6), count in 0..8_u32) {
        let house = two_shares();
        let mut client = Client::new(&house, minor.min(2), "c");
        let root = Ops::default().path("/srv/a/hello");
        let mut all = root.w.to_vec();
        ops.iter().for_each(|op| all.extend_from_slice(op));
        let mut wild = Ops { count: root.count + count, ..Ops::default() };
        wild.w.fixed(&all);
        client.minor = minor;
        let record = client.record(&wild, 5);
        prop_assert!(client.send(&record).len() >= 24);
        // The server still works.
        client.minor = minor.min(2);
        let mut other = Client::new(&house, client.minor, "d");
        prop_assert!(!other.handle("/srv/a/hello").is_empty());
    }
}
