//! Devices that are to become part of a pool: how they are opened for writing, their sector sizes,
//! and what they contain already.
//!
//! Below: `host::device`, `block::label`. Above: administration.
//!
//! Invariants:
//!   * only [`clear`] writes

use crate::import::search::FoundDevice;
use errors::{Error, Refusal, Result};
use host::device::{Device, FileDevice};
use ondisk::label::MIN_DEVICE_BYTES;
use ondisk::pool_dir::config;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// log2 of the sector size of files, and of disks that report none.
const ASHIFT_MIN: u8 = 9;
/// Largest sector size, as log2, that is taken over from a disk by default. As OpenZFS.
const ASHIFT_AUTO_MAX: u8 = 14;

/// Kind of file at a device path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathKind {
    Disk,
    File,
    /// Anything else, such as a directory or a character device.
    Other,
}

/// Kind of the file at `path`.
pub fn kind(path: &Path) -> std::io::Result<PathKind> {
    let kind = host::device::file_type(path)?;
    Ok(match (kind.is_block_device(), kind.is_file()) {
        (true, _) => PathKind::Disk,
        (_, true) => PathKind::File,
        _ => PathKind::Other,
    })
}

/// Opens a device for writing, exclusively. A device that is in use is refused with
/// [`Refusal::Busy`].
pub fn open_for_writing(path: &Path) -> Result<Arc<dyn Device>> {
    let name = || path.display().to_string();
    match FileDevice::open_for_writing(path) {
        Ok(device) => Ok(Arc::new(device)),
        Err(e) if is_busy(&e) => Err(Refusal::Busy.at(name())),
        Err(e) => Err(Error::io(name(), e)),
    }
}

fn is_busy(e: &std::io::Error) -> bool {
    matches!(e.kind(), std::io::ErrorKind::ResourceBusy | std::io::ErrorKind::WouldBlock)
}

/// Whether a device of `size_bytes` is too small for a pool, log and cache devices included.
pub fn is_too_small(size_bytes: u64) -> bool {
    size_bytes < MIN_DEVICE_BYTES
}

/// Sets the duration from which an operation of a device counts as slow, at least one millisecond:
/// one value for all pools of the process.
pub fn set_slow(after: Duration) {
    block::vdev::set_slow(after);
}

/// log2 of the preferred write unit of a device: a disk's physical sectors; 9 for files.
pub fn ashift(path: &Path) -> u8 {
    let bytes = of_queue(path, "physical_block_size");
    let shift = bytes.filter(|b| b.is_power_of_two()).map_or(ASHIFT_MIN, |b| b.trailing_zeros() as u8);
    shift.clamp(ASHIFT_MIN, ASHIFT_AUTO_MAX)
}

/// log2 of the smallest write unit of a device: a disk's logical sectors; 9 for files.
pub fn sector_shift(path: &Path) -> u8 {
    let bytes = of_queue(path, "logical_block_size").filter(|b| b.is_power_of_two());
    bytes.map_or(ASHIFT_MIN, |b| b.trailing_zeros() as u8)
}

/// Whether a disk has moving parts; `None` if the disk does not report it, or for a file.
pub fn is_rotating(path: &Path) -> Option<bool> {
    of_queue(path, "rotational").map(|n| n != 0)
}

/// A number from the queue attributes that Linux exposes for a block device.
fn of_queue(path: &Path, name: &str) -> Option<u64> {
    host::device::queue::number_at(path, name)
}

/// The label of the device at `path`, which may belong to a pool, a spare or a cache device. `None`
/// if there is none.
pub fn labelled(path: &Path) -> Option<FoundDevice> {
    let device: Arc<dyn Device> = Arc::new(FileDevice::open(path).ok()?);
    let labels = block::label::read(device.as_ref(), false);
    let newest = crate::import::search::newest(&labels)?;
    let guid = newest.get_u64(config::GUID)?;
    Some(FoundDevice { device, labels, guid, config: newest })
}

/// Removes the labels of the device at `path`. Returns the number of labels removed.
pub fn clear(path: &Path) -> Result<usize> {
    let device = open_for_writing(path)?;
    block::label::wipe(device.as_ref()).map_err(|e| Error::io(path.display().to_string(), e))
}

/// Signatures that other systems write at the beginning of a disk: offset in bytes, signature,
/// name.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (1080, &[0x53, 0xef], "ext2"),
    (0, b"XFSB", "xfs"),
    (0x1_0040, b"_BHRfS_M", "btrfs"),
    (3, b"NTFS    ", "ntfs"),
    (54, b"FAT", "vfat"),
    (82, b"FAT32", "vfat"),
    (3, b"EXFAT   ", "exfat"),
    (4086, b"SWAPSPACE2", "swap"),
    (0, b"LUKS\xba\xbe", "crypto_LUKS"),
    (536, b"LVM2 001", "LVM2_member"),
    (4096, &[0xfc, 0x4e, 0x2b, 0xa9], "linux_raid_member"),
    (0x8001, b"CD001", "iso9660"),
    (1024, &[0x10, 0x20, 0xf5, 0xf2], "f2fs"),
    (512, b"EFI PART", "gpt"),
];

/// Name of the file system or volume manager whose signature is on the device at `path`, if it is a
/// known one.
pub fn foreign_contents(path: &Path) -> Option<&'static str> {
    let device = FileDevice::open(path).ok()?;
    let mut head = vec![0; 128 << 10];
    let len = head.len().min(usize::try_from(device.size_bytes()).unwrap_or(usize::MAX));
    device.read_at(0, &mut head[..len]).ok()?;
    let found = SIGNATURES.iter().find(|(at, bytes, _)| head.get(*at..*at + bytes.len()) == Some(bytes))?;
    Some(found.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_small_sectors_and_its_contents_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let mut bytes = vec![0; 1 << 20];
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!((ashift(&path), foreign_contents(&path), kind(&path).unwrap()), (9, None, PathKind::File));
        bytes[1080..1082].copy_from_slice(&[0x53, 0xef]);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(foreign_contents(&path), Some("ext2"));
        assert!(labelled(&path).is_none());
        let held = open_for_writing(&path).unwrap();
        assert!(matches!(open_for_writing(&path), Err(Error::Refused { why: Refusal::Busy, .. })));
        drop(held);
        assert_eq!(clear(&path).unwrap(), 0);
    }
}
