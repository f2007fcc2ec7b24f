//! Headers and log blocks of cache devices (L2ARC).
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::l2arc;

fuzz_target!(|data: &[u8]| {
    let _ = l2arc::Header::parse(data);
    if let Ok(block) = l2arc::LogBlock::parse(data) {
        let _ = block.entries(u64::MAX).count();
    }
});
