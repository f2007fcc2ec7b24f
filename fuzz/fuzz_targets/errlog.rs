//! Names in error logs: an accepted name prints to an equivalent one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::errlog::{ErrorBookmark, HeadError, parse_head};

fuzz_target!(|data: &[u8]| {
    if let Ok(mark) = ErrorBookmark::parse(data) {
        assert_eq!(ErrorBookmark::parse(mark.to_string().as_bytes()), Ok(mark));
    }
    if let Ok(error) = HeadError::parse(data) {
        assert_eq!(HeadError::parse(error.to_string().as_bytes()), Ok(error));
    }
    let _ = parse_head(data);
});
