//! Block pointer objects: headers of all sizes, entries, subobjects.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{Endian, bpobj};

fuzz_target!(|data: &[u8]| {
    if let Ok(header) = bpobj::Header::parse(data, Endian::Little) {
        let bytes = header.to_bytes(Endian::Little);
        assert_eq!(bytes, data[..bytes.len()]);
    }
    for bp in bpobj::entries(data, Endian::Big) {
        let _ = (bpobj::is_freed(&bp), bp.check(), bp.asize_bytes());
    }
    let _ = bpobj::subobjects(data, Endian::Little).count();
});
