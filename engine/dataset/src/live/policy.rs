//! How each block of a dataset is written, according to its settings.
//!
//! Facts: `dmu_write_policy` in module/zfs/dmu.c, `spa_preferred_class` in module/zfs/spa_misc.c.

use super::settings::{RedundantMetadata, Settings};
use block::Class;
use block::{Compress, Dedup, WritePolicy};
use object::Written;
use ondisk::{Checksum, Compression, ObjectType};

/// Policy decided once per txg.
pub(crate) struct Policies {
    settings: Settings,
    /// Compression of metadata, and the meaning of `on`.
    on: Compress,
    metadata_checksum: Checksum,
    is_encrypted: bool,
    embed: bool,
}

/// Checksums strong enough for metadata: metadata then uses the data's checksum.
fn is_for_metadata(checksum: Checksum) -> bool {
    use Checksum::{Blake3, EdonR, Fletcher4, Sha256, Sha512, Skein};
    matches!(checksum, Fletcher4 | Sha256 | Sha512 | Skein | EdonR | Blake3)
}

impl Policies {
    /// For a dataset with these settings, in a pool that has the given features.
    pub(crate) fn new(settings: Settings, is_encrypted: bool, is_enabled: &dyn Fn(&str) -> bool) -> Self {
        let on = if is_enabled("org.illumos:lz4_compress") { Compress::Lz4 } else { Compress::Lzjb };
        let data = settings.checksum;
        let metadata_checksum = if is_for_metadata(data) { data } else { Checksum::Fletcher4 };
        Self { settings, on, metadata_checksum, is_encrypted, embed: is_enabled("com.delphix:embedded_data") }
    }

    /// For the root block.
    pub(crate) fn root(&self) -> WritePolicy {
        self.metadata(ObjectType::OBJSET, 0, false)
    }

    /// For any other block.
    pub(crate) fn of(&self, what: &Written) -> WritePolicy {
        if what.level > 0 || what.object_type.is_metadata() || what.is_spill {
            return self.metadata(what.object_type, what.level, what.is_spill);
        }
        let (dedup, dedup_checksum) = self.settings.dedup;
        let checksum = match Checksum::from_raw(what.checksum) {
            _ if dedup != Dedup::Off => dedup_checksum,
            Ok(Checksum::Inherit) | Err(_) => self.settings.checksum,
            Ok(Checksum::On) => Checksum::Fletcher4,
            Ok(own) => own,
        };
        let compression = match Compression::from_raw(what.compression) {
            Ok(Compression::Inherit) | Err(_) => self.settings.compression,
            Ok(Compression::On) => self.on,
            Ok(own) => Compress::new(own, 0).unwrap_or(self.settings.compression),
        };
        // Zero blocks become holes even without compression: a single dedup entry with very
        // many references would be a bottleneck.
        let compression = match compression {
            Compress::Off if dedup != Dedup::Off => Compress::Empty,
            other => other,
        };
        WritePolicy {
            object_type: what.object_type,
            level: 0,
            checksum,
            compression,
            copies: self.limit(what.object_type, self.settings.copies),
            class: Class::Normal,
            special_max_bytes: self.settings.special_small_bytes,
            embed: self.embed,
            dedup,
        }
    }

    fn metadata(&self, object_type: ObjectType, level: u8, is_spill: bool) -> WritePolicy {
        let is_metadata = object_type.is_metadata() || is_spill;
        let is_critical = object_type.is_metadata()
            && (object_type != ObjectType::DNODE || level > 0)
            && object_type != ObjectType::DIRECTORY_CONTENTS
            && object_type != ObjectType::SA;
        let once_more = match self.settings.redundant_metadata {
            RedundantMetadata::All => true,
            RedundantMetadata::Most => level >= 2 || is_metadata,
            RedundantMetadata::Some => is_critical,
            RedundantMetadata::None => false,
        };
        // Dnodes and root blocks of encrypted datasets are partly unencrypted, and are left
        // as they are.
        let bare = self.is_encrypted && level == 0 && matches!(object_type, ObjectType::DNODE | ObjectType::OBJSET);
        WritePolicy {
            object_type,
            level,
            checksum: self.metadata_checksum,
            compression: if bare { Compress::Empty } else { self.on },
            copies: self.limit(object_type, self.settings.copies + u8::from(once_more)),
            class: Class::Special,
            special_max_bytes: 0,
            embed: self.embed,
            dedup: Dedup::Off,
        }
    }

    /// The third address of an encrypted block holds its salt and IV.
    fn limit(&self, object_type: ObjectType, copies: u8) -> u8 {
        let most = if self.is_encrypted && object_type.is_encrypted() { 2 } else { 3 };
        copies.clamp(1, most)
    }
}
