//! The HTTP interface of `weir serve`, on its Unix socket and over TCP.
//!
//! ```text
//!   tcp, socket ─> outer (host, headers) ─> route ─> guard (caller, role, CSRF, audit) ─> handler ─> House, Commands, Jobs, Accounts
//!                                             └ no route ─> the web page
//! ```
//!
//! Invariants:
//!   * every route is a row of the table of operations, and every row has a handler; a test checks
//!     this
//!   * changes of pools are verbs of `admin`, as for the commands that people type; reads use the
//!     newest synced view

mod activity;
mod alerts;
mod caller;
mod columns;
mod datasets;
mod guard;
mod invoke;
mod names;
mod operations;
mod people;
mod pictures;
mod pools;
mod reply;
mod shares;
mod snapshots;
mod statistics;
mod streams;
mod system;
mod to_api;
mod tree;
mod worksheets;

pub use caller::Caller;

use crate::access::password::Turns;
use crate::access::{Accounts, AuditLog, Hosts, Limits, Refusals, Sessions, SetupLink, now};
use crate::alerts::Alerts;
use crate::analytics::Analytics;
use crate::clients::Clients;
use crate::config::{Change, Config, Settings, Wrong};
use crate::events::{Events, Happening};
use crate::jobs::Jobs;
use crate::nbd;
use crate::nfs::{self, PoolExports};
use crate::otlp;
use crate::owner::Owner;
use crate::places::Places;
use crate::process::Process;
use crate::programs::Programs;
use crate::schedules;
use crate::smb::Smb;
use crate::tls;
use crate::watch::Wake;
use anyhow::Result;
use api::{Client, Device, EventKind, Method, SettingsChanged};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{MethodFilter, MethodRouter, on};
use observe::{Registry, Source};
use parking_lot::Mutex;
use serve::nfs::Server;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch::Receiver;

/// Changes the log level; the error says why the level is invalid.
pub type SetLevel = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Maximum size of a request.
const REQUEST_BYTES: usize = 1 << 20;

/// Limit for concurrent requests: fewer than the threads for them, so that one is left for health
/// checks.
const REQUESTS: usize = 384;
/// The same for one caller.
const REQUESTS_OF_ONE: usize = 64;
/// Limit for concurrent commands of callers other than the owner of the pools. Each has a thread.
const COMMANDS: usize = 256;
/// The same for one caller.
const COMMANDS_OF_ONE: usize = 32;

/// State shared by all handlers.
pub struct Service {
    /// The pools and the commands.
    pub owner: Arc<Owner>,
    pub settings: Settings,
    /// TLS configuration, if HTTPS is used.
    pub tls: OnceLock<Arc<tls::Current>>,
    /// Changes the log level.
    level: SetLevel,
    /// Users and tokens.
    pub accounts: Accounts,
    pub sessions: Sessions,
    /// Limits on password guessing.
    pub limits: Limits,
    /// Queue for checking passwords.
    pub turns: Turns,
    /// Changes when sessions or tokens end, or roles change.
    pub revocations: tokio::sync::watch::Sender<u64>,
    /// Active requests by caller.
    requests: Arc<Places<String>>,
    /// Running commands by caller.
    commands: Arc<Places<String>>,
    /// Open streams by caller.
    streams: Arc<Places<String>>,
    /// Refusals for the audit log.
    refusals: Refusals,
    /// The link for the first administrator.
    pub setup: SetupLink,
    pub audit: AuditLog,
    /// Recent events.
    pub events: Arc<Events>,
    /// Long-running work.
    pub jobs: Jobs,
    pub registry: Arc<Registry>,
    /// Guids of pools whose statistics are registered.
    listed: Mutex<BTreeSet<u64>>,
    /// Keeps the process's statistics registered.
    _process: Arc<dyn Source>,
    /// Start time of the process, in seconds since 1970.
    pub started: u64,
    /// Host names of this machine.
    pub hosts: Hosts,
    /// NFS shares.
    pub exports: Arc<PoolExports>,
    /// The NFS server, while it runs.
    pub nfs: Mutex<Option<Server>>,
    /// The NBD server, once the pools are open.
    pub nbd: Mutex<Option<serve::nbd::Server>>,
    /// Statistics per second.
    pub analytics: Analytics,
    /// Alerts on statistics.
    pub alerts: Alerts,
    clients: Clients,
    /// The SMB server, while it is enabled.
    pub smb: Smb,
    /// Wakes the thread that watches the pools.
    pub watch: Wake,
    /// Wakes the thread that takes snapshots by rule.
    pub schedules: Wake,
    /// Programs and webhooks for pool events.
    pub programs: Programs,
    /// Becomes true when the process stops.
    pub stopped: Receiver<bool>,
}

impl Service {
    /// Opens accounts, audit log and all other state in the state directory.
    pub fn new(owner: Arc<Owner>, settings: Settings, level: SetLevel, stopped: Receiver<bool>) -> Result<Arc<Self>> {
        let config = settings.now();
        let folder = owner.house.state().folder().to_owned();
        let events = Arc::new(Events::open(&folder)?);
        let (registry, process) = (Registry::new(), Arc::new(Process { started: now() }) as Arc<dyn Source>);
        registry.add(&[], &process);
        let analytics = Analytics::start(&owner, &folder, &config.analytics)?;
        let alerts = Alerts::open(&folder, analytics.engine.clone(), events.clone(), &config.alerts)?;
        let service = Arc::new(Self {
            accounts: Accounts::open(&folder)?,
            sessions: Sessions::new(config.api.session_hours),
            limits: Limits::default(),
            turns: Turns::default(),
            revocations: tokio::sync::watch::Sender::new(0),
            requests: Places::new(REQUESTS, REQUESTS_OF_ONE),
            commands: Places::new(COMMANDS, COMMANDS_OF_ONE),
            streams: streams::places(),
            refusals: Refusals::default(),
            setup: SetupLink::default(),
            audit: AuditLog::open(&folder)?,
            jobs: Jobs::open(events.clone(), &folder)?,
            events,
            registry,
            _process: process,
            listed: Mutex::default(),
            started: now(),
            hosts: Hosts::new(&config.api.hosts),
            exports: PoolExports::new(owner.clone(), &config.shares.options),
            nfs: Mutex::default(),
            nbd: Mutex::default(),
            analytics,
            alerts,
            clients: Clients::default(),
            smb: Smb::new(owner.clone(), &folder),
            watch: Wake::default(),
            schedules: Wake::default(),
            programs: Programs::start(&config.events, owner.house.zevents(), &folder),
            stopped,
            owner,
            settings,
            tls: OnceLock::new(),
            level,
        });
        otlp::start(&service)?;
        pool::devices::set_slow(Duration::from_millis(config.events.slow_ms));
        let of = Arc::downgrade(&service);
        let _ = service.owner.before_unmount.set(Box::new(move |dataset| {
            if let Some(service) = of.upgrade() {
                service.smb.release(&service.settings.now().smb, dataset);
            }
        }));
        let of = Arc::downgrade(&service);
        service.owner.flows.tell_to(service.analytics.events.clone());
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

    /// Applies live changes; on an error nothing has changed. Sets `fresh` if the certificate
    /// changed.
    fn apply(&self, config: &Config, fresh: &mut bool) -> Result<(), String> {
        let folder = self.owner.house.state().folder();
        let loaded = self.tls.get().map(|_| tls::load(&config.api, folder)).transpose();
        let loaded = loaded.map_err(|error| format!("{error:#}"))?;
        (self.level)(&config.log.level).map_err(|why| format!("log.level is '{}': {why}", config.log.level))?;
        if let (Some(current), Some(loaded)) = (self.tls.get(), loaded) {
            *fresh = current.replace(loaded);
        }
        self.owner.house.set_cache_bytes(config.arc_max.0);
        self.owner.mounts.set_automatic(config.mount);
        self.owner.mounts.set_uring(config.mount_uring);
        self.sessions.set_hours(config.api.session_hours);
        self.hosts.set(&config.api.hosts);
        pool::devices::set_slow(Duration::from_millis(config.events.slow_ms));
        self.exports.set_on(&config.shares.options);
        self.analytics.engine.switch(config.analytics.enabled);
        Ok(())
    }

    /// Re-reads configuration and certificate. The error contains all problems; then nothing has
    /// changed.
    pub fn reload(&self, by: &str) -> Result<SettingsChanged, String> {
        let mut fresh = false;
        let done = self.settings.reload(|config| self.apply(config, &mut fresh));
        self.told("the configuration was read", done, fresh, by)
    }

    /// Changes settings, for this process and later ones.
    pub fn change_settings(&self, set: &BTreeMap<String, Option<String>>, by: &str) -> Result<SettingsChanged, String> {
        let mut fresh = false;
        let done = self.settings.change(set, |config| self.apply(config, &mut fresh));
        self.told("settings were changed", done, fresh, by)
    }

    fn told(
        &self,
        what: &str,
        done: Result<Change, Vec<Wrong>>,
        fresh: bool,
        by: &str,
    ) -> Result<SettingsChanged, String> {
        let names = |names: Vec<&'static str>| names.into_iter().map(str::to_owned).collect::<Vec<String>>();
        let done =
            done.map(|change| SettingsChanged { changed: names(change.changed), restart: names(change.restart) });
        match done {
            Ok(mut done) => {
                if fresh && !done.changed.iter().any(|name| name == "api.certificate") {
                    done.changed.push("api.certificate".to_owned());
                }
                let mut message = match done.changed.is_empty() {
                    true => format!("{what}: nothing changed"),
                    false => format!("{what}: changed: {}", done.changed.join(", ")),
                };
                if !done.restart.is_empty() {
                    message += &format!("; after a restart: {}", done.restart.join(", "));
                }
                tracing::info!(changed = ?done.changed, restart = ?done.restart, "{what}");
                self.events.tell(Happening::info(EventKind::Service, message).by(by));
                Ok(done)
            }
            Err(wrong) => {
                let why = crate::run::all(&wrong);
                tracing::error!(why, "the configuration is invalid, nothing changed");
                let message = format!("the configuration is invalid, nothing changed: {why}");
                self.events.tell(Happening::error(EventKind::Service, message).by(by));
                Err(why)
            }
        }
    }

    /// Reports that a command was run that may have changed something.
    pub fn ran(&self, caller: &Caller, line: &str, code: u8) {
        let happening = match code {
            0 => Happening::info(EventKind::Command, line),
            code => Happening::warning(EventKind::Command, format!("{line}: exited with {code}")),
        };
        self.events.tell(happening.by(caller.name()));
        self.reschedule(line);
    }

    /// Checks the rules for snapshots again if the command may have changed them.
    pub fn reschedule(&self, line: &str) {
        if schedules::concerns(line) {
            self.schedules.wake();
        }
    }

    /// Registers the statistics of pools that were opened since the last call.
    pub fn list_figures(&self) {
        let mut listed = self.listed.lock();
        let pools = self.owner.house.list();
        listed.retain(|guid| pools.iter().any(|p| p.guid() == *guid));
        for pool in pools {
            let labels = [("pool", pool.name())];
            let labels: Vec<(&str, &str)> = labels.iter().map(|(n, v)| (*n, v.as_str())).collect();
            let source: Arc<dyn Source> = match pool.writable() {
                Some(writable) => writable.live.clone(),
                None => pool.store().clone(),
            };
            if listed.insert(pool.guid()) {
                self.registry.add(&labels, &source);
            }
        }
    }

    /// Devices of a pool, including caches and spares.
    pub fn devices(&self, pool: &str) -> Option<Vec<Device>> {
        let pool = self.owner.house.list().into_iter().find(|p| p.name() == pool)?;
        let status = to_api::pool_view(&pool).ok()?.status;
        let spares = status.spares.iter().map(|d| to_api::device(d, true));
        let others = std::iter::once(&status.root).chain(&status.caches);
        Some(others.map(|d| to_api::device(d, false)).chain(spares).collect())
    }

    /// Makes the NFS server drop removed shares.
    pub fn refresh_nfs(&self) {
        if let Some(server) = &*self.nfs.lock() {
            server.refresh();
        }
    }

    /// Starts the NFS server if it is configured.
    pub fn start_nfs(&self) -> Result<()> {
        let server = nfs::start(&self.settings.now(), self.owner.house.state().folder(), self.exports.clone())?;
        if let Some(server) = &server {
            self.registry.add(&[], &(server.core().figures.clone() as Arc<dyn Source>));
            self.analytics.serves(&server.core().figures);
        }
        *self.nfs.lock() = server;
        Ok(())
    }

    /// Starts the NBD server if it is configured.
    pub fn start_nbd(&self) -> Result<()> {
        let state = self.owner.house.state().folder();
        let server = nbd::start(&self.settings.now(), state, &self.owner, self.tls.get().cloned())?;
        if let Some(server) = &server {
            self.registry.add(&[], &(server.figures().clone() as Arc<dyn Source>));
            server.figures().tell_to(self.analytics.events.clone());
        }
        *self.nbd.lock() = server;
        Ok(())
    }

    /// Clients of the NFS server.
    pub fn clients(&self) -> Vec<Client> {
        let server = self.nfs.lock();
        server.as_ref().map_or_else(Vec::new, |server| self.clients.look(|| server.clients()))
    }
}

/// The handler of an operation.
fn handler(id: &str, filter: MethodFilter) -> Option<MethodRouter<Arc<Service>>> {
    Some(match id {
        "getHealth" => on(filter, system::healthz),
        "getReadiness" => on(filter, system::readyz),
        "getMetrics" => on(filter, system::metrics),
        "getVersion" => on(filter, system::version),
        "getSystem" => on(filter, system::system),
        "listSettings" => on(filter, system::settings),
        "changeSettings" => on(filter, system::change_settings),
        "reloadSettings" => on(filter, system::reload_settings),
        "getSetup" => on(filter, people::setup_state),
        "setUp" => on(filter, people::set_up),
        "logIn" => on(filter, people::log_in),
        "getSession" => on(filter, people::session),
        "logOut" => on(filter, people::log_out),
        "changePassword" => on(filter, people::change_password),
        "listUsers" => on(filter, people::users),
        "createUser" => on(filter, people::create_user),
        "changeUser" => on(filter, people::change_user),
        "deleteUser" => on(filter, people::delete_user),
        "listTokens" => on(filter, people::tokens),
        "createToken" => on(filter, people::create_token),
        "deleteToken" => on(filter, people::delete_token),
        "listAudit" => on(filter, activity::audit),
        "listPools" => on(filter, pools::list),
        "createPool" => on(filter, pools::create),
        "listImportablePools" => on(filter, pools::importable),
        "importPool" => on(filter, pools::import),
        "getPool" => on(filter, pools::get),
        "listPoolProperties" => on(filter, pools::properties),
        "setPoolProperties" => on(filter, pools::set_properties),
        "exportPool" => on(filter, pools::export),
        "destroyPool" => on(filter, pools::destroy),
        "syncPool" => on(filter, pools::sync),
        "clearPool" => on(filter, pools::clear),
        "listDatasets" => on(filter, datasets::list),
        "createDataset" => on(filter, datasets::create),
        "getDataset" => on(filter, datasets::get),
        "setDatasetProperties" => on(filter, datasets::set_properties),
        "renameDataset" => on(filter, datasets::rename),
        "destroyDataset" => on(filter, snapshots::destroy),
        "previewDestroy" => on(filter, snapshots::preview),
        "createSnapshots" => on(filter, snapshots::create),
        "rollBack" => on(filter, snapshots::roll_back),
        "cloneSnapshot" => on(filter, snapshots::clone),
        "promoteClone" => on(filter, snapshots::promote),
        "createBookmark" => on(filter, snapshots::bookmark),
        "listHolds" => on(filter, snapshots::holds),
        "holdSnapshot" => on(filter, snapshots::hold),
        "releaseSnapshot" => on(filter, snapshots::release),
        "loadKey" => on(filter, datasets::load_key),
        "unloadKey" => on(filter, datasets::unload_key),
        "listPropertyDefinitions" => on(filter, datasets::definitions),
        "listShares" => on(filter, shares::list),
        "setShare" => on(filter, shares::set),
        "listClients" => on(filter, shares::clients),
        "listJobs" => on(filter, activity::jobs),
        "startJob" => on(filter, activity::start_job),
        "getJob" => on(filter, activity::job),
        "cancelJob" => on(filter, activity::cancel_job),
        "listEvents" => on(filter, activity::events),
        "streamEvents" => on(filter, activity::stream),
        "listStatistics" => on(filter, statistics::list),
        "listCounted" => on(filter, statistics::datasets),
        "countStatistic" => on(filter, statistics::count),
        "changeCounted" => on(filter, statistics::change),
        "deleteCounted" => on(filter, statistics::delete),
        "pruneCounted" => on(filter, statistics::prune),
        "queryStatistic" => on(filter, statistics::query),
        "streamStatistics" => on(filter, columns::stream),
        "listOperations" => on(filter, operations::list),
        "explainStatistic" => on(filter, statistics::explain),
        "listWorksheets" => on(filter, worksheets::list),
        "createWorksheet" => on(filter, worksheets::create),
        "getWorksheet" => on(filter, worksheets::get),
        "saveWorksheet" => on(filter, worksheets::save),
        "deleteWorksheet" => on(filter, worksheets::delete),
        "drawStatistic" => on(filter, pictures::picture),
        "exportStatistic" => on(filter, pictures::export),
        "listAlerts" => on(filter, alerts::list),
        "createAlert" => on(filter, alerts::create),
        "getAlert" => on(filter, alerts::get),
        "replaceAlert" => on(filter, alerts::replace),
        "deleteAlert" => on(filter, alerts::delete),
        "runCommand" => on(filter, activity::command),
        "answerCommand" => on(filter, activity::answer),
        "writeCommandInput" => on(filter, activity::bytes),
        "readCommandOutput" => on(filter, activity::output),
        _ => return None,
    })
}

/// Routes of the whole interface and the page.
pub fn router(service: &Arc<Service>) -> Router {
    let mut paths: BTreeMap<&str, MethodRouter<Arc<Service>>> = BTreeMap::new();
    for operation in api::operations() {
        let filter = match operation.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        let Some(handler) = handler(operation.id, filter) else { continue };
        let there = paths.remove(operation.path).unwrap_or_default();
        paths.insert(operation.path, there.merge(handler));
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        router = router.route(path, methods.fallback(reply::unknown));
    }
    router
        .route_layer(middleware::from_fn_with_state(service.clone(), guard::guard))
        .route("/v1/{*rest}", axum::routing::any(reply::unknown))
        .fallback(crate::page::page)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .layer(middleware::from_fn_with_state(service.clone(), guard::outer))
        .with_state(service.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_handler() {
        for operation in api::operations() {
            assert!(handler(operation.id, MethodFilter::GET).is_some(), "{}", operation.id);
        }
    }
}
