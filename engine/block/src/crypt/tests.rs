//! Blocks written by OpenZFS open, altered ones do not, and no input makes the layout code panic.

use ondisk::dnode::SLOT_BYTES;
use ondisk::{BlkPtr, Dnode, Endian, ObjectType, Objset, blkptr};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rig::unhex_array;
use transform::compress::{Algorithm, decompress};
use transform::crypt::{Cipher, IV_BYTES, SALT_BYTES};

use super::*;

mod log;
mod seal;

/// A block pointer and the bytes on the device; `testdata/README.md` describes their origin.
macro_rules! golden {
    ($name:literal) => {{
        let bytes = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/crypt_", $name, ".bin"));
        let (pointer, stored) = bytes.split_at(blkptr::SIZE_BYTES);
        (BlkPtr::parse(pointer, Endian::Little).unwrap(), stored.to_vec())
    }};
}
use golden;

/// The key object of the GCM blocks, as its ZAP returns it.
fn gcm_attribute(name: &str) -> Option<Attribute> {
    let number = |n| Some(Attribute { int_bytes: 8, ints: vec![n] });
    let bytes = |b: &[u8]| Some(Attribute { int_bytes: 1, ints: b.iter().map(|b| u64::from(*b)).collect() });
    match name {
        attribute::SUITE => number(8),
        attribute::GUID => number(319269741672685440),
        attribute::VERSION => number(1),
        attribute::ROOT_DIR => number(66),
        attribute::KEY_FORMAT => number(3),
        attribute::PBKDF2_SALT => number(6590201546584852395),
        attribute::PBKDF2_ITERATIONS => number(350_000),
        attribute::IV => bytes(&unhex_array::<12>("438af009ae3fb10c77006413")),
        attribute::MAC => bytes(&unhex_array::<16>("e974e8f8ce627bdb1220ba2f44908153")),
        attribute::MASTER_KEY => {
            bytes(&unhex_array::<32>("79f6be750fe50271556c90608930db0b4c39d6b822a8469c9a4eeb238971b8a3"))
        }
        attribute::HMAC_KEY => bytes(&unhex_array::<64>(
            "5ac786fe6800112ce4eb726bef3c63c77a4ced1dbac85484bd1aca076f82a553c1e55e18278d01c4f5563071e77e89000d9bf3fad4b0\
             4a61dbfddf2f5e57738b",
        )),
        _ => None,
    }
}

fn gcm_keys() -> Arc<DatasetKeys> {
    let object = KeyObject::read(|name| Ok(gcm_attribute(name))).unwrap();
    // Derived from the passphrase `correct horse 1`.
    let key = unhex_array("83d33c849eb1013b5d82a50565a931c570314bdffcf796a3a65af3de1abcd5e0");
    DatasetKeys::unwrap(&object.wrapped, &key).unwrap()
}

fn ccm_keys() -> Arc<DatasetKeys> {
    let wrapped = WrappedKeyParams {
        suite: 3,
        guid: 9156013972717795369,
        version: 1,
        iv: unhex_array("ad69974ec6a97e45912a4631"),
        mac: unhex_array("9ccda2ad3d2ca04ec58c1bf268bd42d2"),
        wrapped_master_key: unhex_array("2b07d49f360ab45e6e16aff8f7a2e5c300000000000000000000000000000000"),
        wrapped_hmac_key: unhex_array(
            "6c63e51b5cb9e84e0873f074b95045106968dacb40097d753b5a63a20e7b8ccef3c3603c865028acb6a8eb4bf766ed61172f922def2f\
             ccd0157a9adbb4026fb9",
        ),
    };
    DatasetKeys::unwrap(&wrapped, &unhex_array("0190a93acce4dfd290581e92bcdd4a4d25a895b50c5245ecce9f596c31eeff6a"))
        .unwrap()
}

impl DatasetKeys {
    /// The inverse of [`DatasetKeys::open_block`] for a dnode block or an intent log block, with
    /// zeros as salt and IV.
    fn seal(&self, kind: ObjectType, endian: Endian, block: &mut [u8]) -> Result<BlkPtr> {
        let (layout, _) = match kind {
            ObjectType::INTENT_LOG => layout::log_block(block, endian)?,
            _ => (layout::dnode_block(block, endian, self.version)?, [0; 16]),
        };
        let mut message = layout.gather(block);
        let cipher = self.cipher(&[0; SALT_BYTES]);
        let mac = cipher.seal(&[0; IV_BYTES], &layout.aad, &mut message).unwrap();
        layout.scatter(&message, block);
        let mut words = [0; 16];
        words[6] = u64::from(kind.0) << 48 | 1 << 61 | u64::from(endian == Endian::Little) << 63;
        if kind == ObjectType::INTENT_LOG {
            block[168..184].copy_from_slice(&mac);
        } else {
            (words[14], words[15]) = (endian.u64(&mac), endian.u64(&mac[8..]));
        }
        Ok(BlkPtr::from_words(words))
    }
}

/// The pointer as a big-endian host would have written it for the same bytes.
fn as_big_endian(bp: &BlkPtr) -> BlkPtr {
    let mut words = *bp.words();
    words[6] &= !(1 << 63);
    for i in [4, 5, 14, 15] {
        words[i] = words[i].swap_bytes();
    }
    let iv2 = (words[11] >> 32) as u32;
    words[11] = u64::from(iv2.swap_bytes()) << 32 | words[11] & 0xffff_ffff;
    BlkPtr::from_words(words)
}

fn swap(bytes: &mut [u8], width: usize) {
    bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
}

#[test]
fn a_line_of_text_is_read_under_both_modes_and_byte_orders() {
    for (keys, (bp, stored)) in [(gcm_keys(), golden!("gcm_text")), (ccm_keys(), golden!("ccm_text"))] {
        for bp in [bp, as_big_endian(&bp)] {
            let mut data = stored.clone();
            keys.open_block(&bp, &mut data).unwrap();
            let line = b"line 0 of stream 1 seed 1: the quick brown fox jumps over the lazy dog 0\n";
            assert_eq!(data[..line.len()], line[..]);
            assert!(data[line.len()..].iter().all(|b| *b == 0));
        }
    }
}

#[test]
fn dnodes_keep_their_pointers_and_show_their_bonus() {
    for (keys, (bp, stored)) in [(gcm_keys(), golden!("gcm_dnodes")), (ccm_keys(), golden!("ccm_dnodes"))] {
        let mut data = stored.clone();
        keys.open_block(&bp, &mut data).unwrap();
        let mut with_attributes = 0;
        for (plain, secret) in data.chunks(SLOT_BYTES).zip(stored.chunks(SLOT_BYTES)) {
            let dnode = Dnode::parse(plain, bp.endian()).unwrap();
            if dnode.bonus_type == ObjectType::SA {
                // The magic number of system attributes.
                assert_eq!(bp.endian().u32(&dnode.bonus), 0x2F505A);
                assert_eq!(plain[..192], secret[..192]);
                with_attributes += 1;
            } else {
                assert_eq!(plain, secret);
            }
        }
        assert!(with_attributes > 10);
        for at in (0..stored.len()).step_by(61) {
            let mut data = stored.clone();
            data[at] ^= 1;
            // The MAC excludes the space used, most flags, and the addresses and checksum half of
            // pointers.
            let in_dnode = at % SLOT_BYTES;
            let dnode = &stored[at - in_dnode..];
            let in_pointers = (64..64 + usize::from(dnode[3]) * blkptr::SIZE_BYTES).contains(&in_dnode)
                || (dnode[7] & Dnode::FLAG_SPILL_BLKPTR != 0 && in_dnode >= SLOT_BYTES - blkptr::SIZE_BYTES);
            if in_dnode == 7 || (24..32).contains(&in_dnode) || in_pointers {
                continue;
            }
            assert!(keys.open_block(&bp, &mut data).is_err(), "byte {at}");
        }
    }
}

#[test]
fn a_block_that_is_only_authenticated_stays_as_it_is() {
    for (keys, (bp, stored)) in [(gcm_keys(), golden!("gcm_master")), (ccm_keys(), golden!("ccm_master"))] {
        let mut data = stored.clone();
        keys.open_block(&bp, &mut data).unwrap();
        keys.open_block(&as_big_endian(&bp), &mut data).unwrap();
        assert_eq!(data, stored);
        data[300] ^= 4;
        assert!(keys.open_block(&bp, &mut data).is_err());
    }
}

#[test]
fn keys_of_another_dataset_open_nothing() {
    for (bp, mut stored) in [golden!("gcm_text"), golden!("gcm_dnodes"), golden!("gcm_master")] {
        assert!(matches!(ccm_keys().open_block(&bp, &mut stored), Err(Error::Corrupt { .. })));
    }
    let (bp, stored) = golden!("gcm_objset");
    assert!(ccm_keys().verify_objset(&stored, bp.endian()).is_err());
}

#[test]
fn indirect_blocks_sum_up_the_macs_below_without_a_key() {
    for (bp, stored) in [golden!("gcm_indirect"), golden!("ccm_indirect")] {
        let mut contents = vec![0; bp.lsize_bytes() as usize];
        decompress(Algorithm::Lz4, &stored, &mut contents).unwrap();
        verify_indirect(&bp, &contents).unwrap();
        let mut swapped = contents.clone();
        swap(&mut swapped, 8);
        verify_indirect(&as_big_endian(&bp), &swapped).unwrap();
        assert!(verify_indirect(&bp, &swapped).is_err());
        // The MAC of the second pointer, and its level.
        for at in [128 + 112, 128 + 55] {
            contents[at] ^= 1;
            assert!(verify_indirect(&bp, &contents).is_err());
            contents[at] ^= 1;
        }
        // Its address may change.
        contents[128] ^= 1;
        verify_indirect(&bp, &contents).unwrap();
        assert!(verify_indirect(&bp, &[]).is_err());
    }
}

/// A host of the other byte order rewrites the block without the key, so the MACs do not change.
#[test]
fn object_sets_match_their_macs_in_both_byte_orders() {
    for (keys, (bp, stored)) in [(gcm_keys(), golden!("gcm_objset")), (ccm_keys(), golden!("ccm_objset"))] {
        keys.verify_objset(&stored, Endian::Little).unwrap();
        assert!(keys.verify_objset(&stored, Endian::Big).is_err());
        let mut big = stored.clone();
        swap(&mut big[0x200..0x2d0], 8);
        for at in [0, 0x400, 0x600, 0x800] {
            swap(&mut big[at + 8..at + 12], 2);
            swap(&mut big[at + 16..at + 32], 8);
            swap(&mut big[at + 64..at + 448], 8);
        }
        keys.verify_objset(&big, Endian::Big).unwrap();
        assert_eq!(bp.endian(), Endian::Little);
    }
}

#[test]
fn an_altered_object_set_is_refused_where_a_mac_covers_it() {
    let (keys, (_, stored)) = (gcm_keys(), golden!("gcm_objset"));
    let altered = |at: usize| {
        let mut block = stored.clone();
        block[at] ^= 1;
        keys.verify_objset(&block, Endian::Little)
    };
    for (at, which) in [(0x2c0, "portable"), (0x2d5, "portable"), (0x10, "portable"), (0x40 + 112, "portable")]
        .into_iter()
        .chain([(0x2f5, "local"), (0x410, "local"), (0x600 + 64 + 115, "local"), (0x2cf, "local")])
    {
        let error = altered(at).unwrap_err().to_string();
        assert!(error.contains(which), "byte {at:#x}: {error}");
    }
    // The log's header, the space used, and addresses.
    for at in [0x200, 0x210, 24, 64] {
        altered(at).unwrap();
    }
    // Without accounting (after a raw receive) the local MAC is not verified.
    let mut block = stored.clone();
    block[0x2c8] &= !(Objset::FLAG_USERACCOUNTING_COMPLETE as u8);
    block[0x2f0..0x310].fill(0);
    keys.verify_objset(&block, Endian::Little).unwrap();
    keys.verify_objset(&block[..1024], Endian::Little).unwrap();
    assert!(keys.verify_objset(&block[..1023], Endian::Little).is_err());
}

/// An intent log block with one record of each shape, in `endian`.
fn log_block(endian: Endian) -> Vec<u8> {
    let mut block = vec![0xa5; 4096];
    let mut at = 184;
    for (kind, len) in [(9, 192), (9, 192 + 777), (24, 72 + 128), (1, 32 + 99), (20, 32)] {
        block[at..at + len].fill(kind as u8);
        endian.put_u64(&mut block[at..], kind);
        endian.put_u64(&mut block[at + 8..], len as u64);
        at += len;
    }
    endian.put_u64(&mut block[136..], at as u64);
    block[at..].fill(0);
    block
}

#[test]
fn dnodes_of_a_big_endian_host_open_as_they_were_sealed() {
    let (keys, (bp, mut data)) = (gcm_keys(), golden!("gcm_dnodes"));
    keys.open_block(&bp, &mut data).unwrap();
    for dnode in data.chunks_exact_mut(SLOT_BYTES) {
        swap(&mut dnode[8..12], 2);
        swap(&mut dnode[16..32], 8);
        swap(&mut dnode[64..192], 8);
    }
    let plain = data.clone();
    let bp = keys.seal(ObjectType::DNODE, Endian::Big, &mut data).unwrap();
    assert_ne!(data, plain);
    keys.open_block(&bp, &mut data).unwrap();
    assert_eq!(data, plain);
}

#[test]
fn dnodes_that_do_not_fit_are_named() {
    let says = |changes: &[(usize, u8)]| {
        let mut block = vec![0; 1024];
        changes.iter().for_each(|(at, value)| block[*at] = *value);
        layout::dnode_block(&block, Endian::Little, 1).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(says(&[]), "");
    assert_eq!(says(&[(12, 1)]), "");
    assert!(says(&[(12, 2)]).contains("dnode at 0 has 1536 bytes, expected 1024"));
    assert!(says(&[(512 + 12, 1)]).contains("dnode at 512 has 1024 bytes, expected 512"));
    assert_eq!(says(&[(3, 3)]), "");
    assert!(says(&[(3, 4)]).contains("4 pointers"));
    assert!(says(&[(3, 3), (7, 4)]).contains("3 pointers"));
    assert!(says(&[(3, 255), (12, 1)]).contains("255 pointers"));
}

#[test]
fn hostile_blocks_neither_panic_nor_cause_overlaps() {
    let interesting = prop_oneof![any::<u8>(), Just(0), Just(1), Just(0xff), Just(0x7f)];
    let overwrites = proptest::collection::vec((any::<prop::sample::Index>(), interesting), 1..24);
    let random = proptest::collection::vec(any::<u8>(), 0..2048);
    let kind = prop_oneof![Just(ObjectType::DNODE), Just(ObjectType::INTENT_LOG), Just(ObjectType::OBJSET)];
    let endian = prop_oneof![Just(Endian::Little), Just(Endian::Big)];
    let (keys, (_, dnodes), (_, objset)) = (gcm_keys(), golden!("gcm_dnodes"), golden!("gcm_objset"));
    let mut runner = TestRunner::new(Config { cases: 2048, failure_persistence: None, ..Config::default() });
    runner
        .run(&(random, overwrites, kind, endian, any::<bool>()), |(random, overwrites, kind, endian, mutate)| {
            let mut block = match kind {
                _ if !mutate => random,
                ObjectType::DNODE => dnodes.clone(),
                ObjectType::OBJSET => objset.clone(),
                _ => log_block(endian),
            };
            for (index, value) in overwrites {
                if !block.is_empty() {
                    // Most overwrites hit the headers, where the lengths are.
                    let at = index.index(block.len());
                    let at = if value % 2 == 0 { at } else { at % SLOT_BYTES.min(block.len()) };
                    block[at] = value;
                }
            }
            if kind == ObjectType::OBJSET {
                let _ = keys.verify_objset(&block, endian);
                return Ok(());
            }
            let plain = block.clone();
            if let Ok(bp) = keys.seal(kind, endian, &mut block) {
                let layout = match kind {
                    ObjectType::DNODE => layout::dnode_block(&plain, endian, 1).unwrap(),
                    _ => layout::log_block(&plain, endian).unwrap().0,
                };
                let mut last = 0;
                for piece in &layout.secret {
                    prop_assert!(last <= piece.start && piece.start <= piece.end && piece.end <= layout.end);
                    last = piece.end;
                }
                prop_assert!(layout.end <= plain.len() && layout.aad.len() <= plain.len());
                keys.open_block(&bp, &mut block).unwrap();
                let from = if kind == ObjectType::INTENT_LOG { 184 } else { 0 };
                prop_assert_eq!(&block[from..layout.end], &plain[from..layout.end]);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn block_keys_are_kept_and_their_number_is_bounded() {
    let keys = gcm_keys();
    let first = keys.cipher(&[0; 8]);
    assert!(Arc::ptr_eq(&first, &keys.cipher(&[0; 8])));
    for salt in 1..=SALTS_MAX as u64 {
        keys.cipher(&salt.to_le_bytes());
    }
    let ciphers = keys.ciphers.read();
    assert_eq!((ciphers.by_salt.len(), ciphers.oldest_first.len()), (SALTS_MAX, SALTS_MAX));
    assert!(!ciphers.by_salt.contains_key(&[0; 8]));
}

#[test]
fn key_objects_are_checked() {
    let with = |name: &'static str, value: Option<Attribute>| {
        KeyObject::read(|requested| Ok(if requested == name { value.clone() } else { gcm_attribute(requested) }))
    };
    let object = KeyObject::read(|name| Ok(gcm_attribute(name))).unwrap();
    assert_eq!((object.root_dir, object.wrapped.version), (66, 1));
    let number = |n| Some(Attribute { int_bytes: 8, ints: vec![n] });
    assert!(with(attribute::IV, None).unwrap_err().to_string().contains("has no DSL_CRYPTO_IV"));
    let error = with(attribute::MAC, number(3)).unwrap_err().to_string();
    assert!(error.contains("DSL_CRYPTO_MAC is 1 integers of 8 bytes, expected 16 of 1"), "{error}");
    assert!(with(attribute::GUID, gcm_attribute(attribute::IV)).is_err());
    // The first version of the format did not record its version.
    let old = with(attribute::VERSION, None).unwrap();
    assert_eq!(old.wrapped.version, 0);
    assert!(DatasetKeys::unwrap(&old.wrapped, &[0; 32]).unwrap_err().is_incorrect_key());
    let unwrap = |object: KeyObject| DatasetKeys::unwrap(&object.wrapped, &[0; 32]).unwrap_err();
    assert!(matches!(unwrap(with(attribute::VERSION, number(2)).unwrap()), Error::Unsupported { .. }));
    assert!(matches!(unwrap(with(attribute::SUITE, number(9)).unwrap()), Error::Unsupported { .. }));
    assert!(matches!(unwrap(with(attribute::SUITE, number(2)).unwrap()), Error::Corrupt { .. }));
    assert!(with(attribute::KEY_FORMAT, number(0)).unwrap().wrapping_key(b"12345678").is_err());
    let hex_key = with(attribute::KEY_FORMAT, number(2)).unwrap();
    let error = hex_key.wrapping_key(b"12345678").unwrap_err();
    assert!(error.to_string().contains("Hex key too short (expected 64)."));
}

#[test]
fn keys_are_not_printed() {
    let (keys, cipher) = (gcm_keys(), Cipher::new(Suite::Aes128Gcm, &[9; 16]));
    assert_eq!(format!("{keys:?} {cipher:?}"), "DatasetKeys(aes-256-gcm, guid 319269741672685440) Cipher(..)");
}
