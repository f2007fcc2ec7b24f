//! Gang headers of any size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::gang::{Header, verifier};

fuzz_target!(|data: &[u8]| {
    let Ok(header) = Header::parse(data) else { return };
    assert_eq!(Header::parse(&header.to_bytes()).expect("we wrote it"), header);
    let _ = header.used().map(verifier).count();
});
