use super::*;
use ondisk::Endian;

pub(super) fn key(n: u64) -> Key {
    Key { vdev: 0, offset_bytes: n * 512, birth: 1 }
}

fn read(cache: &Arc, n: u64) -> bool {
    let mut read = false;
    let load = || {
        read = true;
        Ok(Block { data: vec![n as u8; 100].into(), endian: Endian::Little })
    };
    assert_eq!(cache.get_or_load(key(n), Want::Demand, load).unwrap().data[0], n as u8);
    read
}

#[test]
fn blocks_used_twice_survive_a_long_scan() {
    let cache = Arc::new(1000);
    for n in 0..4 {
        read(&cache, n);
        assert!(!read(&cache, n), "the second read of {n} must come from memory");
    }
    for n in 100..1000 {
        assert!(read(&cache, n));
        assert!(cache.counters().size_bytes <= 1000);
    }
    for n in 0..4 {
        assert!(!read(&cache, n), "block {n} was used twice and must have survived");
    }
}

#[test]
fn a_ghost_of_the_recent_list_makes_that_list_longer() {
    let cache = Arc::new(1000);
    for n in 0..5 {
        read(&cache, n);
        read(&cache, n);
    }
    for n in 10..20 {
        read(&cache, n);
    }
    let before = cache.counters();
    let ghost = (10..20).find(|n| !cache.knows(&key(*n))).expect("some were evicted");
    assert!(read(&cache, ghost));
    let after = cache.counters();
    assert_eq!(after.ghost_recent_hits, before.ghost_recent_hits + 1);
    assert!(after.recent_target_bytes > before.recent_target_bytes);
}

#[test]
fn a_cap_that_is_lowered_is_kept_at_once() {
    let cache = Arc::new(800);
    let all = |cache: &Arc| (0..8).filter(|n| read(cache, *n)).count();
    assert_eq!((all(&cache), cache.counters().size_bytes), (8, 800));
    cache.set_cap(300);
    assert_eq!(cache.counters().size_bytes, 300);
    assert!(all(&cache) >= 5);
    assert!(cache.counters().size_bytes <= 300, "{:?}", cache.counters());
}

#[test]
fn held_and_evicted_blocks_are_counted_by_type() {
    let cache = Arc::new(1000);
    let block = |n| Block { data: vec![n; 100].into(), endian: Endian::Little };
    for n in 0..6 {
        let (found, met) = cache.look(key(n.into()), Want::Demand, n % 3 == 0, || Ok(block(n)));
        assert!(found.is_ok() && matches!(met, Met::Miss { .. }));
    }
    cache.insert(key(6), true, block(6));
    let full = cache.counters();
    assert_eq!((full.size_bytes, full.metadata_bytes, full.evicted_bytes), (700, 300, [0, 0]));
    assert!(full.header_bytes >= 7 * size_of::<Slot>() as u64);
    cache.remove(&key(3));
    cache.set_cap(0);
    let empty = cache.counters();
    assert_eq!((empty.size_bytes, empty.metadata_bytes, empty.evicted_bytes), (0, 0, [400, 200]));
    assert_eq!(empty.evictions, 6);
}

#[test]
fn a_failed_load_is_returned_and_not_cached() {
    let cache = Arc::new(1000);
    let failed = cache.get_or_load(key(1), Want::Demand, || Err(errors::Error::corrupt("here", "bad")));
    assert_eq!(failed.unwrap_err().to_string(), "here: bad");
    assert!(!cache.knows(&key(1)));
    assert!(read(&cache, 1));
}

#[test]
fn concurrent_requests_cause_one_read() {
    let cache = Arc::new(1 << 20);
    let reads = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                cache.get_or_load(key(1), Want::Demand, || {
                    reads.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    Ok(Block { data: vec![0; 10].into(), endian: Endian::Little })
                })
            });
        }
    });
    assert_eq!(reads.into_inner(), 1);
}

#[test]
fn the_lists_keep_their_limits_under_any_load() {
    // Each step asserts them. The recent list and its ghosts once exceeded theirs by a block.
    let cache = Arc::new(1000);
    let mut chance = rig::Chance::new(17);
    for _ in 0..20_000 {
        let n = chance.below(40);
        let block = || Block { data: vec![n as u8; 20 + n as usize * 5].into(), endian: Endian::Little };
        match chance.below(12) {
            0..6 => drop(cache.get_or_load(key(n), Want::Demand, || Ok(block()))),
            6..9 => drop(cache.get_or_load(key(n), Want::Prefetch, || Ok(block()))),
            9 => cache.insert(key(n), n.is_multiple_of(2), block()),
            10 => cache.remove(&key(n)),
            _ => cache.set_cap(400 + 100 * chance.below(10)),
        }
    }
    let counters = cache.counters();
    assert!(counters.ghost_recent_hits > 100 && counters.ghost_frequent_hits > 100, "{counters:?}");
}

#[test]
#[should_panic(expected = "the recent list and its ghosts have 1100 bytes, and their limit is 1000")]
fn a_list_beyond_its_limit_panics() {
    let cache = Arc::new(1000);
    read(&cache, 1);
    cache.inner.lock().lists[GHOST_RECENT].bytes += 900;
    read(&cache, 2);
}

#[test]
#[should_panic(expected = "enters the cache, and is in it")]
fn a_block_that_enters_twice_panics() {
    let cache = Arc::new(1000);
    read(&cache, 1);
    let came = Came { want: Want::Demand, is_metadata: false, was_ghost: false, origin: None };
    cache.inner.lock().keep(key(1), came, &Block { data: vec![1; 100].into(), endian: Endian::Little });
}

#[test]
#[should_panic(expected = "two threads load")]
fn a_second_read_of_a_block_that_is_being_read_panics() {
    let cache = Arc::new(1000);
    cache.inner.lock().start(key(1), Shared::default());
    cache.inner.lock().start(key(1), Shared::default());
}

#[test]
#[should_panic(expected = "a second time")]
fn a_read_that_ends_twice_panics() {
    let flight = Flight::default();
    flight.end(Landed::Lost);
    flight.end(Landed::Lost);
}

#[test]
fn a_thread_waiting_for_a_panicking_one_reads_the_block_itself() {
    // It once got an error that named damage where none was.
    let cache = Shared::new(Arc::new(1000));
    let (began, begins) = std::sync::mpsc::channel();
    let panicking = std::thread::spawn({
        let cache = cache.clone();
        move || {
            cache.get_or_load(key(1), Want::Demand, || {
                began.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(50));
                panic!("in the middle of a read")
            })
        }
    });
    begins.recv().unwrap();
    assert!(cache.knows(&key(1)));
    assert!(read(&cache, 1));
    assert!(panicking.join().is_err());
    assert!(!read(&cache, 1));
}
