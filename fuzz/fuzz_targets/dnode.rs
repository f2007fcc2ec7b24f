//! Dnodes and object sets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{Dnode, Endian, Objset, ZilHeader};

fuzz_target!(|data: &[u8]| {
    for endian in [Endian::Little, Endian::Big] {
        if let Ok(dnode) = Dnode::parse(data, endian) {
            assert!(dnode.bonus.len() <= data.len() && (1..=32).contains(&dnode.slots));
        }
        let _ = (Objset::parse(data, endian), ZilHeader::parse(data, endian));
    }
});
