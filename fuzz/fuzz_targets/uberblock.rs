//! Uberblocks: an accepted one is written and parses again to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ondisk::Uberblock;

fuzz_target!(|data: &[u8]| {
    let Ok(ub) = Uberblock::parse(data) else { return };
    assert_eq!(Uberblock::parse(&ub.to_bytes()).expect("we wrote it"), ub);
    let _ = (ub.compare(&ub), ub.reflow_state(), ub.root.check());
});
