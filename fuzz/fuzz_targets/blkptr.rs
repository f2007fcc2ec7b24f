//! Block pointers of all kinds: any bytes give answers, and are written back unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{BlkPtr, Endian};

fuzz_target!(|data: &[u8]| {
    let Ok(bp) = BlkPtr::parse(data, Endian::Little) else { return };
    assert_eq!(bp.to_bytes(Endian::Little), data[..128]);
    let _ = (bp.check(), bp.embedded_payload(), bp.checksum_kind(), bp.compression(), bp.embedded_kind());
    let _ = (bp.dvas().count(), bp.lsize_bytes(), bp.psize_bytes(), bp.asize_bytes(), bp.fill());
    let _ = (bp.crypt_salt(), bp.crypt_iv(), bp.crypt_mac(), format!("{bp:?}"));
});
