//! The last steps of every write: the checksum, and the bytes to their addresses.

use super::check;
use super::flight::{Begun, Failed};
use crate::store::{Store, WriteStore};
use crate::vdev::{Failure, Task};
use bytes::Bytes;
use errors::{Error, Result};
use ondisk::{BlkPtr, Dva};
use transform::checksum::{Algorithm, checksum, truncate_for_mac};

/// Sets the pointer's checksum from `stored`.
pub(super) fn sum(store: &Store, bp: &mut BlkPtr, stored: &[u8]) -> Result<()> {
    let kind = bp.checksum_kind()?;
    // `off` and `noparity` leave zeros.
    let Some(algorithm) = Algorithm::from_number(kind as u8) else { return Ok(()) };
    let salt = store.salt();
    if algorithm.is_salted() && salt.is_none() {
        return Err(Error::invalid("", format!("the pool has no salt for the {} checksum", kind.name())));
    }
    let words = checksum(algorithm, stored, check::order(bp.endian()), salt.as_deref());
    if check::is_cut(bp) {
        bp.set_half_checksum(truncate_for_mac(algorithm, words));
    } else {
        bp.set_checksum(words);
    }
    Ok(())
}

/// Frees addresses that were allocated in this txg.
pub(super) fn give_back(store: &WriteStore, txg: u64, addresses: &[Dva]) {
    for dva in addresses {
        store.flight().supersede(dva);
        store.allocator().free(txg, txg, dva);
    }
}

/// Whether writes of this thread only begin in [`put`]: during the sync of a txg, if devices are
/// slow.
pub(super) fn is_later(store: &Store) -> bool {
    Task::current() == Task::Background && store.tree().has_slow_writes()
}

/// Writes `stored` to `addresses` and stores them in the pointer. If it [`is_later`], the writes
/// have only begun when this returns.
pub(super) fn put(store: &WriteStore, bp: &mut BlkPtr, addresses: &[Dva], stored: &[u8], txg: u64) -> Result<()> {
    let tree = store.tree();
    let failed = |failure: Failure| failure.into_write_error(String::new());
    let _written = store.begin_write(txg);
    if is_later(store) {
        // The end of the txg waits for it: see `WriteStore::flush`.
        let stored = Bytes::copy_from_slice(stored);
        for dva in addresses {
            let begun = store.resumptions();
            let unended = || Failure::other("the thread that wrote the block panicked");
            let write = |number| Failed { number, dva: *dva, stored: stored.clone(), txg, begun, failure: unended() };
            let begun = Begun::new(store.flight(), write, dva, stored.len() as u64);
            let plug = store.flight().plug();
            let done = Box::new(move |result| begun.end(result));
            tree.write_later(dva.vdev, dva.offset_bytes, stored.clone(), txg, plug, done);
        }
    } else {
        for dva in addresses {
            store.flight().supersede(dva);
            tree.write(dva.vdev, dva.offset_bytes, stored, txg).map_err(failed)?;
        }
    }
    for (index, dva) in addresses.iter().enumerate() {
        bp.set_dva(index, *dva);
    }
    Ok(())
}
