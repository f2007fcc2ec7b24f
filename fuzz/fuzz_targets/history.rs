//! Pool history: ring buffer and records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{Endian, history};

fuzz_target!(|data: &[u8]| {
    let _ = history::records(data).count();
    if let Ok(header) = history::Header::parse(data, Endian::Little) {
        assert!(header.ranges().len() <= 3);
    }
});
