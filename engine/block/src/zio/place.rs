//! Places a block: allocates its addresses and writes it there.

use super::gang_write;
use super::put::{give_back, is_later, put};
use crate::policy::WritePolicy;
use crate::store::WriteStore;
use crate::{Class, Gang, Want};
use errors::{Refusal, Result};
use ondisk::BlkPtr;

/// The allocation request for `stored`.
pub(super) fn want(stored: &[u8], txg: u64, policy: &WritePolicy, copies: u8) -> Want {
    let is_small = policy.class == Class::Normal && stored.len() as u64 <= policy.special_max_bytes;
    Want {
        txg,
        class: if is_small { Class::Special } else { policy.class },
        psize_bytes: stored.len() as u64,
        copies,
        is_metadata: policy.level > 0 || policy.object_type.is_metadata(),
        gang: Gang::None,
        may_use_slop: true,
    }
}

/// Allocates addresses for `stored` and writes it; as a gang block if it does not fit in one piece.
pub(super) fn place(
    store: &WriteStore,
    bp: &mut BlkPtr,
    stored: &[u8],
    txg: u64,
    policy: &WritePolicy,
    copies: u8,
) -> Result<()> {
    if is_later(store) {
        store.flight().admit();
    }
    let want = want(stored, txg, policy, copies);
    let addresses = match store.allocator().allocate(&want) {
        Ok(addresses) => addresses,
        Err(e) if e.refusal() == Some(Refusal::NoSpace) && stored.len() > store.units().0 => {
            return gang_write::write(store, bp, stored, &want);
        }
        Err(e) => return Err(e),
    };
    put(store, bp, &addresses, stored, txg).inspect_err(|_| give_back(store, txg, &addresses))
}
