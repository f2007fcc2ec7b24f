//! The owners of an object, for space accounting by user, group and project.
//!
//! Above: `dataset` queries every object that a txg changed. Facts: zpl_get_file_info. The format
//! fixes the offsets (`SA_UID_OFFSET` and its neighbours), regardless of the dataset's layouts.

use dataset::live::{Owners, Spill};
use errors::Result;
use ondisk::sa::SaHeader;
use ondisk::znode::Flags;
use ondisk::{Dnode, Endian, ObjectType};

/// Offsets after the header of packed attributes.
const UID: usize = 24;
const GID: usize = 32;
const FLAGS: usize = 48;
const PROJECT: usize = 128;
/// Offsets in an old znode.
const OLD_UID: usize = 0x80;
const OLD_GID: usize = 0x88;

fn word(bytes: &[u8], at: usize, endian: Endian) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| endian.u64(b))
}

/// Reads the owners of an object from its dnode; `None` if it is not a file.
pub fn owners_of(dnode: &Dnode, _spill: Spill<'_>) -> Result<Option<Owners>> {
    let bonus = &dnode.bonus[..];
    match dnode.bonus_type {
        ObjectType::ZNODE => {
            let at = |offset| word(bonus, offset, dnode.endian);
            Ok(Some(Owners { user: at(OLD_UID), group: at(OLD_GID), project: 0 }))
        }
        ObjectType::SA => {
            let header = if bonus.len() < 8 { None } else { SaHeader::parse(bonus)? };
            // Created, but without attributes yet.
            let Some(header) = header else { return Ok(Some(Owners { user: 0, group: 0, project: 0 })) };
            let at = |offset| word(bonus, header.size_bytes + offset, header.endian);
            let has_project = Flags::from_bits_retain(at(FLAGS)).contains(Flags::PROJID);
            Ok(Some(Owners { user: at(UID), group: at(GID), project: if has_project { at(PROJECT) } else { 0 } }))
        }
        _ => Ok(None),
    }
}
