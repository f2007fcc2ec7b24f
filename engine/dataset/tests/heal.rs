//! `zfs receive -c`: blocks damaged on disk are restored from a stream of the same snapshot, and
//! nothing else is written.

use crate::common;
use crate::common::Rig;
use crate::common::streams::{send_from, target, try_receive};
use dataset::receive::{Healed, VerifyingReader, heal};
use dataset::send::Options;
use dataset::{Dataset, KeyStore, write};
use errors::Error;
use object::NewObject;
use ondisk::{BlkPtr, ObjectType};
use rig::noise;
use zeroize::Zeroizing;

const COMPRESSED: Options = Options { large_blocks: true, embedded: false, compressed: true, raw: false };
const PLAIN: Options = Options { compressed: false, ..COMPRESSED };
const RAW: Options = Options { raw: true, ..COMPRESSED };
/// Start of a device's blocks.
const DATA_START: u64 = 4 << 20;

fn send(rig: &Rig, name: &str, options: Options, keys: &KeyStore) -> Vec<u8> {
    send_from(&rig.tree(), name, None, options, keys)
}

fn healed(rig: &Rig, stream: &[u8], name: &str) -> errors::Result<Healed> {
    let mut checked = VerifyingReader::new(stream);
    let first = checked.next_record()?.expect("a stream begins with a record");
    heal(&rig.live, &mut checked, &first, name)
}

/// Pointers of the data blocks that are on disk, by object.
fn blocks(dataset: &Dataset) -> Vec<BlkPtr> {
    let (set, mut at, mut all) = (dataset.objset_without_keys().unwrap(), 1, Vec::new());
    while let Some(id) = set.next_object(at).unwrap() {
        at = id;
        let object = set.object(id).unwrap();
        for blkid in 0..=object.max_block_id() {
            let bp = object.block_pointer(0, blkid).unwrap();
            if !bp.is_hole() && !bp.is_embedded() && object.dnode().object_type == ObjectType::PLAIN_FILE_CONTENTS {
                all.push(bp);
            }
        }
    }
    all
}

fn damage(rig: &Rig, bp: &BlkPtr) {
    for dva in bp.dvas() {
        let bytes = noise(dva.offset_bytes | 1, bp.psize_bytes() as usize);
        rig.devices[0].write_at(DATA_START + dva.offset_bytes, &bytes).unwrap();
    }
}

fn fill(rig: &Rig, name: &str) {
    let head = rig.open(name);
    for file in 0..4 {
        let tx = head.begin(4 << 20).unwrap();
        let new = NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, [4096, 128 << 10, 1536, 16 << 10][file])
            .with_bonus(ObjectType::UINT64_OTHER, common::bonus(file as u64));
        let object = head.objset().create_object(&tx, &new).unwrap();
        let size = object.block_bytes() as usize;
        for blkid in 0..if file == 2 { 1 } else { 6 } {
            // Both compressible and incompressible data.
            let data = match blkid % 2 {
                0 => noise(blkid + 7, size),
                _ => noise(blkid, size / 4).iter().flat_map(|byte| [*byte; 4]).collect(),
            };
            object.write_at(&tx, blkid * size as u64, &data).unwrap();
        }
    }
    rig.live.close(&head).unwrap();
    write::snapshot(&rig.live, &[format!("{name}@s")], &[]).unwrap();
}

#[test]
fn damaged_blocks_come_back_from_every_kind_of_stream() {
    let rig = Rig::new();
    for (name, properties) in [
        ("tank/lz4", &[("compression", "lz4")][..]),
        ("tank/zstd", &[("compression", "zstd-7"), ("checksum", "sha256")]),
        ("tank/off", &[("compression", "off")]),
        ("tank/gzip", &[("compression", "gzip-9"), ("copies", "2")]),
    ] {
        rig.create(name, properties).unwrap();
        fill(&rig, name);
        let snapshot = format!("{name}@s");
        for options in [COMPRESSED, PLAIN] {
            let stream = send(&rig, &snapshot, options, &KeyStore::new());
            let all = blocks(&rig.tree().dataset(&snapshot).unwrap());
            assert_eq!(healed(&rig, &stream, &snapshot).unwrap().healed, 0, "{name}: nothing was damaged");
            all.iter().step_by(2).for_each(|bp| damage(&rig, bp));
            assert!(!rig.is_clean(), "{name}");
            let done = healed(&rig, &stream, &snapshot).unwrap();
            assert_eq!((done.looked_at, done.healed), (all.len() as u64, all.len().div_ceil(2) as u64), "{name}");
            assert!(rig.is_clean(), "{name}");
        }
    }
    // The stream of another snapshot is rejected.
    write::snapshot(&rig.live, &["tank/lz4@t".to_owned()], &[]).unwrap();
    let other = send(&rig, "tank/lz4@t", PLAIN, &KeyStore::new());
    let error = healed(&rig, &other, "tank/lz4@s").unwrap_err().to_string();
    assert!(error.contains("local snapshot doesn't match"), "{error}");
    rig.judge();
}

#[test]
fn encrypted_blocks_come_back_with_the_key_or_raw_without() {
    let rig = Rig::new();
    let properties =
        [("encryption", "on"), ("keyformat", "passphrase"), ("pbkdf2iters", "100000"), ("compression", "zstd")];
    let key = Some(Zeroizing::new(b"correct horse".to_vec()));
    let new = write::NewDataset {
        name: "tank/e".into(),
        properties: common::owned(&properties),
        key,
        ..write::NewDataset::default()
    };
    write::create(&rig.live, &new, common::MAKER).unwrap();
    fill(&rig, "tank/e");
    let all = blocks(&rig.tree().dataset("tank/e@s").unwrap());
    let raw = send(&rig, "tank/e@s", RAW, &KeyStore::new());
    let plain = send(&rig, "tank/e@s", PLAIN, rig.live.keys());
    all.iter().skip(1).step_by(2).for_each(|bp| damage(&rig, bp));
    assert_eq!(healed(&rig, &plain, "tank/e@s").unwrap().healed, all.len() as u64 / 2);
    assert!(rig.is_clean());
    let rig = rig.reopen();
    rig.live.keys().unload(&rig.tree().dataset("tank/e").unwrap()).unwrap();
    all.iter().step_by(2).for_each(|bp| damage(&rig, bp));
    let error = healed(&rig, &plain, "tank/e@s").unwrap_err().to_string();
    assert!(error.contains("key must be loaded to do a non-raw corrective recv"), "{error}");
    assert_eq!(healed(&rig, &raw, "tank/e@s").unwrap().healed, all.len().div_ceil(2) as u64);
    assert!(rig.is_clean());
    // A snapshot that was received raw is healed by the same stream, too.
    let other = Rig::new();
    try_receive(&other, &raw, &target("tank/r@s", false)).unwrap();
    let all = blocks(&other.tree().dataset("tank/r@s").unwrap());
    all.iter().for_each(|bp| damage(&other, bp));
    assert_eq!(healed(&other, &raw, "tank/r@s").unwrap().healed, all.len() as u64);
    assert!(matches!(healed(&other, &plain, "tank/r@s"), Err(Error::Invalid { .. })));
    other.check();
    other.judge();
    rig.judge();
}
