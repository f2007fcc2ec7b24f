use super::*;
use crate::endian::Endian;
use crate::testing::{golden, never_panics};
use proptest::prelude::*;

/// A leaf of 512 bytes with one entry `name` = `value`, as written in the given byte order.
fn small_leaf(endian: Endian, name: &str, value: u64) -> Vec<u8> {
    let mut b = vec![0u8; 512];
    endian.put_u64(&mut b, BlockKind::LEAF);
    endian.put_u32(&mut b[0x18..], Leaf::MAGIC);
    endian.put_u16(&mut b[0x1e..], 1);
    b[48..48 + 32].fill(0xff);
    let hash = hash::of_name(7, Flags::empty(), name.as_bytes());
    let bucket = (hash >> 60) as usize;
    endian.put_u16(&mut b[48 + bucket * 2..], 0);
    let chunks = &mut b[80..];
    chunks[0] = 252;
    chunks[1] = 8;
    for (at, n) in [(2, 0xffff), (4, 1), (6, name.len() as u16 + 1), (8, 2), (10, 1)] {
        endian.put_u16(&mut chunks[at..], n);
    }
    endian.put_u64(&mut chunks[16..], hash);
    chunks[24] = 251;
    chunks[25..25 + name.len()].copy_from_slice(name.as_bytes());
    endian.put_u16(&mut chunks[46..], 0xffff);
    chunks[48] = 251;
    chunks[49..57].copy_from_slice(&value.to_be_bytes());
    endian.put_u16(&mut chunks[70..], 0xffff);
    b
}

#[test]
fn a_leaf_reads_the_same_in_both_byte_orders() {
    for endian in [Endian::Little, Endian::Big] {
        let bytes = small_leaf(endian, "ROOT", 0x1234_5678_9abc);
        let leaf = Leaf::parse(&bytes, endian).unwrap();
        let hash = hash::of_name(7, Flags::empty(), b"ROOT");
        let entry = leaf.chain(hash).next().unwrap().unwrap();
        assert_eq!(entry.hash, hash);
        assert_eq!(leaf.name(&entry).unwrap(), b"ROOT");
        assert!(leaf.name_is(&entry, b"ROOT").unwrap() && !leaf.name_is(&entry, b"BOOT").unwrap());
        assert_eq!(leaf.value(&entry).unwrap().as_u64(), Some(0x1234_5678_9abc));
        assert_eq!(leaf.entries().unwrap(), [entry]);
    }
}

#[test]
fn a_chain_of_entries_that_loops_is_an_error() {
    let mut bytes = small_leaf(Endian::Little, "ROOT", 1);
    Endian::Little.put_u16(&mut bytes[82..], 0);
    let leaf = Leaf::parse(&bytes, Endian::Little).unwrap();
    let steps: Vec<_> = leaf.chain(hash::of_name(7, Flags::empty(), b"ROOT")).collect();
    assert!(steps.len() <= 20 && steps.last().unwrap().is_err());
    assert!(leaf.entries().is_err());
}

#[test]
fn an_array_longer_than_the_block_is_an_error() {
    let mut bytes = small_leaf(Endian::Little, "ROOT", 1);
    Endian::Little.put_u16(&mut bytes[80 + 10..], 60000);
    Endian::Little.put_u16(&mut bytes[80 + 70..], 2);
    let leaf = Leaf::parse(&bytes, Endian::Little).unwrap();
    let entry = leaf.entries().unwrap()[0];
    assert!(leaf.value(&entry).is_err());
}

#[test]
fn a_table_larger_than_its_blocks_is_an_error() {
    let mut bytes = vec![0u8; 16384];
    for (i, n) in [BlockKind::HEADER, Header::MAGIC, 0, 0, 10].into_iter().enumerate() {
        Endian::Big.put_u64(&mut bytes[i * 8..], n);
    }
    let header = Header::parse(&bytes, Endian::Big).unwrap();
    assert_eq!(header.table_slot(header.table_index(u64::MAX)), fat::TableSlot { block: 0, word: 2047 });
    Endian::Big.put_u64(&mut bytes[32..], 11);
    assert!(Header::parse(&bytes, Endian::Big).is_err());
    Endian::Big.put_u64(&mut bytes[24..], 1);
    Endian::Big.put_u64(&mut bytes[16..], 5);
    let header = Header::parse(&bytes, Endian::Big).unwrap();
    assert_eq!(header.table_slot(2047), fat::TableSlot { block: 5, word: 2047 });
    Endian::Big.put_u64(&mut bytes[32..], 12);
    assert!(Header::parse(&bytes, Endian::Big).is_err());
}

#[test]
fn a_hash_keeps_its_top_bits_only() {
    // CRC-64/XZ check value, from the catalogue of parametrised CRCs: initial value all ones,
    // result inverted.
    assert_eq!(!hash::crc64(u64::MAX, *b"123456789"), 0x995d_c9bb_df19_39fa);
    let narrow = hash::of_name(1, Flags::empty(), b"x");
    let wide = hash::of_name(1, Flags::HASH64, b"x");
    assert_eq!((narrow << 28, wide << 48), (0, 0));
    assert_eq!(wide >> 36, narrow >> 36);
    assert_eq!(
        hash::of_key(1, Flags::UINT64_KEY, &[u64::from_le_bytes(*b"abcdefgh")]),
        hash::of_name(1, Flags::empty(), b"abcdefgh")
    );
    let prehashed = Flags::UINT64_KEY | Flags::PRE_HASHED_KEY;
    assert_eq!(hash::of_key(1, prehashed, &[u64::MAX, 5]), 0xffff_fff0_0000_0000);
}

#[test]
fn a_master_node_that_sparc_wrote_reads_right() {
    let micro = Micro::parse(golden!("zap_master_sparc.bin"), Endian::Big).unwrap();
    let entries: Vec<_> = micro.entries().map(|e| (std::str::from_utf8(e.name).unwrap(), e.value)).collect();
    assert_eq!(entries, [("VERSION", 1), ("DELETE_QUEUE", 2), ("ROOT", 3)]);
    assert_eq!((micro.salt, micro.norm_flags), (0x0d2f_d0b3, NormFlags::empty()));
    assert!(Micro::parse(golden!("zap_master_sparc.bin"), Endian::Little).is_err());
}

#[test]
fn a_fat_zap_that_openzfs_wrote_reads_right() {
    let header = Header::parse(golden!("zap_layouts_header.bin"), Endian::Little).unwrap();
    assert_eq!((header.table_blocks, header.table_shift, header.leaves, header.entries), (0, 10, 1, 6));
    let leaf = Leaf::parse(golden!("zap_layouts_leaf.bin"), Endian::Little).unwrap();
    assert_eq!((leaf.prefix_bits, usize::from(leaf.entries)), (0, leaf.entries().unwrap().len()));
    let hash = hash::of_name(header.salt, header.flags, b"6");
    let entry = leaf.chain(hash).map(Result::unwrap).find(|e| e.hash == hash).unwrap();
    assert!(leaf.name_is(&entry, b"6").unwrap());
    let layout = [5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19, 20];
    assert_eq!(leaf.value(&entry).unwrap(), Value { int_bytes: 2, ints: layout.to_vec() });
    for entry in leaf.entries().unwrap() {
        assert_eq!(entry.hash, hash::of_name(header.salt, header.flags, &leaf.name(&entry).unwrap()));
    }
}

#[test]
fn damaged_real_blocks_never_panic() {
    never_panics(golden!("zap_master_sparc.bin"), |bytes| exercise(bytes, Endian::Big));
    never_panics(golden!("zap_layouts_leaf.bin"), |bytes| exercise(bytes, Endian::Little));
}

fn exercise(bytes: &[u8], endian: Endian) {
    let _ = BlockKind::of(bytes, endian);
    if let Ok(micro) = Micro::parse(bytes, endian) {
        assert!(micro.entries().count() <= bytes.len() / 64);
    }
    if let Ok(header) = Header::parse(bytes, endian) {
        let slot = header.table_slot(header.table_index(u64::MAX));
        assert!(slot.word < bytes.len() / 8);
    }
    if let Ok(leaf) = Leaf::parse(bytes, endian) {
        for hash in [0, 1 << 40, u64::MAX] {
            let _ = (leaf.covers(hash), leaf.next_hash());
            for entry in leaf.chain(hash).flatten() {
                let _ = (leaf.name(&entry), leaf.key(&entry), leaf.value(&entry), leaf.name_is(&entry, b"abc"));
            }
        }
        let _ = leaf.entries();
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(mut bytes in proptest::collection::vec(any::<u8>(), 512..=512), kind in 0u8..3, big: bool) {
        let endian = if big { Endian::Big } else { Endian::Little };
        exercise(&bytes, endian);
        match kind {
            0 => endian.put_u64(&mut bytes, BlockKind::MICRO),
            1 => { endian.put_u64(&mut bytes, BlockKind::HEADER); endian.put_u64(&mut bytes[8..], Header::MAGIC); endian.put_u64(&mut bytes[96..], 0) }
            _ => { endian.put_u64(&mut bytes, BlockKind::LEAF); endian.put_u32(&mut bytes[0x18..], Leaf::MAGIC); bytes[0x10..0x18].fill(0); bytes[0x20..0x22].fill(0) }
        }
        exercise(&bytes, endian);
    }

    #[test]
    fn flipped_bytes_of_a_leaf_never_panic(at in 0usize..512, to: u8, big: bool) {
        let endian = if big { Endian::Big } else { Endian::Little };
        let mut bytes = small_leaf(endian, "name", 5);
        bytes[at] = to;
        exercise(&bytes, endian);
    }

    #[test]
    fn short_blocks_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        exercise(&bytes, Endian::Little);
    }
}

#[test]
fn a_header_writes_back() {
    let bytes = golden!("zap_layouts_header.bin");
    let header = Header::parse(bytes, Endian::Little).unwrap();
    assert_eq!(header.to_bytes(), bytes[..Header::SIZE_BYTES]);
    assert_eq!(header.to_bytes()[Header::ENTRIES_OFFSET..][..8], header.entries.to_le_bytes());
    let new = Header::new(header.block_shift, header.salt, header.norm_flags, header.flags);
    assert_eq!(Header { entries: header.entries, ..new }, header);
}

#[test]
fn a_micro_zap_is_encoded_back_in_its_byte_order() {
    let big = golden!("zap_master_sparc.bin");
    let mut little = big.to_vec();
    swap::to_little(&mut little).unwrap();
    let (before, after) = (Micro::parse(big, Endian::Big).unwrap(), Micro::parse(&little, Endian::Little).unwrap());
    assert_eq!((before.salt, before.norm_flags, before.slots()), (after.salt, after.norm_flags, after.slots()));
    assert!(before.entries().eq(after.entries()) && before.entries().count() > 0);
    assert_eq!(micro::header(after.salt, after.norm_flags), little[..micro::ENTRY_BYTES]);
    for entry in after.entries() {
        let bytes = micro::entry(entry.name, entry.value, entry.cd);
        assert_eq!(bytes, little[micro::entry_offset(entry.index)..][..micro::ENTRY_BYTES]);
    }
}
