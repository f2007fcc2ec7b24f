//! The properties of a dataset that say how it is written and read, as they hold now.

use crate::property::{self, find};
use crate::{Dataset, Error, Result};
use object::{Compress, Dedup};
use ondisk::Checksum;
use transform::crypt::Suite;

/// The feature that lets files share blocks.
const BLOCK_CLONING: &str = "com.fudosecurity:block_cloning";
/// The feature that makes LZ4 what `on` means.
const LZ4: &str = "org.illumos:lz4_compress";

/// When changes are made safe from a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SyncMode {
    /// When asked.
    #[default]
    Standard,
    /// Before each is answered: who makes it must call [`Log::commit`](crate::intent_log::Log::commit).
    Always,
    /// Not before their txg is on disk, even when asked.
    Disabled,
}

/// What the intent log favours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogBias {
    /// Short waits.
    Latency,
    /// Throughput: large writes go to their place at once.
    Throughput,
}

/// How extended attributes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrStore {
    /// There are none.
    Off,
    /// As files in a hidden directory.
    Directory,
    /// Among the file's own attributes.
    SystemAttribute,
}

/// Kind of ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclType {
    /// None.
    Off,
    /// POSIX.
    Posix,
    /// NFSv4.
    Nfsv4,
}

/// How much metadata is stored once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedundantMetadata {
    /// All.
    All,
    /// All but the lowest indirect blocks of files.
    Most,
    /// What many files hang on.
    Some,
    /// None.
    None,
}

/// Settings of one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Block size of new files that are larger than it.
    pub record_bytes: u32,
    /// Checksum of data; resolved, never `on`.
    pub checksum: Checksum,
    /// Whether data that is stored already is used instead of stored again, and the checksum that tells; resolved.
    pub dedup: (Dedup, Checksum),
    /// Compression of data; resolved, never `on`.
    pub compression: Compress,
    /// Copies of data, 1 to 3.
    pub copies: u8,
    /// Metadata that is stored once more.
    pub redundant_metadata: RedundantMetadata,
    /// Data blocks up to this size go to special devices.
    pub special_small_bytes: u64,
    /// Bytes of the dnode of new objects: 512 to 16384. `auto` is 1024.
    pub dnode_bytes: u32,
    /// When writes are synchronous.
    pub sync: SyncMode,
    /// What the intent log favours.
    pub log_bias: LogBias,
    /// Access times are kept.
    pub atime: bool,
    /// Only when older than a day or the last change.
    pub relatime: bool,
    /// How extended attributes are stored.
    pub xattr: XattrStore,
    /// Kind of ACL.
    pub acl_type: AclType,
    /// What happens to an NFSv4 ACL on chmod, by its number on disk.
    pub acl_mode: u64,
    /// Which NFSv4 ACL entries are inherited, by its number on disk.
    pub acl_inherit: u64,
    /// No changes.
    pub read_only: bool,
    /// Programs may run.
    pub exec: bool,
    /// Setuid bits count.
    pub setuid: bool,
    /// Device nodes can be opened.
    pub devices: bool,
    /// 0 `.zfs` hidden, 1 visible, 2 not there.
    pub snapdir: u64,
    /// Names longer than 255 bytes.
    pub long_names: bool,
    /// 0 never bypass the cache, 1 when asked, 2 always.
    pub direct: u64,
    /// Kept in the cache: 0 nothing, 1 metadata, 2 all.
    pub primary_cache: u64,
    /// `secondarycache`, as its number.
    pub secondary_cache: u64,
    /// Most bytes that the head may reference; 0: no limit.
    pub refquota_bytes: u64,
    /// Bytes kept for the head.
    pub refreservation_bytes: u64,
    /// Blocks may be used by several files: the pool has the feature.
    pub clones: bool,
}

impl Settings {
    /// What holds for `dataset`.
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

    /// From what `set` says of the properties, `None` where nothing is set. `has_lz4`: the pool's metadata is so compressed.
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

/// What the property `dedup` says: a checksum, with 0x100 for reading what is compared. `on` is SHA-256 (`ZIO_DEDUPCHECKSUM`).
fn dedup(number: u64) -> Option<(Dedup, Checksum)> {
    const VERIFY: u64 = 0x100;
    let checksum = match Checksum::from_raw(u8::try_from(number & !VERIFY).ok()?).ok()? {
        Checksum::Off => return Some((Dedup::Off, Checksum::Off)),
        Checksum::On => Checksum::Sha256,
        strong @ (Checksum::Sha256 | Checksum::Sha512 | Checksum::Skein | Checksum::EdonR | Checksum::Blake3) => strong,
        _ => return None,
    };
    // Edon-R is not trusted to tell contents apart.
    let is_verified = number & VERIFY != 0 || checksum == Checksum::EdonR;
    Some((if is_verified { Dedup::Verified } else { Dedup::Trusting }, checksum))
}
