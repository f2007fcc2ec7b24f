//! The pool's history: commands and internal events, in a ring of records.
//!
//! Format: `ondisk::history`. ZFS name: spa_history.

use crate::{Error, Pool, Result};
use object::Place;
use ondisk::history::{Header, records};
use ondisk::nvlist::Nvlist;
use ondisk::pool_dir::directory;

/// Bytes of history read at most: OpenZFS makes the ring at most 1 GiB; older records are left out beyond this.
const READ_MAX: u64 = 64 << 20;

impl Pool {
    /// All records, oldest first.
    pub fn history(&self) -> Result<Vec<Nvlist>> {
        let Some(id) = self.directory().lookup_u64(directory::HISTORY)?.filter(|id| *id != 0) else {
            return Ok(Vec::new());
        };
        let object = self.mos().object(id)?;
        let place = || format!("{}: history", self.name());
        let header = Header::parse(object.bonus(), object.endian()).at_with(place)?;
        let holds = object.max_block_id().saturating_add(1).saturating_mul(object.block_bytes());
        let mut bytes = Vec::new();
        for range in header.ranges() {
            let end = range.end.min(holds);
            if range.start >= end {
                continue;
            }
            if bytes.len() as u64 + (end - range.start) > READ_MAX {
                return Err(Error::unsupported(place(), format!("of more than {READ_MAX} bytes")));
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
