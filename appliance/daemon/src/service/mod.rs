//! The state of `weir serve`, below everything that uses it: the HTTP interface, the threads that
//! watch the pools, take snapshots and push statistics, and the start of the process.
//!
//! ```text
//!   web, watch, schedules, otlp ─> Service ─┬─> access: users, sessions, limits, audit log
//!                                           ├─> servers: HTTPS, NFS, NBD, SMB
//!                                           ├─> metrics, analytics, alerts, programs
//!                                           ├─> events, jobs
//!                                           └─> Owner: pools, mounts, commands
//! ```

mod access;
mod changes;
mod metrics;
mod pools;
mod reload;
mod servers;
pub(crate) mod to_api;

pub use access::Access;
pub use changes::changes_schedules;
pub use metrics::Metrics;
pub use pools::ReadPool;
pub use servers::Servers;

use crate::alerts::Alerts;
use crate::analytics::Analytics;
use crate::config::Settings;
use crate::events::Events;
use crate::health::HealthWatch;
use crate::jobs::Jobs;
use crate::owner::Owner;
use crate::programs::Programs;
use crate::wake::Wake;
use crate::{nbd, nfs};
use anyhow::Result;
use observe::Source;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch::Receiver;

/// Changes the log level; the error says why the level is invalid.
pub type SetLevel = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The state, shared by all its users.
pub struct Service {
    /// The pools and the commands.
    pub owner: Arc<Owner>,
    pub settings: Settings,
    /// Changes the log level.
    level: SetLevel,
    pub access: Access,
    /// The last 10,000 events, and their subscribers.
    pub events: Arc<Events>,
    /// Work that continues after its request, and its results.
    pub jobs: Jobs,
    pub metrics: Metrics,
    pub servers: Servers,
    /// Statistics of operations, for each second.
    pub analytics: Analytics,
    /// Thresholds on statistics, and their notifications.
    pub alerts: Alerts,
    /// The verdict on everything.
    pub health: Arc<HealthWatch>,
    /// Programs and webhooks for pool events.
    pub programs: Programs,
    pub signals: Signals,
}

/// What threads wait for besides their work.
pub struct Signals {
    /// Wakes the thread that watches the pools.
    pub watch: Wake,
    /// Wakes the thread that takes snapshots by rule.
    pub schedules: Wake,
    /// Becomes true when the process stops.
    pub stopped: Receiver<bool>,
}

impl Service {
    /// Opens accounts, audit log and all other state in the state directory.
    pub fn new(owner: Arc<Owner>, settings: Settings, level: SetLevel, stopped: Receiver<bool>) -> Result<Arc<Self>> {
        let config = settings.now();
        let folder = owner.house.state().folder().to_owned();
        let events = Arc::new(Events::open(&folder)?);
        let metrics = Metrics::of_process();
        let health = HealthWatch::open(&folder);
        metrics.registry.add(&[], &(health.clone() as Arc<dyn Source>));
        let analytics = Analytics::start(&owner, &folder, &config.analytics, &health.measures)?;
        let alerts = Alerts::open(&folder, analytics.engine.clone(), events.clone(), &config.alerts)?;
        let service = Arc::new(Self {
            access: Access::open(&folder, &config.api)?,
            jobs: Jobs::open(events.clone(), &folder)?,
            events,
            metrics,
            servers: Servers::new(&owner, &config, &folder),
            analytics,
            alerts,
            health,
            programs: Programs::start(&config.events, owner.house.zevents(), &folder),
            signals: Signals { watch: Wake::default(), schedules: Wake::default(), stopped },
            owner,
            settings,
            level,
        });
        pool::devices::set_slow(Duration::from_millis(config.events.slow_ms));
        pool::mmp::set_settings(config.multihost.settings());
        admin::import::set_missing_max(config.import.missing_vdevs);
        let of = Arc::downgrade(&service);
        let _ = service.owner.before_unmount.set(Box::new(move |dataset| {
            if let Some(service) = of.upgrade() {
                service.servers.smb.release(&service.settings.now().smb, dataset);
            }
        }));
        let of = Arc::downgrade(&service);
        service.owner.flows.record_to(service.analytics.events.clone());
        service.owner.flows.report_to(Box::new(move |flow, outcome| {
            if let Some(service) = of.upgrade() {
                service.health.streams.record(flow.kind(), flow.target(), outcome, host::clock::seconds());
            }
        }));
        let of = Arc::downgrade(&service);
        service.owner.flows.show_by(Box::new(move |flow| {
            let Some(service) = of.upgrade() else { return };
            let followed = flow.clone();
            let shown = service.jobs.start(flow.kind(), flow.target(), &flow.by(), move |job| followed.follow(job));
            if let Err(why) = shown {
                tracing::warn!(target = flow.target(), why, "cannot show the stream");
            }
        }));
        Ok(service)
    }

    /// Registers the statistics of pools that were opened since the last call.
    pub fn list_figures(&self) {
        self.metrics.list_pools(&self.owner.house);
    }

    /// Starts the NFS server if it is configured.
    pub fn start_nfs(&self) -> Result<()> {
        let server = nfs::start(&self.settings.now(), self.owner.house.state().folder(), self.servers.exports.clone())?;
        if let Some(server) = &server {
            self.metrics.registry.add(&[], &(server.core().figures.clone() as Arc<dyn Source>));
            self.analytics.serves(&server.core().figures);
        }
        *self.servers.nfs.lock() = server;
        Ok(())
    }

    /// Starts the NBD server if it is configured.
    pub fn start_nbd(&self) -> Result<()> {
        let state = self.owner.house.state().folder();
        let server = nbd::start(&self.settings.now(), state, &self.owner, self.servers.tls.get().cloned())?;
        if let Some(server) = &server {
            self.metrics.registry.add(&[], &(server.figures().clone() as Arc<dyn Source>));
            server.figures().record_to(self.analytics.events.clone());
        }
        *self.servers.nbd.lock() = server;
        Ok(())
    }
}
