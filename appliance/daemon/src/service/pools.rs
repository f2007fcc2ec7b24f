//! The pools of the process, for the interface and for the thread that watches them.

use super::{Service, to_api};
use admin::OwnedPool;
use api::{Device, Pool};
use std::sync::Arc;

impl Service {
    /// All pools, in short form.
    pub fn pools(&self) -> Vec<Pool> {
        let line = |pool: &Arc<OwnedPool>| match to_api::pool_view(pool).and_then(|view| to_api::pool(pool, &view)) {
            Ok(line) => Some(line),
            Err(error) => {
                tracing::warn!(pool = pool.name(), error = %format!("{error:#}"), "cannot read its state");
                None
            }
        };
        self.owner.house.list().iter().filter_map(line).collect()
    }

    /// Devices of a pool, including caches and spares.
    pub fn devices(&self, pool: &str) -> Option<Vec<Device>> {
        let pool = self.owner.house.list().into_iter().find(|p| p.name() == pool)?;
        let status = to_api::pool_view(&pool).ok()?.status;
        let spares = status.spares.iter().map(|d| to_api::device(d, true));
        let others = std::iter::once(&status.root).chain(&status.caches);
        Some(others.map(|d| to_api::device(d, false)).chain(spares).collect())
    }
}
