//! Vdev label: identifies a device and its pool, four times on each device, and holds the uberblock
//! ring.
//!
//! ```text
//! 0        256K     512K            4M                        end-512K  end-256K  end
//! | label 0 | label 1 | boot 3.5 MiB | allocatable space ...... | label 2 | label 3 |
//! ```
//!
//! Offsets in block pointers count from 4 MiB. The device size is first rounded down to a multiple
//! of 256 KiB. Each label:
//!
//! | offset  | bytes  | field        | since | meaning                                         |
//! |---------|--------|--------------|-------|-------------------------------------------------|
//! | 0x00000 | 8192   | vl_pad1      | v1    | blank, for partition tables (VTOC)              |
//! | 0x02000 | 8192   | vl_be        | 2.0   | boot environment: version (big-endian), text or |
//! |         |        |              |       | nvlist, checksum                                |
//! | 0x04000 | 114688 | vl_vdev_phys | v1    | the configuration as an XDR nvlist, checksum    |
//! | 0x20000 | 131072 | vl_uberblock | v1    | ring of uberblocks, one for each slot           |
//!
//! Each part but the first ends with a [`Trailer`] whose checksum is sha256 over the part, with the
//! trailer's own checksum replaced by `(offset of the part on the device, 0, 0, 0)`. The caller
//! computes it.
//!
//! A slot is `max(1 KiB, 1 << ashift)`, at most 8 KiB. An uberblock goes to slot `txg % slots` or,
//! with multihost, to `txg % (slots - 1)`; the last slot is then reserved for heartbeats.
//!
//! Trailer of a label's configuration (little-endian writer): magic, then the checksum.
//!
//! ```text
//! 00000000  11 7a 0c b1 7a da 10 02  e9 db 64 76 3a 35 54 63  |.z..z.....dv:5Tc|
//! 00000010  02 4f e3 fa 56 67 05 16  01 9b 24 3a bb 82 c4 64  |.O..Vg....$:...d|
//! 00000020  4c ad 2d 15 d0 52 41 58                           |L.-..RAX|
//! ```
//!
//! Source: include/sys/vdev_impl.h, include/sys/zio.h, module/zfs/vdev_label.c.

use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::nvlist::{Nvlist, Packed};

/// Size of a label in bytes.
pub const LABEL_BYTES: u64 = 256 << 10;
/// Number of labels on a device.
pub const LABELS: usize = 4;
/// Size in bytes of the blank part, and of the boot environment.
pub const PAD_BYTES: usize = 8 << 10;
/// Offset of the boot environment in a label.
pub const BOOTENV_OFFSET: u64 = 8 << 10;
/// Size in bytes of the boot environment, including its trailer.
pub const BOOTENV_BYTES: usize = PAD_BYTES;
/// Offset of the configuration in a label.
pub const CONFIG_OFFSET: u64 = 16 << 10;
/// Size in bytes of the configuration, including its trailer (`VDEV_PHYS_SIZE`).
pub const CONFIG_BYTES: usize = 112 << 10;
/// Offset of the uberblock ring in a label.
pub const RING_OFFSET: u64 = 128 << 10;
/// Size of the uberblock ring in bytes.
pub const RING_BYTES: u64 = 128 << 10;
/// log2 of the smallest slot.
pub const SLOT_SHIFT_MIN: u32 = 10;
/// log2 of the largest slot.
pub const SLOT_SHIFT_MAX: u32 = 13;
/// Slots at the end of the ring that are reserved for heartbeats if multihost is on.
pub const MMP_SLOTS: u64 = 1;
/// Offset of the boot area on a device.
pub const BOOT_OFFSET: u64 = 2 * LABEL_BYTES;
/// Size of the boot area in bytes.
pub const BOOT_BYTES: u64 = 7 << 19;
/// Bytes before the allocatable space: offset 0 of block pointers.
pub const START_BYTES: u64 = 2 * LABEL_BYTES + BOOT_BYTES;
/// Bytes after the allocatable space.
pub const END_BYTES: u64 = 2 * LABEL_BYTES;
/// Smallest device that ZFS accepts (`SPA_MINDEVSIZE`).
pub const MIN_DEVICE_BYTES: u64 = 64 << 20;

const _: () = assert!(START_BYTES == 4 << 20);
const _: () = assert!(CONFIG_OFFSET + CONFIG_BYTES as u64 == RING_OFFSET && RING_OFFSET + RING_BYTES == LABEL_BYTES);

/// Device size as used by labels: rounded down to a multiple of the label size.
pub fn usable_bytes(device_bytes: u64) -> u64 {
    device_bytes - device_bytes % LABEL_BYTES
}

/// Offset of label `index` (0 to 3) on a device of `device_bytes`. `None` if the device is too
/// small for four labels.
pub fn label_offset(device_bytes: u64, index: usize) -> Option<u64> {
    let size = usable_bytes(device_bytes);
    if index >= LABELS || size < LABELS as u64 * LABEL_BYTES {
        return None;
    }
    let at = index as u64 * LABEL_BYTES;
    Some(if index < LABELS / 2 { at } else { size - LABELS as u64 * LABEL_BYTES + at })
}

/// log2 of the uberblock slot size on a device with this `ashift`.
pub fn slot_shift(ashift: u32) -> u32 {
    ashift.clamp(SLOT_SHIFT_MIN, SLOT_SHIFT_MAX)
}

/// Number of slots in the ring.
pub fn slot_count(ashift: u32) -> u64 {
    RING_BYTES >> slot_shift(ashift)
}

/// Offset of slot `slot` in a label, in bytes.
pub fn slot_offset(ashift: u32, slot: u64) -> u64 {
    RING_OFFSET + ((slot % slot_count(ashift)) << slot_shift(ashift))
}

/// Slot for the uberblock of `txg`.
pub fn slot_of_txg(ashift: u32, txg: u64, multihost: bool) -> u64 {
    txg % (slot_count(ashift) - if multihost { MMP_SLOTS } else { 0 })
}

/// `zio_eck_t`: the checksum at the end of a self-checksummed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The checksum's four words.
    pub checksum: [u64; 4],
    /// Byte order of the block's writer.
    pub endian: Endian,
}

impl Trailer {
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 40;
    /// `ZEC_MAGIC`, "zio-data-bloc-tail".
    pub const MAGIC: u64 = 0x0210_da7a_b10c_7a11;

    /// Parses the last 40 bytes of `block`.
    pub fn parse(block: &[u8]) -> Result<Self> {
        need("zio_eck", block, Self::SIZE_BYTES)?;
        let bytes = &block[block.len() - Self::SIZE_BYTES..];
        let endian = if Endian::Little.u64(bytes) == Self::MAGIC {
            Endian::Little
        } else if Endian::Big.u64(bytes) == Self::MAGIC {
            Endian::Big
        } else {
            let found = format!("{:#018x}", Endian::Little.u64(bytes));
            return Err(Error::corrupt("zio_eck", "zec_magic", found, "0x0210da7ab10c7a11"));
        };
        let mut checksum = [0; 4];
        for (i, w) in checksum.iter_mut().enumerate() {
            *w = endian.word(bytes, i + 1);
        }
        Ok(Self { checksum, endian })
    }

    /// Encodes the 40 bytes.
    pub fn to_bytes(&self) -> [u8; Self::SIZE_BYTES] {
        let mut out = [0; Self::SIZE_BYTES];
        self.endian.put_u64(&mut out, Self::MAGIC);
        for (i, w) in self.checksum.iter().enumerate() {
            self.endian.put_u64(&mut out[(i + 1) * 8..], *w);
        }
        out
    }

    /// Offset, in a block of `block_bytes`, of the 32 bytes that are replaced while computing the
    /// checksum.
    pub fn checksum_at(block_bytes: usize) -> Option<usize> {
        block_bytes.checked_sub(32)
    }
}

/// Parses the configuration from a part of [`CONFIG_BYTES`], whose checksum the caller has
/// verified.
pub fn parse_config(part: &[u8]) -> Result<Packed> {
    need("vdev_phys", part, CONFIG_BYTES)?;
    Packed::parse(&part[..CONFIG_BYTES - Trailer::SIZE_BYTES])
}

/// The boot environment that a boot loader stores in the label.
#[derive(Debug, Clone, PartialEq)]
pub enum BootEnv {
    /// Version 0: text, as GRUB writes it.
    Raw(Vec<u8>),
    /// Version 1: an nvlist.
    List(Nvlist),
}

impl BootEnv {
    /// Parses the boot environment of a label, whose checksum the caller has verified.
    pub fn parse(part: &[u8]) -> Result<Self> {
        need("vdev_boot_envblock", part, BOOTENV_BYTES)?;
        let body = &part[8..BOOTENV_BYTES - Trailer::SIZE_BYTES];
        match Endian::Big.u64(part) {
            0 => Ok(Self::Raw(body.split(|b| *b == 0).next().unwrap_or(&[]).to_vec())),
            1 => Ok(Self::List(Nvlist::parse(body)?)),
            other => Err(Error::Unsupported { structure: "vdev_boot_envblock", what: format!("vbe_version {other}") }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, never_panics};

    /// The configuration as stored on disk: nvlist, zeros, trailer.
    fn config_part() -> Vec<u8> {
        let mut part = golden!("label_raidz1_xdr.bin").to_vec();
        part.resize(CONFIG_BYTES - Trailer::SIZE_BYTES, 0);
        part.extend_from_slice(golden!("label_trailer.bin"));
        part
    }

    #[test]
    fn labels_are_at_both_ends_of_the_rounded_device() {
        let size = 64 << 20;
        let at: Vec<_> = (0..5).map(|i| label_offset(size + 1000, i)).collect();
        assert_eq!(at, [Some(0), Some(256 << 10), Some(size - (512 << 10)), Some(size - (256 << 10)), None]);
        assert_eq!(label_offset((1 << 20) - 1, 0), None);
        assert_eq!(label_offset(u64::MAX, 3), Some(u64::MAX - (LABEL_BYTES - 1) - LABEL_BYTES));
    }

    #[test]
    fn slots_follow_the_sector_size_between_1_and_8_kib() {
        assert_eq!([9, 12, 13, 16, u32::MAX].map(slot_count), [128, 32, 16, 16, 16]);
        assert_eq!(slot_offset(12, 33), RING_OFFSET + 4096);
        assert_eq!((slot_of_txg(9, 127, false), slot_of_txg(9, 127, true)), (127, 0));
    }

    #[test]
    fn configuration_and_trailer_of_a_real_label() {
        let part = config_part();
        assert_eq!(parse_config(&part).unwrap().list.get_str("name"), Some("tz1"));
        let trailer = Trailer::parse(&part).unwrap();
        assert_eq!(trailer.endian, Endian::Little);
        assert_eq!(trailer.checksum[3], 0x5841_52d0_152d_ad4c);
        assert_eq!(trailer.to_bytes(), part[CONFIG_BYTES - 40..]);
        assert_eq!(Trailer::parse(golden!("uberblock_be.bin")).unwrap().endian, Endian::Big);
    }

    #[test]
    fn boot_environment_is_text_or_list() {
        let mut part = vec![0; BOOTENV_BYTES];
        part[8..13].copy_from_slice(b"grub=");
        assert_eq!(BootEnv::parse(&part).unwrap(), BootEnv::Raw(b"grub=".to_vec()));
        let list = golden!("label_raidz1_xdr.bin");
        part[7] = 1;
        part[8..8 + list.len()].copy_from_slice(list);
        assert!(matches!(BootEnv::parse(&part).unwrap(), BootEnv::List(l) if l.get_u64("version") == Some(5000)));
        part[7] = 2;
        assert_eq!(BootEnv::parse(&part).unwrap_err().to_string(), "vdev_boot_envblock: unsupported vbe_version 2");
    }

    #[test]
    fn no_bytes_panic() {
        never_panics(&config_part(), |bytes| {
            let _ = (parse_config(bytes), Trailer::parse(bytes), BootEnv::parse(bytes));
        });
    }
}
