//! The current properties of a dataset that control how it is written and read.

use crate::Dataset;
use crate::property::{self, find};
use block::{Compress, Dedup};
use errors::{Error, Result};
use ondisk::Checksum;
use transform::crypt::Suite;

/// The feature that allows files to share blocks.
const BLOCK_CLONING: &str = "com.fudosecurity:block_cloning";
/// The feature that makes `on` mean LZ4.
const LZ4: &str = "org.illumos:lz4_compress";

/// When changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// On request.
    #[default]
    Standard,
    /// Before each is answered: the caller must call
    /// [`Log::commit`](crate::intent_log::Log::commit).
    Always,
    /// Not before their txg is on disk, even on request.
    Disabled,
}

/// What the intent log optimizes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogBias {
    Latency,
    /// Large writes go directly to their final location.
    Throughput,
}

/// How extended attributes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrStore {
    Off,
    /// As files in a hidden directory.
    Directory,
    /// Among the file's system attributes.
    SystemAttribute,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclType {
    Off,
    Posix,
    Nfsv4,
}

/// How much metadata gets an additional copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedundantMetadata {
    All,
    /// All but the lowest indirect blocks of files.
    Most,
    /// Metadata that many files depend on.
    Some,
    None,
}

/// Settings of one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Maximum block size of new files.
    pub record_bytes: u32,
    /// Checksum of data; resolved, never `on`.
    pub checksum: Checksum,
    /// Whether identical data is stored only once, and the checksum that identifies it;
    /// resolved.
    pub dedup: (Dedup, Checksum),
    /// Compression of data; resolved, never `on`.
    pub compression: Compress,
    /// Copies of data, 1 to 3.
    pub copies: u8,
    /// Metadata that gets an additional copy.
    pub redundant_metadata: RedundantMetadata,
    /// Data blocks up to this size go to special devices.
    pub special_small_bytes: u64,
    /// Bytes of the dnode of new objects: 512 to 16384. `auto` is 1024.
    pub dnode_bytes: u32,
    /// When writes are synchronous.
    pub sync: SyncMode,
    /// What the intent log optimizes for.
    pub log_bias: LogBias,
    /// Access times are updated.
    pub atime: bool,
    /// Access times are updated only if older than a day or than the last change.
    pub relatime: bool,
    /// How extended attributes are stored.
    pub xattr: XattrStore,
    pub acl_type: AclType,
    /// What happens to an NFSv4 ACL on chmod, by its number on disk.
    pub acl_mode: u64,
    /// Which NFSv4 ACL entries are inherited, by its number on disk.
    pub acl_inherit: u64,
    pub read_only: bool,
    /// Programs may be executed.
    pub exec: bool,
    /// Setuid bits are honored.
    pub setuid: bool,
    /// Device nodes can be opened.
    pub devices: bool,
    /// 0 `.zfs` hidden, 1 visible, 2 disabled.
    pub snapdir: u64,
    /// Names longer than 255 bytes.
    pub long_names: bool,
    /// 0 never bypass the cache, 1 on request, 2 always.
    pub direct: u64,
    /// What the cache keeps: 0 nothing, 1 metadata, 2 all.
    pub primary_cache: u64,
    /// `secondarycache`, as its number.
    pub secondary_cache: u64,
    /// Maximum bytes that the head may reference; 0: no limit.
    pub refquota_bytes: u64,
    /// Bytes reserved for the head.
    pub refreservation_bytes: u64,
    /// Files may share blocks: the pool has the feature.
    pub clones: bool,
}

impl Settings {
    /// The current settings of `dataset`.
    pub fn of(dataset: &Dataset) -> Result<Self> {
        let features = dataset.tree().pool().features();
        let settings =
            Self::from_numbers(dataset.name(), features.is_active(LZ4), &|name| property::number(dataset, name))?;
        // CCM cannot encrypt a record of 16 MiB unless it is compressed.
        let suite = dataset.key_object()?.and_then(|key| Suite::from_raw(key.wrapped.suite));
        let record_bytes = match suite.is_some_and(|suite| suite.message_bytes_max() < settings.record_bytes.into()) {
            true => 8 << 20,
            false => settings.record_bytes,
        };
        Ok(Self { clones: features.count(BLOCK_CLONING).is_some(), record_bytes, ..settings })
    }

    /// Builds the settings from the property values that `set` returns, `None` where nothing is
    /// set. `has_lz4`: the pool compresses its metadata with LZ4.
    pub(crate) fn from_numbers(place: &str, has_lz4: bool, set: &dyn Fn(&str) -> Result<Option<u64>>) -> Result<Self> {
        let number = |name: &str| -> Result<u64> {
            let def = find(name).ok_or_else(|| Error::not_found(name, "the property"))?;
            Ok(set(name)?.unwrap_or(def.default_number()))
        };
        let flag = |name: &str| number(name).map(|n| n != 0);
        let bad = |name: &str, n: u64| Error::corrupt(place, format!("property {name} is {n}"));
        let checksum = match number("checksum")? {
            0 | 1 => Checksum::Fletcher4,
            n => u8::try_from(n).ok().and_then(|n| Checksum::from_raw(n).ok()).ok_or_else(|| bad("checksum", n))?,
        };
        let compression = match number("compression")? {
            0 | 1 if has_lz4 => Compress::Lz4,
            0 | 1 => Compress::Lzjb,
            n => Compress::from_property(n).ok_or_else(|| bad("compression", n))?,
        };
        let dedup = dedup(number("dedup")?).ok_or_else(|| bad("dedup", number("dedup").unwrap_or(0)))?;
        Ok(Self {
            record_bytes: u32::try_from(number("recordsize")?).unwrap_or(1 << 17).clamp(512, 16 << 20),
            checksum,
            dedup,
            compression,
            copies: number("copies")?.clamp(1, 3) as u8,
            redundant_metadata: match number("redundant_metadata")? {
                0 => RedundantMetadata::All,
                1 => RedundantMetadata::Most,
                2 => RedundantMetadata::Some,
                _ => RedundantMetadata::None,
            },
            special_small_bytes: number("special_small_blocks")?,
            dnode_bytes: match number("dnodesize")? {
                0 => 512,
                1 => 1024,
                n => (n.clamp(512, 16384) as u32).next_multiple_of(512),
            },
            sync: match number("sync")? {
                1 => SyncMode::Always,
                2 => SyncMode::Disabled,
                _ => SyncMode::Standard,
            },
            log_bias: if number("logbias")? == 1 { LogBias::Throughput } else { LogBias::Latency },
            atime: flag("atime")?,
            relatime: flag("relatime")?,
            xattr: match number("xattr")? {
                0 => XattrStore::Off,
                1 => XattrStore::Directory,
                _ => XattrStore::SystemAttribute,
            },
            acl_type: match number("acltype")? {
                1 => AclType::Posix,
                2 => AclType::Nfsv4,
                _ => AclType::Off,
            },
            acl_mode: number("aclmode")?,
            acl_inherit: number("aclinherit")?,
            read_only: flag("readonly")?,
            exec: flag("exec")?,
            setuid: flag("setuid")?,
            devices: flag("devices")?,
            snapdir: number("snapdir")?,
            long_names: flag("longname")?,
            direct: number("direct")?,
            primary_cache: number("primarycache")?,
            secondary_cache: number("secondarycache")?,
            refquota_bytes: number("refquota")?,
            refreservation_bytes: number("refreservation")?,
            clones: false,
        })
    }
}

/// The value of the `dedup` property: a checksum, plus 0x100 to verify by reading. `on` is SHA-256
/// (`ZIO_DEDUPCHECKSUM`).
fn dedup(number: u64) -> Option<(Dedup, Checksum)> {
    const VERIFY: u64 = 0x100;
    let checksum = match Checksum::from_raw(u8::try_from(number & !VERIFY).ok()?).ok()? {
        Checksum::Off => return Some((Dedup::Off, Checksum::Off)),
        Checksum::On => Checksum::Sha256,
        strong @ (Checksum::Sha256 | Checksum::Sha512 | Checksum::Skein | Checksum::EdonR | Checksum::Blake3) => strong,
        _ => return None,
    };
    // Edon-R is not trusted to distinguish contents.
    let is_verified = number & VERIFY != 0 || checksum == Checksum::EdonR;
    Some((if is_verified { Dedup::Verified } else { Dedup::Trusting }, checksum))
}
