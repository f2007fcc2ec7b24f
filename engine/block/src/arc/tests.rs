use super::*;
use ondisk::Endian;

fn key(n: u64) -> Key {
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
fn what_is_used_twice_survives_a_long_scan() {
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
fn what_is_held_and_evicted_is_told_apart_by_what_it_is() {
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
fn a_failed_load_is_told_to_the_caller_and_not_kept() {
    let cache = Arc::new(1000);
    let failed = cache.get_or_load(key(1), Want::Demand, || Err(errors::Error::corrupt("here", "bad")));
    assert_eq!(failed.unwrap_err().to_string(), "here: bad");
    assert!(!cache.knows(&key(1)));
    assert!(read(&cache, 1));
}

#[test]
fn many_who_ask_at_once_cause_one_read() {
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
