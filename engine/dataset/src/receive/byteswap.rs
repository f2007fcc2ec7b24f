//! Converts contents sent by a big-endian host to the form a little-endian pool stores.
//!
//! Files and volumes are plain bytes. System attributes and packed lists record their own byte
//! order and stay as they are. Blocks whose pointer records the byte order can also stay: those
//! that are stored compressed do. This leaves uncompressed blocks of ZAPs and of numbers. Facts:
//! `dmu_ot` in module/zfs/dmu.c, `flush_write_batch_impl` and `receive_object` in dmu_recv.c.

use errors::{Error, Result};
use ondisk::zap::swap;
use ondisk::{Endian, ObjectType};

/// How the contents of an object type are laid out.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Bytes,
    /// Numbers of this many bytes each.
    Numbers(usize),
    Zap,
    /// Structures that exist only in file systems of version 4 and earlier.
    Old,
}

fn kind(of: ObjectType) -> Kind {
    match of {
        t if t.0 & 0x80 != 0 => match t.0 & 0x1f {
            0 => Kind::Bytes,
            1 => Kind::Numbers(2),
            2 => Kind::Numbers(4),
            3 => Kind::Numbers(8),
            4 => Kind::Zap,
            _ => Kind::Old,
        },
        ObjectType::DIRECTORY_CONTENTS
        | ObjectType::MASTER_NODE
        | ObjectType::UNLINKED_SET
        | ObjectType::ZVOL_PROP
        | ObjectType::ZAP_OTHER
        | ObjectType::USERGROUP_USED
        | ObjectType::USERGROUP_QUOTA
        | ObjectType::SA_MASTER_NODE
        | ObjectType::SA_ATTR_REGISTRATION
        | ObjectType::SA_ATTR_LAYOUTS => Kind::Zap,
        ObjectType::UINT64_OTHER | ObjectType::FUID_SIZE => Kind::Numbers(8),
        ObjectType::NONE
        | ObjectType::PLAIN_FILE_CONTENTS
        | ObjectType::ZVOL
        | ObjectType::PLAIN_OTHER
        | ObjectType::FUID
        | ObjectType::SA => Kind::Bytes,
        _ => Kind::Old,
    }
}

/// Byte-swaps the bonus of a dnode, or an uncompressed block of an object; `what` names it in the
/// error.
pub(super) fn byteswap(what: &str, of: ObjectType, bytes: &mut [u8]) -> Result<()> {
    match kind(of) {
        Kind::Bytes => {}
        Kind::Numbers(size) => bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
        // Contents that were never written have no type.
        _ if bytes.iter().all(|&b| b == 0) => {}
        Kind::Zap => swap::turn(bytes, Endian::Big)?,
        Kind::Old => {
            let feature = format!("receiving {what} of type {} that a big-endian host wrote", of.0);
            return Err(Error::unsupported("", feature));
        }
    }
    Ok(())
}
