//! Locks requested by two clients.

use super::*;
use crate::nfs::exports::{FixedExports, Share, ShareOptions, Watched};
use crate::nfs::grace::Grace;
use crate::nfs::handle::HandleKey;
use crate::nfs::locks::LockTable;
use crate::nfs::rpc::message::put_call;
use crate::nfs::rpc::{Peer, Registry};
use files::memory::MemoryVfs;
use files::vfs::Vfs;

struct Rig {
    registry: Registry,
    manager: Arc<LockManager>,
    handle: Vec<u8>,
}

fn rig(monitor: Monitor) -> Rig {
    let mut vfs = MemoryVfs::new().identity(5);
    let node = vfs.add_file(vfs.root(), "f", "text");
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.writable());
    let file = vfs.handle(node).expect("a handle");
    let options = ShareOptions::parse("rw,insecure").expect("options").expect("shared");
    let share = Share { path: "/m".into(), dataset: "m".into(), pool_guid: 1, fs_guid: 5, vfs, options };
    let core = Arc::new(Core {
        exports: Watched::new(Arc::new(FixedExports::new(vec![share.clone()])), true),
        handles: HandleKey::new([1; 32]),
        locks: Arc::new(LockTable::new(1000)),
        grace: monitor.grace().clone(),
        verifier: [0; 8],
        changes: Default::default(),
        figures: Arc::default(),
    });
    let handle = core.seal(&share, file).to_vec();
    let manager = LockManager::start(core, Arc::new(monitor)).expect("a thread");
    let mut registry = Registry::default();
    registry.add(manager.clone());
    Rig { registry, manager, handle }
}

impl Rig {
    fn call(&self, host: u8, procedure: u32, args: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let (mut w, mut out) = (Writer::new(), Writer::new());
        put_call(&mut w, 1, PROGRAM, VERSION, procedure);
        args(&mut w);
        let peer = Peer::datagram(([127, 0, 0, host], 900).into(), ([127, 0, 0, 1], 2049).into());
        self.registry.answer(&peer, &w.to_vec(), &mut out).expect("a message");
        let out = out.to_vec();
        assert_eq!(out[20..24], [0; 4], "{out:?}");
        out[24..].to_vec()
    }

    /// The status, which follows the cookie.
    fn status(&self, host: u8, procedure: u32, args: impl FnOnce(&mut Writer)) -> u32 {
        let answer = self.call(host, procedure, |w| {
            w.opaque(b"cook");
            args(w);
        });
        let mut r = Reader::new(&answer);
        assert_eq!(r.opaque(10), Ok(&b"cook"[..]));
        r.u32().expect("a status")
    }

    fn put_lock(&self, w: &mut Writer, host: u8, (offset, length): (u64, u64)) {
        w.opaque(&[b'h', b'0' + host]);
        w.opaque(&self.handle);
        w.opaque(b"owner");
        w.u32(77);
        w.u64(offset);
        w.u64(length);
    }

    fn lock(&self, host: u8, range: (u64, u64), exclusive: bool, block: bool) -> u32 {
        self.reclaim(host, range, exclusive, block, false)
    }

    fn reclaim(&self, host: u8, range: (u64, u64), exclusive: bool, block: bool, reclaim: bool) -> u32 {
        self.status(host, 2, |w| {
            w.bool(block);
            w.bool(exclusive);
            self.put_lock(w, host, range);
            w.bool(reclaim);
            w.u32(1);
        })
    }

    fn unlock(&self, host: u8, range: (u64, u64)) -> u32 {
        self.status(host, 4, |w| self.put_lock(w, host, range))
    }
}

fn monitor() -> Monitor {
    Monitor::start(None, Arc::new(Grace::new(Duration::from_secs(60)))).expect("no folder")
}

#[test]
fn locks_of_two_clients_conflict_and_name_their_holder() {
    let rig = rig(monitor());
    assert_eq!(rig.lock(1, (0, 10), true, false), GRANTED);
    assert_eq!(rig.lock(1, (0, 10), true, false), GRANTED, "requested again");
    assert_eq!(rig.lock(2, (5, 0), false, false), DENIED);
    let answer = rig.call(2, 1, |w| {
        w.opaque(b"c");
        w.bool(false);
        rig.put_lock(w, 2, (9, 1));
    });
    let mut r = Reader::new(&answer);
    assert_eq!((r.opaque(1), r.u32(), r.bool(), r.u32()), (Ok(&b"c"[..]), Ok(DENIED), Ok(true), Ok(77)));
    assert_eq!((r.opaque(10), r.u64(), r.u64()), (Ok(&b"owner"[..]), Ok(0), Ok(10)));
    r.end().expect("no more");
    assert_eq!(rig.lock(2, (10, 0), true, false), GRANTED, "after it");
    assert_eq!(rig.unlock(1, (0, 0)), GRANTED);
    assert_eq!(rig.lock(2, (0, 0), true, false), GRANTED);
}

#[test]
fn a_waiting_client_gets_the_lock_when_it_is_free_or_retries() {
    let rig = rig(monitor());
    assert_eq!(rig.lock(1, (0, 0), true, false), GRANTED);
    assert_eq!(rig.lock(2, (0, 5), true, true), BLOCKED);
    assert_eq!(rig.lock(2, (0, 5), true, true), BLOCKED);
    assert_eq!(rig.manager.waiting.lock().len(), 1, "once");
    assert_eq!(rig.lock(3, (0, 5), true, true), BLOCKED);
    let cancelled = rig.status(3, 3, |w| {
        w.bool(true);
        w.bool(true);
        rig.put_lock(w, 3, (0, 5));
    });
    assert_eq!(cancelled, GRANTED);
    assert_eq!(rig.unlock(1, (0, 0)), GRANTED);
    assert!(rig.manager.waiting.lock().is_empty());
    // No client at that address can be notified at port 111, or it does not know the lock. In both
    // cases it gets the lock now.
    assert_eq!(rig.lock(2, (0, 5), true, true), GRANTED);
}

#[test]
fn a_client_that_starts_again_has_no_locks() {
    let rig = rig(monitor());
    assert_eq!(rig.lock(1, (0, 0), true, false), GRANTED);
    rig.call(2, 23, |w| {
        w.opaque(b"h1");
        w.u32(3);
    });
    assert_eq!(rig.lock(2, (0, 0), true, false), DENIED, "another owner sent it");
    rig.call(1, 23, |w| {
        w.opaque(b"h1");
        w.u32(3);
    });
    assert_eq!(rig.lock(2, (0, 0), true, false), GRANTED);
}

#[test]
fn share_reservations_deny_conflicting_access() {
    let rig = rig(monitor());
    let share = |host: u8, procedure: u32, mode: u32, access: u32| {
        rig.status(host, procedure, |w| {
            w.opaque(&[b'h', b'0' + host]);
            w.opaque(&rig.handle);
            w.opaque(b"o");
            w.u32(mode);
            w.u32(access);
            w.bool(false);
        })
    };
    assert_eq!(share(1, 20, 2, 1), GRANTED, "reads, and denies writing");
    assert_eq!(share(2, 20, 0, 2), DENIED);
    assert_eq!(share(2, 20, 0, 1), GRANTED);
    assert_eq!(share(1, 21, 0, 0), GRANTED);
    assert_eq!(share(2, 20, 0, 2), GRANTED);
}

#[test]
fn after_a_restart_only_previous_holders_get_locks() {
    let folder = std::env::temp_dir().join(format!("weir-nlm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let start = || Monitor::start(Some(&folder), Arc::new(Grace::new(Duration::from_millis(300)))).expect("starts");
    assert_eq!(rig(start()).lock(1, (0, 0), true, false), GRANTED);
    let again = rig(start());
    assert_eq!(again.lock(2, (0, 0), true, false), GRACE);
    assert_eq!(again.reclaim(1, (0, 0), true, false, true), GRANTED);
    std::thread::sleep(Duration::from_millis(350));
    assert_eq!(again.lock(2, (0, 0), true, false), DENIED);
    assert_eq!(again.reclaim(2, (0, 0), true, false, true), DENIED);
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn while_version_4_reclaims_version_3_gets_no_new_locks() {
    let monitor = monitor();
    let grace = monitor.grace().clone();
    let rig = rig(monitor);
    grace.wait_for_v4(true);
    assert_eq!(rig.lock(1, (0, 0), true, false), GRACE);
    grace.wait_for_v4(false);
    assert_eq!(rig.lock(1, (0, 0), true, false), GRANTED);
}
