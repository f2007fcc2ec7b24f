//! `zpool sync`: writes all pending data to disk.

use super::records;
use crate::verbs::line::line;
use crate::verbs::tally::Tally;
use crate::verbs::{Invocation, PoolLease, Reason, Refusal};

/// Which pools to sync.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncRequest {
    /// Names of the pools; empty: all.
    pub pools: Vec<String>,
    /// Writes the configuration of the devices to all labels too (`-f`).
    pub force: bool,
}

impl SyncRequest {
    /// The request as a command line, for logs.
    pub fn command_line(&self) -> String {
        line("zpool sync", &[(self.force, "-f")], &[], self.pools.iter().map(String::as_str))
    }
}

/// Syncs. What verbs changed is on disk when they end; this is for changes of files.
pub fn run(invocation: &Invocation<'_>, request: &SyncRequest) -> Result<(), Refusal> {
    let mut tally = Tally::default();
    for record in records(invocation, &request.pools, &mut tally)?.iter().filter(|record| !record.readonly) {
        let synced = invocation.open(record).and_then(|pool| {
            if request.force {
                let changed = |cx: &pool::SyncTx<'_>| {
                    cx.config_changed();
                    Ok(())
                };
                pool.writer().task(changed).map_err(Reason::from)?;
            }
            PoolLease::sync(pool).map_err(Reason::from)
        });
        if let Err(reason) = synced {
            tally.refuse(reason.refuse(&format!("cannot sync '{}'", record.name)));
        }
    }
    tally.finish().map(drop)
}
