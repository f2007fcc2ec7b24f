//! Indirect mappings and births of removed vdevs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{Endian, indirect};

fuzz_target!(|data: &[u8]| {
    let _ = indirect::MappingHeader::parse(data, Endian::Little);
    for entry in indirect::mapping_entries(data, Endian::Little) {
        assert_eq!(indirect::MappingEntry::parse(&entry.to_bytes(Endian::Big), Endian::Big), Ok(entry));
    }
    let _ = indirect::birth_count(data, Endian::Little);
    let _ = indirect::birth_entries(data, Endian::Big).count();
    let _ = indirect::obsolete_counts(data, Endian::Big).count();
});
