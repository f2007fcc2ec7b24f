//! The metaslab size of a new top-level device.
//!
//! About 200 metaslabs, but not below 512 MiB each unless there would be fewer than 16, and not
//! above 16 GiB each unless there would be more than 2^17. Facts: `vdev_metaslab_set_size`
//! (module/zfs/vdev.c).

/// A metaslab holds at least one block of the largest size.
pub const METASLAB_SHIFT_MIN: u8 = 24;
const SHIFT_DEFAULT: u8 = 29;
const SHIFT_MAX: u8 = 34;
const COUNT_MIN: u64 = 16;
const COUNT_DEFAULT: u64 = 200;
const COUNT_MAX: u64 = 1 << 17;

/// log2 of the metaslab size in bytes, for a new device of `asize_bytes`.
pub fn metaslab_shift(asize_bytes: u64) -> u8 {
    // One more than the logarithm, so that there are at most `count` metaslabs.
    let for_count = |count: u64| (64 - (asize_bytes / count).leading_zeros()) as u8;
    let shift = match asize_bytes >> SHIFT_DEFAULT {
        n if n < COUNT_MIN => for_count(COUNT_MIN),
        n if n > COUNT_DEFAULT => for_count(COUNT_DEFAULT),
        _ => SHIFT_DEFAULT,
    };
    if shift > SHIFT_MAX {
        return if asize_bytes >> SHIFT_MAX > COUNT_MAX { for_count(COUNT_MAX) } else { SHIFT_MAX };
    }
    shift.max(METASLAB_SHIFT_MIN)
}

/// Number of whole metaslabs. The rest of the device is not used.
pub fn metaslab_count(asize_bytes: u64, shift: u8) -> u64 {
    asize_bytes.checked_shr(u32::from(shift)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metaslabs_are_as_large_as_openzfs_makes_them() {
        // Size and shift: from pools created by the kernel module, and from the table at
        // vdev_metaslab_set_size.
        for (asize, shift) in [
            (64 << 20, 24),
            (251_658_240, 24),
            (1 << 30, 27),
            (8 << 30, 29),
            (100 << 30, 29),
            (200 << 30, 31),
            (3 << 40, 34),
            (1 << 50, 34),
            (4 << 50, 36),
        ] {
            assert_eq!(metaslab_shift(asize), shift, "{asize}");
        }
        assert_eq!(metaslab_count(251_658_240, 24), 15);
    }
}
