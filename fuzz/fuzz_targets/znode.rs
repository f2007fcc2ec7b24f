//! Tables of identity domains, times, directory entries: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::Endian;
use ondisk::znode;

fuzz_target!(|data: &[u8]| {
    let _ = znode::domains(data);
    for endian in [Endian::Little, Endian::Big] {
        if let Some((_, nanoseconds)) = znode::time(data, endian) {
            assert!(nanoseconds < 1_000_000_000);
        }
    }
    if let Some(word) = data.first_chunk() {
        let value = znode::DirEntryValue::unpack(u64::from_le_bytes(*word));
        assert!(value.object < 1 << 48 && value.kind < 16);
    }
});
