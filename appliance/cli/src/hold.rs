//! Holds on the state of a pool that this process owns, for readers that take their time.

use admin::OwnedPool;
use anyhow::Result;
use pool::space::alloc::Kept;

/// Writes all confirmed changes to disk, and keeps that state intact while the returned value
/// exists; `None` for a pool that is not open for writing.
pub fn keep(pool: &OwnedPool) -> Result<Option<Kept>> {
    // Space freed after this is kept; the txg that is synced after it is the one that will be read.
    let kept = pool.writable().map(|writable| writable.writer().allocator().keep_freed());
    // A suspended pool syncs nothing: its last state is read.
    if let (Some(writable), None) = (pool.writable(), pool.suspension()) {
        writable.writer().sync()?;
    }
    Ok(kept)
}
