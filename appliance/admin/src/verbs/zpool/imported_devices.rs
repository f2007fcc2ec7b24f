//! Which devices belong to pools that are imported here.

use super::imported;
use crate::layout::{Auxiliary, ImportedPools};
use crate::state::Imported;
use crate::verbs::{Invocation, Refusal};
use pool::status::{PoolStatus, VdevStatus};
use std::cell::OnceCell;

/// The imported pools, each opened when it is first asked about its devices.
pub(super) struct ImportedDevices<'a> {
    invocation: &'a Invocation<'a>,
    pools: Vec<Known>,
}

/// An imported pool; without a status if it cannot be read.
struct Known {
    record: Imported,
    status: OnceCell<Option<PoolStatus>>,
}

impl<'a> ImportedDevices<'a> {
    pub(super) fn new(invocation: &'a Invocation<'a>) -> Result<Self, Refusal> {
        let known = |record| Known { record, status: OnceCell::new() };
        Ok(Self { invocation, pools: imported(invocation)?.into_iter().map(known).collect() })
    }

    fn pool(&self, guid: u64) -> Option<&Known> {
        self.pools.iter().find(|known| known.record.guid == guid)
    }

    fn status<'b>(&self, known: &'b Known) -> Option<&'b PoolStatus> {
        let read = || self.invocation.open_to_read(&known.record).ok()?.status().ok();
        known.status.get_or_init(read).as_ref()
    }
}

impl ImportedPools for ImportedDevices<'_> {
    fn has_device(&self, pool: u64, device: u64) -> bool {
        // A pool whose devices are not known may have it.
        self.pool(pool).is_some_and(|known| {
            self.status(known).is_none_or(|status| status.all_vdevs().iter().any(|vdev| vdev.guid == device))
        })
    }

    fn is_imported(&self, pool: u64) -> bool {
        self.pool(pool).is_some()
    }

    fn of_auxiliary(&self, kind: Auxiliary, device: u64) -> Option<String> {
        let has = |status: &PoolStatus| {
            let vdevs: &[VdevStatus] = match kind {
                Auxiliary::Spare => &status.spares,
                Auxiliary::Cache => &status.caches,
            };
            vdevs.iter().any(|vdev| vdev.guid == device)
        };
        let owner = self.pools.iter().find(|known| self.status(known).is_some_and(has));
        // A pool whose devices are not known may have it.
        let owner = owner.or_else(|| self.pools.iter().find(|known| self.status(known).is_none()));
        owner.map(|known| known.record.name.clone())
    }
}
