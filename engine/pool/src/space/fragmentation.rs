//! Fragmentation of free space, in percent.

use ondisk::spacemap::HISTOGRAM_BUCKETS;

/// Fragmentation of a free segment of 512 << index bytes, in percent (zfs_frag_table).
const FRAGMENTATION: [u64; 21] = [100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 23, 17, 12, 7, 3, 1, 0];

/// Fragmentation of a metaslab in percent, from the histogram of its free segments; 0 for a
/// metaslab that was never used.
pub(super) fn metaslab_fragmentation(histogram: &[u64; HISTOGRAM_BUCKETS], shift: u8) -> u64 {
    let (mut weighted, mut total) = (0u128, 0u128);
    for (i, runs) in histogram.iter().enumerate() {
        let at = (usize::from(shift) - 9 + i).min(FRAGMENTATION.len() - 1);
        let space = u128::from(*runs) << (i + usize::from(shift));
        total += space;
        weighted += space * u128::from(FRAGMENTATION[at]);
    }
    weighted.checked_div(total).unwrap_or(0) as u64
}

/// Mean over the metaslabs of a device, weighted by their free space
/// (metaslab_group_fragmentation).
#[derive(Default)]
pub(super) struct Fragmentation {
    weighted: u128,
    free: u128,
    known: u64,
    all: u64,
}

impl Fragmentation {
    pub fn note(&mut self, percent: Option<u64>, free_units: u64) {
        self.all += 1;
        if let Some(p) = percent {
            self.weighted += u128::from(p) * u128::from(free_units);
            self.free += u128::from(free_units);
            self.known += 1;
        }
    }

    pub fn percent(&self) -> Option<u64> {
        let enough = self.known >= self.all.div_ceil(2);
        enough.then(|| self.weighted.checked_div(self.free))?.map(|p| p as u64)
    }
}
