//! The pools of the process, for the interface and for the thread that watches them.

use super::{Service, to_api};
use admin::OwnedPool;
use admin::view::PoolView;
use anyhow::Result;
use api::{Device, Pool};
use std::sync::Arc;

/// An open pool with what was found out about it, all at one time.
pub struct ReadPool {
    pub owned: Arc<OwnedPool>,
    pub view: PoolView,
    /// In short form.
    pub pool: Pool,
}

impl ReadPool {
    fn of(owned: Arc<OwnedPool>) -> Result<Self> {
        let view = to_api::pool_view(&owned)?;
        let pool = to_api::pool(&owned, &view)?;
        Ok(Self { owned, view, pool })
    }

    /// The root of the device tree, then cache devices.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        let status = &self.view.status;
        std::iter::once(&status.root).chain(&status.caches).map(|device| to_api::device(device, false))
    }

    pub fn spares(&self) -> impl Iterator<Item = Device> {
        self.view.status.spares.iter().map(|device| to_api::device(device, true))
    }
}

impl Service {
    /// All pools whose state can be read. May wait for devices, for a bounded time.
    pub fn read_pools(&self) -> Vec<ReadPool> {
        let read = |owned: Arc<OwnedPool>| {
            let name = owned.name();
            ReadPool::of(owned)
                .inspect_err(|error| {
                    tracing::warn!(pool = name, error = %format!("{error:#}"), "cannot read its state");
                })
                .ok()
        };
        self.owner.house.list().into_iter().filter_map(read).collect()
    }

    /// All pools, in short form.
    pub fn pools(&self) -> Vec<Pool> {
        self.read_pools().into_iter().map(|read| read.pool).collect()
    }
}
