//! Space maps: accepted entries are written back to the same words.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{
    Endian,
    spacemap::{Header, Item, items},
};

fuzz_target!(|data: &[u8]| {
    let _ = Header::parse(data, Endian::Little);
    let mut out = Vec::new();
    for item in items(data, Endian::Little) {
        let Ok(item) = item else { return };
        if let Item::Range(entry) = item {
            let _ = entry.range_bytes(9, 0);
        }
        item.write(&mut out, Endian::Little, usize::MAX);
    }
    assert_eq!(items(&out, Endian::Little).count(), items(data, Endian::Little).count());
});
