//! The cache under every schedule of the threads that use it: see `rig::schedule`.

use super::tests::key;
use super::*;
use ondisk::Endian;
use rig::schedule::{explore, spawn, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

fn block(n: u8) -> Block {
    Block { data: vec![n; 100].into(), endian: Endian::Little }
}

/// A device: the contents of one block, and how often it was read.
struct Disk {
    contents: AtomicU64,
    reads: AtomicU64,
}

impl Disk {
    fn new() -> Shared<Self> {
        Shared::new(Self { contents: 1.into(), reads: 0.into() })
    }

    fn read(&self) -> Result<Block> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let contents = self.contents.load(Ordering::SeqCst);
        yield_now();
        Ok(block(contents as u8))
    }
}

#[test]
fn many_readers_cause_one_read_under_every_schedule() {
    explore(400, || {
        let (cache, disk) = (Shared::new(Arc::new(1000)), Disk::new());
        let readers: Vec<_> = (0..4)
            .map(|n| {
                let (cache, disk) = (cache.clone(), disk.clone());
                let want = if n == 0 { Want::Prefetch } else { Want::Demand };
                spawn(move || cache.get_or_load(key(1), want, || disk.read()).unwrap().data[0])
            })
            .collect();
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 1));
        assert_eq!(disk.reads.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn written_data_is_read_back_under_every_schedule() {
    explore(600, || {
        let (cache, disk) = (Shared::new(Arc::new(1000)), Disk::new());
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (cache, disk) = (cache.clone(), disk.clone());
                spawn(move || cache.get_or_load(key(1), Want::Demand, || disk.read()).unwrap().data[0])
            })
            .collect();
        let writer = spawn({
            let (cache, disk) = (cache.clone(), disk.clone());
            move || {
                disk.contents.store(2, Ordering::SeqCst);
                yield_now();
                cache.insert(key(1), false, block(2));
                // A reader that begins now must not join a read of the old contents.
                let found = cache.get_or_load(key(1), Want::Demand, || disk.read());
                assert_eq!(found.unwrap().data[0], 2);
            }
        });
        for reader in readers {
            assert!(matches!(reader.join().unwrap(), 1 | 2));
        }
        writer.join().unwrap();
        assert_eq!(cache.peek(&key(1)).unwrap().data[0], 2);
    });
}

#[test]
fn a_block_that_is_freed_while_it_is_read_does_not_stay_under_any_schedule() {
    explore(400, || {
        let (cache, disk) = (Shared::new(Arc::new(1000)), Disk::new());
        let reader = spawn({
            let (cache, disk) = (cache.clone(), disk.clone());
            move || {
                let began = cache.get_or_load(key(1), Want::Demand, || disk.read());
                assert_eq!(began.unwrap().data[0], 1);
            }
        });
        let known = cache.knows(&key(1));
        cache.remove(&key(1));
        reader.join().unwrap();
        if known {
            assert!(!cache.knows(&key(1)), "its space is given to another block");
        }
    });
}

#[test]
fn a_reader_that_panics_leaves_the_block_to_the_others_under_every_schedule() {
    explore(400, || {
        let (cache, disk) = (Shared::new(Arc::new(1000)), Disk::new());
        let failing = spawn({
            let cache = cache.clone();
            move || {
                // Without a report for each schedule.
                let load = || -> Result<Block> { std::panic::resume_unwind(Box::new("a broken invariant")) };
                let read = || cache.get_or_load(key(1), Want::Demand, load);
                // An error: it was the one that read. Otherwise another thread had read.
                catch_unwind(AssertUnwindSafe(read)).is_err()
            }
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (cache, disk) = (cache.clone(), disk.clone());
                spawn(move || cache.get_or_load(key(1), Want::Demand, || disk.read()).unwrap().data[0])
            })
            .collect();
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() == 1));
        failing.join().unwrap();
        assert_eq!(disk.reads.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn blocks_that_evict_each_other_keep_the_limits_under_every_schedule() {
    explore(200, || {
        let cache = Shared::new(Arc::new(250));
        let readers: Vec<_> = (0..3u64)
            .map(|first| {
                let cache = cache.clone();
                spawn(move || {
                    for n in first..first + 3 {
                        let found = cache.get_or_load(key(n), Want::Demand, || {
                            yield_now();
                            Ok(block(n as u8))
                        });
                        assert_eq!(found.unwrap().data[0], n as u8);
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(cache.counters().size_bytes <= 250);
    });
}
