//! Write policy of a block: the outcome of properties and metadata rules.

use crate::allocate::Class;
use ondisk::{Checksum, Compression, ObjectType};
use transform::compress::{Algorithm, zstd};

/// How to compress a block. The caller has resolved `inherit` and `on`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compress {
    /// No compression: blocks of zeros are stored, too.
    #[default]
    Off,
    /// Only blocks of zeros, which become holes.
    Empty,
    Lzjb,
    /// Deflate, levels 1 to 9.
    Gzip(u8),
    /// Zero-length encoding: compresses runs of zeros.
    Zle,
    Lz4,
    /// Zstandard at a level.
    Zstd(zstd::Level),
}

impl Compress {
    /// From an algorithm and the level in the property (0 or 255: the algorithm's default). Returns
    /// `None` for `inherit` and `on`, and for levels that do not exist.
    pub fn new(algorithm: Compression, level: u8) -> Option<Self> {
        Some(match algorithm {
            Compression::Inherit | Compression::On => return None,
            Compression::Off => Self::Off,
            Compression::Empty => Self::Empty,
            Compression::Lzjb => Self::Lzjb,
            Compression::Gzip(level) => Self::Gzip(level),
            Compression::Zle => Self::Zle,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd if matches!(level, 0 | 255) => Self::Zstd(zstd::Level::DEFAULT),
            Compression::Zstd => Self::Zstd(zstd::Level::from_number(level)?),
        })
    }

    /// From the value of the property `compression`: the algorithm in the lower 7 bits, the level
    /// above them. Returns `None` as [`Compress::new`] does.
    pub fn from_property(value: u64) -> Option<Self> {
        let algorithm = Compression::from_raw((value & 0x7f) as u8).ok()?;
        Self::new(algorithm, u8::try_from(value >> 7).ok()?)
    }

    /// The algorithm that the block pointer records for a block that this compressed.
    pub fn algorithm(self) -> Compression {
        match self {
            Self::Off => Compression::Off,
            Self::Empty => Compression::Empty,
            Self::Lzjb => Compression::Lzjb,
            Self::Gzip(level) => Compression::Gzip(level.clamp(1, 9)),
            Self::Zle => Compression::Zle,
            Self::Lz4 => Compression::Lz4,
            Self::Zstd(_) => Compression::Zstd,
        }
    }

    /// The compressor and its level, if there is one to run.
    pub(crate) fn compressor(self) -> Option<(Algorithm, zstd::Level)> {
        let algorithm = Algorithm::from_number(self.algorithm().to_raw())?;
        let level = if let Self::Zstd(level) = self { level } else { zstd::Level::DEFAULT };
        Some((algorithm, level))
    }
}

/// How to write a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritePolicy {
    /// Type of its object (for a spill block, of the bonus).
    pub object_type: ObjectType,
    /// Level of the block: 0 for data.
    pub level: u8,
    /// A checksum algorithm: not `inherit` or `on`, and not one of the embedded ones.
    pub checksum: Checksum,
    pub compression: Compress,
    /// Number of addresses (ditto copies), 1 to 3; encrypted types get at most 2.
    pub copies: u8,
    /// Preferred class.
    pub class: Class,
    /// Data blocks of at most this size go to special devices, as long as there is more room than
    /// metadata needs.
    pub special_max_bytes: u64,
    /// Whether contents of at most 112 bytes may be embedded in the pointer (feature
    /// embedded_data).
    pub embed: bool,
    /// Whether to deduplicate. Applies to level 0 data blocks only.
    pub dedup: Dedup,
}

/// What happens to contents that another block holds already. ZFS property: dedup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dedup {
    /// They are stored again.
    #[default]
    Off,
    /// The existing block gets another reference if checksum, sizes and compression are the same.
    Trusting,
    /// As `Trusting`, after reading the block and comparing it.
    Verified,
}

impl WritePolicy {
    /// Whether contents that the block being overwritten holds already may stay there: data with
    /// compression and a checksum that identifies contents. ZFS name: nopwrite. Facts:
    /// `dmu_write_policy` in module/zfs/dmu.c, `zio_checksum_table`.
    pub fn may_keep(&self) -> bool {
        use Checksum::{Blake3, EdonR, Sha256, Sha512, Skein};
        self.level == 0
            && !self.object_type.is_metadata()
            && self.dedup == Dedup::Off
            && self.compression != Compress::Off
            && matches!(self.checksum, Sha256 | Sha512 | Skein | EdonR | Blake3)
    }

    /// The policy of the pool's own metadata: fletcher4, LZ4, three copies.
    pub fn metadata(object_type: ObjectType, level: u8) -> Self {
        Self {
            object_type,
            level,
            checksum: Checksum::Fletcher4,
            compression: Compress::Lz4,
            copies: 3,
            class: Class::Normal,
            special_max_bytes: 0,
            embed: true,
            dedup: Dedup::Off,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_values_of_openzfs_come_apart() {
        let zstd = |level| Some(Compress::Zstd(zstd::Level::from_level(level).unwrap()));
        assert_eq!(Compress::from_property(16), zstd(3));
        assert_eq!(Compress::from_property(16 | 19 << 7), zstd(19));
        assert_eq!(Compress::from_property(16 | 103 << 7), zstd(-1));
        assert_eq!(Compress::from_property(13), Some(Compress::Gzip(9)));
        assert_eq!(Compress::from_property(15), Some(Compress::Lz4));
        assert_eq!([0, 1, 17].map(Compress::from_property), [None; 3]);
    }
}
