//! Object set: the root block of a dataset, or of the pool's own objects (the MOS).
//!
//! | offset | bytes | field                | since         | meaning                              |
//! |--------|-------|----------------------|---------------|--------------------------------------|
//! | 0x000  | 512   | os_meta_dnode        | v1            | dnode of the object of dnodes        |
//! | 0x200  | 192   | os_zil_header        | v1            | intent log header                    |
//! | 0x2c0  | 8     | os_type              | v1            | 1 MOS, 2 file system, 3 zvol, 4      |
//! |        |       |                      |               | other                                |
//! | 0x2c8  | 8     | os_flags             | v15           | 1 user accounting, 2 object          |
//! |        |       |                      |               | accounting, 4 project quota complete |
//! | 0x2d0  | 32    | os_portable_mac      | encryption    | MAC over what a raw send carries     |
//! | 0x2f0  | 32    | os_local_mac         | encryption    | MAC over the remaining parts         |
//! | 0x400  | 512   | os_userused_dnode    | v15           | space by user (blocks from 2 KiB)    |
//! | 0x600  | 512   | os_groupused_dnode   | v15           | space by group                       |
//! | 0x800  | 512   | os_projectused_dnode | project_quota | space by project (blocks of 4 KiB)   |
//!
//! Intent log header: 0x00 zh_claim_txg, 0x08 zh_replay_seq, 0x10 zh_log (block pointer), 0x90
//! zh_claim_blk_seq, 0x98 zh_flags, 0xa0 zh_claim_lr_seq.
//!
//! A file system: the dnode of dnodes (type 10, levels 6), and the middle of the block: kind 2,
//! flags 7 (all accounting complete):
//!
//! ```text
//! 00000000  0a 11 06 03 00 00 00 01  20 00 00 00 00 00 00 00  |........ .......|
//! 00000010  04 00 00 00 00 00 00 00  00 44 00 00 00 00 00 00  |.........D......|
//! ...
//! 000002c0  02 00 00 00 00 00 00 00  07 00 00 00 00 00 00 00  |................|
//! ```
//!
//! Sources: include/sys/dmu_objset.h, include/sys/zil.h.

use crate::blkptr::BlkPtr;
use crate::dnode::Dnode;
use crate::endian::{Endian, need};
use crate::error::{Error, Result};
use crate::types::{ObjectType, Txg};

/// Kind of an object set (`dmu_objset_type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjsetKind {
    /// Type never set: a dataset without contents, such as `$MOS` or `$ORIGIN`.
    None,
    /// The pool's own objects.
    Meta,
    FileSystem,
    Volume,
    /// Created by ztest or other programs.
    Other,
}

/// Header of the intent log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZilHeader {
    /// Txg in which an import claimed the blocks; 0: not claimed.
    pub claim_txg: Txg,
    /// Highest sequence number replayed.
    pub replay_seq: u64,
    /// First block of the chain.
    pub log: BlkPtr,
    /// Highest claimed block sequence number.
    pub claim_block_seq: u64,
    /// 1: replay needed, 2: claim_lr_seq valid.
    pub flags: u64,
    /// Highest claimed record sequence number.
    pub claim_record_seq: u64,
}

impl ZilHeader {
    /// `zh_flags`: there are records to replay.
    pub const FLAG_REPLAY_NEEDED: u64 = 1;
    /// `zh_flags`: `zh_claim_lr_seq` is set.
    pub const FLAG_CLAIM_RECORD_SEQ_VALID: u64 = 2;
    /// The header of a dataset without a log.
    pub const EMPTY: Self =
        Self { claim_txg: Txg(0), replay_seq: 0, log: BlkPtr::HOLE, claim_block_seq: 0, flags: 0, claim_record_seq: 0 };
    /// Size on disk in bytes.
    pub const SIZE_BYTES: usize = 192;

    /// Parses the first 192 bytes.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("zil_header", bytes, Self::SIZE_BYTES)?;
        Ok(Self {
            claim_txg: Txg(endian.u64(bytes)),
            replay_seq: endian.u64(&bytes[0x08..]),
            log: BlkPtr::parse(&bytes[0x10..], endian)?,
            claim_block_seq: endian.u64(&bytes[0x90..]),
            flags: endian.u64(&bytes[0x98..]),
            claim_record_seq: endian.u64(&bytes[0xa0..]),
        })
    }

    /// Encodes the 192 bytes.
    pub fn to_bytes(&self, endian: Endian) -> [u8; Self::SIZE_BYTES] {
        let mut out = [0; Self::SIZE_BYTES];
        endian.put_u64(&mut out, self.claim_txg.0);
        endian.put_u64(&mut out[0x08..], self.replay_seq);
        out[0x10..0x90].copy_from_slice(&self.log.to_bytes(endian));
        endian.put_u64(&mut out[0x90..], self.claim_block_seq);
        endian.put_u64(&mut out[0x98..], self.flags);
        endian.put_u64(&mut out[0xa0..], self.claim_record_seq);
        out
    }
}

/// The root block of a dataset.
#[derive(Debug, Clone)]
pub struct Objset {
    /// Dnode of the object whose data is all dnodes.
    pub meta_dnode: Dnode,
    /// Header of the intent log.
    pub zil: ZilHeader,
    pub kind: ObjsetKind,
    /// `os_flags`: a combination of `FLAG_*`.
    pub flags: u64,
    /// MAC over the parts that a raw send carries.
    pub portable_mac: [u8; 32],
    /// MAC over the remaining parts.
    pub local_mac: [u8; 32],
    /// Space by user, from pool version 15 on.
    pub user_used: Option<Dnode>,
    /// Space by group, from pool version 15 on.
    pub group_used: Option<Dnode>,
    /// Space by project, only in blocks of 4 KiB.
    pub project_used: Option<Dnode>,
    /// Byte order of the writer.
    pub endian: Endian,
}

impl Objset {
    /// `os_flags`: user and group accounting is complete.
    pub const FLAG_USERACCOUNTING_COMPLETE: u64 = 1;
    /// `os_flags`: object accounting is complete.
    pub const FLAG_USEROBJACCOUNTING_COMPLETE: u64 = 2;
    /// `os_flags`: project accounting is complete.
    pub const FLAG_PROJECTQUOTA_COMPLETE: u64 = 4;

    /// Parses an object set block of 1, 2 or 4 KiB.
    pub fn parse(bytes: &[u8], endian: Endian) -> Result<Self> {
        need("objset", bytes, 1024)?;
        let kind = match endian.u64(&bytes[0x2c0..]) {
            0 => ObjsetKind::None,
            1 => ObjsetKind::Meta,
            2 => ObjsetKind::FileSystem,
            3 => ObjsetKind::Volume,
            4 => ObjsetKind::Other,
            n => return Err(Error::corrupt("objset", "os_type", n, "0 to 4")),
        };
        let accounting = |at: usize| -> Result<Option<Dnode>> {
            match bytes.get(at..at + 512) {
                Some(b) => Ok(Some(Dnode::parse(b, endian)?).filter(|d| d.object_type != ObjectType::NONE)),
                None => Ok(None),
            }
        };
        Ok(Self {
            meta_dnode: Dnode::parse(&bytes[..512], endian)?,
            zil: ZilHeader::parse(&bytes[0x200..], endian)?,
            kind,
            flags: endian.u64(&bytes[0x2c8..]),
            portable_mac: bytes[0x2d0..0x2f0].try_into().expect("32 bytes"),
            local_mac: bytes[0x2f0..0x310].try_into().expect("32 bytes"),
            user_used: if bytes.len() >= 2048 { accounting(0x400)? } else { None },
            group_used: if bytes.len() >= 2048 { accounting(0x600)? } else { None },
            project_used: if bytes.len() >= 4096 { accounting(0x800)? } else { None },
            endian,
        })
    }

    /// From now on it is encoded little-endian. These dnodes have no bonus that would have to be
    /// converted.
    pub fn make_little(&mut self) {
        self.endian = Endian::Little;
        let accounting = [&mut self.user_used, &mut self.group_used, &mut self.project_used];
        for dnode in accounting.into_iter().flatten().chain([&mut self.meta_dnode]) {
            dnode.endian = Endian::Little;
        }
    }

    /// Encodes the block with a size of 1024, 2048 or 4096 bytes. MACs are written as they are in
    /// `self`.
    pub fn to_bytes(&self, size_bytes: usize) -> Result<Vec<u8>> {
        if ![1024, 2048, 4096].contains(&size_bytes) {
            return Err(Error::corrupt("objset", "size", size_bytes, "1024, 2048 or 4096"));
        }
        let endian = self.endian;
        let mut out = vec![0; size_bytes];
        out[..512].copy_from_slice(&self.meta_dnode.to_bytes()?);
        out[0x200..0x2c0].copy_from_slice(&self.zil.to_bytes(endian));
        let kind = match self.kind {
            ObjsetKind::None => 0,
            ObjsetKind::Meta => 1,
            ObjsetKind::FileSystem => 2,
            ObjsetKind::Volume => 3,
            ObjsetKind::Other => 4,
        };
        endian.put_u64(&mut out[0x2c0..], kind);
        endian.put_u64(&mut out[0x2c8..], self.flags);
        out[0x2d0..0x2f0].copy_from_slice(&self.portable_mac);
        out[0x2f0..0x310].copy_from_slice(&self.local_mac);
        for (at, dnode) in [(0x400, &self.user_used), (0x600, &self.group_used), (0x800, &self.project_used)] {
            let Some(dnode) = dnode else { continue };
            let place = out
                .get_mut(at..at + 512)
                .ok_or_else(|| Error::corrupt("objset", "size", size_bytes, "room for the accounting dnodes"))?;
            place.copy_from_slice(&dnode.to_bytes()?);
        }
        Ok(out)
    }
}
