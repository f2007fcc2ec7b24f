//! The MACs of an object set: the root of the tree of MACs.
//!
//! Others than the key's owner rewrite this block, on hosts of any byte order: intent log claims
//! and raw receives. So its MACs cover a little-endian form of it, and exclude the log header.
//!
//! * portable MAC: HMAC over os_type (big-endian), 8 zero bytes (no flag is portable yet), and the
//!   meta dnode;
//! * local MAC: HMAC over os_flags and the accounting dnodes that are in use; zeros while there are
//!   none, as after a raw receive. In that case any value in the block is accepted.
//!
//! ZFS name: zio_crypt_do_objset_hmacs.

use ondisk::dnode::SLOT_BYTES;
use ondisk::{BlkPtr, Dnode, Endian, ObjectType, Objset, blkptr};
use transform::crypt::{HmacKey, HmacState, equal};

use super::auth::auth_buf;
use super::layout::masked_core;
use errors::{Error, Result};

const META_DNODE_AT: usize = 0;
const TYPE_AT: usize = 0x2c0;
const FLAGS_AT: usize = 0x2c8;
const PORTABLE_MAC_AT: usize = 0x2d0;
const LOCAL_MAC_AT: usize = 0x2f0;
const USERUSED_AT: usize = 0x400;
const GROUPUSED_AT: usize = 0x600;
const PROJECTUSED_AT: usize = 0x800;
/// Sizes of the block: without accounting, and with project accounting.
const V1_BYTES: usize = 1024;
const V3_BYTES: usize = 4096;
const MAC_BYTES: usize = 32;

/// Verifies both MACs of `block`.
pub(super) fn verify(key: &HmacKey, version: u64, block: &[u8], endian: Endian) -> Result<()> {
    if block.len() < V1_BYTES {
        return Err(Error::corrupt("", format!("object set has {} bytes, expected 1024 or more", block.len())));
    }
    let portable = portable_mac(key, version, block, endian)?;
    if !equal(&portable, &block[PORTABLE_MAC_AT..][..MAC_BYTES]) {
        return Err(Error::corrupt("", "the portable MAC of the object set does not match"));
    }
    match local_mac(key, version, block, endian)? {
        Some(local) if !equal(&local, &block[LOCAL_MAC_AT..][..MAC_BYTES]) => {
            Err(Error::corrupt("", "the local MAC of the object set does not match"))
        }
        _ => Ok(()),
    }
}

/// Stores both MACs in `block`. The local MAC is zeros if there is nothing for it to cover.
pub(super) fn seal(key: &HmacKey, version: u64, block: &mut [u8], endian: Endian) -> Result<()> {
    if block.len() < V1_BYTES {
        return Err(Error::invalid("", format!("an object set of {} bytes", block.len())));
    }
    let portable = portable_mac(key, version, block, endian)?;
    let local = local_mac(key, version, block, endian)?.unwrap_or_default();
    block[PORTABLE_MAC_AT..][..MAC_BYTES].copy_from_slice(&portable);
    block[LOCAL_MAC_AT..][..MAC_BYTES].copy_from_slice(&local);
    Ok(())
}

/// Computes the portable MAC of a block of at least 1 KiB.
pub(super) fn portable_mac(key: &HmacKey, version: u64, block: &[u8], endian: Endian) -> Result<[u8; MAC_BYTES]> {
    let mut state = key.start();
    state.update(&endian.u64(&block[TYPE_AT..]).to_be_bytes());
    state.update(&[0; 8]);
    add_dnode(&mut state, version, &block[META_DNODE_AT..][..SLOT_BYTES], endian)?;
    Ok(state.finish())
}

/// Computes the local MAC of a block of at least 1 KiB; `None` if there is nothing for it to cover.
pub(super) fn local_mac(key: &HmacKey, version: u64, block: &[u8], endian: Endian) -> Result<Option<[u8; MAC_BYTES]>> {
    let flags = endian.u64(&block[FLAGS_AT..]);
    let dnode = |at: usize| block.get(at..at + SLOT_BYTES).filter(|d| d[0] != ObjectType::NONE.0);
    let (user, group) = (dnode(USERUSED_AT), dnode(GROUPUSED_AT));
    let complete = flags & Objset::FLAG_USERACCOUNTING_COMPLETE != 0;
    if !complete || block.len() <= V1_BYTES || (user.is_none() && group.is_none()) {
        return Ok(None);
    }
    let project = if block.len() >= V3_BYTES { dnode(PROJECTUSED_AT) } else { None };
    let mut state = key.start();
    state.update(&flags.to_le_bytes());
    for dnode in [user, group, project].into_iter().flatten() {
        add_dnode(&mut state, version, dnode, endian)?;
    }
    Ok(Some(state.finish()))
}

/// Adds a dnode of one slot: its masked core in little-endian, and the portable part of its
/// pointers.
fn add_dnode(state: &mut HmacState, version: u64, dnode: &[u8], endian: Endian) -> Result<()> {
    let (pointers, spill) = (usize::from(dnode[3]), dnode[7] & Dnode::FLAG_SPILL_BLKPTR != 0);
    if pointers > 3 || (spill && (pointers > 2 || dnode[12] != 0)) {
        return Err(Error::corrupt("", format!("object set dnode has {pointers} pointers, expected at most 3")));
    }
    let mut core = masked_core(dnode);
    // dn_datablkszsec, dn_bonuslen, dn_maxblkid; dn_used is masked, and the rest is bytes.
    core[8..10].copy_from_slice(&endian.u16(&dnode[8..]).to_le_bytes());
    core[10..12].copy_from_slice(&endian.u16(&dnode[10..]).to_le_bytes());
    core[16..24].copy_from_slice(&endian.u64(&dnode[16..]).to_le_bytes());
    state.update(&core);
    let pointers = dnode[core.len()..].chunks_exact(blkptr::SIZE_BYTES).take(pointers);
    let spill = spill.then(|| &dnode[SLOT_BYTES - blkptr::SIZE_BYTES..]);
    for pointer in pointers.chain(spill) {
        state.update(auth_buf(&BlkPtr::parse(pointer, endian)?, version).as_ref());
    }
    Ok(())
}
