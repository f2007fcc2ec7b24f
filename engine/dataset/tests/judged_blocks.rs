//! Checks the blocks that Weir writes with OpenZFS's `zdb -bcc`: every layout, checksum,
//! compression and cipher, gang blocks, and all of it again with as many devices missing as there
//! is parity, so that zdb has to reconstruct from Weir's parity.
//!
//! If it is not installed, the test prints that, and only Weir's own `verify` checks.

use crate::common;
use crate::common::{MAKER, Rig};
use block::Class;
use dataset::write::{self, NewDataset};
use host::device::{Device, MemoryDevice};
use pool::writer::{NewDraid, NewVdev};
use rig::noise;
use std::sync::Arc;
use zeroize::Zeroizing;

const DISK_BYTES: usize = 96 << 20;
/// Bytes written with one limit for gang blocks: four blocks.
const PART_BYTES: u64 = 512 << 10;

fn layout(kind: &'static str, parity: u64, count: usize, ashift: u8) -> NewVdev {
    let class = Class::Normal;
    let leaf = |n: usize| {
        let name = format!("disk-{n}");
        let device: Arc<dyn Device> = Arc::new(MemoryDevice::new(name.clone(), vec![0; DISK_BYTES]));
        NewVdev { kind: "file", parity: 0, draid: None, class, leaf: Some((name, device)), ashift, children: vec![] }
    };
    match kind {
        "file" => leaf(0),
        _ => {
            let draid = (kind == "draid").then_some(NewDraid { data: 2, spares: 1 });
            NewVdev { kind, parity, draid, class, leaf: None, ashift, children: (0..count).map(leaf).collect() }
        }
    }
}

const SETS: [&[(&str, &str)]; 9] = [
    &[("compression", "lz4"), ("checksum", "fletcher4")],
    &[("compression", "off"), ("checksum", "sha256"), ("copies", "2")],
    &[("compression", "lzjb"), ("checksum", "fletcher2"), ("copies", "3")],
    &[("compression", "gzip-9"), ("checksum", "sha512")],
    &[("compression", "zstd-5"), ("checksum", "skein")],
    &[("compression", "zle"), ("checksum", "edonr")],
    &[("compression", "zstd-fast-10"), ("checksum", "blake3"), ("recordsize", "16K")],
    &[("encryption", "aes-256-gcm"), ("keyformat", "passphrase"), ("copies", "2")],
    &[("encryption", "aes-128-ccm"), ("keyformat", "passphrase"), ("compression", "off")],
];

/// Random data, half random data and nearly empty data, repeatedly overwriting the previous
/// contents, in two txgs.
fn write_all(rig: &Rig) {
    for (number, properties) in SETS.iter().enumerate() {
        let name = format!("tank/set-{number}");
        let key = properties.iter().any(|(name, _)| *name == "keyformat");
        let new = NewDataset {
            name: name.clone(),
            properties: properties.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            key: key.then(|| Zeroizing::new(b"correct horse".to_vec())),
            ..NewDataset::default()
        };
        write::create(&rig.live, &new, MAKER).unwrap();
        let dataset = rig.open(&name);
        let tx = dataset.begin(1 << 20).unwrap();
        let id = common::new_file(dataset.objset(), &tx, 7).unwrap();
        drop(tx);
        for step in 0..16u64 {
            let mut data = noise(step + 1, 90_000 + step as usize * 777);
            match step % 4 {
                0 => data.fill(0),
                1 => data[..50_000].fill(b'a'),
                _ => {}
            }
            data[5] = 1;
            let tx = dataset.begin(1 << 20).unwrap();
            dataset.objset().object(id).unwrap().write_at(&tx, step * 70_000, &data).unwrap();
            drop(tx);
            if step % 8 == 7 {
                rig.live.writer().sync().unwrap();
            }
        }
    }
}

fn judge(kind: &'static str, parity: u64, count: usize, ashift: u8, spare: usize) {
    let rig = Rig::with(layout(kind, parity, count, ashift), &[], None);
    let allocator = rig.live.writer().allocator().clone();
    write_all(&rig);
    let gangs = rig.open("tank/set-0");
    for (number, name) in ["tank/set-0", "tank/set-1", "tank/set-7"].into_iter().enumerate() {
        let dataset = rig.open(name);
        let tx = dataset.begin(4 << 20).unwrap();
        let id = common::new_file(dataset.objset(), &tx, 8).unwrap();
        drop(tx);
        // With the smaller ones, members do not fit either.
        for (part, largest_bytes) in (0..).zip([70_000, 33_000, 9000, 4096]) {
            allocator.force_ganging(largest_bytes);
            let tx = dataset.begin(4 << 20).unwrap();
            let data = noise(number as u64 * 4 + part, PART_BYTES as usize);
            dataset.objset().object(id).unwrap().write_at(&tx, part * PART_BYTES, &data).unwrap();
            drop(tx);
            rig.live.writer().sync().unwrap();
        }
        // Some of them are freed, members included.
        let tx = dataset.begin_freeing(1 << 20).unwrap();
        for part in 0..4 {
            dataset.objset().object(id).unwrap().punch(&tx, part * PART_BYTES, PART_BYTES / 4).unwrap();
        }
        drop(tx);
        rig.live.writer().sync().unwrap();
    }
    allocator.force_ganging(u64::MAX);
    drop(gangs);
    rig.check();
    let without = |away: usize| Rig { devices: rig.devices[away..].to_vec(), live: rig.live.clone() };
    for rig in [without(0), without(spare)] {
        let Some(text) = rig.judge() else { return };
        let count = text.lines().find_map(|line| line.split_once("ganged count:")).expect("zdb counts them").1;
        assert!(count.trim().parse::<u64>().unwrap() > 20, "{text}");
    }
}

#[test]
fn a_disk() {
    judge("file", 0, 1, 12, 0);
}

#[test]
fn a_mirror_and_one_side_of_it() {
    judge("mirror", 0, 2, 9, 1);
}

#[test]
fn raidz1_whole_and_without_one() {
    judge("raidz", 1, 4, 9, 1);
}

#[test]
fn raidz2_whole_and_without_two() {
    judge("raidz", 2, 5, 12, 2);
}

#[test]
fn raidz3_whole_and_without_three() {
    judge("raidz", 3, 6, 9, 3);
}

#[test]
fn draid2_whole_and_without_two() {
    judge("draid", 2, 7, 9, 2);
}
