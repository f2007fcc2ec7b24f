//! Parameters that Linux reports for a block device's queue: sector sizes, rotational or not,
//! discard limits.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The value of queue parameter `name` (`logical_block_size`, `discard_max_bytes` …). `None` if it
/// is not reported or `meta` is not a block device.
pub fn number_of(meta: &Metadata, name: &str) -> Option<u64> {
    if !meta.file_type().is_block_device() {
        return None;
    }
    let number = meta.rdev();
    let (major, minor) = (major_of(number), minor_of(number));
    // A partition has no queue of its own; it uses that of its disk.
    ["queue", "../queue"].iter().find_map(|queue| {
        let path = format!("/sys/dev/block/{major}:{minor}/{queue}/{name}");
        std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    })
}

/// As [`number_of`], for the device at `path`.
pub fn number_at(path: &Path, name: &str) -> Option<u64> {
    number_of(&std::fs::metadata(path).ok()?, name)
}

/// Major number of a device number, in Linux's encoding.
fn major_of(number: u64) -> u64 {
    ((number >> 32) & 0xffff_f000) | ((number >> 8) & 0xfff)
}

fn minor_of(number: u64) -> u64 {
    ((number >> 12) & 0xffff_ff00) | (number & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_apart_as_linux_packs_them() {
        // /dev/nvme0n1p2, and a device mapper device with a large minor number.
        assert_eq!((major_of(0x10302), minor_of(0x10302)), (259, 2));
        let large = (0x12_u64 << 20) | (253 << 8) | 0x34;
        assert_eq!((major_of(large), minor_of(large)), (253, 0x1234));
    }
}
