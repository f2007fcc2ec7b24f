//! Which bytes of a dnode block or a log block are secret. All other covered bytes are additional
//! authenticated data.
//!
//! ```text
//! dnode:       [core 64][pointers n×128][bonus ....................][spill pointer 128]
//!               masked   portable part   secret, if its type is       portable part
//! log block:   [chain header 144][magic, checksum and MAC 40][record][record]...
//!               as it is          not covered
//! log record:  [common 32][body ..........................]          any but:
//!               as it is   secret
//!   write:     [common 32][body 32][pointer 128][data ....]
//!               as it is   secret   as it is     secret
//!   clone:     [common 32][body 32][count 8, pointers n×128]
//!               as it is   secret   as it is
//! ```
//!
//! ZFS names: zio_crypt_init_uios_dnode, zio_crypt_init_uios_zil.

use std::ops::Range;

use ondisk::dnode::{CORE_BYTES, SLOT_BYTES};
use ondisk::zil::{CHAIN_BYTES, RECORD_HEADER_BYTES, RecordType};
use ondisk::{BlkPtr, Dnode, Endian, ObjectType, blkptr};
use smallvec::SmallVec;
use transform::crypt::{Cipher, IV_BYTES, MAC_BYTES};

use super::auth::{auth_buf, mismatch};
use errors::{Error, Result};

/// Secret and authenticated parts of a block.
pub(super) struct Layout {
    /// Additional authenticated data.
    pub aad: Vec<u8>,
    /// Secret pieces, ascending and disjoint. Together they are one message.
    pub secret: SmallVec<[Range<usize>; 32]>,
    /// End of the bytes in use. The MAC does not cover what follows.
    pub end: usize,
}

impl Layout {
    /// Verifies the MAC and decrypts the secret pieces in place. Bytes that the MAC does not cover
    /// become zeros.
    pub fn open(&self, cipher: &Cipher, iv: &[u8; IV_BYTES], block: &mut [u8], mac: &[u8; MAC_BYTES]) -> Result<()> {
        let mut message = self.gather(block);
        cipher.open(iv, &self.aad, &mut message, mac).map_err(mismatch)?;
        self.scatter(&message, block);
        block[self.end..].fill(0);
        Ok(())
    }

    /// Encrypts the secret pieces in place and returns the MAC. Bytes that it does not cover become
    /// zeros. Returns `None` where [`Cipher::seal`] does.
    pub fn seal(&self, cipher: &Cipher, iv: &[u8; IV_BYTES], block: &mut [u8]) -> Option<[u8; MAC_BYTES]> {
        let mut message = self.gather(block);
        let mac = cipher.seal(iv, &self.aad, &mut message)?;
        self.scatter(&message, block);
        block[self.end..].fill(0);
        Some(mac)
    }

    /// Concatenates the secret pieces. The copy is acceptable, since such blocks are small and rare
    /// compared with data.
    pub fn gather(&self, block: &[u8]) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.secret.iter().map(ExactSizeIterator::len).sum());
        for piece in &self.secret {
            message.extend_from_slice(&block[piece.clone()]);
        }
        message
    }

    /// Writes the pieces of `message` back to where [`Layout::gather`] read them.
    pub fn scatter(&self, message: &[u8], block: &mut [u8]) {
        let mut rest = message;
        for piece in &self.secret {
            let (this, next) = rest.split_at(piece.len());
            block[piece.clone()].copy_from_slice(this);
            rest = next;
        }
    }
}

/// Splits a block of dnodes into its parts.
pub(super) fn dnode_block(block: &[u8], endian: Endian, version: u64) -> Result<Layout> {
    let mut aad = Vec::with_capacity(block.len());
    let mut secret = SmallVec::new();
    let mut at = 0;
    while let Some(rest) = block.get(at..).filter(|r| r.len() >= SLOT_BYTES) {
        // Extra slots count even if the dnode is free, unlike in `Dnode::slots_at`, because the
        // writer's MAC skips them.
        let dnode_bytes = (usize::from(rest[12]) + 1) * SLOT_BYTES;
        let Some(dnode) = rest.get(..dnode_bytes) else {
            return Err(Error::corrupt("", format!("dnode at {at} has {dnode_bytes} bytes, expected {}", rest.len())));
        };
        let (pointers, spill) = (usize::from(dnode[3]), dnode[7] & Dnode::FLAG_SPILL_BLKPTR != 0);
        let bonus_at = CORE_BYTES + pointers * blkptr::SIZE_BYTES;
        let bonus_end = dnode_bytes - if spill { blkptr::SIZE_BYTES } else { 0 };
        if bonus_at > bonus_end {
            return Err(Error::corrupt("", format!("dnode at {at} has {pointers} pointers in {dnode_bytes} bytes")));
        }
        aad.extend_from_slice(&masked_core(dnode));
        for pointer in dnode[CORE_BYTES..bonus_at].chunks_exact(blkptr::SIZE_BYTES) {
            aad.extend_from_slice(auth_buf(&BlkPtr::parse(pointer, endian)?, version).as_ref());
        }
        if spill {
            aad.extend_from_slice(auth_buf(&BlkPtr::parse(&dnode[bonus_end..], endian)?, version).as_ref());
        }
        let in_use = dnode[0] != ObjectType::NONE.0;
        if in_use && ObjectType(dnode[4]).is_encrypted() && dnode[10..12] != [0, 0] {
            secret.push(at + bonus_at..at + bonus_end);
        } else {
            aad.extend_from_slice(&dnode[bonus_at..bonus_end]);
        }
        at += dnode_bytes;
    }
    Ok(Layout { aad, secret, end: at })
}

/// The 64 bytes before a dnode's pointers, without the fields that a raw receive changes: most
/// flags, and the space used.
pub(super) fn masked_core(dnode: &[u8]) -> [u8; CORE_BYTES] {
    let mut core = [0; CORE_BYTES];
    core.copy_from_slice(&dnode[..CORE_BYTES]);
    core[7] &= Dnode::FLAG_SPILL_BLKPTR;
    core[24..32].fill(0);
    core
}

/// Offset of the chain header's used length; magic and checksum follow and are not covered.
const CHAIN_USED_AT: usize = 136;
const CHAIN_COVERED_BYTES: usize = 144;
/// The upper half of the embedded checksum.
const CHAIN_MAC_AT: usize = 168;
/// Offset of the plain pointer in a write record, and of the pointer count in a clone record.
const POINTERS_AT: usize = 64;

/// Stores the MAC of a log block where [`log_block`] reads it.
pub(super) fn put_log_mac(block: &mut [u8], mac: &[u8; MAC_BYTES]) {
    block[CHAIN_MAC_AT..][..MAC_BYTES].copy_from_slice(mac);
}

/// Splits an intent log block into its parts, and reads its MAC.
pub(super) fn log_block(block: &[u8], endian: Endian) -> Result<(Layout, [u8; MAC_BYTES])> {
    let Some(chain) = block.first_chunk::<CHAIN_BYTES>() else {
        return Err(Error::corrupt(
            "",
            format!("log block has {} bytes, expected at least {CHAIN_BYTES}", block.len()),
        ));
    };
    let used = endian.u64(&chain[CHAIN_USED_AT..]);
    let end = usize::try_from(used)
        .ok()
        .filter(|end| (CHAIN_BYTES..=block.len()).contains(end))
        .ok_or_else(|| Error::corrupt("", format!("zc_nused is {used}, expected {CHAIN_BYTES} to {}", block.len())))?;
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&chain[CHAIN_MAC_AT..]);
    let mut aad = Vec::with_capacity(end);
    aad.extend_from_slice(&chain[..CHAIN_COVERED_BYTES]);
    let mut secret = SmallVec::new();
    let mut at = CHAIN_BYTES;
    while at < end {
        let rest = &block[at..end];
        if rest.len() < RECORD_HEADER_BYTES {
            return Err(Error::corrupt("", format!("log record at {at} has {} bytes left", rest.len())));
        }
        // Record types with the case-insensitive flag (bit 63) are neither of the two types below.
        let (kind, length) = (RecordType(endian.word(rest, 0)), endian.word(rest, 1));
        let least = match kind {
            RecordType::WRITE => POINTERS_AT + blkptr::SIZE_BYTES,
            RecordType::CLONE_RANGE => POINTERS_AT,
            _ => RECORD_HEADER_BYTES,
        };
        let len = usize::try_from(length).ok().filter(|len| (least..=rest.len()).contains(len)).ok_or_else(|| {
            Error::corrupt(
                "",
                format!("log record at {at}: lrc_reclen is {length}, expected {least} to {}", rest.len()),
            )
        })?;
        aad.extend_from_slice(&rest[..RECORD_HEADER_BYTES]);
        let plain = match kind {
            RecordType::WRITE => POINTERS_AT..POINTERS_AT + blkptr::SIZE_BYTES,
            RecordType::CLONE_RANGE => POINTERS_AT..len,
            _ => len..len,
        };
        aad.extend_from_slice(&rest[plain.clone()]);
        for piece in [at + RECORD_HEADER_BYTES..at + plain.start, at + plain.end..at + len] {
            if !piece.is_empty() {
                secret.push(piece);
            }
        }
        at += len;
    }
    Ok((Layout { aad, secret, end }, mac))
}
