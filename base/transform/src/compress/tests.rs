//! Compares with blocks compressed by OpenZFS (testdata/README.md), and feeds the decoders
//! arbitrary bytes.

use proptest::prelude::*;
use rig::{noise, unhex_array};
use sha2::Digest;

use super::*;

const BLOCK_BYTES: usize = 128 << 10;
const TEXT: [u8; 32] = unhex_array("b86b7e764eff5d33953d00f8c416dcb06dc121069580629a699fe1052262d2a3");
const RANDOM: [u8; 32] = unhex_array("b28470e707fc823bb5c38655f74a4cf6280efb49e15c4c0550d13d3d1373a9dc");

/// Algorithm, its block on disk, and the SHA-256 of that part of the file (padded with zeros), as
/// read through OpenZFS.
const BLOCKS: [(Algorithm, &[u8], [u8; 32]); 6] = [
    (Algorithm::Lzjb, include_bytes!("../../testdata/compress/lzjb.bin"), TEXT),
    (Algorithm::Gzip(6), include_bytes!("../../testdata/compress/gzip.bin"), TEXT),
    (Algorithm::Zle, include_bytes!("../../testdata/compress/zle.bin"), RANDOM),
    (Algorithm::Lz4, include_bytes!("../../testdata/compress/lz4.bin"), TEXT),
    (Algorithm::Zstd, include_bytes!("../../testdata/compress/zstd.bin"), TEXT),
    (Algorithm::Zstd, include_bytes!("../../testdata/compress/zstd-fast.bin"), TEXT),
];

const ALL: [Algorithm; 5] = [Algorithm::Lzjb, Algorithm::Gzip(1), Algorithm::Zle, Algorithm::Lz4, Algorithm::Zstd];

fn sha256(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

#[test]
fn blocks_of_a_real_pool_decompress() {
    for (algorithm, src, expected) in BLOCKS {
        let mut dst = vec![0xa5; BLOCK_BYTES];
        decompress(algorithm, src, &mut dst).unwrap();
        assert_eq!(sha256(&dst), expected, "{algorithm:?}");
    }
}

#[test]
fn a_block_of_another_size_is_refused_and_leaves_zeros() {
    for (algorithm, src, _) in BLOCKS {
        let mut dst = vec![0xa5; BLOCK_BYTES + 512];
        assert!(decompress(algorithm, src, &mut dst).is_err(), "{algorithm:?} filled a larger block");
        assert!(dst.iter().all(|byte| *byte == 0), "{algorithm:?}");
        if algorithm != Algorithm::Lzjb {
            // LZJB streams have no end marker: a smaller block receives the beginning, as in
            // OpenZFS.
            let mut dst = vec![0xa5; BLOCK_BYTES - 512];
            assert!(decompress(algorithm, src, &mut dst).is_err() || algorithm == Algorithm::Zle);
        }
    }
}

#[test]
fn a_truncated_stream_is_refused_and_leaves_zeros() {
    for (algorithm, src, _) in BLOCKS {
        for length in [0, 1, 3, 4, 7, 8, 9, 100] {
            let mut dst = vec![0xa5; BLOCK_BYTES];
            let error = decompress(algorithm, &src[..length], &mut dst).unwrap_err();
            assert!(!error.to_string().is_empty());
            assert!(dst.iter().all(|byte| *byte == 0), "{algorithm:?} cut to {length}");
        }
    }
}

#[test]
fn zstd_header_of_old_big_endian_hosts_is_understood() {
    let (_, src, expected) = BLOCKS[4];
    let ours = zstd::Header::parse(src.first_chunk().unwrap());
    assert_eq!((ours.version, ours.level), (10405, zstd::Level::from_number(3)));
    let mut theirs = src.to_vec();
    theirs[4..8].rotate_left(1);
    assert_eq!(zstd::Header::parse(theirs.first_chunk().unwrap()), ours);
    let mut dst = vec![0; BLOCK_BYTES];
    decompress(Algorithm::Zstd, &theirs, &mut dst).unwrap();
    assert_eq!(sha256(&dst), expected);
    let fast = zstd::Header::parse(BLOCKS[5].1.first_chunk().unwrap());
    assert_eq!(fast.level.map(zstd::Level::level), Some(-10));
}

#[test]
fn zstd_levels_and_their_numbers_are_openzfs_s() {
    let known: Vec<u8> = (0..=255).filter(|number| zstd::Level::from_number(*number).is_some()).collect();
    assert_eq!(known, (1..=19).chain(103..=123).collect::<Vec<u8>>());
    for number in known {
        let level = zstd::Level::from_number(number).unwrap();
        assert_eq!(level.number(), number);
        assert_eq!(zstd::Level::from_level(level.level()), Some(level));
    }
    assert_eq!(zstd::Level::from_number(113).map(zstd::Level::level), Some(-20));
    assert_eq!(zstd::Level::from_number(123).map(zstd::Level::level), Some(-1000));
    assert_eq!(zstd::Level::from_level(0), None);
    assert_eq!(zstd::Level::from_level(-11), None);
}

#[test]
fn lzjb_match_before_the_block_or_onto_itself_is_refused() {
    let mut dst = [0xa5; 8];
    for item in [[0_u8, 0_u8], [0, 1]] {
        let error = decompress(Algorithm::Lzjb, &[1, item[0], item[1], 0, 0], &mut dst).unwrap_err();
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
    }
}

/// The text in the golden blocks.
fn block(which: usize) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    decompress(BLOCKS[which].0, BLOCKS[which].1, &mut block).unwrap();
    block
}

#[test]
fn lzjb_and_zle_write_the_very_bytes_of_openzfs() {
    for which in [0, 2] {
        let (algorithm, theirs, _) = BLOCKS[which];
        let ours = compress(algorithm, zstd::Level::DEFAULT, &block(which), BLOCK_BYTES / 8 * 7).unwrap();
        assert_eq!(ours, theirs[..ours.len()], "{algorithm:?}");
        assert!(theirs[ours.len()..].iter().all(|byte| *byte == 0), "{algorithm:?}: only padding is left");
    }
}

#[test]
fn text_comes_back_from_every_algorithm_and_level() {
    let text = block(0);
    let gzip = (1..=9).map(|level| (Algorithm::Gzip(level), zstd::Level::DEFAULT));
    let zstd = (0..=255).filter_map(zstd::Level::from_number).map(|level| (Algorithm::Zstd, level));
    let others = [Algorithm::Lzjb, Algorithm::Zle, Algorithm::Lz4].map(|algorithm| (algorithm, zstd::Level::DEFAULT));
    for (algorithm, level) in gzip.chain(zstd).chain(others) {
        assert_eq!(Algorithm::from_number(algorithm.number()), Some(algorithm));
        let mut small = compress(algorithm, level, &text, BLOCK_BYTES / 8 * 7).unwrap();
        if algorithm == Algorithm::Zstd {
            assert_eq!(zstd::Header::parse(small.first_chunk().unwrap()).level, Some(level));
        }
        // LZJB needs slightly more space than its result; zstd gives up where level 1 does not fit.
        let enough = small.len() + 17;
        assert!(algorithm == Algorithm::Zstd || compress(algorithm, level, &text, enough).is_some(), "{algorithm:?}");
        assert_eq!(compress(algorithm, level, &text, small.len() - 1), None, "{algorithm:?} {level:?}");
        small.resize(small.len().next_multiple_of(512), 0);
        let mut back = vec![0xa5; BLOCK_BYTES];
        decompress(algorithm, &small, &mut back).unwrap();
        assert!(back == text, "{algorithm:?} {level:?}");
    }
}

#[test]
fn random_bytes_are_left_as_they_are() {
    let noise = noise(1, BLOCK_BYTES);
    for algorithm in ALL {
        for limit in [0, 1, 7, 8, 20, BLOCK_BYTES / 8 * 7] {
            assert_eq!(compress(algorithm, zstd::Level::DEFAULT, &noise, limit), None, "{algorithm:?}");
        }
    }
}

proptest! {
    /// Runs of bytes from a small alphabet: zeros, short and overlapping matches.
    #[test]
    fn compressed_data_is_decompressed(runs in prop::collection::vec((0..3_u8, 1..300_usize), 0..60), fast in 1..11_i32) {
        let src: Vec<u8> = runs.iter().flat_map(|(byte, length)| std::iter::repeat_n(*byte, *length)).collect();
        for algorithm in ALL {
            let level = zstd::Level::from_level(-fast).unwrap();
            let Some(small) = compress(algorithm, level, &src, src.len() + 100) else { continue };
            let mut back = vec![0xa5; src.len()];
            decompress(algorithm, &small, &mut back).unwrap();
            prop_assert_eq!(&back, &src);
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(src in prop::collection::vec(any::<u8>(), 0..600), length in 0..5000_usize) {
        for algorithm in ALL {
            let mut dst = vec![0xa5; length];
            if decompress(algorithm, &src, &mut dst).is_err() {
                prop_assert!(dst.iter().all(|byte| *byte == 0));
            }
        }
    }

    /// Random bytes seldom get past the headers, so flip bits in valid streams.
    #[test]
    fn no_flipped_bits_make_a_decoder_panic(which in 0..BLOCKS.len(), bits in prop::collection::vec(any::<prop::sample::Index>(), 1..8)) {
        let (algorithm, src, _) = BLOCKS[which];
        let mut src = src.to_vec();
        for bit in bits {
            let bit = bit.index(src.len() * 8);
            src[bit / 8] ^= 1 << (bit % 8);
        }
        let mut dst = vec![0xa5; BLOCK_BYTES];
        if decompress(algorithm, &src, &mut dst).is_err() {
            prop_assert!(dst.iter().all(|byte| *byte == 0));
        }
    }
}
