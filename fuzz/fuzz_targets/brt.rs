//! Block reference tables.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{Endian, brt};

fuzz_target!(|data: &[u8]| {
    if let Ok(header) = brt::Header::parse(data, Endian::Little) {
        assert_eq!(header.to_bytes(Endian::Little), data[..brt::Header::SIZE_BYTES]);
    }
    let _ = brt::counts(data, Endian::Big).count();
    let ints: Vec<u64> = data.iter().map(|b| u64::from(*b)).collect();
    let _ = (brt::reference_count(1, &ints, Endian::Little), brt::reference_count(8, &ints, Endian::Big));
});
