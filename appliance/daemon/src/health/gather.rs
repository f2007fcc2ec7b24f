//! Collects the inputs of the verdict from the parts of the daemon.

use super::HealthWatch;
use super::inputs::{Inputs, LastScan, PoolInput};
use super::latency::times;
use super::{measures, verdict};
use crate::access::now;
use crate::service::{ReadPool, Service};
use admin::view::PoolView;
use api::SystemHealth;
use pool::status::{Progress, ScanKind};
use std::collections::BTreeMap;

impl HealthWatch {
    /// Assesses everything now, with these pools.
    pub fn assess(&self, service: &Service, pools: &[ReadPool]) -> SystemHealth {
        let inputs = self.gather(service, pools);
        let health = verdict::assess(&inputs);
        self.measures.set(measures::of(&inputs, &health));
        *self.last.lock() = health.clone();
        health
    }

    /// All inputs that can be found out now.
    fn gather(&self, service: &Service, pools: &[ReadPool]) -> Inputs {
        let (now, open) = (now(), service.owner.house.list());
        self.latencies.lock().note(now, || {
            let all = open.iter().map(|pool| times(pool.store()));
            all.fold(BTreeMap::new(), |mut all, some| {
                all.extend(some);
                all
            })
        });
        let pools = pools.iter().map(|pool| self.pool(pool)).collect();
        let imported = if service.owner.is_ready() { service.owner.house.state().pools() } else { Ok(Vec::new()) };
        let is_closed = |guid: u64| !open.iter().any(|pool| pool.guid() == guid);
        let closed = imported.unwrap_or_default().into_iter().filter(|pool| is_closed(pool.guid));
        let nfs = service.servers.nfs.lock();
        let refusals = nfs.as_ref().map(|server| server.core().figures.refusals().to_vec()).unwrap_or_default();
        drop(nfs);
        Inputs {
            now,
            pools,
            closed: closed.map(|pool| pool.name).collect(),
            alerts: service.alerts.list(),
            streams: self.streams.list(),
            certificate: service.servers.tls.get().and_then(|tls| tls.validity()),
            refusals,
        }
    }

    fn pool(&self, read: &ReadPool) -> PoolInput {
        PoolInput {
            pool: read.pool.clone(),
            devices: read.devices().collect(),
            spares: read.spares().collect(),
            disks: self.latencies.lock().of_pool(&read.view.status, read.owned.store()),
            scan: last_scan(&read.view),
        }
    }
}

/// The last scan is all that a pool records: a later resilver hides when the last scrub finished.
fn last_scan(view: &PoolView) -> LastScan {
    let Some(scan) = &view.status.scan else { return view.created.map_or(LastScan::Unknown, LastScan::NoneSince) };
    match (scan.kind, scan.state) {
        (ScanKind::None, _) | (_, Progress::None) => view.created.map_or(LastScan::Unknown, LastScan::NoneSince),
        (ScanKind::ErrorScrub, _) | (_, Progress::Active) => LastScan::Unknown,
        (ScanKind::Scrub, Progress::Finished) => LastScan::Finished(scan.end_time),
        (ScanKind::Scrub | ScanKind::Resilver, _) => LastScan::OtherEnded(scan.end_time),
    }
}
