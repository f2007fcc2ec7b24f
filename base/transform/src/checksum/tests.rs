//! Compares with data written by OpenZFS (testdata/README.md), with published vectors, and
//! implementations with each other.

use proptest::prelude::*;
use sha2::Digest;

use super::*;

const B512: &[u8] = include_bytes!("../../testdata/checksum/b512.bin");
const B513: &[u8] = include_bytes!("../../testdata/checksum/b513.bin");
/// `org.illumos:checksum_salt` of the pool that both blocks are from.
const SALT: [u8; 32] = [
    0x7d, 0x30, 0xc2, 0xfa, 0x9b, 0x38, 0xf8, 0x64, 0x15, 0x9f, 0xd8, 0x37, 0x14, 0x6c, 0xb0, 0x6b, 0x5f, 0x68, 0x45,
    0x8a, 0x1f, 0xf8, 0x58, 0x6c, 0x93, 0xf6, 0x34, 0xa9, 0x0b, 0x27, 0xb4, 0x3d,
];

/// Algorithm, and the words in the pointers to `B512` and `B513`.
const POINTERS: [(Algorithm, [u64; 4], [u64; 4]); 7] = [
    (
        Algorithm::Fletcher2,
        [0xaf1e7e24142f2e9a, 0x99d440ce159895a7, 0x380c542a595cd4bc, 0x6eb2789c781ec021],
        [0xff6c0b414e797049, 0xc76ba2e846ba2f73, 0x21137da9ba358f7f, 0x382be917cf4c8b01],
    ),
    (
        Algorithm::Fletcher4,
        [0x0000003c72ba8315, 0x00000faa391d12b6, 0x0002a502774c2213, 0x0055c2972159082e],
        [0x0000003d5c0b4dc9, 0x00002e4ca7e29ce1, 0x00123499793995e5, 0x04f39dd1b1cd535a],
    ),
    (
        Algorithm::Sha256,
        [0x9cc5f1cb1e6c498a, 0x219c7dac9fe0ff29, 0x844fd685c183e45b, 0x2ba4b17089f83534],
        [0x91b5d8ad555d771b, 0xa1fdd271dd9f131f, 0x1716503f5ecf8a4b, 0x7dbcbbcd2563b6a6],
    ),
    (
        Algorithm::Sha512,
        [0x4e3b77cb45aeb08c, 0xc92be6ce6085cc2b, 0x0f1c56b265a4b8ff, 0xadc8d25378ef6190],
        [0x5fd5a3f92c7b3217, 0xc3feeb2d0790a46b, 0xd1cdd049654996e3, 0x411b4f3f7d17f1e5],
    ),
    (
        Algorithm::Skein,
        [0x39db369f33b0706c, 0x04f1a57f24ed3e32, 0x7e9c959e1487fd1f, 0x3a0f64341236e28a],
        [0x57d4a11eeed5f346, 0x6c4a4f3857b11720, 0xcb9792ac3e4bbd0b, 0xd753a6f9cf486740],
    ),
    (
        Algorithm::EdonR,
        [0x973f53f6300776af, 0x8c44fe3c72543722, 0x36c01a7009f7f603, 0x1010cf1013cbc397],
        [0x63248c858b6d9663, 0x43b4213658667fdb, 0xda0b6d99cc6df16c, 0x243ac015b41d366b],
    ),
    (
        Algorithm::Blake3,
        [0xbb531f2e74f38c0c, 0x09c643930441e437, 0x023ad575cf34cd1b, 0x764b179cb95e43ae],
        [0x2817469b63fa32d0, 0x888201b4ca280234, 0x5731f19d86d8d488, 0xeee9acc13c7e2306],
    ),
];

#[test]
fn blocks_of_a_real_pool_match_their_pointers() {
    let salt = Salted::new(&SALT);
    for (algorithm, b512, b513) in POINTERS {
        assert_eq!(checksum(algorithm, B512, Order::Little, Some(&salt)), b512, "{algorithm:?}");
        assert_eq!(checksum(algorithm, B513, Order::Little, Some(&salt)), b513, "{algorithm:?}");
    }
}

#[test]
fn a_hasher_fed_in_pieces_gives_the_same() {
    let salt = Salted::new(&SALT);
    for (algorithm, _, whole) in POINTERS {
        for cut in [0, 16, 496, 512, 1024] {
            let mut hasher = Hasher::new(algorithm, Order::Little, Some(&salt));
            hasher.update(&B513[..cut]);
            hasher.update(&B513[cut..]);
            assert_eq!(hasher.finish(), whole, "{algorithm:?} cut at {cut}");
        }
    }
}

/// No blocks from a big-endian host are available: apply OpenZFS's rules for the opposite byte
/// order to these blocks.
#[test]
fn order_of_the_writer_turns_words_as_openzfs_does() {
    let salt = Salted::new(&SALT);
    for (algorithm, little, _) in POINTERS {
        let big = checksum(algorithm, B512, Order::Big, Some(&salt));
        match algorithm {
            Algorithm::Fletcher2 | Algorithm::Fletcher4 => {
                // The sums of words read in the other byte order are those of the block with each
                // word swapped.
                let step = if algorithm == Algorithm::Fletcher2 { 8 } else { 4 };
                let turned: Vec<u8> = B512.chunks(step).flat_map(|word| word.iter().rev().copied()).collect();
                assert_eq!(big, checksum(algorithm, &turned, Order::Little, None));
            }
            Algorithm::Sha256 => assert_eq!(big, little),
            _ => assert_eq!(big, little.map(u64::swap_bytes)),
        }
    }
}

#[test]
fn sha512_is_the_truncated_kind_of_fips_180_4() {
    let words = checksum(Algorithm::Sha512, b"abc", Order::Big, None);
    assert_eq!(words, [0x53048e2681941ef9, 0x9b2e29b76b4c7dab, 0xe4c2d0c634fc6d46, 0xe0e2f13107e7af23]);
}

#[test]
fn truncation_next_to_a_mac_folds_only_weak_checksums() {
    let words = [1, 2, 4, 8];
    assert_eq!(truncate_for_mac(Algorithm::Fletcher4, words), [5, 10]);
    assert_eq!(truncate_for_mac(Algorithm::EdonR, words), [5, 10]);
    assert_eq!(truncate_for_mac(Algorithm::Sha256, words), [1, 2]);
}

#[test]
fn uberblock_gang_header_and_log_block_of_real_pools_verify() {
    use embedded::{Kind, verify};
    let log = [0x03ffb04c6f919f29, 0xd6a713b6e7f78d84, 0x4f, 0x114c1];
    let cases: [(Kind, &[u8], [u64; 4]); 3] = [
        (Kind::Label, include_bytes!("../../testdata/checksum/uberblock.bin"), [0x32400, 0, 0, 0]),
        (Kind::GangHeader, include_bytes!("../../testdata/checksum/gang-header.bin"), [0, 0x12a00, 9, 0]),
        (Kind::Zilog2, include_bytes!("../../testdata/checksum/log-block.bin"), log),
    ];
    for (kind, bytes, verifier) in cases {
        assert_eq!(verify(kind, bytes, verifier, false).unwrap().order, Order::Little, "{kind:?}");
        let mut resealed = bytes.to_vec();
        embedded::seal(kind, &mut resealed, verifier, Order::Little, false).unwrap();
        assert_eq!(resealed, bytes, "{kind:?} sealed by us");
    }
}

#[test]
fn missing_salt_matches_a_salt_of_zeros() {
    let zeros = Salted::new(&[0; 32]);
    for algorithm in [Algorithm::Skein, Algorithm::EdonR, Algorithm::Blake3] {
        assert_eq!(
            checksum(algorithm, B512, Order::Little, None),
            checksum(algorithm, B512, Order::Little, Some(&zeros))
        );
    }
}

#[test]
fn sha256_of_abc_is_fips_180_4s() {
    let digest: [u8; 32] = sha2::Sha256::digest(b"abc").into();
    let words = checksum(Algorithm::Sha256, b"abc", Order::Little, None);
    assert_eq!(Order::Big.word_bytes(words), digest);
    assert_eq!(words[0], 0xba7816bf8f01cfea);
}

proptest! {
    /// The salted states of a pool are created once and cloned for many concurrent hashes: none may
    /// affect another.
    #[test]
    fn a_pool_s_salt_gives_what_a_fresh_one_gives_however_many_hashes_were_dropped(
        salt: [u8; 32],
        blocks in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..700), any::<prop::sample::Index>()), 1..10),
    ) {
        let kept = Salted::new(&salt);
        let algorithms = [Algorithm::Skein, Algorithm::EdonR, Algorithm::Blake3, Algorithm::Sha256, Algorithm::Sha512];
        let (mut waiting, mut begun) = (Vec::new(), 0);
        for (data, at) in &blocks {
            for algorithm in algorithms {
                let mut hash = Hasher::new(algorithm, Order::Little, Some(&kept));
                hash.update(&data[..at.index(data.len() + 1)]);
                // Every third hash is dropped half done; the others are finished last.
                begun += 1;
                if begun % 3 != 0 {
                    waiting.push((hash, algorithm, data, at));
                }
                let fresh = checksum(algorithm, data, Order::Little, Some(&Salted::new(&salt)));
                prop_assert_eq!(checksum(algorithm, data, Order::Little, Some(&kept)), fresh);
            }
        }
        for (mut hash, algorithm, data, at) in waiting {
            hash.update(&data[at.index(data.len() + 1)..]);
            prop_assert_eq!(hash.finish(), checksum(algorithm, data, Order::Little, Some(&Salted::new(&salt))));
        }
    }

    /// Every implementation, in both byte orders, at every length that is a multiple of 4, at any
    /// alignment.
    #[test]
    fn fletcher4_twins_agree(data in prop::collection::vec(any::<u8>(), 0..3000), offset in 0..64_usize, words in prop::array::uniform4(any::<u64>())) {
        let data = &data[offset.min(data.len())..];
        let data = &data[..data.len() / 4 * 4];
        for order in [Order::Little, Order::Big] {
            for twin in fletcher4::twins() {
                let bulk = &data[..data.len() / twin.step_bytes * twin.step_bytes];
                prop_assert_eq!((twin.sum)(bulk, order), fletcher4::scalar(bulk, order, [0; 4]), "{}", twin.name);
            }
            let mut state = fletcher4::Fletcher4::resume(order, words);
            state.update(data);
            prop_assert_eq!(state.words(), fletcher4::scalar(data, order, words));
        }
    }

    #[test]
    fn fletcher4_of_pieces_is_that_of_the_whole(data in prop::collection::vec(any::<u8>(), 0..5000), cut in 0..1250_usize) {
        let cut = (cut * 4).min(data.len());
        let mut state = fletcher4::Fletcher4::new(Order::Little);
        state.update(&data[..cut]);
        state.update(&data[cut..]);
        prop_assert_eq!(state.words(), fletcher4::scalar(&data, Order::Little, [0; 4]));
    }

    #[test]
    fn no_input_makes_a_checksum_panic(data in prop::collection::vec(any::<u8>(), 0..700)) {
        for (algorithm, ..) in POINTERS {
            checksum(algorithm, &data, Order::Big, None);
        }
    }
}

/// All words at their maximum: the widest sums of the largest block wrap in the same places.
#[test]
fn fletcher4_twins_agree_where_sums_wrap() {
    let data = vec![0xff; 16 << 20];
    let expected = fletcher4::scalar(&data, Order::Little, [0; 4]);
    for twin in fletcher4::twins() {
        assert_eq!((twin.sum)(&data, Order::Little), expected, "{}", twin.name);
    }
}
