//! Devices that are missing or overwritten. Damage within the redundancy changes nothing and is
//! counted exactly; one device more is reported.

use damage::image::{self, Opened, Scenario};
use damage::overlay::{Extent, Overlay};
use damage::places::places;
use damage::scenario_or_return;
use damage::survey::{Limits, Survey};
use host::device::Device;
use ondisk::label::{END_BYTES, START_BYTES};
use rig::Chance;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn open_without(scenario: &Scenario, away: &[usize]) -> anyhow::Result<Opened> {
    let left = scenario.devices.iter().enumerate().filter(|(i, _)| !away.contains(i)).map(|(_, d)| d.clone());
    image::open(left, scenario.keys.as_ref())
}

/// All subsets of 1 to `count` out of `of`.
fn choices(of: usize, count: usize) -> Vec<Vec<usize>> {
    let subsets = (1u32..1 << of).filter(|bits| bits.count_ones() as usize <= count);
    subsets.map(|bits| (0..of).filter(|i| bits >> i & 1 != 0).collect()).collect()
}

fn same_files(scenario: &Scenario, undamaged: &Survey, opened: &Opened, what: &str) {
    let wrong = Survey::of(opened, Limits::ALL).differences(undamaged, true);
    assert!(wrong.is_empty(), "{} {what}: {} differ: {:#?}", scenario.name, wrong.len(), &wrong[..wrong.len().min(8)]);
}

fn undamaged(scenario: &Scenario) -> Survey {
    let survey = Survey::of(&open_without(scenario, &[]).unwrap(), Limits::ALL);
    assert!(survey.errors.is_empty() && !survey.lines.is_empty(), "{}: {:?}", scenario.name, survey.errors);
    survey
}

fn spares(name: &str, count: usize) {
    let scenario = scenario_or_return!(name);
    let whole = undamaged(&scenario);
    for away in choices(scenario.devices.len(), count) {
        let opened = open_without(&scenario, &away).unwrap_or_else(|e| panic!("{name} without {away:?}: {e:#}"));
        same_files(&scenario, &whole, &opened, &format!("without {away:?}"));
    }
}

#[test]
fn a_three_way_mirror_spares_any_two() {
    spares("mirror3", 2);
}

#[test]
fn a_raidz1_spares_any_one() {
    spares("raidz1-3-a9", 1);
}

#[test]
fn an_expanded_raidz1_spares_any_one() {
    spares("raidz-expanded", 1);
}

#[test]
fn a_raidz2_spares_any_two() {
    spares("raidz2-5-a12", 2);
}

#[test]
fn a_raidz3_spares_any_three() {
    let scenario = scenario_or_return!("raidz3-7-a12");
    let whole = undamaged(&scenario);
    for away in [[0, 1, 2], [4, 5, 6], [0, 3, 6], [1, 2, 5]] {
        let opened = open_without(&scenario, &away).unwrap();
        same_files(&scenario, &whole, &opened, &format!("without {away:?}"));
    }
}

#[test]
fn a_draid2_spares_any_two() {
    let scenario = scenario_or_return!("draid2-4d-1s-8c");
    let whole = undamaged(&scenario);
    for away in choices(8, 2) {
        let opened = open_without(&scenario, &away).unwrap();
        same_files(&scenario, &whole, &opened, &format!("without {away:?}"));
    }
}

/// Mirrors of data, special and log devices. Of dedup, cache and spare devices the pool may have
/// only one.
#[test]
fn a_hybrid_pool_spares_one_side_of_each_mirror() {
    let scenario = scenario_or_return!("hybrid");
    let whole = undamaged(&scenario);
    let number = |name: &str| scenario.devices.iter().position(|d| d.name().ends_with(name)).unwrap();
    for away in [["h0", "h3", "p0", "l0"], ["h1", "h2", "p1", "l1"]] {
        let opened = open_without(&scenario, &away.map(number)).unwrap();
        same_files(&scenario, &whole, &opened, &format!("without {away:?}"));
    }
}

/// Metadata has copies on other devices; contents do not.
#[test]
fn undamaged_files_are_read_from_a_pool_without_a_whole_mirror() {
    let scenario = scenario_or_return!("hybrid");
    let whole = undamaged(&scenario);
    let number = |name: &str| scenario.devices.iter().position(|d| d.name().ends_with(name)).unwrap();
    let mut lacking = 0;
    for away in [["h0", "h1"], ["h2", "h3"]] {
        let opened = match open_without(&scenario, &away.map(number)) {
            Ok(opened) => opened,
            Err(e) => {
                assert!(away.iter().all(|name| format!("{e:#}").contains(name)), "without {away:?}: {e:#}");
                continue;
            }
        };
        let survey = Survey::of(&opened, Limits::ALL);
        assert_eq!(survey.differences(&whole, false), Vec::<String>::new(), "without {away:?}");
        lacking += survey.errors.len();
        for (key, e) in &survey.errors {
            assert!(e.contains("missing") && away.iter().any(|name| e.contains(name)), "without {away:?}: {key}: {e}");
        }
        println!("without {away:?}: {} of {} lines", survey.lines.len(), whole.lines.len());
        assert!(!survey.lines.is_empty());
    }
    assert!(lacking > 0, "neither mirror matters");
}

#[test]
fn one_device_too_many_is_named() {
    // A small dRAID pool happens to have no data on some triples of devices, so a relevant triple
    // must be searched for.
    let scenario = scenario_or_return!("draid2-4d-1s-8c");
    let threes = choices(8, 3).into_iter().filter(|c| c.len() == 3);
    let mut lacking = threes
        .filter(|away| open_without(&scenario, away).map_or(true, |o| !Survey::of(&o, Limits::ALL).errors.is_empty()));
    let draid = lacking.next().expect("a dRAID with two parities cannot spare every three devices");
    for (name, away) in [
        ("raidz1-3-a9", vec![0, 2]),
        ("raidz2-5-a12", vec![0, 1, 4]),
        ("raidz3-7-a12", vec![0, 1, 4, 6]),
        ("draid2-4d-1s-8c", draid),
        ("raidz-expanded", vec![1, 2]),
    ] {
        let scenario = scenario_or_return!(name);
        // The pool may still open if the required metadata has more copies. Then errors must report
        // what is missing.
        let text = match open_without(&scenario, &away) {
            Err(e) => format!("{e:#}"),
            Ok(opened) => {
                let survey = Survey::of(&opened, Limits::ALL);
                assert!(!survey.errors.is_empty(), "{name} without {away:?} is complete");
                assert!(survey.errors.values().all(|e| e.contains("missing")), "{name}: {:?}", survey.errors);
                survey.errors.into_values().collect()
            }
        };
        for i in &away {
            let path = scenario.devices[*i].name();
            let file = path.rsplit('/').next().unwrap();
            assert!(text.contains(file), "{name} without {away:?}: {file} is not in: {text}");
        }
    }
}

/// Devices that were partly overwritten, and the expected number of damaged blocks by device GUID.
struct Overwritten {
    devices: Vec<Arc<dyn Device>>,
    expected: BTreeMap<u64, u64>,
}

fn overwrite(scenario: &Scenario, extents: &[Extent], chance: &mut Chance) -> Overwritten {
    let (places, guids) = places(scenario).unwrap();
    let mut devices: Vec<Overlay> = scenario.devices.iter().cloned().map(Overlay::new).collect();
    for e in extents {
        devices[e.device].write(e.offset, &chance.bytes(e.len as usize));
    }
    // Only bytes that differ are wrong: a random byte may equal the old one.
    let differs = |e: &Extent| {
        let read = |d: &dyn Device| {
            let mut bytes = vec![0; e.len as usize];
            d.read_at(e.offset, &mut bytes).unwrap();
            bytes
        };
        read(&*scenario.devices[e.device]) != read(&devices[e.device])
    };
    let touched = |e: &Extent| {
        extents.iter().any(|w| w.device == e.device && w.offset < e.offset + e.len && e.offset < w.offset + w.len)
    };
    let mut expected = BTreeMap::new();
    for copy in places.iter().flat_map(|p| &p.copies) {
        // A device counts once for each copy of a block, however many of its columns it holds.
        let wrong: BTreeSet<usize> = copy.iter().filter(|e| touched(e) && differs(e)).map(|e| e.device).collect();
        for guid in wrong.iter().filter_map(|device| guids.get(device)) {
            *expected.entry(*guid).or_default() += 1;
        }
    }
    Overwritten { devices: devices.into_iter().map(|d| -> Arc<dyn Device> { Arc::new(d) }).collect(), expected }
}

fn counts_are_exact(scenario: &Scenario, whole: &Survey, extents: &[Extent], chance: &mut Chance, what: &str) {
    let overwritten = overwrite(scenario, extents, chance);
    let opened = image::open(overwritten.devices, scenario.keys.as_ref()).unwrap();
    same_files(scenario, whole, &opened, what);
    let report = opened.verify().unwrap();
    let found: BTreeMap<u64, u64> =
        report.devices.iter().filter(|(_, f)| f.wrong > 0).map(|(guid, f)| (*guid, f.wrong)).collect();
    assert_eq!(found, overwritten.expected, "{} {what}", scenario.name);
    assert_eq!(report.lost_blocks, 0, "{} {what}", scenario.name);
}

/// The range of `device` between its front and back labels.
fn between_labels(scenario: &Scenario, device: usize) -> Extent {
    let size = scenario.devices[device].size_bytes();
    Extent { device, offset: START_BYTES, len: size - START_BYTES - END_BYTES }
}

#[test]
fn whole_devices_of_random_bytes_are_repaired_and_counted() {
    for (name, groups) in [
        ("mirror3", vec![vec![0, 1], vec![1, 2], vec![2]]),
        ("raidz1-3-a9", vec![vec![0], vec![1], vec![2]]),
        ("raidz-expanded", vec![vec![0], vec![3]]),
        ("raidz2-5-a12", vec![vec![0, 4], vec![2, 3]]),
        ("raidz3-7-a12", vec![vec![0, 1, 2], vec![3, 5, 6]]),
        ("draid2-4d-1s-8c", vec![vec![0, 7], vec![3, 4]]),
    ] {
        let scenario = scenario_or_return!(name);
        let (whole, mut chance) = (undamaged(&scenario), Chance::new(1));
        for group in groups {
            let extents: Vec<Extent> = group.iter().map(|d| between_labels(&scenario, *d)).collect();
            counts_are_exact(&scenario, &whole, &extents, &mut chance, &format!("with {group:?} overwritten"));
        }
    }
}

/// 4 KiB here and there on all devices, but never in the same stretch of two devices, which parity
/// might not be able to repair.
#[test]
fn scattered_random_bytes_are_repaired_and_counted() {
    for (name, seeds) in [
        ("mirror3", 3),
        ("raidz1-3-a9", 3),
        ("raidz-expanded", 3),
        ("raidz2-5-a12", 3),
        ("raidz3-7-a12", 1),
        ("draid2-4d-1s-8c", 2),
    ] {
        let scenario = scenario_or_return!(name);
        let whole = undamaged(&scenario);
        for seed in 0..seeds {
            let mut chance = Chance::new(seed);
            // A block of 128 KiB spans less than a stretch on each device, and every second stretch
            // stays intact.
            let stretch = 1 << 20;
            let size = scenario.devices[0].size_bytes() - END_BYTES - START_BYTES - stretch;
            let mut extents = Vec::new();
            for at in (0..size / stretch).step_by(2) {
                let device = chance.below(scenario.devices.len() as u64) as usize;
                for _ in 0..12 {
                    let offset = START_BYTES + at * stretch + chance.below(stretch / 4096) * 4096;
                    extents.push(Extent { device, offset, len: 4096 });
                }
            }
            counts_are_exact(&scenario, &whole, &extents, &mut chance, &format!("scattered, seed {seed}"));
        }
    }
}
