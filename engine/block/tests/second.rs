//! The L2ARC: blocks evicted from memory are read from a cache device, found again by the next
//! process, and never trusted without verification.
//!
//! The cache device is a sparse file of more than 1 GiB: smaller ones have no log blocks, as in
//! OpenZFS.

use crate::support::*;
use block::l2::Secondary;
use block::vdev::{Kind, Leaf, Tree, Vdev};
use block::{Compress, Store, WriteStore};
use bytes::Bytes;
use host::device::{Device, FileDevice};
use ondisk::BlkPtr;
use rig::noise;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const POOL: u64 = 4711;
const CACHE: u64 = 99;

fn cache_file(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("cache");
    std::fs::File::create(&path).and_then(|f| f.set_len(1100 << 20)).expect("a sparse file");
    path
}

/// The bench's pool with a cache device, whose lock is released with the last store that uses it.
fn with_cache(bench: &Bench, path: &Path) -> Arc<WriteStore> {
    let device: Arc<dyn Device> = Arc::new(FileDevice::open_for_writing(path).expect("no other process holds it"));
    let leaf = Leaf::present(CACHE, device);
    let vdev = Vdev { guid: CACHE, id: 0, kind: Kind::Leaf(leaf), ashift: 9, children: vec![], name: "cache".into() };
    bench.store.change_tree(|tree| Tree { tops: tree.tops.clone(), caches: vec![Arc::new(vdev)], spares: Vec::new() });
    bench.store.reader().start_second(POOL, true).expect("a thread");
    bench.store.clone()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never happens: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn without_cache(store: &Store) {
    store.stop_second();
    // A pool releases its devices when it is closed.
    store.tree().all_leaves().filter_map(|leaf| leaf.device()).for_each(|device| device.release());
    store.change_tree(|tree| Tree { tops: tree.tops.clone(), ..Tree::default() });
    store.cache().clear();
}

#[test]
fn evicted_blocks_are_read_from_the_cache_device_and_found_after_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = cache_file(dir.path());
    let bench = bench(Layout::Disk, 9);
    let store = with_cache(&bench, &path);
    // Uncompressed, compressed by LZ4 (recompressed on feeding), and by gzip (read again on
    // feeding).
    let mut all: Vec<(BlkPtr, Vec<u8>)> = Vec::new();
    for seed in 0..300u64 {
        let compression = [Compress::Off, Compress::Lz4, Compress::Gzip(6)][seed as usize % 3];
        let data = half(seed, 8192);
        let made =
            store.write(TXG, Bytes::from(data.clone()), &block::WritePolicy { compression, ..policy() }, &AT, None);
        all.push((made.expect("written"), data));
    }
    let held = || store.second().figures();
    until("all are there", || {
        for (bp, _) in &all {
            store.read(bp, &AT, None).expect("read");
        }
        store.cache().clear();
        std::thread::sleep(Duration::from_millis(50));
        held().size_bytes >= 300 * 8192
    });
    let before = held();
    for (bp, data) in &all {
        assert_eq!(&store.read(bp, &AT, None).expect("read").data[..], &data[..]);
    }
    let after = held();
    assert_eq!((after.hits - before.hits, after.wrong), (300, 0));
    assert!(store.second().held_bytes(CACHE) > 300 * 2048);
    without_cache(&store);
    assert_eq!(held().hits, after.hits);
    // The next process: a log block has 66 entries here, so at most 65 of the newest are lost.
    let store = with_cache(&bench, &path);
    until("it is warm again", || held().rebuilt_blocks >= 235);
    let before = held();
    for (bp, data) in &all {
        assert_eq!(&store.read(bp, &AT, None).expect("read").data[..], &data[..]);
    }
    let hits = held().hits - before.hits;
    assert!((235..=300).contains(&hits) && held().wrong == 0, "{hits}");
    // Blocks of a dataset with `secondarycache=none` are not fed: the next lookup misses.
    store.second().set_policy(AT.objset, Secondary::None);
    let other = store.write(TXG, Bytes::from(noise(9, 8192)), &policy(), &AT, None).expect("written");
    for _ in 0..10 {
        store.cache().clear();
        std::thread::sleep(Duration::from_millis(50));
        store.read(&other, &AT, None).expect("read");
    }
    let misses = held().misses;
    store.cache().clear();
    store.read(&other, &AT, None).expect("read");
    assert_eq!(held().misses, misses + 1);
    without_cache(&store);
}

#[test]
fn a_corrupt_cache_device_costs_only_hits() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = cache_file(dir.path());
    let bench = bench(Layout::Disk, 9);
    let store = with_cache(&bench, &path);
    let mut all: Vec<(BlkPtr, Vec<u8>)> = Vec::new();
    let figures = || store.second().figures();
    for seed in 0..200u64 {
        let data = noise(seed, 4096);
        let bp = store.write(TXG, Bytes::from(data.clone()), &policy(), &AT, None).expect("written");
        all.push((bp, data));
    }
    until("all are there", || {
        for (bp, _) in &all {
            store.read(bp, &AT, None).expect("read");
        }
        store.cache().clear();
        std::thread::sleep(Duration::from_millis(100));
        figures().size_bytes >= 200 * 4096
    });
    // Overwrite bytes in the middle of the cached blocks.
    let file = std::fs::File::options().write(true).open(&path).expect("opened");
    let garbage = vec![0x5a; 300 << 10];
    std::os::unix::fs::FileExt::write_all_at(&file, &garbage, (4 << 20) + (100 << 10)).expect("written");
    for (bp, data) in &all {
        assert_eq!(&store.read(bp, &AT, None).expect("read").data[..], &data[..]);
    }
    assert!(figures().wrong >= 60, "{:?}", figures());
    without_cache(&store);
    // Its log blocks are damaged too: every block found again is right, or it is not found.
    let store = with_cache(&bench, &path);
    std::thread::sleep(Duration::from_millis(500));
    for (bp, data) in &all {
        assert_eq!(&store.read(bp, &AT, None).expect("read").data[..], &data[..]);
    }
    without_cache(&store);
    // A device without a header is empty.
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 4 << 20).expect("written");
    let before = store.second().figures().rebuilt_blocks;
    let store = with_cache(&bench, &path);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(store.second().figures().rebuilt_blocks, before);
    without_cache(&store);
}

#[test]
fn a_full_device_gives_up_the_oldest() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("cache");
    // Too small for log blocks: only the ring, of 1.5 MiB.
    std::fs::File::create(&path).and_then(|f| f.set_len(6 << 20)).expect("a sparse file");
    let bench = bench(Layout::Disk, 9);
    let store = with_cache(&bench, &path);
    let figures = || store.second().figures();
    let mut kept: Vec<(BlkPtr, Vec<u8>)> = Vec::new();
    for seed in 0..130u64 {
        let data = noise(seed, 131_072);
        kept.push((store.write(TXG, Bytes::from(data.clone()), &policy(), &AT, None).expect("written"), data));
    }
    for round in 0..4 {
        let before = figures().written_bytes;
        until("more is written", || {
            for (bp, data) in kept.iter().skip(round * 20).take(40) {
                assert_eq!(&store.read(bp, &AT, None).expect("read").data[..], &data[..]);
            }
            store.cache().clear();
            std::thread::sleep(Duration::from_millis(20));
            figures().written_bytes > before + (3 << 20)
        });
        assert!(store.second().held_bytes(CACHE) <= 3 << 19);
        assert!(figures().stored_bytes <= 3 << 19);
    }
    for (bp, data) in &kept {
        assert_eq!(&store.read(bp, &AT, None).expect("read").data[..], &data[..]);
    }
    assert!(figures().hits > 0 && figures().wrong == 0, "{:?}", figures());
    without_cache(&store);
}
