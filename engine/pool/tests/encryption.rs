//! Every block of encrypted datasets written by OpenZFS can be decrypted with the right key, and
//! none with another.
//!
//! Needs the image of the scenario `encrypted` (`WEIR_FIXTURES`, unpacked as SCENARIO/DEVICE).

use std::path::PathBuf;
use std::sync::Arc;

use block::crypt::{Attribute, DatasetKeys, KeyObject};
use errors::Error;
use object::zap::Zap;
use object::{Object, ObjectSet};
use ondisk::{DslDataset, DslDir, ObjectType, dsl_dir};
use pool::{OpenOptions, Pool, search};

const PASSPHRASE: &[u8] = b"correct horse 1\n";
const RAW_KEY: [u8; 32] = [
    0x01, 0x90, 0xa9, 0x3a, 0xcc, 0xe4, 0xdf, 0xd2, 0x90, 0x58, 0x1e, 0x92, 0xbc, 0xdd, 0x4a, 0x4d, 0x25, 0xa8, 0x95,
    0xb5, 0x0c, 0x52, 0x45, 0xec, 0xce, 0x9f, 0x59, 0x6c, 0x31, 0xee, 0xff, 0x6a,
];

/// A dataset in an encrypted directory: its number, dataset and key object.
struct Encrypted {
    id: u64,
    dataset: DslDataset,
    key_object: KeyObject,
}

fn open() -> Option<Arc<Pool>> {
    let Some(folder) = std::env::var_os("WEIR_FIXTURES").map(PathBuf::from) else {
        println!("skipped: set WEIR_FIXTURES to the folder of unpacked scenarios");
        return None;
    };
    let found = search(&[folder.join("encrypted/e1")]);
    Some(Pool::open(&found.pools[0], &OpenOptions { cache_bytes: 64 << 20, ..OpenOptions::default() }).unwrap())
}

/// The heads and snapshots in all encrypted directories.
fn encrypted(mos: &Arc<ObjectSet>) -> Vec<Encrypted> {
    let (mut dirs, mut datasets, mut id) = (Vec::new(), Vec::new(), 0);
    while let Some(next) = mos.next_object(id).unwrap() {
        id = next;
        let object = mos.object(id).unwrap();
        if object.dnode().bonus_type == ObjectType::DSL_DATASET {
            datasets.push((id, DslDataset::parse(object.bonus(), object.endian()).unwrap()));
        } else if object.dnode().bonus_type == ObjectType::DSL_DIR {
            DslDir::parse(object.bonus(), object.endian()).unwrap();
            let Ok(zap) = Zap::open(object) else { continue };
            if let Some(key) = zap.lookup_u64(dsl_dir::FIELD_CRYPTO_KEY_OBJ).unwrap() {
                dirs.push((id, key));
            }
        }
    }
    let of_dir = |dataset: &DslDataset| dirs.iter().find(|(id, _)| *id == dataset.dir).map(|(_, key)| *key);
    datasets
        .into_iter()
        .filter_map(|(id, dataset)| {
            let zap = Zap::open(mos.object(of_dir(&dataset)?).unwrap()).unwrap();
            let key_object = KeyObject::read(|name| {
                Ok(zap.lookup(name)?.map(|v| Attribute { int_bytes: v.int_bytes, ints: v.ints }))
            });
            Some(Encrypted { id, dataset, key_object: key_object.unwrap() })
        })
        .collect()
}

fn keys(key_object: &KeyObject) -> Arc<DatasetKeys> {
    let material: &[u8] = if key_object.key_format == 3 { PASSPHRASE } else { &RAW_KEY };
    DatasetKeys::unwrap(&key_object.wrapped, &key_object.wrapping_key(material).unwrap()).unwrap()
}

/// Reads all blocks of an object: data, spill, and the indirect blocks above them. Returns the
/// bytes read.
fn read(object: &Object) -> u64 {
    let mut bytes = object.spill().unwrap().map_or(0, |b| b.data.len() as u64);
    for blkid in 0..=object.max_block_id() {
        bytes += object.block(blkid).unwrap().map_or(0, |b| b.data.len() as u64);
    }
    bytes
}

#[test]
fn every_block_of_every_dataset_opens() {
    let Some(pool) = open() else { return };
    let datasets = encrypted(pool.mos());
    assert_eq!(datasets.len(), 6, "three file systems and a snapshot of each");
    for Encrypted { id, dataset, key_object } in datasets {
        let set = ObjectSet::open(pool.store().clone(), &dataset.bp, id, Some(keys(&key_object))).unwrap();
        let (mut objects, mut bytes, mut object_id) = (0, 0, 0);
        for accounting in [set.user_used(), set.group_used(), set.project_used()].into_iter().flatten() {
            bytes += read(&accounting);
        }
        while let Some(next) = set.next_object(object_id).unwrap() {
            object_id = next;
            bytes += read(&set.object(object_id).unwrap());
            objects += 1;
        }
        println!("object set {id}: {objects} objects, {bytes} bytes");
        assert!(objects > 40 && bytes > 1_000_000, "object set {id}: {objects} objects, {bytes} bytes");
    }
}

#[test]
fn a_wrong_key_is_incorrect_and_without_a_key_data_is_hidden() {
    let Some(pool) = open() else { return };
    for Encrypted { id, dataset, key_object } in encrypted(pool.mos()) {
        let error = DatasetKeys::unwrap(&key_object.wrapped, &[7; 32]).unwrap_err();
        assert!(error.is_incorrect_key(), "{error}");
        let set = ObjectSet::open(pool.store().clone(), &dataset.bp, id, None).unwrap();
        // The master node is only authenticated. Dnodes are readable, but their file-related
        // contents are not.
        assert!(set.object(1).unwrap().block(0).unwrap().is_some());
        let (mut secret, mut object_id) = (0, 1);
        while let Some(next) = set.next_object(object_id).unwrap() {
            object_id = next;
            let object = set.object(object_id).unwrap();
            if !object.dnode().object_type.is_encrypted() {
                continue;
            }
            assert!(object.bonus().is_empty(), "object {object_id}");
            if !object.block_pointer(0, 0).unwrap().is_hole() {
                assert!(matches!(object.block(0), Err(Error::KeyUnavailable { .. })), "object {object_id}");
                secret += 1;
            }
        }
        assert!(secret > 20, "object set {id}: {secret}");
    }
}
