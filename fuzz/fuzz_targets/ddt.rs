//! Dedup tables: keys, values, logs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{Endian, ddt};

fuzz_target!(|data: &[u8]| {
    if let Ok(value) = ddt::PackedValue::parse(data) {
        let _ = ddt::Phys::parse_flat(value.payload, value.endian);
        let _ = ddt::Phys::parse_traditional(value.payload, value.endian);
    }
    if let Ok(key) = ddt::Key::parse(data, Endian::Little) {
        assert_eq!(ddt::Key::from_words(&key.to_words()), Ok(key));
        let _ = (key.lsize_bytes(), key.psize_bytes(), key.compression());
    }
    let _ = ddt::LogHeader::parse(data, Endian::Big);
    let _ = ddt::log_entries(data, Endian::Little).count();
});
