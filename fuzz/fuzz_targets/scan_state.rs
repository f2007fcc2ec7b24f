//! State of scrub, removal, rebuild and checkpoint, stored as words in the MOS.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::{Uberblock, removal, scan};

fuzz_target!(|data: &[u8]| {
    let words: Vec<u64> = data.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8"))).collect();
    if let Ok(scan) = scan::Scan::from_words(&words) {
        assert_eq!(scan.to_words()[..], words[..scan::Scan::WORDS]);
    }
    if let Ok(removing) = removal::Removing::from_words(&words) {
        assert_eq!(removing.to_words()[..], words[..7]);
    }
    let _ = (scan::ErrorScrub::from_words(&words), removal::Condensing::from_words(&words));
    let _ = (removal::Rebuild::from_words(&words), Uberblock::from_words(&words));
});
