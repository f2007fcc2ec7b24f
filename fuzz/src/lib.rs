//! What several fuzz targets share.

use transform::compress::{self, Algorithm, zstd::Level};

/// The first 3 bytes choose the block's size, the rest is the stream.
///
/// Must not panic, and must leave only zeros after an error. Decompressed data must survive a round
/// trip through our compressor.
pub fn decompress(algorithm: Algorithm, data: &[u8]) {
    let Some((&[b0, b1, b2], stream)) = data.split_first_chunk() else { return };
    let length = u32::from_le_bytes([b0, b1, b2, 0]) as usize % (256 << 10);
    let mut block = vec![0xa5; length];
    if compress::decompress(algorithm, stream, &mut block).is_err() {
        assert!(block.iter().all(|byte| *byte == 0), "an error left bytes behind");
        return;
    }
    let again = compress::compress(algorithm, Level::DEFAULT, &block, 2 * length + 1024).expect("there is room");
    let mut back = vec![0xa5; length];
    compress::decompress(algorithm, &again, &mut back).expect("we wrote it");
    assert_eq!(back, block);
}
