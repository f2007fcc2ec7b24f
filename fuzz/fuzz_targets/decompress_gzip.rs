//! gzip: any bytes, for a block of any size up to 256 KiB. See `weir_fuzz::decompress`.
#![no_main]

use transform::compress::Algorithm;

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::decompress(Algorithm::Gzip(6), data));
