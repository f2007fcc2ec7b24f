//! Where `zfs send` reads from.

use crate::context::{Context, Failure};
use crate::forward::Hold;
use crate::zfs::datasets::Pools;
use crate::zpool::pools::owned;
use admin::verbs::Found;
use pool::space::alloc::Kept;

/// The pools being read. Their owners keep the blocks from being freed.
pub(super) struct Source {
    pub(super) pools: Pools,
    /// Holds on pools that another process owns.
    pub(super) holds: Vec<Hold>,
    /// Holds on pools that this process owns.
    pub(super) kept: Vec<Kept>,
}

impl Source {
    pub(super) fn entry(&mut self, cx: &mut Context<'_>, name: &str) -> Result<Option<Found>, Failure> {
        let pool = name.split(['/', '@', '#']).next().unwrap_or(name);
        let record = cx.state.pool(pool).map_err(|e| Failure::failed(format!("{e:#}")))?;
        if let Some(record) = record
            && self.holds.is_empty()
            && self.kept.is_empty()
        {
            let failed = |e: anyhow::Error| Failure::failed(format!("{e:#}"));
            match owned(cx, &record).map_err(failed)? {
                Some(pool) => self.kept.extend(crate::hold::keep(&pool).map_err(failed)?),
                None => self.holds.extend(crate::forward::hold(&cx.state, &record).map_err(failed)?),
            }
        }
        self.pools.entry(cx, name)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.holds.iter().all(Hold::is_whole) && self.kept.iter().all(Kept::holds)
    }
}
