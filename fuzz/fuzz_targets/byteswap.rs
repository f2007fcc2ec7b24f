//! Contents of every type that a big-endian host wrote: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::ObjectType;
use ondisk::byteswap::to_little;

fuzz_target!(|data: &[u8]| {
    let Some((&[of], data)) = data.split_first_chunk() else { return };
    let size = if data.is_empty() { 0 } else { 1 << data.len().ilog2() };
    let mut bytes = data[..size].to_vec();
    let _ = to_little(ObjectType(of), &mut bytes);
    assert_eq!(bytes.len(), size);
});
