//! Reads the first objects of the MOS into the cache, all at the same time, if devices are slow.
//!
//! What opens a pool afterwards reads one small object after the other, and on a device with
//! latency each read takes as long as all of them.

use object::ObjectSet;

/// Objects that are read: those of a new pool several times over. Guessed.
const OBJECTS_MAX: usize = 256;
/// Blocks read of each object.
const BLOCKS_MAX: u64 = 4;

/// Fills the cache. Errors are reported by later readers of the block.
pub fn warm(mos: &ObjectSet) {
    if !mos.store().tree().has_slow_reads() {
        return;
    }
    let mut ids = Vec::new();
    while let Ok(Some(id)) = mos.next_object(ids.last().copied().unwrap_or(0))
        && ids.len() < OBJECTS_MAX
    {
        ids.push(id);
    }
    host::work::each(ids.len(), |number| {
        let Ok(object) = mos.object(ids[number]) else { return };
        for block in 0..=object.max_block_id().min(BLOCKS_MAX - 1) {
            if object.block(block).is_err() {
                return;
            }
        }
    });
}
