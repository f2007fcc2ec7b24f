//! Intent log blocks. Their pointers are made before the blocks are written, because each pointer
//! is stored in the block before.
//!
//! So size, addresses, salt and IV are chosen first, and the checksum in the pointer is a seed that
//! the chain chooses. The real checksum, and the MAC, are stored in the block. ZFS names:
//! zio_alloc_zil, zil_lwb_write.

use super::check;
use super::put::give_back;
use crate::crypt::DatasetKeys;
use crate::store::WriteStore;
use crate::{Class, Gang, Want};
use errors::{Error, Result};
use ondisk::{BlkPtr, Checksum, Compression, NewBlock, ObjectType, Txg};
use transform::checksum::Order;
use transform::checksum::embedded::{self, Kind};

/// Allocates a block of `size_bytes`, a multiple of 4 KiB. The caller sets the seed in the checksum
/// words.
pub(crate) fn allocate(
    store: &WriteStore,
    txg: u64,
    size_bytes: u64,
    class: Class,
    keys: Option<&DatasetKeys>,
) -> Result<BlkPtr> {
    if size_bytes < 4096 || !size_bytes.is_multiple_of(4096) || size_bytes > ondisk::blkptr::MAX_BLOCK_BYTES {
        return Err(Error::invalid("", format!("a log block has {size_bytes} bytes")));
    }
    let addresses = store.allocator().allocate(&Want {
        txg,
        class,
        psize_bytes: size_bytes,
        copies: 1,
        is_metadata: false,
        gang: Gang::None,
        may_use_slop: false,
    })?;
    let [dva] = addresses.as_slice() else {
        give_back(store, txg, &addresses);
        return Err(Error::invalid("", format!("{} addresses for a log block", addresses.len())));
    };
    store.tree().expect_log(dva);
    let mut bp = BlkPtr::new_block(&NewBlock {
        object_type: ObjectType::INTENT_LOG,
        level: 0,
        lsize_bytes: size_bytes,
        psize_bytes: size_bytes,
        compression: Compression::Off,
        checksum: Checksum::Zilog2,
    });
    bp.set_dva(0, *dva);
    bp.set_birth(Txg(txg), Txg(txg));
    if let Some(keys) = keys {
        bp.set_uses_crypt(true);
        bp.set_crypt_params(&keys.salt_for_writing(), &host::random::bytes());
    }
    Ok(bp)
}

/// Seals `block`, a chain header and its records, and writes it to the addresses of `bp`.
pub(crate) fn write(store: &WriteStore, bp: &BlkPtr, block: &mut [u8], keys: Option<&DatasetKeys>) -> Result<()> {
    if block.len() as u64 != bp.psize_bytes() || bp.object_type() != ObjectType::INTENT_LOG || bp.is_gang() {
        return Err(Error::invalid("", format!("{} bytes are not a log block at {bp}", block.len())));
    }
    match (bp.is_encrypted(), keys) {
        (false, _) => {}
        (true, Some(keys)) => keys.seal_log_block(bp, block)?,
        (true, None) => return Err(Error::KeyUnavailable { place: String::new() }),
    }
    let kind = match bp.checksum_kind()? {
        Checksum::Zilog2 => Kind::Zilog2,
        Checksum::Zilog => Kind::Zilog,
        other => return Err(Error::invalid("", format!("no log block has the {} checksum", other.name()))),
    };
    embedded::seal(kind, block, bp.checksum(), Order::Little, check::is_cut(bp))
        .map_err(|e| Error::invalid("", e.to_string()))?;
    let txg = bp.physical_birth().0;
    for dva in bp.dvas() {
        // A block of the same txg that failed to be written there, and was freed, stays unwritten.
        store.flight().supersede(&dva);
        store
            .tree()
            .write(dva.vdev, dva.offset_bytes, block, txg)
            .map_err(|failure| failure.into_write_error(String::new()))?;
    }
    Ok(())
}
