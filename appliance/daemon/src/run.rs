//! `weir serve`: from locking the state directory to closing the last pool.

use crate::config::{Settings, Source, Wrong};
use crate::events::Happening;
use crate::mounts::Mounts;
use crate::owner::{Commands, Owner};
use crate::peer::Peer;
use crate::service::{Service, SetLevel};
use crate::{otlp, schedules, socket, tcp, tls, watch as watching, web};
use admin::house::Scope;
use admin::state::State;
use admin::{House, OwnedPool};
use anyhow::{Context as _, Result};
use api::EventKind;
use axum::Router;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::runtime::{Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Time limit for commands to end when the daemon stops.
const COMMANDS_END: Duration = Duration::from_secs(5);
/// Time to wait at the start for a pool that another process has: a command may be about to end.
const IN_USE: Duration = Duration::from_secs(10);
const IN_USE_POLL: Duration = Duration::from_millis(100);

/// File descriptor limit of the process: more than all connections together.
const DESCRIPTORS: u64 = 65_536;

/// Time limit for jobs to end when the daemon stops.
const JOBS_END: Duration = Duration::from_secs(5);

/// Runs the daemon for the pools of `state` until a signal ends it. `level` changes the log level.
pub fn run(state: State, source: Source, commands: Arc<dyn Commands>, level: SetLevel) -> Result<()> {
    let settings = Settings::open(source, state.folder()).map_err(|wrong| anyhow::anyhow!(Wrong::join(&wrong)))?;
    let config = settings.now();
    let mut listening = socket::listen(&socket::of_daemon(state.folder()))?;
    raise_descriptors();
    host::device::set_io(config.io);
    let house = House::new(state, Scope::All, Some(config.arc_max.0));
    let mounts = Mounts::new(!config.mount);
    mounts.set_uring(config.mount_uring);
    let owner = Owner::new(house, mounts, commands);
    // Network clients have threads of their own: they cannot block the local socket.
    let (runtime, network) = (threads("weir-local")?, threads("weir-http")?);
    let listener = listening.listener().context("the socket was replaced")?;
    let result = runtime.block_on(until_stopped(&owner, settings, level, listener, network.handle()));
    // Any remaining command has no client, or waits for a device.
    network.shutdown_timeout(Duration::from_millis(100));
    runtime.shutdown_timeout(Duration::from_millis(100));
    owner.mounts.unmount_all();
    for (pool, error) in owner.house.close_all() {
        tracing::error!(pool, error = %format!("{error:#}"), "closed, but some data was not written to disk");
    }
    tracing::info!("stopped");
    result
}

/// Shells give a process 1,024 descriptors, and each connection, file and device takes one.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit })
    {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

fn threads(name: &str) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).thread_name(name).enable_all().build().context("cannot start threads")
}

async fn until_stopped(
    owner: &Arc<Owner>,
    settings: Settings,
    level: SetLevel,
    listener: std::os::unix::net::UnixListener,
    network: &Handle,
) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    listener.set_nonblocking(true).context("the control socket")?;
    let listener = UnixListener::from_std(listener).context("the control socket")?;
    let (stop, stopped) = watch::channel(false);
    let service = Service::new(owner.clone(), settings, level, stopped.clone())?;
    otlp::start(&service)?;
    let router = web::router(&service);
    listen(&service, &router, &stopped, network)?;
    let watcher = service.clone();
    let watcher = tokio::task::spawn_blocking(move || watching::watch(&watcher));
    let taking = service.clone();
    tokio::task::spawn_blocking(move || schedules::keep(&taking, &host::clock::seconds));
    let router = router.into_make_service_with_connect_info::<Peer>();
    let server = axum::serve(listener, router).with_graceful_shutdown(async move {
        let mut stopped = stopped;
        let _ = stopped.wait_for(|stopped| *stopped).await;
    });
    let http = tokio::spawn(async move { server.await });

    let opener = owner.clone();
    let opened = tokio::task::spawn_blocking(move || open_all(&opener));
    let mut opened = Some(opened);
    // Twice per watchdog period of systemd; never without a watchdog.
    let mut alive = sd_notify::watchdog_enabled().map(|within| tokio::time::interval(within / 2));
    let mut failure = None;
    loop {
        tokio::select! {
            _ = async { opened.as_mut().expect("checked").await }, if opened.is_some() => {
                opened = None;
                owner.ready();
                // Not earlier: until its pools are open, clients would get errors for their files.
                service.servers.exports.changed();
                if let Err(error) = service.start_nfs().and_then(|()| service.start_nbd()) {
                    failure = Some(error);
                    break;
                }
                service.signals.watch.wake();
                service.events.post(Happening::info(EventKind::Service, "the daemon has started"));
                notify(&[NotifyState::Ready]);
                tracing::info!(pools = owner.house.list().len(), "ready");
            }
            _ = async { alive.as_mut().expect("checked").tick().await }, if alive.is_some() => {
                notify(&[NotifyState::Watchdog]);
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                let now = NotifyState::monotonic_usec_now();
                notify(&[NotifyState::Reloading, now.unwrap_or(NotifyState::Status("reloading"))]);
                let (opener, reloader) = (owner.clone(), service.clone());
                let _ = tokio::task::spawn_blocking(move || {
                    // The result is in the log and among the events.
                    let _ = reloader.reload("SIGHUP");
                    open_all(&opener);
                    reloader.changed("");
                })
                .await;
                notify(&[NotifyState::Ready]);
            }
        }
    }
    notify(&[NotifyState::Stopping]);
    tracing::info!("stopping");
    // Streams end at once: their clients would delay the rest.
    let _ = stop.send(true);
    service.signals.watch.end();
    service.signals.schedules.end();
    let jobs = service.clone();
    let _ = tokio::task::spawn_blocking(move || jobs.jobs.interrupt_all(JOBS_END)).await;
    // NFS clients wait for the next process: everything confirmed to them is on disk.
    let serving = service.clone();
    let _ = tokio::task::spawn_blocking(move || drop(serving.servers.nfs.lock().take())).await;
    let serving = service.clone();
    let _ = tokio::task::spawn_blocking(move || drop(serving.servers.nbd.lock().take())).await;
    let serving = service.clone();
    let _ = tokio::task::spawn_blocking(move || serving.servers.smb.stop()).await;
    let alerting = service.clone();
    let _ = tokio::task::spawn_blocking(move || alerting.alerts.stop()).await;
    let running = service.clone();
    let _ = tokio::task::spawn_blocking(move || running.programs.stop()).await;
    let counting = service.clone();
    let _ = tokio::task::spawn_blocking(move || counting.analytics.stop()).await;
    let stopping = owner.clone();
    let ended = tokio::task::spawn_blocking(move || stopping.stop(COMMANDS_END)).await;
    if !matches!(ended, Ok(true)) {
        tracing::warn!("some commands had not ended");
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), http).await;
    let _ = tokio::time::timeout(Duration::from_secs(1), watcher).await;
    failure.map_or(Ok(()), Err)
}

/// Serves over TCP if configured, and prints how to create the first administrator.
fn listen(service: &Arc<Service>, router: &Router, stopped: &watch::Receiver<bool>, network: &Handle) -> Result<()> {
    let _inside = network.enter();
    let config = service.settings.now();
    let api = &config.api;
    let Some(first) = api.listen.first() else { return Ok(()) };
    let state = service.owner.house.state().folder();
    if !api.plain_http {
        let current = tls::Current::new(tls::load(api, state)?);
        let _ = service.servers.tls.set(current);
    }
    let acceptor = service.servers.tls.get().cloned();
    let scheme = if api.plain_http { "http" } else { "https" };
    let mut shown = *first;
    for address in &api.listen {
        let listener = tcp::bind(*address)?;
        let bound = listener.local_addr()?;
        if address == first {
            shown = bound;
        }
        tracing::info!(url = %format!("{scheme}://{bound}/"), "listening");
        network.spawn(tcp::serve(listener, acceptor.clone(), router.clone(), stopped.clone()));
    }
    if service.access.accounts.is_empty() {
        if shown.ip().is_unspecified() {
            shown.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        let url = format!("{scheme}://{shown}/setup#token={}", service.access.setup.make());
        // On a line of its own, so that it is clickable in a terminal.
        eprintln!(
            "weir: there are no users yet. Create the first administrator with this link (valid for an hour, once):\n  {url}"
        );
    }
    Ok(())
}

/// Notifies systemd, if it started this process.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

/// Opens all imported pools in parallel: a slow or damaged one delays no other.
fn open_all(owner: &Arc<Owner>) {
    let records = match owner.house.state().pools() {
        Ok(records) => records,
        Err(error) => return tracing::error!(error = %format!("{error:#}"), "cannot read the list of imported pools"),
    };
    std::thread::scope(|scope| {
        for record in &records {
            scope.spawn(move || match patiently(|| owner.house.import(record)) {
                Ok(pool) if owner.mounts.is_automatic() && !record.no_mount => mount_all(owner, &pool),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(pool = record.name, error = %format!("{error:#}"), "cannot be opened");
                }
            });
        }
    });
}

/// Retries for a while if another process has the pool.
fn patiently(open: impl Fn() -> Result<Arc<OwnedPool>>) -> Result<Arc<OwnedPool>> {
    let deadline = Instant::now() + IN_USE;
    loop {
        match open() {
            Err(error) if admin::write::is_in_use(&error) && Instant::now() < deadline => {
                std::thread::sleep(IN_USE_POLL);
            }
            result => return result,
        }
    }
}

/// Mounts the file systems of a pool that are mounted automatically and are not mounted yet.
fn mount_all(owner: &Arc<Owner>, pool: &OwnedPool) {
    let all = match admin::mounts::rules::all(pool, admin::mounts::Redacted::Skip) {
        Ok(all) => all,
        Err(error) => return tracing::error!(pool = pool.name(), error = %format!("{error:#}"), "nothing is mounted"),
    };
    for (dataset, plan) in all.iter().filter(|(dataset, _)| owner.mounts.of(dataset).is_none()) {
        if let Err(error) = owner.mounts.mount(pool, dataset, plan) {
            tracing::warn!(dataset, place = %plan.place.display(), error = admin::mounts::text(&error), "not mounted");
        }
    }
}
