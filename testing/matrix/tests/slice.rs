//! A slice of the matrix for daily use: each compression once, other properties random.

use matrix::{Judges, run, slice};
use std::time::{Duration, Instant};

/// A slice that takes longer on a busy machine ends here; other seeds cover the rest. Gzip comes
/// first.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn data_written_with_any_compression_and_property_is_read_back() {
    let seed = match std::env::var("MATRIX_SEED") {
        Ok(seed) => seed.parse().expect("MATRIX_SEED is a number"),
        Err(_) => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs(),
    };
    // Shown when the test fails.
    println!("MATRIX_SEED={seed} runs this again");
    let begun = Instant::now();
    let mut datasets = 0;
    for group in slice(seed) {
        let judges = Judges { zdb: datasets == 0, zdb_reads: 10, keep: None };
        datasets += run(&group, &judges).unwrap_or_else(|e| panic!("MATRIX_SEED={seed}: {e:?}")).datasets;
        if begun.elapsed() > PATIENCE {
            break;
        }
    }
    println!("{datasets} datasets in {:.1} s", begun.elapsed().as_secs_f64());
}
