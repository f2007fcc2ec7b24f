//! The object set of a raw stream: the shape of its meta dnode, and what is known of its blocks of
//! dnodes.

use block::CryptParams;
use errors::{Error, Result};
use host::sync::Mutex;
use ondisk::Objset;
use std::collections::BTreeMap;

/// Parameters of an object set in a raw stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawObjset {
    /// MAC of the tree of dnodes.
    pub portable_mac: [u8; 32],
    /// `dn_checksum` of the meta dnode.
    pub checksum: u8,
    /// `dn_compress` of the meta dnode.
    pub compression: u8,
    /// Levels of the meta dnode.
    pub levels: u8,
    /// log2 of the size of the meta dnode's indirect blocks, in bytes.
    pub indirect_shift: u8,
    /// Number of the meta dnode's last block.
    pub max_block_id: u64,
}

impl RawObjset {
    /// Gives the meta dnode the sender's shape. In an existing set (not `is_new`), fails with
    /// [`Error::Invalid`] if it has another one.
    pub(crate) fn shape(&self, phys: &mut Objset, is_new: bool) -> Result<()> {
        let dnode = &mut phys.meta_dnode;
        if is_new {
            (dnode.levels, dnode.indirect_shift) = (self.levels, self.indirect_shift);
        }
        let found = (dnode.levels, dnode.indirect_shift, dnode.blkptrs.len());
        if found != (self.levels, self.indirect_shift, 3) {
            let sent = (self.levels, self.indirect_shift);
            let what =
                format!("the tree of dnodes has levels, shift and pointers {found:?}, the stream's {sent:?} and 3");
            return Err(Error::invalid("", what));
        }
        (dnode.checksum, dnode.compression) = (self.checksum, self.compression);
        dnode.max_block_id = self.max_block_id;
        Ok(())
    }

    pub(crate) fn start(&self) -> RawState {
        RawState { portable_mac: self.portable_mac, dnodes: Mutex::default() }
    }
}

/// State of a raw receive.
pub(crate) struct RawState {
    pub portable_mac: [u8; 32],
    /// Encryption parameters of the sender's blocks of dnodes, by number.
    pub dnodes: Mutex<BTreeMap<u64, CryptParams>>,
}
