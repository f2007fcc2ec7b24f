//! Test helpers: golden bytes, and a check that parsers do not panic.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Bytes (or, in `.txt` files, words) written by OpenZFS; `testdata/README.md` lists their origin.
macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/", $name)).as_slice()
    };
}
pub(crate) use golden;

/// Feeds `parse` random bytes, prefixes of `real`, and `real` with some bytes overwritten. It may
/// reject them but must not panic.
pub(crate) fn never_panics(real: &[u8], parse: impl Fn(&[u8])) {
    for end in (0..=real.len()).step_by((real.len() / 256).max(1)) {
        parse(&real[..end]);
    }
    let interesting = prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(0x7f), Just(0x80)];
    let overwrites = proptest::collection::vec((any::<prop::sample::Index>(), interesting), 1..8);
    let inputs = (proptest::collection::vec(any::<u8>(), 0..4096), overwrites);
    let mut runner = TestRunner::new(Config { cases: 512, failure_persistence: None, ..Config::default() });
    runner
        .run(&inputs, |(random, overwrites)| {
            parse(&random);
            let mut mutated = real.to_vec();
            for (index, value) in overwrites {
                if !mutated.is_empty() {
                    let at = index.index(mutated.len());
                    mutated[at] = value;
                }
            }
            parse(&mutated);
            Ok(())
        })
        .unwrap();
}

/// Little-endian words, like the value of a ZAP entry.
pub(crate) fn golden_words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|b| crate::Endian::Little.u64(b)).collect()
}
