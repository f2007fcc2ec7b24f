//! A pool of memory devices, and an allocator that allocates space from the front, for tests of
//! writing.

use block::vdev::{Aux, Kind, Leaf, MirrorKind, Tree, Vdev, draid, raidz};
use block::{Allocate, Bookmark, Compress, Gang, Store, Want, WritePolicy, WriteStore};
use errors::{Refusal, Result};
use host::device::Device;
use ondisk::{Checksum, Dva, ObjectType};
use rig::{Disk, noise};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub const DISK_BYTES: usize = 24 << 20;
pub const TXG: u64 = 7;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    Disk,
    Mirror(usize),
    Raidz(usize, usize),
    Draid,
    Stripe(usize),
    /// Parity, current number of children, txg of the expansion that added the last one.
    Expanded(usize, usize, u64),
    /// A mirror without its first side.
    MirrorWithout,
    /// A raidz of that parity with 5 children, without as many of them.
    RaidzWithout(usize),
}

pub const ALL: [Layout; 12] = [
    Layout::Disk,
    Layout::Mirror(2),
    Layout::Mirror(3),
    Layout::Raidz(1, 3),
    Layout::Raidz(1, 5),
    Layout::Raidz(2, 6),
    Layout::Raidz(3, 7),
    Layout::Draid,
    Layout::Stripe(3),
    // The width of a block is that of its txg.
    Layout::Expanded(1, 5, TXG + 1),
    Layout::Expanded(2, 6, TXG + 1),
    Layout::Expanded(1, 5, TXG),
];

pub struct Bench {
    pub store: Arc<WriteStore>,
    pub disks: Vec<Arc<Disk>>,
    pub space: Arc<Space>,
}

fn leaf(disk: &Arc<Disk>, guid: u64, ashift: u8) -> Vdev {
    let name = disk.name().to_owned();
    Vdev { guid, id: 0, kind: Kind::Leaf(Leaf::present(guid, disk.clone())), ashift, children: vec![], name }
}

pub fn bench(layout: Layout, ashift: u8) -> Bench {
    let count = match layout {
        Layout::Disk => 1,
        Layout::Mirror(n) | Layout::Raidz(_, n) | Layout::Stripe(n) | Layout::Expanded(_, n, _) => n,
        Layout::Draid => 9,
        Layout::MirrorWithout => 2,
        Layout::RaidzWithout(_) => 5,
    };
    // Not zeros, so that unwritten bytes show.
    let disk = |n| Disk::new(format!("disk-{n}"), vec![0xa5; DISK_BYTES]);
    let disks: Vec<Arc<Disk>> = (0..count).map(disk).collect();
    let mut leaves: Vec<Vdev> = disks.iter().zip(1..).map(|(d, guid)| leaf(d, guid, ashift)).collect();
    let away = match layout {
        Layout::MirrorWithout => 1,
        Layout::RaidzWithout(parity) => parity,
        _ => 0,
    };
    for leaf in &mut leaves[..away] {
        leaf.kind = Kind::Leaf(Leaf::absent(leaf.guid, leaf.name.clone(), Aux::NotFound));
    }
    let top = |kind, children| Vdev { guid: 100, id: 0, kind, ashift, children, name: "top".into() };
    let tops = match layout {
        Layout::Disk | Layout::Stripe(_) => leaves,
        Layout::Mirror(_) | Layout::MirrorWithout => vec![top(Kind::Mirror(MirrorKind::Mirror), leaves)],
        Layout::Raidz(parity, _) | Layout::RaidzWithout(parity) => {
            vec![top(Kind::Raidz(raidz::Geometry::new(ashift, count, parity).unwrap()), leaves)]
        }
        Layout::Expanded(parity, n, txg) => {
            vec![top(Kind::Raidz(raidz::Geometry::expanded(ashift, n, parity, &[txg], None).unwrap()), leaves)]
        }
        Layout::Draid => {
            let shape = draid::Shape { ashift, children: 9, width: 9, parity: 2, data: 5, groups: 8, spares: 2 };
            vec![top(Kind::Draid(draid::Geometry::new(shape).unwrap()), leaves)]
        }
    };
    let store = Store::new("tank".into(), Tree::of(tops), 1 << 20);
    store.set_salt(&[3; 32]);
    let space = Arc::new(Space::new(store.clone()));
    Bench { store: WriteStore::new(store, space.clone()), disks, space }
}

/// Allocates space from the front of each top-level vdev, never twice, and records what is
/// allocated.
pub struct Space {
    store: Arc<Store>,
    inner: Mutex<Inner>,
    /// Larger pieces than this are refused.
    pub largest: AtomicU64,
    /// Bytes that may still be allocated.
    pub left: AtomicU64,
}

#[derive(Default)]
struct Inner {
    next: Vec<u64>,
    taken: BTreeMap<(u32, u64), u64>,
    turn: usize,
}

impl Space {
    fn new(store: Arc<Store>) -> Self {
        let tops = store.tree().tops.len();
        Self {
            store,
            inner: Mutex::new(Inner { next: vec![0; tops], ..Inner::default() }),
            largest: u64::MAX.into(),
            left: (64 << 20).into(),
        }
    }

    pub fn used(&self) -> u64 {
        self.inner.lock().unwrap().taken.values().sum()
    }
}

impl Allocate for Space {
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>> {
        let mut inner = self.inner.lock().unwrap();
        if want.gang != Gang::Header && want.psize_bytes > self.largest.load(Ordering::Relaxed) {
            return Err(Refusal::NoSpace.at(""));
        }
        let mut found = SmallVec::new();
        for _ in 0..want.copies {
            let vdev = inner.turn % inner.next.len();
            inner.turn += 1;
            let asize_bytes = self.store.tree().asize_bytes(vdev as u32, want.psize_bytes, want.txg).unwrap();
            if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |l| l.checked_sub(asize_bytes)).is_err() {
                return Err(Refusal::NoSpace.at(""));
            }
            let offset_bytes = inner.next[vdev];
            inner.next[vdev] += asize_bytes;
            assert!(inner.taken.insert((vdev as u32, offset_bytes), asize_bytes).is_none());
            found.push(Dva { vdev: vdev as u32, offset_bytes, asize_bytes, is_gang: false });
        }
        Ok(found)
    }

    fn free(&self, _txg: u64, birth: u64, dva: &Dva) {
        assert_eq!(birth, TXG);
        let taken = self.inner.lock().unwrap().taken.remove(&(dva.vdev, dva.offset_bytes));
        assert_eq!(taken, Some(dva.asize_bytes), "{dva:?} is freed as it was allocated");
    }

    fn claim(&self, _txg: u64, dva: &Dva) -> Result<()> {
        let mut inner = self.inner.lock().unwrap();
        assert!(inner.taken.insert((dva.vdev, dva.offset_bytes), dva.asize_bytes).is_none());
        Ok(())
    }
}

pub const AT: Bookmark = Bookmark { objset: 21, object: 5, level: 0, blkid: 3 };

pub fn policy() -> WritePolicy {
    WritePolicy {
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        level: 0,
        checksum: Checksum::Fletcher4,
        compression: Compress::Lz4,
        copies: 1,
        class: Default::default(),
        special_max_bytes: 0,
        embed: true,
        dedup: Default::default(),
    }
}

/// Half noise, half zeros.
pub fn half(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = noise(seed, len);
    bytes[len / 2..].fill(0);
    bytes
}

/// Asserts that the block reads back from cache and devices, and that every copy and column is
/// right.
pub fn check(bench: &Bench, bp: &ondisk::BlkPtr, data: &[u8], keys: Option<&block::crypt::DatasetKeys>) {
    bp.check().unwrap();
    let cached = bench.store.read(bp, &AT, keys).unwrap();
    assert_eq!(&cached.data[..], data, "from the cache: {bp}");
    if let Some(key) = (!bp.is_embedded() && !bp.is_hole()).then(|| bp.dva(0)) {
        bench.store.cache().remove(&block::arc::Key {
            vdev: key.vdev,
            offset_bytes: key.offset_bytes,
            birth: bp.physical_birth().0,
        });
    }
    let read = bench.store.read_uncached(bp, &AT, keys).unwrap();
    assert_eq!(&read.data[..], data, "from the devices: {bp}");
    let report = bench.store.verify(bp);
    assert!(report.readable && report.faults.is_empty(), "{bp}: {report:?}");
    assert_eq!(report.good_copies, bp.dvas().count(), "{bp}: {report:?}");
}
