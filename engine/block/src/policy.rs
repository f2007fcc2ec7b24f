//! How a block is to be written: what properties and metadata rules come down to.

use crate::allocate::Class;
use ondisk::{Checksum, Compression, ObjectType};
use transform::compress::{Algorithm, zstd};

/// How to make a block smaller. `inherit` and `on` are resolved by who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compress {
    /// Not at all: zeros are stored, too.
    #[default]
    Off,
    /// Only blocks of zeros, which become holes.
    Empty,
    /// Sun's LZ.
    Lzjb,
    /// Deflate, level 1 to 9.
    Gzip(u8),
    /// Runs of zeros.
    Zle,
    /// LZ4.
    Lz4,
    /// Zstandard at a level.
    Zstd(zstd::Level),
}

impl Compress {
    /// From an algorithm and what the property says of its level (0 or 255: the algorithm's default). `None` for `inherit`
    /// and `on`, and for levels that are none.
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

    /// From the number of the property `compression`: the algorithm in the lower 7 bits, the level above. `None` as in
    /// [`Compress::new`].
    pub fn from_property(value: u64) -> Option<Self> {
        let algorithm = Compression::from_raw((value & 0x7f) as u8).ok()?;
        Self::new(algorithm, u8::try_from(value >> 7).ok()?)
    }

    /// What the pointer says of a block that this made smaller.
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

/// How a block is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WritePolicy {
    /// Type of its object (of the bonus, for a spill block).
    pub object_type: ObjectType,
    /// Levels of indirection between it and the data.
    pub level: u8,
    /// An algorithm: not `inherit` or `on`, and none that stands in the block itself.
    pub checksum: Checksum,
    /// How to make it smaller.
    pub compression: Compress,
    /// Addresses, 1 to 3; encrypted types get 2 at most.
    pub copies: u8,
    /// Preferred devices.
    pub class: Class,
    /// Data blocks that take at most this go to special devices, as long as there is room for more than metadata.
    pub special_max_bytes: u64,
    /// Whether contents of at most 112 bytes may go into the pointer (feature embedded_data).
    pub embed: bool,
    /// Whether contents that are stored already are stored again. For level 0 blocks of data alone.
    pub dedup: Dedup,
}

/// What becomes of contents that some block has already. ZFS property: dedup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dedup {
    /// They are stored again.
    #[default]
    Off,
    /// The block is used once more, if checksum, sizes and compression are the same.
    Trusting,
    /// The same, after the block was read and compared.
    Verified,
}

impl WritePolicy {
    /// How the pool's own metadata is written: fletcher4, LZ4, three copies.
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
