//! Tests the allocator against a model that remembers every address, with space maps in memory.

use super::*;
use crate::space::ranges::Ranges;
use ondisk::endian::Endian;
use ondisk::spacemap::{self, Action, Header};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap};

mod log_spacemap;
mod model;
use model::{FakeMaps, Model};

const LOGGED: Options = Options { logs: true, ..OPTIONS };
const OPTIONS: Options = Options { two_words: true, histograms: true, logs: false };

fn device(vdev: u32, class: Class, asize_bytes: u64) -> NewDevice {
    NewDevice {
        vdev,
        name: format!("disk-{vdev}"),
        class,
        shape: Shape::Plain,
        ashift: 12,
        asize_bytes,
        metaslab_shift: 24,
        top_zap: u64::from(vdev) + 1,
    }
}

fn raidz(vdev: u32, asize_bytes: u64) -> NewDevice {
    let geometry = block::vdev::raidz::Geometry::new(12, 5, 2).unwrap();
    NewDevice { shape: Shape::Raidz(geometry), ..device(vdev, Class::Normal, asize_bytes) }
}

/// A pool of these devices, with their metaslab arrays.
fn pool(devices: &[NewDevice]) -> (Arc<Allocator>, FakeMaps) {
    pool_with(devices, OPTIONS)
}

fn pool_with(devices: &[NewDevice], options: Options) -> (Arc<Allocator>, FakeMaps) {
    let (allocator, maps) = (Allocator::new("tank", options), FakeMaps::default());
    for d in devices {
        allocator.add_device(d).unwrap();
        allocator.metaslab_array(d.vdev, &maps).unwrap();
    }
    (allocator, maps)
}

/// The same pool, as an import finds it.
fn reopened(devices: &[NewDevice], of: &Allocator, maps: &FakeMaps) -> Arc<Allocator> {
    let reader: Arc<dyn MapReader> = maps.snapshot();
    let mut allocator = Allocator::empty("tank", of.options, Arc::downgrade(&reader));
    let mut table = Table::default();
    for d in devices {
        let array = of.table().group(d.vdev).unwrap().objects.array.load(Ordering::Relaxed);
        let state = |object: &u64| {
            (*object != 0).then(|| {
                let h = maps.header(*object);
                let block_bytes = maps.maps.lock()[object].1;
                let (length_bytes, allocated_bytes, histogram) = (h.length_bytes, h.allocated_bytes, h.histogram);
                MapState { object: *object, block_bytes, length_bytes, allocated_bytes, histogram }
            })
        };
        let states: Vec<_> = maps.arrays.lock()[&array].iter().map(state).collect();
        table.add(load::group_of(d, array, states.into_iter()));
    }
    let logs = maps.logs();
    let in_order =
        load::replay_logs(&table, &logs, &|g| Ok(maps.unflushed(g.objects.top_zap, g.slabs.len())), &*reader);
    assert!(in_order.unwrap(), "OpenZFS would not take it");
    allocator.rounds.get_mut().logs = logs;
    *allocator.table.write() = Arc::new(table);
    Arc::new(allocator)
}

fn want(txg: u64, psize_bytes: u64) -> Want {
    Want {
        txg,
        class: Class::Normal,
        psize_bytes,
        copies: 1,
        is_metadata: false,
        gang: block::Gang::None,
        may_use_slop: true,
    }
}

/// Syncs a txg that writes nothing else.
fn sync(allocator: &Allocator, maps: &FakeMaps, txg: u64) {
    while allocator.sync_maps(txg, maps).unwrap() {}
    allocator.synced(txg, maps.snapshot());
}

#[derive(Debug, Clone)]
enum Step {
    Allocate {
        sectors: u64,
        copies: u8,
        class: Class,
        is_ahead: bool,
    },
    Free {
        which: usize,
    },
    Pass,
    /// Holds free space, as trim does.
    Hold {
        which: usize,
        untrimmed: bool,
    },
    Let,
    Sync {
        reopen: bool,
        unload: bool,
        flush: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![
        6 => Just(Class::Normal), 1 => Just(Class::Log), 1 => Just(Class::Special), 1 => Just(Class::Dedup)
    ];
    let sectors = prop_oneof![3 => 1u64..4, 2 => 4u64..40, 1 => 40u64..400];
    prop_oneof![
        12 => (sectors, 1u8..4, class, prop::bool::weighted(0.1))
            .prop_map(|(sectors, copies, class, is_ahead)| Step::Allocate { sectors, copies, class, is_ahead }),
        10 => any::<usize>().prop_map(|which| Step::Free { which }),
        1 => Just(Step::Pass),
        2 => (any::<usize>(), any::<bool>()).prop_map(|(which, untrimmed)| Step::Hold { which, untrimmed }),
        2 => Just(Step::Let),
        2 => (prop::bool::weighted(0.2), any::<bool>(), prop::bool::weighted(0.1))
            .prop_map(|(reopen, unload, flush)| Step::Sync { reopen, unload, flush }),
    ]
}

fn run(steps: &[Step], devices: &[NewDevice], options: Options) {
    let (mut allocator, maps) = pool_with(devices, options);
    let mut model = Model::default();
    let (mut txg, mut passes) = (5, 0);
    let mut full = 0;
    let mut held: Vec<(u32, Held)> = Vec::new();
    allocator.note_untrimmed(true);
    for step in steps {
        match *step {
            Step::Allocate { sectors, copies, class, is_ahead } => {
                // The intent log allocates for txgs that are not syncing yet.
                let (txg, class) = if is_ahead { (txg + 1, Class::Log) } else { (txg, class) };
                let w = Want { copies, class, ..want(txg, sectors << 12) };
                match allocator.allocate(&w) {
                    Ok(found) => {
                        assert_eq!(found.len(), usize::from(copies));
                        for dva in &found {
                            let end = dva.offset_bytes + dva.asize_bytes;
                            let meets = |(vdev, h): &(u32, Held)| {
                                let apart = end <= h.offset_bytes || h.offset_bytes + h.size_bytes <= dva.offset_bytes;
                                *vdev == dva.vdev && !apart
                            };
                            assert!(!held.iter().any(meets), "{dva:?} is being trimmed");
                            let asize = allocator.asize_bytes(dva.vdev, sectors << 12, txg).unwrap();
                            assert_eq!(dva.asize_bytes, asize);
                            model.take(dva, txg);
                        }
                    }
                    Err(e) => {
                        assert_eq!(e.refusal(), Some(Refusal::NoSpace));
                        full += 1;
                    }
                }
            }
            Step::Free { which } => {
                let committed: Vec<_> = (0..model.live.len()).filter(|i| model.live[*i].1 <= txg).collect();
                let Some(i) = committed.get(which % committed.len().max(1)) else { continue };
                let (dva, birth) = model.live.swap_remove(*i);
                let before = allocator.totals();
                allocator.free(txg, birth, &dva);
                let deferred = |s: &SpaceStats| s.classes.iter().map(|c| c.deferred_bytes).sum::<u64>();
                if deferred(&allocator.totals()) == deferred(&before) {
                    assert_eq!(birth, txg, "only space that was never committed may be reused immediately");
                    model.release(&dva);
                } else {
                    model.waiting.push((dva, txg));
                }
            }
            Step::Pass => {
                passes += 1;
                allocator.sync_maps(txg, &maps).unwrap();
            }
            Step::Hold { which, untrimmed } => {
                let vdev = devices[which % devices.len()].vdev;
                let mut at = Sweep::default();
                (0..which % 3).for_each(|_| at.skip_slab());
                let range_kind = if untrimmed { RangeKind::Untrimmed } else { RangeKind::Free };
                if let Some(mut one) = allocator.hold_next(vdev, &mut at, 1 << 20, range_kind).unwrap() {
                    if which % 2 == 0 {
                        one.mark_trimmed();
                    }
                    held.push((vdev, one));
                }
            }
            Step::Let => drop(held.pop()),
            Step::Sync { reopen, unload, flush } => {
                held.retain(|_| !reopen);
                if flush {
                    allocator.flush_all_next();
                }
                let t = allocator.totals();
                let normal = t.class(Class::Normal);
                let is_full = normal.free_bytes() + normal.deferred_bytes <= t.slop_bytes;
                if passes == 0 && flush {
                    // As on export: if the txg has no other changes, no changes remain that are
                    // only in logs.
                    let is_idle = !allocator.is_dirty(txg);
                    sync(&allocator, &maps, txg);
                    assert!(!is_idle || allocator.log_stats().ranges == 0);
                } else {
                    sync(&allocator, &maps, txg);
                }
                passes = 0;
                model.waiting.retain(|(dva, freed)| {
                    let waits = freed + 2 > txg && !(is_full && *freed == txg);
                    if !waits {
                        model.taken.remove(&(dva.vdev, dva.offset_bytes));
                    }
                    waits
                });
                if model.live.iter().all(|(_, birth)| *birth <= txg) {
                    model.check(&allocator, &maps);
                    if reopen {
                        // A crash or an export: deferred frees become allocatable, because no
                        // rewind goes before this txg.
                        for (dva, _) in std::mem::take(&mut model.waiting) {
                            model.release(&dva);
                        }
                        allocator = reopened(devices, &allocator, &maps);
                        model.check(&allocator, &maps);
                    }
                }
                if unload {
                    allocator.unload_idle();
                }
                txg += 1;
            }
        }
    }
    assert_eq!(allocator.take_anomalies(), [""; 0]);
    let _ = full;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_allocated_twice_or_lost_on_one_disk(steps in prop::collection::vec(step(), 1..500)) {
        run(&steps, &[device(0, Class::Normal, 48 << 20)], OPTIONS);
        run(&steps, &[device(0, Class::Normal, 48 << 20)], LOGGED);
    }

    #[test]
    fn nothing_is_allocated_twice_or_lost_in_all_classes(steps in prop::collection::vec(step(), 1..500)) {
        let devices = [
            device(0, Class::Normal, 32 << 20), device(1, Class::Special, 16 << 20), raidz(2, 64 << 20),
            device(3, Class::Log, 16 << 20), device(4, Class::Dedup, 16 << 20),
        ];
        run(&steps, &devices, OPTIONS);
        run(&steps, &devices, LOGGED);
    }
}

#[test]
fn copies_go_to_different_devices_then_far_apart_on_one() {
    let (allocator, _) = pool(&[device(0, Class::Normal, 1 << 30), device(1, Class::Normal, 1 << 30)]);
    for _ in 0..100 {
        let found = allocator.allocate(&Want { copies: 3, ..want(5, 4096) }).unwrap();
        let (a, b, c) = (&found[0], &found[1], &found[2]);
        assert_ne!(a.vdev, b.vdev);
        let same = if a.vdev == c.vdev { a } else { b };
        assert!(same.offset_bytes.abs_diff(c.offset_bytes) > 64 << 20, "{found:?}");
    }
}

#[test]
fn devices_fill_up_in_proportion_to_their_free_space() {
    let (allocator, _) = pool(&[device(0, Class::Normal, 256 << 20), device(1, Class::Normal, 1 << 30)]);
    let mut bytes = [0; 2];
    for _ in 0..4000 {
        let found = allocator.allocate(&want(5, 128 << 10)).unwrap();
        bytes[found[0].vdev as usize] += found[0].asize_bytes;
    }
    let (small, large) = (bytes[0] as f64 / (256 << 20) as f64, bytes[1] as f64 / (1 << 30) as f64);
    assert!((small - large).abs() < 0.25, "{small} and {large} of them are full");
}

#[test]
fn consecutive_blocks_are_adjacent() {
    let (allocator, _) = pool(&[device(0, Class::Normal, 1 << 30)]);
    let at: Vec<_> = (0..50).map(|_| allocator.allocate(&want(5, 128 << 10)).unwrap()[0].offset_bytes).collect();
    assert!(at.windows(2).all(|w| w[1] == w[0] + (128 << 10)));
}

#[test]
fn freed_space_is_allocatable_in_the_third_txg_and_not_before() {
    let (allocator, maps) = pool(&[device(0, Class::Normal, 512 << 20)]);
    let mut all = Vec::new();
    while let Ok(found) = allocator.allocate(&want(5, 8 << 20)) {
        all.extend(found);
    }
    assert_eq!(all.len(), 64);
    sync(&allocator, &maps, 5);
    // More than the slop is free, so that frees are deferred.
    all[..40].iter().for_each(|dva| allocator.free(6, 5, dva));
    sync(&allocator, &maps, 6);
    assert!(allocator.allocate(&want(7, 4096)).is_err());
    sync(&allocator, &maps, 7);
    assert!(allocator.allocate(&want(8, 4096)).is_err());
    sync(&allocator, &maps, 8);
    assert!(allocator.allocate(&want(9, 8 << 20)).is_ok());
}

#[test]
fn log_blocks_freed_in_their_own_txg_are_not_reused_in_it() {
    // A crash before the txg is synced leads to them.
    let (allocator, maps) = pool(&[device(0, Class::Normal, 512 << 20)]);
    let log = allocator.allocate(&Want { class: Class::Log, ..want(5, 4096) }).unwrap()[0];
    let data = allocator.allocate(&want(5, 4096)).unwrap()[0];
    allocator.free(5, 5, &log);
    allocator.free(5, 5, &data);
    let stats = allocator.totals();
    assert_eq!((stats.class(Class::Normal).allocated_bytes, stats.class(Class::Normal).deferred_bytes), (0, 4096));
    sync(&allocator, &maps, 5);
    assert!(allocator.take_anomalies().is_empty());
    let ids: Vec<u64> = maps.maps.lock().keys().copied().collect();
    assert!(ids.into_iter().all(|id| maps.replay(id).is_empty()));
}

#[test]
fn log_blocks_of_a_txg_to_come_are_freed_in_it() {
    let (allocator, maps) = pool(&[device(0, Class::Normal, 512 << 20)]);
    let log = allocator.allocate(&Want { class: Class::Log, ..want(7, 4096) }).unwrap()[0];
    allocator.free(6, 5, &log);
    for txg in 6..10 {
        sync(&allocator, &maps, txg);
        Model::default().check_maps(&allocator, &maps);
        let waiting = allocator.totals().class(Class::Normal).deferred_bytes;
        assert_eq!(waiting, if txg < 9 { 4096 } else { 0 });
    }
    assert!(allocator.take_anomalies().is_empty());
}

#[test]
fn space_freed_while_a_reader_keeps_it_is_not_allocated() {
    let (allocator, maps) = pool(&[device(0, Class::Normal, 512 << 20)]);
    let dva = allocator.allocate(&want(5, 8 << 20)).unwrap()[0];
    sync(&allocator, &maps, 5);
    let waiting = || allocator.totals().class(Class::Normal).deferred_bytes;
    let kept = allocator.keep_freed();
    allocator.free(6, 5, &dva);
    (6..16).for_each(|txg| sync(&allocator, &maps, txg));
    assert!(kept.holds());
    assert_eq!(waiting(), 8 << 20);
    drop(kept);
    sync(&allocator, &maps, 16);
    sync(&allocator, &maps, 17);
    assert_eq!(waiting(), 0);
    // A pool that is short of space takes precedence.
    let kept = allocator.keep_freed();
    let all: Vec<_> = std::iter::from_fn(|| allocator.allocate(&want(18, 8 << 20)).ok().map(|d| d[0])).collect();
    sync(&allocator, &maps, 18);
    all.iter().take(all.len() * 2 / 3).for_each(|dva| allocator.free(19, 18, dva));
    (19..23).for_each(|txg| sync(&allocator, &maps, txg));
    assert!(!kept.holds());
    assert_eq!(waiting(), 0);
}

#[test]
fn a_double_free_is_reported_and_changes_nothing() {
    let (allocator, maps) = pool(&[device(0, Class::Normal, 512 << 20)]);
    let dva = allocator.allocate(&want(5, 4096)).unwrap()[0];
    sync(&allocator, &maps, 5);
    allocator.free(6, 5, &dva);
    let before = allocator.totals();
    allocator.free(6, 5, &dva);
    sync(&allocator, &maps, 6);
    allocator.free(7, 5, &dva);
    assert_eq!(allocator.take_anomalies().len(), 2);
    assert_eq!(allocator.totals(), before);
}

#[test]
fn a_map_much_longer_than_needed_is_condensed() {
    much_longer(OPTIONS);
    much_longer(LOGGED);
}

fn much_longer(options: Options) {
    let devices = [device(0, Class::Normal, 16 << 20)];
    let (allocator, maps) = pool_with(&devices, options);
    let (mut longest, mut odd, mut model) = (0, Vec::new(), Model::default());
    for txg in 5..400 {
        allocator.flush_all_next();
        let found: Vec<_> = (0..80).map(|_| allocator.allocate(&want(txg, 4096)).unwrap()[0]).collect();
        allocator.sync_maps(txg, &maps).unwrap();
        odd.drain(..).for_each(|dva| allocator.free(txg, txg - 1, &dva));
        found.iter().step_by(2).for_each(|dva| allocator.free(txg, txg, dva));
        odd.extend(found.iter().skip(1).step_by(2).copied());
        sync(&allocator, &maps, txg);
        longest = longest.max(maps.maps.lock().values().map(|m| m.0.len()).max().unwrap_or(0));
        if txg % 50 == 0 {
            model.live = odd.iter().map(|dva| (*dva, txg)).collect();
            model.check_maps(&allocator, &maps);
            let again = reopened(&devices, &allocator, &maps);
            let bytes = |a: &Allocator| a.totals().classes[0].allocated_bytes;
            assert_eq!(bytes(&again), bytes(&allocator));
        }
    }
    assert!(longest < 80 << 10, "{longest} bytes for a handful of ranges");
    assert!(longest > 64 << 10, "short maps are not condensed");
}

#[test]
fn a_claimed_address_is_not_handed_out() {
    let devices = [device(0, Class::Normal, 16 << 20)];
    let (allocator, maps) = pool(&devices);
    let kept = allocator.allocate(&want(5, 4096)).unwrap()[0];
    sync(&allocator, &maps, 5);
    let allocator = reopened(&devices, &allocator, &maps);
    let log = Dva { vdev: 0, offset_bytes: 1 << 20, asize_bytes: 128 << 10, is_gang: false };
    allocator.claim(6, &log).unwrap();
    assert!(allocator.claim(6, &log).is_err(), "it is claimed");
    assert!(allocator.claim(6, &kept).is_err(), "it is allocated");
    assert!(allocator.claim(6, &Dva { offset_bytes: 1 << 40, ..log }).is_err(), "it does not exist");
    let mut model = Model::default();
    model.take(&log, 6);
    model.take(&kept, 5);
    while let Ok(found) = allocator.allocate(&want(6, 4096)) {
        model.take(&found[0], 6);
    }
    sync(&allocator, &maps, 6);
    model.check(&allocator, &maps);
}

#[test]
fn metadata_may_fill_special_devices_data_may_not() {
    let (allocator, _) = pool(&[device(0, Class::Normal, 1 << 30), device(1, Class::Special, 16 << 20)]);
    let on = |is_metadata| {
        let w = Want { class: Class::Special, is_metadata, ..want(5, 64 << 10) };
        allocator.allocate(&w).unwrap()[0].vdev
    };
    let data = (0..256).take_while(|_| on(false) == 1).count();
    assert_eq!(data, 192, "three quarters");
    let more = (0..256).take_while(|_| on(true) == 1).count();
    assert_eq!(data + more, 256);
}

#[test]
fn a_metaslab_of_a_large_device_is_kept_for_the_intent_log() {
    let (allocator, _) = pool(&[device(0, Class::Normal, 65 << 24)]);
    let log = allocator.allocate(&Want { class: Class::Log, ..want(5, 4096) }).unwrap()[0].offset_bytes >> 24;
    while let Ok(found) = allocator.allocate(&want(5, 16 << 20)) {
        assert_ne!(found[0].offset_bytes >> 24, log);
    }
    let stats = allocator.stats();
    assert_eq!(stats.embedded_log_bytes, 16 << 20);
    assert_eq!(stats.class(Class::Normal).free_bytes(), (16 << 20) - 4096);
    // There is still space for the log.
    allocator.allocate(&Want { class: Class::Log, ..want(5, 4096) }).unwrap();
}

#[test]
fn the_intent_log_leaves_half_of_the_reserve_unused() {
    let (allocator, _) = pool(&[device(0, Class::Normal, 512 << 20)]);
    while allocator.allocate(&Want { class: Class::Log, may_use_slop: false, ..want(5, 1 << 20) }).is_ok() {}
    let stats = allocator.stats();
    assert_eq!(stats.slop_bytes, 128 << 20);
    assert_eq!(stats.class(Class::Normal).free_bytes(), 64 << 20);
    assert!(allocator.allocate(&want(5, 1 << 20)).is_ok());
}

#[test]
fn a_new_device_is_used_from_the_next_txg_on() {
    let (allocator, maps) = pool(&[device(0, Class::Normal, 16 << 20)]);
    sync(&allocator, &maps, 5);
    allocator.add_device(&device(1, Class::Normal, 1 << 30)).unwrap();
    allocator.metaslab_array(1, &maps).unwrap();
    let on_new = |txg| (0..300).any(|_| allocator.allocate(&want(txg, 4096)).unwrap()[0].vdev == 1);
    assert!(!on_new(6));
    sync(&allocator, &maps, 6);
    assert!(on_new(7));
    assert!(allocator.add_device(&device(1, Class::Normal, 1 << 30)).is_err());
}

#[test]
fn a_map_that_cannot_be_true_is_not_allocated_from() {
    let devices = [device(0, Class::Normal, 32 << 20)];
    let (allocator, maps) = pool(&devices);
    allocator.allocate(&want(5, 4096)).unwrap();
    sync(&allocator, &maps, 5);
    for (bytes, _, header) in maps.maps.lock().values_mut() {
        // The same allocation again.
        let again = bytes.clone();
        bytes.extend(again);
        header.as_mut().unwrap().length_bytes *= 2;
    }
    let allocator = reopened(&devices, &allocator, &maps);
    let mut found = Vec::new();
    while let Ok(dva) = allocator.allocate(&want(6, 4096)) {
        found.push(dva[0].offset_bytes >> 24);
    }
    assert_eq!(found.len(), 4096);
    assert!(found.iter().all(|slab| *slab == found[0]), "all in the metaslab with an intact map");
}

#[test]
fn threads_share_the_devices_without_treading_on_each_other() {
    let (allocator, maps) = pool(&[device(0, Class::Normal, 256 << 20), device(1, Class::Normal, 256 << 20)]);
    let mut model = Model::default();
    for txg in 5..9 {
        let found: Vec<_> = std::thread::scope(|scope| {
            let work = |seed: u64| {
                let allocator = &allocator;
                move || {
                    let mut mine = Vec::new();
                    for i in 0..500u64 {
                        let w = Want { copies: 1 + (i % 2) as u8, ..want(txg, ((i * seed) % 7 + 1) << 12) };
                        mine.extend(allocator.allocate(&w).unwrap());
                        if i % 3 == 0 {
                            let gone = mine.swap_remove((i * seed) as usize % mine.len());
                            allocator.free(txg, txg, &gone);
                        }
                    }
                    mine
                }
            };
            let threads: Vec<_> = [3, 5, 11, 13].map(|seed| scope.spawn(work(seed))).into();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        found.iter().for_each(|dva| model.take(dva, txg));
        sync(&allocator, &maps, txg);
        model.check(&allocator, &maps);
    }
}
