//! `zpool prefetch`: reads tables that later operations need into the cache.
//!
//! Facts: zfs_ioc_pool_prefetch (module/zfs/zfs_ioctl.c).

use super::record;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Reason, Refusal};

/// The pool whose dedup tables are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrefetchRequest {
    pub pool: String,
}

impl PrefetchRequest {
    /// The request as a command line, for logs.
    pub fn command_line(&self) -> String {
        line("zpool prefetch", &[], &[("-t", "ddt".to_owned())], [&*self.pool])
    }
}

/// Reads the tables. Only a process that keeps the pool open has a use for it.
pub fn run(invocation: &Invocation<'_>, request: &PrefetchRequest) -> Result<(), Refusal> {
    let record = record(invocation, &request.pool)?;
    let cannot = format!("cannot prefetch ddt in '{}'", request.pool);
    let pool = invocation.open(&record).map_err(|reason| reason.refuse(&cannot))?;
    let read = pool.writer().pool().and_then(|pool| pool.prefetch_dedup());
    let closed = pool.finish().map_err(|e| Reason::from(e).alone());
    read.map_err(|e| Reason::from(e).refuse(&cannot)).and(closed)
}
