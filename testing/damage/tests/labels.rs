//! Damaged labels, truncated images, and files that are not pools: the pool opens, or an error
//! describes what is wrong.

use damage::image::{self, Opened, Scenario};
use damage::overlay::Overlay;
use damage::scenario_or_return;
use damage::survey::{Limits, Survey};
use host::device::Device;
use ondisk::label::{CONFIG_BYTES, CONFIG_OFFSET, LABEL_BYTES, LABELS, RING_BYTES, RING_OFFSET, label_offset};
use rig::Chance;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn open_damaged(scenario: &Scenario, damage: impl Fn(usize, &mut Overlay)) -> anyhow::Result<Opened> {
    let damaged = scenario.devices.iter().enumerate().map(|(i, d)| -> Arc<dyn Device> {
        let mut overlay = Overlay::new(d.clone());
        damage(i, &mut overlay);
        Arc::new(overlay)
    });
    image::open(damaged, scenario.keys.as_ref())
}

fn destroy(device: &mut Overlay, label: usize, from: u64, len: u64) {
    let at = label_offset(device.size_bytes(), label).unwrap();
    device.write(at + from, &Chance::new(label as u64).bytes(len as usize));
}

fn same_files(scenario: &Scenario, opened: &Opened, what: &str) {
    let whole = Survey::of(&image::open(scenario.devices.iter().cloned(), None).unwrap(), Limits::ALL);
    let wrong = Survey::of(opened, Limits::ALL).differences(&whole, true);
    assert!(wrong.is_empty() && !whole.lines.is_empty(), "{what}: {wrong:#?}");
}

#[test]
fn any_one_label_is_enough() {
    let scenario = scenario_or_return!("no-features");
    for kept in 0..LABELS {
        let opened = open_damaged(&scenario, |_, d| {
            (0..LABELS).filter(|l| *l != kept).for_each(|l| destroy(d, l, 0, LABEL_BYTES));
        });
        same_files(&scenario, &opened.unwrap(), &format!("label {kept} alone"));
    }
}

#[test]
fn a_label_may_give_the_configuration_and_another_the_uberblock() {
    let scenario = scenario_or_return!("no-features");
    let opened = open_damaged(&scenario, |_, d| {
        (0..LABELS).filter(|l| *l != 2).for_each(|l| destroy(d, l, CONFIG_OFFSET, CONFIG_BYTES as u64));
        (0..LABELS).filter(|l| *l != 1).for_each(|l| destroy(d, l, RING_OFFSET, RING_BYTES));
    });
    same_files(&scenario, &opened.unwrap(), "halves of labels");
}

#[test]
fn without_labels_the_error_names_the_fault_of_each() {
    let scenario = scenario_or_return!("no-features");
    let devices = scenario.devices.iter().map(|d| -> Arc<dyn Device> {
        let mut overlay = Overlay::new(d.clone());
        (0..LABELS).for_each(|l| destroy(&mut overlay, l, 0, LABEL_BYTES));
        Arc::new(overlay)
    });
    let search = pool::search_devices(devices);
    assert!(search.pools.is_empty());
    let why = &search.damaged[0].why;
    (0..LABELS).for_each(|l| assert!(why.contains(&format!("label {l}: checksum mismatch")), "{why}"));
}

#[test]
fn without_uberblocks_the_error_says_so() {
    let scenario = scenario_or_return!("no-features");
    let opened = open_damaged(&scenario, |_, d| (0..LABELS).for_each(|l| destroy(d, l, RING_OFFSET, RING_BYTES)));
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("no uberblock with a valid checksum"), "{error}");
}

#[test]
fn a_mirror_side_without_labels_counts_as_missing() {
    let scenario = scenario_or_return!("mirror3");
    let opened = open_damaged(&scenario, |i, d| {
        if i == 1 {
            (0..LABELS).for_each(|l| destroy(d, l, 0, LABEL_BYTES));
        }
    })
    .unwrap();
    same_files(&scenario, &opened, "side 1 without labels");
    let tree = opened.pool().store().tree();
    let away = tree.leaves().iter().filter(|l| l.device().is_none()).count();
    assert_eq!(away, 1);
}

#[test]
fn half_an_image_gives_its_metadata_or_an_error_in_time() {
    let scenario = scenario_or_return!("no-features");
    let size = scenario.devices[0].size_bytes();
    for left in [0, 1, 511, 4096, LABEL_BYTES, (1 << 20) + 1, size / 2, size / 2 + 77, size - 1, size - LABEL_BYTES] {
        let start = Instant::now();
        if let Ok(opened) = open_damaged(&scenario, |_, d| d.truncate(left)) {
            let whole = Survey::of(&image::open(scenario.devices.iter().cloned(), None).unwrap(), Limits::ALL);
            let wrong = Survey::of(&opened, Limits::ALL).differences(&whole, false);
            assert!(wrong.is_empty(), "cut to {left}: {wrong:#?}");
        }
        assert!(start.elapsed() < Duration::from_secs(30), "cut to {left}: {:?}", start.elapsed());
    }
}

/// The error message for opening a pool at `place`.
fn error_of(place: &Path) -> String {
    admin::open_pool("tank", &[place.to_owned()], &pool::OpenOptions::default()).err().unwrap().to_string()
}

#[test]
fn devices_without_pools_are_reported_promptly() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { folder.path().join(name) };
    let write = |name: &str, bytes: &[u8]| std::fs::write(path(name), bytes).unwrap();
    write("empty", b"");
    write("one-byte", b"x");
    write("text", "not a disk\n".repeat(1000).as_bytes());
    write("noise", &Chance::new(5).bytes(3 << 20));
    File::create(path("huge")).unwrap().set_len(1 << 42).unwrap();
    let odd = File::create(path("odd")).unwrap();
    odd.set_len((1 << 30) + 12_345).unwrap();
    odd.write_all_at(b"EFI PART", 512).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    let start = Instant::now();
    for name in ["empty", "one-byte", "text", "noise", "huge", "odd", "pipe", "folder", "not-there", "."] {
        let text = error_of(&path(name));
        assert!(text.contains("no such pool 'tank'"), "{name}: {text}");
    }
    assert!(error_of(&path("pipe")).contains("neither a file nor a block device"));
    assert!(error_of(&path("not-there")).contains("No such file"));
    assert!(error_of(&path("noise")).contains("label 0: checksum mismatch"));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn reading_everything_leaves_the_image_as_it_was() {
    use sha2::Digest;
    let scenario = scenario_or_return!("no-features");
    let sum = || {
        let path = Path::new(scenario.devices[0].name());
        let meta = std::fs::metadata(path).unwrap();
        (sha2::Sha256::digest(std::fs::read(path).unwrap()), meta.modified().unwrap())
    };
    let before = sum();
    let opened = image::open(scenario.devices.iter().cloned(), None).unwrap();
    Survey::of(&opened, Limits::ALL);
    opened.verify().unwrap();
    drop(opened);
    assert!(before == sum());
}
