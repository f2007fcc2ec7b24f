//! The pool's history: commands and internal events, in a ring of records.
//!
//! Format: `ondisk::history`. ZFS name: spa_history.

use crate::Pool;
use errors::{Error, Place, Result};
use object::Object;
use ondisk::history::{Header, records};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::directory;

/// Maximum number of bytes of history that are read; older records are left out. OpenZFS's rings
/// have up to 1 GiB.
const READ_MAX: u64 = 64 << 20;

impl Pool {
    /// The records, oldest first: those of the pool's creation, and the newest [`READ_MAX`] bytes
    /// of the others.
    pub fn history(&self) -> Result<Vec<Nvlist>> {
        self.newest_history(READ_MAX)
    }

    /// The same with no more than `max_bytes` of the ring.
    pub fn newest_history(&self, max_bytes: u64) -> Result<Vec<Nvlist>> {
        let Some(id) = self.directory().lookup_u64(directory::HISTORY)?.filter(|id| *id != 0) else {
            return Ok(Vec::new());
        };
        let object = self.mos().object(id)?;
        let place = || format!("{}: history", self.name());
        let mut header = Header::parse(object.bonus(), object.endian()).at_with(place)?;
        header.begin = newest(&object, &header, max_bytes).at_with(place)?;
        let holds = object.max_block_id().saturating_add(1).saturating_mul(object.block_bytes());
        let mut bytes = Vec::new();
        for range in header.ranges() {
            let end = range.end.min(holds);
            if range.start >= end {
                continue;
            }
            if end - range.start > READ_MAX {
                return Err(Error::unsupported(
                    place(),
                    format!("more than {READ_MAX} bytes about the pool's creation"),
                ));
            }
            bytes.extend(object.read_vec(range.start, (end - range.start) as usize)?);
        }
        let mut found = Vec::new();
        for record in records(&bytes) {
            match record {
                Ok(list) => found.push(list),
                // A torn record ends what can be told apart; what came before is still true.
                Err(e) => {
                    tracing::warn!("{}: {e}", place());
                    break;
                }
            }
        }
        Ok(found)
    }
}

/// Logical offset of the oldest record in the ring from which at most `max` bytes remain. Only the
/// lengths of older records are read.
fn newest(object: &Object, header: &Header, max: u64) -> Result<u64> {
    let mut begin = header.begin;
    while header.end - begin > max {
        let mut length = [0; 8];
        let [first, second] = header.pieces(begin, 8);
        let (head, tail) = length.split_at_mut((first.end - first.start) as usize);
        object.read_at(first.start, head)?;
        object.read_at(second.start, tail)?;
        begin = begin.saturating_add(8).saturating_add(u64::from_le_bytes(length)).min(header.end);
    }
    Ok(begin)
}
