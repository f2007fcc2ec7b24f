//! GUID partition tables: `zpool create` on a whole disk writes one, with the pool in partition 1.
//!
//! Read from sector 1, with sectors of 512 bytes or 4 KiB. Checksums are not verified, because a
//! pool's own labels identify its partition. Source: UEFI specification 2.10, chapter 5.

use super::Device;

/// A partition in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition {
    /// Partition number, counted from 1.
    pub number: u32,
    /// Offset on the disk, in bytes.
    pub start_bytes: u64,
    pub size_bytes: u64,
}

/// Entries examined at most, whatever the header says: no tool creates more than 128.
const ENTRIES_MAX: u32 = 256;

/// The partitions of `device`; empty if it has no table. Skips partitions that end beyond the
/// device or before they start.
pub fn partitions(device: &dyn Device) -> Vec<Partition> {
    [512, 4096].into_iter().find_map(|sector| table(device, sector)).unwrap_or_default()
}

fn table(device: &dyn Device, sector: u64) -> Option<Vec<Partition>> {
    let u32_at = |b: &[u8], at: usize| u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |b: &[u8], at: usize| u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"));
    let mut header = [0; 92];
    device.read_at(sector, &mut header).ok()?;
    if &header[..8] != b"EFI PART" {
        return None;
    }
    let (first, count, size) = (u64_at(&header, 72), u32_at(&header, 80).min(ENTRIES_MAX), u32_at(&header, 84));
    if !(128..=4096).contains(&size) {
        return None;
    }
    let mut found = Vec::new();
    for i in 0..count {
        let mut entry = [0; 128];
        let at = first.checked_mul(sector)?.checked_add(u64::from(i) * u64::from(size))?;
        if device.read_at(at, &mut entry).is_err() {
            break;
        }
        let (start, end) = (u64_at(&entry, 32), u64_at(&entry, 40));
        if entry[..16] == [0; 16] || end < start {
            continue;
        }
        let (Some(start_bytes), Some(end_bytes)) =
            (start.checked_mul(sector), end.checked_add(1).and_then(|e| e.checked_mul(sector)))
        else {
            continue;
        };
        if end_bytes <= device.size_bytes() {
            found.push(Partition { number: i + 1, start_bytes, size_bytes: end_bytes - start_bytes });
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::MemoryDevice;
    use super::*;

    fn disk(first: u64, last: u64) -> MemoryDevice {
        let mut b = vec![0u8; 1 << 20];
        b[512..520].copy_from_slice(b"EFI PART");
        b[512 + 72..512 + 80].copy_from_slice(&2u64.to_le_bytes());
        b[512 + 80..512 + 84].copy_from_slice(&128u32.to_le_bytes());
        b[512 + 84..512 + 88].copy_from_slice(&128u32.to_le_bytes());
        b[1024] = 1;
        b[1024 + 32..1024 + 40].copy_from_slice(&first.to_le_bytes());
        b[1024 + 40..1024 + 48].copy_from_slice(&last.to_le_bytes());
        MemoryDevice::new("disk", b)
    }

    #[test]
    fn a_partition_is_found_at_its_position_in_the_table() {
        let found = partitions(&disk(64, 1000));
        assert_eq!(found, [Partition { number: 1, start_bytes: 64 * 512, size_bytes: 937 * 512 }]);
    }

    #[test]
    fn a_partition_beyond_the_disk_or_backwards_is_left_out() {
        assert!(partitions(&disk(64, 1 << 40)).is_empty());
        assert!(partitions(&disk(64, 10)).is_empty());
        assert!(partitions(&disk(u64::MAX - 1, u64::MAX)).is_empty());
    }
}
