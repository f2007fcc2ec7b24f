//! Pools with log space maps: which metaslabs are flushed when, and invalid logs.

use super::*;

#[test]
fn metaslabs_are_flushed_gradually_and_old_logs_are_freed() {
    let devices = [device(0, Class::Normal, 40 << 24), device(1, Class::Normal, 40 << 24)];
    let (allocator, maps) = pool_with(&devices, LOGGED);
    let mut model = Model::default();
    // Allocates blocks all over the devices, then moves a few in each txg: most metaslabs change in
    // each.
    for txg in 5..15 {
        (0..700).for_each(|_| model.take(&allocator.allocate(&want(txg, 128 << 10)).unwrap()[0], txg));
        sync(&allocator, &maps, txg);
    }
    let (mut chance, mut most_written, mut most_logs) = (rig::Chance::new(1), 0, 0);
    for txg in 15..400 {
        for _ in 0..300 {
            let (dva, birth) = model.live.swap_remove(chance.below(model.live.len() as u64) as usize);
            allocator.free(txg, birth, &dva);
            if birth == txg {
                model.release(&dva)
            } else {
                model.waiting.push((dva, txg))
            }
            model.take(&allocator.allocate(&want(txg, 128 << 10)).unwrap()[0], txg);
        }
        let before = maps.lengths();
        sync(&allocator, &maps, txg);
        let written = maps.lengths().iter().filter(|(id, len)| before.get(*id) != Some(*len)).count();
        model.waiting.retain(|(dva, freed)| {
            let waits = freed + 2 > txg;
            if !waits {
                model.taken.remove(&(dva.vdev, dva.offset_bytes));
            }
            waits
        });
        let stats = allocator.log_stats();
        assert!(stats.metaslabs > 30, "{stats:?}");
        (most_written, most_logs) = (most_written.max(written), most_logs.max(stats.logs));
        if txg % 40 == 0 {
            model.check(&allocator, &maps);
            model.check_maps(&reopened(&devices, &allocator, &maps), &maps);
        }
    }
    // 80 metaslabs in about 96 txgs, on pools of more than 1 GiB; the log of the txg is one map
    // more.
    assert!(most_written <= 6, "{most_written} maps were written in a txg");
    assert!((80..=128).contains(&most_logs), "{most_logs} logs");
    allocator.flush_all_next();
    sync(&allocator, &maps, 400);
    assert_eq!(allocator.log_stats(), LogStats { logs: 1, ..LogStats::default() });
    model.check_maps(&allocator, &maps);
    assert_eq!(allocator.take_anomalies(), [""; 0]);
}

#[test]
fn a_txg_without_changes_writes_no_logs() {
    let (allocator, maps) = pool_with(&[device(0, Class::Normal, 512 << 20)], LOGGED);
    allocator.allocate(&want(5, 4096)).unwrap();
    sync(&allocator, &maps, 5);
    let before = maps.lengths();
    (6..100).for_each(|txg| sync(&allocator, &maps, txg));
    assert_eq!(maps.lengths(), before);
    assert_eq!(allocator.log_stats().logs, 1);
}

#[test]
fn impossible_logs_are_reported() {
    let devices = [device(0, Class::Normal, 32 << 20)];
    let (allocator, maps) = pool_with(&devices, LOGGED);
    allocator.allocate(&want(5, 4096)).unwrap();
    sync(&allocator, &maps, 5);
    let log = maps.logs().all[&5].object;
    let (bytes, _, header) = &mut maps.maps.lock().get_mut(&log).unwrap().clone();
    bytes.extend(bytes.clone());
    header.as_mut().unwrap().length_bytes *= 2;
    maps.maps.lock().insert(log, (bytes.clone(), 128 << 10, header.clone()));
    let reopen = || {
        let mut table = Table::default();
        let state = |object: u64| {
            let map = MapState { object, block_bytes: 16 << 10, length_bytes: 0, allocated_bytes: 0, histogram: None };
            (object != 0).then_some(map)
        };
        let array = allocator.table().group(0).unwrap().objects.array.load(Ordering::Relaxed);
        let states: Vec<_> = maps.arrays.lock()[&array].iter().map(|id| state(*id)).collect();
        table.add(load::group_of(&devices[0], array, states.into_iter()));
        load::replay_logs(
            &table,
            &maps.logs(),
            &|g| Ok(maps.unflushed(g.objects.top_zap, g.slabs.len())),
            &*maps.snapshot(),
        )
    };
    assert!(reopen().unwrap_err().to_string().contains("log of txg 5"));
    maps.remove_log(5, log).unwrap();
    assert!(!reopen().unwrap(), "a metaslab refers to a missing log");
}
