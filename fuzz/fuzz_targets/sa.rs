//! System attributes: any header, any layout.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::sa::{Registered, SaHeader};

fuzz_target!(|data: &[u8]| {
    let Some((&[count], data)) = data.split_first_chunk() else { return };
    let Some((layout, bytes)) = data.split_at_checked(usize::from(count) * 2) else { return };
    let layout: Vec<(u16, u16)> = layout.chunks_exact(2).map(|b| (u16::from(b[0]), u16::from(b[1]))).collect();
    if let Ok(Some(header)) = SaHeader::parse(bytes)
        && let Ok(ranges) = header.split(bytes, &layout)
    {
        assert!(ranges.iter().all(|(_, range)| bytes.get(range.clone()).is_some()));
    }
    if let Some(word) = bytes.first_chunk() {
        let value = u64::from_le_bytes(*word);
        if let Ok(registered) = Registered::unpack(value) {
            assert_eq!(registered.pack(), value & 0xff_ffff_ffff);
        }
    }
});
