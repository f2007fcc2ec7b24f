//! Contents of every type that a big-endian host wrote: any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::byteswap::{Layout, to_little};
use ondisk::{Dnode, Endian, ObjectType};

fuzz_target!(|data: &[u8]| {
    let Some((&[of], data)) = data.split_first_chunk() else { return };
    let of = ObjectType(of);
    let size = if data.is_empty() { 0 } else { 1 << data.len().ilog2() };
    let mut bytes = data[..size].to_vec();
    let converted = to_little(of, &mut bytes);
    if converted.is_ok() && Layout::of(of) == Some(Layout::Dnodes) {
        // The first dnode is the same one.
        let before = Dnode::parse(&data[..size], Endian::Big).map(|d| (d.object_type, d.max_block_id, d.blkptrs));
        let after = Dnode::parse(&bytes, Endian::Little).map(|d| (d.object_type, d.max_block_id, d.blkptrs));
        assert_eq!(before.ok(), after.ok());
    }
});
