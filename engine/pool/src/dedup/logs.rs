//! Packed values of tables, and the logs that stand before the tables of fast_dedup, as they are on disk.

use crate::{Error, Place, Result};
use object::Object;
use ondisk::ddt::{self, Key, PackedValue, Phys};
use std::collections::BTreeMap;

/// A log of changes that is read at most; OpenZFS flushes them long before.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// A value, unpacked to `size` bytes.
pub(crate) fn unpack(packed: &PackedValue<'_>, size: usize) -> Result<Vec<u8>> {
    match packed.compression {
        ondisk::Compression::Off => Ok(packed.payload.to_vec()),
        compression => block::decompress(compression, packed.payload, size),
    }
}

/// Adds the entries of a log: the class of the table that has each, 3 for none, and what it says. To be called with the log that
/// is being flushed first, as what is being gathered is newer.
pub(crate) fn read_log(header: &ddt::LogHeader, object: &Object, logged: &mut BTreeMap<Key, (u8, Phys)>) -> Result<()> {
    if header.length_bytes > LOG_BYTES_MAX {
        let what = format!("a log of {} bytes, expected at most {LOG_BYTES_MAX}", header.length_bytes);
        return Err(Error::corrupt(object.place(), what));
    }
    let mut at = 0;
    while at < header.length_bytes && object.block_bytes() > 0 {
        if let Some(block) = object.block(at / object.block_bytes())? {
            for entry in ddt::log_entries(&block.data, block.endian) {
                let entry = entry.at_with(|| object.place())?;
                if header.is_flushing && header.checkpoint.is_some_and(|done| entry.key <= done) {
                    continue;
                }
                // Logs exist only beside flat tables.
                let phys = Phys::parse_flat(entry.phys, block.endian).at_with(|| object.place())?;
                logged.insert(entry.key, (entry.class, phys));
            }
        }
        at = at.saturating_add(object.block_bytes());
    }
    Ok(())
}
