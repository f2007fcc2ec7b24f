//! Keys of encrypted datasets.

use crate::{Error, Result};
use ondisk::{BlkPtr, Endian};

/// The unwrapped keys of one encrypted dataset.
pub struct DatasetKeys {}

impl DatasetKeys {
    /// Checks the MAC of a block and decrypts it in place.
    pub fn open_block(&self, bp: &BlkPtr, _stored: &mut Vec<u8>) -> Result<()> {
        Err(Error::unsupported("", format!("encrypted block of type {}", bp.object_type().name())))
    }

    /// Checks the MACs of an object set's root block.
    pub fn verify_objset(&self, _block: &[u8], _endian: Endian) -> Result<()> {
        Err(Error::unsupported("", "encrypted object set"))
    }
}
