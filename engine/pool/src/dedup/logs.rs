//! Packed values of dedup tables, and the logs in front of the tables of fast_dedup, as they are on
//! disk.

use errors::{Error, Place, Result};
use object::zap::Zap;
use object::{Object, ObjectSet};
use ondisk::ddt::{self, Key, LogHeader, PackedValue, Phys};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit for the size of a log that is read. OpenZFS flushes its logs long before they are so
/// large.
const LOG_BYTES_MAX: u64 = 1 << 30;

/// Contents of the logs, by key: the class of the table that contains the entry (3 for none), and
/// the entry.
pub(crate) type Logged = BTreeMap<Key, (u8, Phys)>;

/// The four places of a packed value. A flat value fills only the first.
pub(crate) fn places(packed: &PackedValue<'_>, is_flat: bool) -> Result<[Phys; 4]> {
    let size = if is_flat { Phys::FLAT_BYTES } else { Phys::TRADITIONAL_BYTES };
    let bytes = match packed.compression {
        ondisk::Compression::Off => packed.payload.to_vec(),
        compression => block::decompress(compression, packed.payload, size)?,
    };
    Ok(match is_flat {
        true => [Phys::parse_flat(&bytes, packed.endian)?, Phys::default(), Phys::default(), Phys::default()],
        false => Phys::parse_traditional(&bytes, packed.endian)?,
    })
}

/// The logs in a table's directory (object number and header of each), and their merged contents.
pub(crate) fn read(mos: &Arc<ObjectSet>, dir: &Zap) -> Result<(Vec<(u64, LogHeader)>, Logged)> {
    let mut logs = Vec::new();
    for entry in dir.entries()?.iter().filter(|entry| entry.name.starts_with(b"DDT-log-")) {
        let Some(id) = entry.value.as_u64() else { continue };
        let object = mos.object(id)?;
        logs.push((LogHeader::parse(object.bonus(), object.endian()).at_with(|| object.place())?, object));
    }
    // The log that is being flushed is older than the one that is being filled, and so is read
    // first.
    logs.sort_by_key(|(header, _)| !header.is_flushing);
    let mut logged = Logged::new();
    for (header, object) in &logs {
        read_one(header, object, &mut logged)?;
    }
    Ok((logs.into_iter().map(|(header, object)| (object.id(), header)).collect(), logged))
}

fn read_one(header: &LogHeader, object: &Object, logged: &mut Logged) -> Result<()> {
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
                // Logs exist only for flat tables.
                let phys = Phys::parse_flat(entry.phys, block.endian).at_with(|| object.place())?;
                logged.insert(entry.key, (entry.class, phys));
            }
        }
        at = at.saturating_add(object.block_bytes());
    }
    Ok(())
}
