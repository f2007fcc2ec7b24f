//! Contents that a big-endian host sent, as a little-endian pool keeps them.
//!
//! Files and volumes are bytes. System attributes say their order themselves, and stay as they are; so do packed lists. What a
//! block's pointer says the order of may also stay: blocks that are kept compressed do. What is left are uncompressed blocks of
//! ZAPs and of numbers. Facts: `dmu_ot` in module/zfs/dmu.c, `flush_write_batch_impl` and `receive_object` in dmu_recv.c.

use crate::{Error, Result};
use ondisk::zap::swap;
use ondisk::{Endian, ObjectType};

/// What contents of a type are.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Bytes,
    /// Numbers of so many bytes each.
    Numbers(usize),
    Zap,
    /// Structures that only file systems of version 4 and before have.
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

/// Turns what the bonus of a dnode holds, or an uncompressed block of an object; `what` of these it is, for the refusal.
pub(super) fn turn(what: &str, of: ObjectType, bytes: &mut [u8]) -> Result<()> {
    match kind(of) {
        Kind::Bytes => {}
        Kind::Numbers(size) => bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
        // What was never written is of no kind.
        _ if bytes.iter().all(|&b| b == 0) => {}
        Kind::Zap => swap::turn(bytes, Endian::Big)?,
        Kind::Old => {
            let feature = format!("receiving {what} of type {} that a big-endian host wrote", of.0);
            return Err(Error::unsupported("", feature));
        }
    }
    Ok(())
}
