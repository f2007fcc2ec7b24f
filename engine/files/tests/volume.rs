//! Writable volumes: compared with bytes in memory, and checked by `verify` and, if it is
//! installed, OpenZFS's `zdb`.

use crate::common::Rig;
use dataset::write::{NewDataset, create};
use dataset::{Datasets, KeyStore};
use files::Volume;
use files::zpl::MAKER;
use object::{Extent, Part};
use rig::Chance;

const SIZE: usize = 4 << 20;

fn make(rig: &Rig, name: &str, properties: &[(&str, &str)]) -> Volume {
    let mut all = vec![("volsize".to_owned(), SIZE.to_string())];
    all.extend(properties.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
    let new = NewDataset { name: name.into(), is_volume: true, properties: all, ..NewDataset::default() };
    create(rig.live(), &new, MAKER).unwrap();
    open(rig, name)
}

fn open(rig: &Rig, name: &str) -> Volume {
    Volume::open_live(&rig.live().open(name, None).unwrap()).unwrap()
}

/// Exports the pool, checks it, and returns the contents of volume `name`.
fn export(mut rig: Rig, name: &str) -> Vec<u8> {
    rig.export();
    rig.judge();
    let objset = Datasets::open(rig.found()).unwrap().dataset(name).unwrap().objset(&KeyStore::new()).unwrap();
    let volume = Volume::open(&objset, name).unwrap();
    assert!(volume.is_read_only() && volume.write_at(0, &[1]).is_err());
    all(&volume)
}

fn all(volume: &Volume) -> Vec<u8> {
    let mut bytes = vec![0; volume.size() as usize];
    volume.read_at(0, &mut bytes).unwrap();
    bytes
}

fn join(parts: Vec<Part>) -> Vec<u8> {
    let bytes = |part: Part| match part {
        Part::Hole(n) => vec![0; n],
        Part::Data(data) => data.to_vec(),
    };
    parts.into_iter().flat_map(bytes).collect()
}

#[test]
fn a_volume_keeps_writes_also_after_its_log_was_replayed() {
    for (seed, block) in [(1, "4096"), (2, "16384"), (3, "131072")] {
        let rig = Rig::new();
        let volume = make(&rig, "tank/v", &[("volblocksize", block)]);
        let mut model = vec![0u8; SIZE];
        let mut chance = Chance::new(seed);
        for step in 0..400u64 {
            let offset = chance.below(SIZE as u64 - 1);
            let len = match chance.below(10) {
                0 => 1 + chance.below(1 << 20),
                1..4 => 1 + chance.below(100),
                _ => 1 + chance.below(40_000),
            };
            let len = len.min(SIZE as u64 - offset);
            let range = offset as usize..(offset + len) as usize;
            match chance.below(12) {
                0..6 => {
                    let data: Vec<u8> = (0..len).map(|i| (step + i / 97) as u8).collect();
                    volume.write_at(offset, &data).unwrap();
                    model[range].copy_from_slice(&data);
                }
                6 | 7 => {
                    volume.write_zeros(offset, len, step % 2 == 0).unwrap();
                    model[range].fill(0);
                }
                8 => {
                    volume.trim(offset, len).unwrap();
                    let unit = volume.block_bytes();
                    let (from, to) = (offset.next_multiple_of(unit), (offset + len) / unit * unit);
                    if from < to {
                        model[from as usize..to as usize].fill(0);
                    }
                }
                9 => rig.live().writer().sync().unwrap(),
                10 => {
                    let mut at = offset;
                    for Extent { bytes, is_hole } in volume.extents(offset, len, usize::MAX).unwrap() {
                        let within = &model[at as usize..(at + bytes) as usize];
                        assert!(!is_hole || within.iter().all(|b| *b == 0), "seed {seed} step {step}");
                        at += bytes;
                    }
                    assert_eq!(at, offset + len);
                }
                _ => {
                    let parts = join(volume.read_parts(offset, len as usize).unwrap());
                    assert!(parts == model[range.clone()], "seed {seed} step {step}");
                    // It was just read.
                    let again = volume.parts_in_memory(offset, len as usize).unwrap().expect("in memory");
                    assert!(join(again) == model[range], "seed {seed} step {step}");
                }
            }
        }
        assert!(all(&volume) == model, "seed {seed}");
        volume.flush().unwrap();
        let cut = rig.cut();
        assert!(all(&open(&cut, "tank/v")) == model, "seed {seed}: after a power cut");
        assert!(export(cut, "tank/v") == model, "seed {seed}: after a power cut and an export");
        assert!(export(rig, "tank/v") == model, "seed {seed}: after an export");
    }
}

#[test]
fn uncached_blocks_are_reported_and_read() {
    let rig = Rig::new();
    let volume = make(&rig, "tank/v", &[("compression", "off")]);
    volume.write_at(0, &[9; 1 << 20]).unwrap();
    drop(volume);
    rig.live().close_all().unwrap();
    let rig = rig.cut();
    let volume = open(&rig, "tank/v");
    assert_eq!(volume.parts_in_memory(100_000, 5000).unwrap(), None);
    assert_eq!(join(volume.read_parts(100_000, 5000).unwrap()), [9; 5000]);
    assert_eq!(join(volume.parts_in_memory(100_000, 5000).unwrap().unwrap()), [9; 5000]);
    assert_eq!(
        volume.extents(0, 2 << 20, 9).unwrap(),
        [Extent { bytes: 1 << 20, is_hole: false }, Extent { bytes: 1 << 20, is_hole: true }]
    );
    assert_eq!(volume.extents(0, 2 << 20, 1).unwrap().len(), 1);
    assert!(volume.read_parts(SIZE as u64 - 1, 2).is_err() && volume.extents(u64::MAX, 2, 1).is_err());
    rig.live().close_all().unwrap();
    // Its blocks may be reallocated from now on.
    assert!(volume.read(0, 1).is_err() && volume.write_at(0, &[1]).is_err());
}

#[test]
fn properties_hold_for_volumes_as_for_file_systems() {
    let rig = Rig::new();
    let set = |name: &str, value: &str| {
        dataset::write::set(rig.live(), "tank/v", &[(name.to_owned(), value.to_owned())]).unwrap();
    };
    let volume = make(&rig, "tank/v", &[]);
    set("sync", "always");
    volume.write_at(8192, &[3; 4096]).unwrap();
    let cut = rig.cut();
    assert_eq!(&all(&open(&cut, "tank/v"))[8192..8192 + 4096], [3; 4096]);
    set("readonly", "on");
    assert!(volume.is_read_only());
    assert!(volume.write_at(0, &[1]).is_err() && volume.trim(0, 1 << 20).is_err());
    assert!(volume.write_zeros(0, 512, false).is_err() && volume.write_zeros(0, 512, true).is_err());
    assert!(volume.flush().is_ok());
    set("readonly", "off");
    // None of the following writes go into the log.
    set("sync", "disabled");
    volume.write_at(0, &[4; 4096]).unwrap();
    volume.flush().unwrap();
    assert_eq!(all(&open(&rig.cut(), "tank/v"))[0], 0);
    export(rig, "tank/v");
}
