//! A pool's statistics, as shown by `zpool list` and the read-only properties.
//!
//! Plain data, filled from an open pool and printed by [`crate::property`]. All sizes are bytes.

/// Space and ratios of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStats {
    /// Allocatable bytes of all normal and special devices, including parity.
    pub size_bytes: u64,
    /// Allocated bytes, including parity.
    pub allocated_bytes: u64,
    /// Free bytes, including parity.
    pub free_bytes: u64,
    /// Bytes by which devices have grown that the pool does not use yet.
    pub expandsize_bytes: u64,
    /// Fragmentation of the free space, 0 to 100; `None` if a space map has no histogram.
    pub fragmentation_percent: Option<u64>,
    /// Bytes that only the checkpoint still holds; 0 without a checkpoint.
    pub checkpoint_bytes: u64,
    /// Bytes of destroyed datasets that are still to be freed.
    pub freeing_bytes: u64,
    /// Bytes that could not be freed because of damage.
    pub leaked_bytes: u64,
    /// Ratio of referenced to allocated bytes of deduplicated blocks, in hundredths: 100 without
    /// any.
    pub dedup_ratio: u64,
    /// Bytes that the dedup tables take on disk.
    pub dedup_table_bytes: u64,
    /// Bytes that cloned blocks take.
    pub clone_used_bytes: u64,
    /// Bytes saved by cloning.
    pub clone_saved_bytes: u64,
    /// (used + saved) / used of cloned blocks, in hundredths: 100 without any.
    pub clone_ratio: u64,
    /// Last txg that a completed scrub covered.
    pub last_scrubbed_txg: u64,
}

impl Default for PoolStats {
    fn default() -> Self {
        Self {
            size_bytes: 0,
            allocated_bytes: 0,
            free_bytes: 0,
            expandsize_bytes: 0,
            fragmentation_percent: None,
            checkpoint_bytes: 0,
            freeing_bytes: 0,
            leaked_bytes: 0,
            dedup_ratio: 100,
            dedup_table_bytes: 0,
            clone_used_bytes: 0,
            clone_saved_bytes: 0,
            clone_ratio: 100,
            last_scrubbed_txg: 0,
        }
    }
}

impl PoolStats {
    /// Allocated share of the size, in percent.
    pub fn capacity_percent(&self) -> u64 {
        let percent = u128::from(self.allocated_bytes) * 100 / u128::from(self.size_bytes.max(1));
        u64::try_from(percent).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_of_an_empty_or_huge_pool_is_defined() {
        assert_eq!(PoolStats::default().capacity_percent(), 0);
        let full = PoolStats { size_bytes: u64::MAX, allocated_bytes: u64::MAX, ..PoolStats::default() };
        assert_eq!(full.capacity_percent(), 100);
    }
}
