//! Writes to devices that take their time: during the sync of a txg they have only begun when
//! `WriteStore::write` returns, and `WriteStore::flush` waits for them.

use crate::support::*;
use block::{Task, WriteStore, doing};
use bytes::Bytes;
use ondisk::BlkPtr;
use rig::noise;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn slow(layout: Layout) -> Bench {
    let bench = bench(layout, 9);
    bench.disks.iter().for_each(|disk| disk.latency_us.store(500, Ordering::Relaxed));
    // The first write shows that the devices are slow.
    write(&bench.store, &noise(1, 512));
    bench
}

fn write(store: &WriteStore, data: &[u8]) -> BlkPtr {
    store.write(TXG, Bytes::copy_from_slice(data), &policy(), &AT, None).unwrap()
}

fn some(count: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|n| noise(n + 2, [512, 4096, 65536, 131_072, 1536][n as usize % 5]))
}

#[test]
fn delayed_blocks_are_read_rewritten_and_written_by_the_flush() {
    for layout in ALL {
        let bench = slow(layout);
        let _sync = doing(Task::Background);
        let mut blocks: Vec<(BlkPtr, Vec<u8>)> = some(40).map(|data| (write(&bench.store, &data), data)).collect();
        for (n, (bp, data)) in blocks.iter_mut().enumerate() {
            if n % 3 == 0 {
                *data = noise(n as u64 + 1000, data.len());
                let place = bp.dva(0);
                *bp = bench.store.rewrite(TXG, bp, Bytes::from(data.clone()), &policy(), &AT, None).unwrap();
                assert_eq!(bp.dva(0), place);
            }
            if n % 4 == 0 {
                let read = bench.store.read_stored(bp, &AT).unwrap();
                assert!(read == *data, "{layout:?}: {n}");
            }
        }
        bench.store.flush().unwrap();
        bench.disks.iter().for_each(|disk| disk.latency_us.store(0, Ordering::Relaxed));
        for (bp, data) in &blocks {
            check(&bench, bp, data, None);
        }
    }
}

/// The last writes of a txg are small, and follow others that are enough to be written at once.
#[test]
fn small_blocks_after_large_ones_are_written_by_the_flush() {
    for layout in [Layout::Disk, Layout::Mirror(2), Layout::Raidz(1, 3)] {
        let bench = slow(layout);
        bench.disks.iter().for_each(|disk| disk.latency_us.store(5_000, Ordering::Relaxed));
        let _sync = doing(Task::Background);
        for round in 0..3 {
            let sizes = [1 << 20, 1 << 20, 1 << 20, 512, 4096, 512];
            let blocks: Vec<(BlkPtr, Vec<u8>)> = sizes
                .iter()
                .enumerate()
                .map(|(n, size)| noise((round * 10 + n) as u64, *size))
                .map(|data| (write(&bench.store, &data), data))
                .collect();
            // The large ones are written, and no more are to come.
            std::thread::sleep(Duration::from_millis(60));
            bench.store.flush().unwrap();
            for (bp, data) in &blocks {
                check(&bench, bp, data, None);
            }
        }
    }
}

#[test]
fn writers_do_not_wait_for_devices_until_the_flush() {
    let bench = slow(Layout::Raidz(2, 6));
    bench.disks.iter().for_each(|disk| disk.latency_us.store(20_000, Ordering::Relaxed));
    let _sync = doing(Task::Background);
    let begun = Instant::now();
    let data = noise(3, 16384);
    (0..40).for_each(|_| {
        write(&bench.store, &data);
    });
    let (written, before) = (begun.elapsed(), bench.disks[0].flushes.load(Ordering::Relaxed));
    bench.store.flush().unwrap();
    assert!(written < Duration::from_millis(400), "{written:?}: 40 blocks one after the other take 800 ms");
    assert!(begun.elapsed() > Duration::from_millis(20));
    assert_eq!(bench.disks[0].flushes.load(Ordering::Relaxed), before + 1);
}

#[test]
fn a_device_that_fails_has_missed_the_txg_and_the_blocks_are_readable() {
    for layout in [Layout::Mirror(2), Layout::Raidz(1, 5), Layout::Raidz(2, 6)] {
        let bench = slow(layout);
        bench.disks[1].fails_writes.store(true, Ordering::Relaxed);
        let _sync = doing(Task::Background);
        let blocks: Vec<(BlkPtr, Vec<u8>)> = some(20).map(|data| (write(&bench.store, &data), data)).collect();
        bench.store.flush().unwrap();
        let tree = bench.store.tree();
        assert_eq!(tree.find(2).and_then(|v| v.leaf()).unwrap().stale_ranges(), [(TXG, TXG)], "{layout:?}");
        for (bp, data) in &blocks {
            assert!(bench.store.read_stored(bp, &AT).unwrap() == *data, "{layout:?}");
        }
    }
}

#[test]
fn failed_writes_are_retried_once_devices_are_back() {
    for layout in [Layout::Disk, Layout::Mirror(2), Layout::Raidz(1, 5)] {
        let bench = slow(layout);
        let all_fail = |fail| bench.disks.iter().for_each(|disk| disk.fails_writes.store(fail, Ordering::Relaxed));
        let calls = Arc::new(AtomicUsize::new(0));
        let disks = bench.disks.clone();
        bench.store.set_on_write_failure(Some(Arc::new({
            let calls = calls.clone();
            move |_, _| {
                // The device is back at the third call.
                if calls.fetch_add(1, Ordering::SeqCst) == 2 {
                    disks.iter().for_each(|disk| disk.fails_writes.store(false, Ordering::Relaxed));
                }
                true
            }
        })));
        let _sync = doing(Task::Background);
        all_fail(true);
        let blocks: Vec<(BlkPtr, Vec<u8>)> = some(10).map(|data| (write(&bench.store, &data), data)).collect();
        bench.store.flush().unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 3, "{layout:?}: once for all blocks, until all are written");
        bench.disks.iter().for_each(|disk| disk.latency_us.store(0, Ordering::Relaxed));
        for (bp, data) in &blocks {
            assert!(bench.store.read_stored(bp, &AT).unwrap() == *data, "{layout:?}");
        }
        bench.store.set_on_write_failure(Some(Arc::new(|_, _| false)));
        bench.disks.iter().for_each(|disk| disk.latency_us.store(500, Ordering::Relaxed));
        all_fail(true);
        write(&bench.store, &noise(5, 4096));
        assert!(bench.store.flush().is_err(), "{layout:?}");
    }
}

#[test]
fn a_write_that_failed_is_not_repeated_over_newer_contents_of_the_same_place() {
    for layout in [Layout::Disk, Layout::Mirror(2), Layout::Raidz(1, 5)] {
        let bench = slow(layout);
        let all_fail = |fail| bench.disks.iter().for_each(|disk| disk.fails_writes.store(fail, Ordering::Relaxed));
        bench.store.set_on_write_failure(Some(Arc::new(|_, _| true)));
        let _sync = doing(Task::Background);
        all_fail(true);
        let old = write(&bench.store, &noise(1, 4096));
        // It has failed when it takes its place in the queue no more: a read of it waits for that.
        let _ = bench.store.read_stored(&old, &AT);
        std::thread::sleep(Duration::from_millis(20));
        all_fail(false);
        let newer = noise(2, 4096);
        let bp = bench.store.rewrite(TXG, &old, Bytes::from(newer.clone()), &policy(), &AT, None).unwrap();
        assert_eq!(bp.dva(0), old.dva(0), "{layout:?}");
        bench.store.flush().unwrap();
        assert!(bench.store.read_stored(&bp, &AT).unwrap() == newer, "{layout:?}");
    }
}

#[test]
fn a_write_whose_thread_panics_is_a_failed_one_and_the_flush_does_not_hang() {
    // The flush once waited for ever.
    let bench = slow(Layout::Disk);
    let store = &bench.store;
    let first = write(store, &some(1).next().unwrap());
    store.flush().unwrap();
    assert_eq!(store.unflushed(TXG), 0);
    let _doing = block::doing(block::Task::Background);
    bench.disks[0].panics.store(true, Ordering::SeqCst);
    let bps: Vec<_> = some(20).map(|data| write(store, &data)).collect();
    let error = store.flush().unwrap_err().to_string();
    assert!(error.contains("panicked"), "{error}");
    assert_eq!(store.unflushed(TXG), bps.len() as u64, "no uberblock may lead to them");
    assert!(store.read(&first, &AT, None).is_ok());
}

#[test]
fn a_flush_that_panics_is_not_one_that_succeeded() {
    // With two devices, each is flushed by a thread of its own. The result was once a success.
    let bench = bench(Layout::Mirror(2), 9);
    write(&bench.store, &some(1).next().unwrap());
    bench.disks[0].panics.store(true, Ordering::SeqCst);
    let flush = std::panic::AssertUnwindSafe(|| bench.store.flush());
    let panic = std::panic::catch_unwind(flush).expect_err("it panics");
    assert!(panic.downcast_ref::<String>().is_some_and(|why| why.contains("panics in a flush")));
    assert_eq!(bench.store.unflushed(TXG), 1);
}

/// Regression: a pool that was given up in the middle of a txg was open to other processes while
/// its last writes were still on their way.
#[test]
fn a_device_is_released_after_the_writes_that_are_on_their_way() {
    let bench = slow(Layout::Mirror(2));
    bench.disks.iter().for_each(|disk| disk.latency_us.store(300_000, Ordering::Relaxed));
    let _sync = doing(Task::Background);
    for n in 0..16 {
        write(&bench.store, &noise(n, 1 << 20));
    }
    // Those that are held when their number suffices have begun.
    std::thread::sleep(Duration::from_millis(50));
    for leaf in bench.store.tree().all_leaves() {
        leaf.release();
    }
    assert!(bench.disks.iter().all(|disk| !disk.was_released_early.load(Ordering::SeqCst)));
    bench.store.flush().unwrap();
}
