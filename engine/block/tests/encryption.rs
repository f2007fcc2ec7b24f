//! What is written with a key can be read with it and with no other; what is only authenticated
//! cannot be changed unnoticed.

use crate::support::*;
use block::crypt::{DatasetKeys, KeyObject, WrappingKey};
use block::vdev::Contents;
use block::{Class, Compress, WritePolicy};
use bytes::Bytes;
use errors::Error;
use ondisk::{BlkPtr, Endian, ObjectType};
use rig::noise;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use transform::crypt::{KeyFormat, Suite};

fn keys() -> Arc<DatasetKeys> {
    DatasetKeys::generate(Suite::Aes256Gcm)
}

#[test]
fn data_are_secret_under_every_suite_and_read_back() {
    for suite in Suite::ALL {
        let keys = DatasetKeys::generate(suite);
        let bench = bench(Layout::Raidz(1, 3), 12);
        for (size, compression) in
            [(512, Compress::Lz4), (131_072, Compress::Lz4), (131_072, Compress::Off), (4096, Compress::Lz4)]
        {
            let data = b"a secret ".repeat(size / 9 + 1)[..size].to_vec();
            let bp = bench
                .store
                .write(
                    TXG,
                    Bytes::from(data.clone()),
                    &WritePolicy { compression, copies: 3, ..policy() },
                    &AT,
                    Some(&keys),
                )
                .unwrap();
            assert!(bp.is_encrypted() && !bp.is_embedded());
            assert_eq!((bp.dvas().count(), bp.fill()), (2, 1));
            check(&bench, &bp, &data, Some(&keys));
            assert!(matches!(bench.store.read(&bp, &AT, None), Err(Error::KeyUnavailable { .. })));
            let other = DatasetKeys::generate(suite);
            bench.store.cache().remove(&block::arc::Key { vdev: 0, offset_bytes: bp.dva(0).offset_bytes, birth: TXG });
            assert!(matches!(bench.store.read(&bp, &AT, Some(&other)), Err(Error::Corrupt { .. })));
        }
        for disk in &bench.disks {
            let contents = disk.memory.contents();
            assert!(!contents.windows(8).any(|w| w == b"a secret"), "{}", suite.name());
        }
    }
}

#[test]
fn verifying_decrypts_with_the_key_and_reports_a_missing_key() {
    for suite in Suite::ALL {
        let (bench, keys, other) =
            (bench(Layout::Mirror(2), 12), DatasetKeys::generate(suite), DatasetKeys::generate(suite));
        let write = |object_type, data: &[u8]| {
            let policy = WritePolicy { object_type, compression: Compress::Gzip(1), ..policy() };
            bench.store.write(TXG, Bytes::copy_from_slice(data), &policy, &AT, Some(&keys)).unwrap()
        };
        let seen = |bp: &BlkPtr, keys: Option<&DatasetKeys>| {
            let seen = bench.store.verify_contents(bp, keys);
            assert_eq!(seen.readable, seen.contents != Contents::Malformed);
            assert_eq!(seen.good_copies, bp.dvas().count());
            seen.contents
        };
        for data in [half(3, 131_072), noise(3, 131_072)] {
            let secret = write(ObjectType::PLAIN_FILE_CONTENTS, &data);
            assert_eq!(seen(&secret, Some(&keys)), Contents::Whole);
            assert_eq!(seen(&secret, None), Contents::Sealed);
            assert_eq!(seen(&secret, Some(&other)), Contents::Malformed);
            // Authenticated blocks decode without a key.
            let open = write(ObjectType::ZAP_OTHER, &data);
            assert!(open.is_authenticated() || open.is_encrypted());
            let without = if open.is_encrypted() { Contents::Sealed } else { Contents::Whole };
            assert_eq!((seen(&open, Some(&keys)), seen(&open, None)), (Contents::Whole, without));
        }
    }
}

#[test]
fn equal_data_is_encrypted_to_different_bytes() {
    let (bench, keys) = (bench(Layout::Disk, 9), keys());
    let write = || bench.store.write(TXG, Bytes::from(noise(1, 4096)), &policy(), &AT, Some(&keys)).unwrap();
    let (a, b) = (write(), write());
    assert_eq!(a.crypt_salt(), b.crypt_salt());
    assert_ne!(a.crypt_iv(), b.crypt_iv());
    assert_ne!(a.checksum(), b.checksum());
}

#[test]
fn an_encrypted_gang_reads_back() {
    let (bench, keys) = (bench(Layout::Mirror(2), 9), keys());
    bench.space.largest.store(8192, Ordering::Relaxed);
    let data = noise(2, 131_072);
    let bp = bench.store.write(TXG, Bytes::from(data.clone()), &policy(), &AT, Some(&keys)).unwrap();
    assert!(bp.is_gang() && bp.is_encrypted());
    check(&bench, &bp, &data, Some(&keys));
    bench.store.free(TXG, &bp).unwrap();
    assert_eq!(bench.space.used(), 0);
}

/// A dnode with one pointer and a bonus.
fn dnode(object_type: ObjectType, bonus_type: ObjectType, pointer: &BlkPtr, bonus: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[0] = object_type.0;
    bytes[1] = 17;
    bytes[2] = 1;
    bytes[3] = 1;
    bytes[4] = bonus_type.0;
    bytes[8..10].copy_from_slice(&1u16.to_le_bytes());
    bytes[10..12].copy_from_slice(&(bonus.len() as u16).to_le_bytes());
    bytes[64..192].copy_from_slice(&pointer.to_bytes(Endian::Little));
    bytes[192..192 + bonus.len()].copy_from_slice(bonus);
    bytes
}

#[test]
fn a_whole_dataset_from_data_to_object_set_reads_back() {
    let (bench, keys) = (bench(Layout::Disk, 12), keys());
    let write = |data: &[u8], object_type, level| {
        let policy = WritePolicy { level, ..WritePolicy::metadata(object_type, level) };
        bench.store.write(TXG, Bytes::copy_from_slice(data), &policy, &AT, Some(&keys)).unwrap()
    };
    // A type that is authenticated, and one that is encrypted.
    let table = half(3, 16384);
    let master = write(&table, ObjectType::MASTER_NODE, 0);
    assert!(master.is_authenticated());
    check(&bench, &master, &table, Some(&keys));
    check(&bench, &master, &table, None);
    let text = write(&half(4, 131_072), ObjectType::PLAIN_FILE_CONTENTS, 0);

    let mut indirect = vec![0; 131_072];
    for (place, bp) in indirect.chunks_exact_mut(128).zip([&master, &text, &text]) {
        place.copy_from_slice(&bp.to_bytes(Endian::Little));
    }
    let above = write(&indirect, ObjectType::PLAIN_FILE_CONTENTS, 1);
    assert!(above.has_indirect_mac() && above.psize_bytes() < 131_072);
    check(&bench, &above, &indirect, None);

    let mut dnodes = dnode(ObjectType::PLAIN_FILE_CONTENTS, ObjectType::SA, &above, b"owner and times");
    dnodes.extend(dnode(ObjectType::MASTER_NODE, ObjectType::NONE, &master, b""));
    dnodes.resize(16384, 0);
    let block = write(&dnodes, ObjectType::DNODE, 0);
    assert_eq!((block.psize_bytes(), block.is_encrypted()), (16384, true));
    check(&bench, &block, &dnodes, Some(&keys));
    let seen = bench.store.read_unopened(&block, &AT).unwrap();
    assert_eq!(seen.data[64..192], dnodes[64..192], "pointers stay readable");
    assert_ne!(seen.data[192..207], dnodes[192..207], "a bonus of system attributes does not");
    assert!(write(&vec![0; 16384], ObjectType::DNODE, 0).is_hole());

    let mut objset = dnode(ObjectType::DNODE, ObjectType::NONE, &block, b"");
    objset.resize(4096, 0);
    objset[0x2c0..0x2c8].copy_from_slice(&2u64.to_le_bytes());
    let root = write(&objset, ObjectType::OBJSET, 0);
    assert!(root.uses_crypt() && root.psize_bytes() == 4096);
    let read = bench.store.read_uncached(&root, &AT, Some(&keys)).unwrap();
    assert_eq!(read.data, bench.store.read(&root, &AT, Some(&keys)).unwrap().data);
    keys.verify_objset(&read.data, Endian::Little).unwrap();
    assert!(DatasetKeys::generate(Suite::Aes256Gcm).verify_objset(&read.data, Endian::Little).is_err());
}

#[test]
fn a_log_block_is_sealed_under_the_pointer_that_was_made_before_it() {
    for keys in [None, Some(keys())] {
        let bench = bench(Layout::Mirror(2), 12);
        let mut bp = bench.store.allocate_log(TXG, 8192, Class::Log, keys.as_deref()).unwrap();
        bp.set_checksum([11, 22, AT.objset, 1]);
        let mut block = vec![0; 8192];
        block[136..144].copy_from_slice(&(184u64 + 100).to_le_bytes());
        block[184..192].copy_from_slice(&1u64.to_le_bytes());
        block[192..200].copy_from_slice(&100u64.to_le_bytes());
        block[216..222].copy_from_slice(b"secret");
        let before = block.clone();
        bench.store.write_log(&bp, &mut block, keys.as_deref()).unwrap();
        bench.store.flush_blocks(&[bp]).unwrap();
        let read = bench.store.read_uncached(&bp, &AT, keys.as_deref()).unwrap();
        assert_eq!(read.data[184..], before[184..]);
        let on_disk = bench.disks[0].memory.contents();
        let visible = on_disk.windows(6).any(|w| w == b"secret");
        assert_eq!(visible, keys.is_none());
        assert_eq!(bench.store.verify(&bp).good_copies, 1);
        bench.store.free(TXG, &bp).unwrap();
        bench.store.claim(TXG, &bp).unwrap();
        assert_eq!(bench.space.used(), 8192);
    }
}

#[test]
fn a_new_key_object_opens_with_its_key_and_after_a_change_with_the_new_one_only() {
    let lookup = |object: &KeyObject| {
        let all = object.attributes();
        KeyObject::read(|name| Ok(all.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone()))).unwrap()
    };
    let hex = b"0123456789abcdef".repeat(4);
    let ways: [(KeyFormat, &[u8]); 3] =
        [(KeyFormat::Raw, &hex[..32]), (KeyFormat::Hex, &hex), (KeyFormat::Passphrase, b"correct horse")];
    let keys = DatasetKeys::generate(Suite::Aes192Ccm);
    let mut before: Option<WrappingKey> = None;
    for (format, material) in ways {
        let wrapping = WrappingKey::new(format, material, Some(100_000)).unwrap();
        let object = lookup(&KeyObject::create(&keys, &wrapping, 77));
        assert_eq!((object.root_dir, object.wrapped.guid, object.wrapped.version), (77, keys.guid(), 1));
        let again = WrappingKey::of(&object, material).unwrap();
        let opened = DatasetKeys::unwrap(&object.wrapped, again.bytes()).unwrap();
        let bench = bench(Layout::Disk, 9);
        let bp = bench.store.write(TXG, Bytes::from(noise(1, 512)), &policy(), &AT, Some(&keys)).unwrap();
        check(&bench, &bp, &noise(1, 512), Some(&opened));
        if let Some(before) = before.replace(wrapping) {
            let e = DatasetKeys::unwrap(&object.wrapped, before.bytes()).unwrap_err();
            assert!(e.is_incorrect_key());
        }
    }
    assert!(WrappingKey::new(KeyFormat::Passphrase, b"short", None).is_err());
    assert!(WrappingKey::new(KeyFormat::Passphrase, b"long enough", Some(99_999)).is_err());
    assert!(WrappingKey::new(KeyFormat::Raw, b"short", None).is_err());
}
