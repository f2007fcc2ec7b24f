//! How close does writing blocks come to the limits of compressor, checksum and memory? Blocks of
//! 128 KiB, half of which compresses, go to devices in memory. For comparison, the same codec and
//! checksum run alone.
//!
//! `cargo run --release -p weir-block --example write_speed`. Figures are MB/s of contents, best of
//! five.

use block::vdev::{Kind, Leaf, MirrorKind, Tree, Vdev, raidz};
use block::{Allocate, Bookmark, Compress, Store, Want, WritePolicy, WriteStore};
use bytes::Bytes;
use errors::Result;
use host::device::MemoryDevice;
use ondisk::{Checksum, Dva, ObjectType};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use transform::checksum::{Algorithm, Order, checksum};
use transform::compress::{compress_into, zstd};

const BLOCK: usize = 128 << 10;
const BLOCKS: usize = 512;

struct Ring(AtomicU64, Arc<Store>);

impl Allocate for Ring {
    fn allocate(&self, want: &Want) -> Result<SmallVec<[Dva; 3]>> {
        let asize_bytes = self.1.tree().asize_bytes(0, want.psize_bytes, want.txg).expect("a data device");
        let at = self.0.fetch_add(asize_bytes, Ordering::Relaxed) % (64 << 20);
        Ok(smallvec![Dva { vdev: 0, offset_bytes: at - at % (12 << 12), asize_bytes, is_gang: false }])
    }
    fn free(&self, _: u64, _: u64, _: &Dva) {}
    fn claim(&self, _: u64, _: &Dva) -> Result<()> {
        Ok(())
    }
}

fn store(parity: usize, children: usize) -> Arc<WriteStore> {
    let leaves: Vec<Vdev> = (0..children)
        .map(|n| {
            let device = Arc::new(MemoryDevice::new(format!("m{n}"), vec![0; 100 << 20]));
            let kind = Kind::Leaf(Leaf::present(n as u64 + 1, device));
            Vdev { guid: n as u64 + 1, id: 0, kind, ashift: 12, children: vec![], name: format!("m{n}") }
        })
        .collect();
    let top = |kind, children| Vdev { guid: 9, id: 0, kind, ashift: 12, children, name: "top".into() };
    let tops = match (parity, children) {
        (0, 1) => leaves,
        (0, _) => vec![top(Kind::Mirror(MirrorKind::Mirror), leaves)],
        _ => vec![top(Kind::Raidz(raidz::Geometry::new(12, children, parity).expect("a shape")), leaves)],
    };
    let store = Store::new("m".into(), Tree::of(tops), 1 << 20);
    WriteStore::new(store.clone(), Arc::new(Ring(AtomicU64::new(0), store)))
}

fn contents() -> Vec<Bytes> {
    let mut state = 1u64;
    (0..BLOCKS)
        .map(|_| {
            let mut block = vec![0u8; BLOCK];
            for chunk in block.chunks_mut(4096) {
                for byte in &mut chunk[..2048] {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    *byte = (state >> 33) as u8;
                }
            }
            Bytes::from(block)
        })
        .collect()
}

fn best(name: &str, threads: usize, data: &[Bytes], work: impl Fn(&Bytes) + Sync) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || data.iter().skip(thread).step_by(threads).for_each(work));
            }
        });
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:32} {threads} threads {:8.0} MB/s", (BLOCKS * BLOCK) as f64 / best / 1e6);
}

fn main() {
    let data = contents();
    let at = Bookmark { objset: 1, object: 1, level: 0, blkid: 0 };
    for threads in [1, 2] {
        for compression in [Compress::Off, Compress::Lz4] {
            let policy = WritePolicy {
                object_type: ObjectType::PLAIN_FILE_CONTENTS,
                level: 0,
                checksum: Checksum::Fletcher4,
                compression,
                copies: 1,
                class: Default::default(),
                special_max_bytes: 0,
                embed: true,
                dedup: Default::default(),
            };
            let bare = |block: &Bytes| {
                thread_local!(static ROOM: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) });
                ROOM.with_borrow_mut(|room| {
                    let stored = if compression == Compress::Lz4 {
                        let algorithm = transform::compress::Algorithm::Lz4;
                        let limit = BLOCK - BLOCK / 8;
                        let length = compress_into(algorithm, zstd::Level::DEFAULT, block, limit, room);
                        &room[..length.expect("half of it is zeros").next_multiple_of(4096)]
                    } else {
                        &block[..]
                    };
                    std::hint::black_box(checksum(Algorithm::Fletcher4, stored, Order::Little, None));
                });
            };
            best(&format!("bare {compression:?} + fletcher4"), threads, &data, bare);
            for (name, parity, children) in
                [("disk", 0, 1), ("mirror of 2", 0, 2), ("raidz1 of 5", 1, 5), ("raidz2 of 6", 2, 6)]
            {
                let store = store(parity, children);
                best(&format!("{name} {compression:?}"), threads, &data, |block| {
                    store.write(1, block.clone(), &policy, &at, None).expect("room for all");
                });
            }
        }
    }
}
