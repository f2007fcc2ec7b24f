//! Packed nvlists: an accepted list packs and parses again to the same number of pairs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::nvlist::Packed;

fuzz_target!(|data: &[u8]| {
    let Ok(packed) = Packed::parse(data) else { return };
    let again = Packed::parse(&packed.list.pack(packed.encoding, packed.endian)).expect("we packed it");
    assert_eq!(again.list.pairs.len(), packed.list.pairs.len());
    let _ = packed.list.to_string();
});
