//! Activity: jobs, events, the live stream, the audit log, and commands as on the command line.

use super::caller::Caller;
use super::guard::Audited;
use super::names::dataset_name;
use super::reply::{Answer, Body, Created, Done, Page, Path, Problem, Query, limit, waiting};
use super::streams::{self, HEARTBEAT};
use crate::body::{Lines, chunks, pass};
use crate::command::{Io, in_thread};
use crate::http::OutputOf;
use crate::jobs::{Finished, Running, cannot_be_stopped, is_stream};
use crate::service::Service;
use crate::{scan_job, verify};
use admin::OwnedPool;
use admin::verbs::pool_of;
use api::{
    AuditList, CommandAnswer, CommandFrame, CommandRequest, ErrorCode, EventList, Job, JobKind, JobList, LiveMessage,
    Outcome, StartJob,
};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Sender, channel};

/// Limit for messages that a client has not read yet.
const UNREAD: usize = 64;
/// Limit for frames of a command that its client has not read yet.
const FRAMES: usize = 16;

pub async fn jobs(State(service): State<Arc<Service>>) -> Json<JobList> {
    Json(JobList { items: service.jobs.list(), next: None })
}

pub async fn start_job(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<StartJob>,
) -> Answer<Response> {
    let StartJob { kind, target } = request;
    if cannot_be_stopped(kind) || is_stream(kind) {
        let message = match is_stream(kind) {
            true => "a job of this kind is started by its command",
            false => "a job of this kind starts automatically when needed",
        };
        return Err(Problem::new(ErrorCode::InvalidRequest, message).at("kind"));
    }
    dataset_name("target", &target)?;
    let pool = service.pool(&target)?;
    let by = caller.name();
    let target_too = target.clone();
    let job = waiting(move || {
        if kind == JobKind::Scrub {
            scan_job::begin(&pool).map_err(|why| Problem::new(ErrorCode::Conflict, why).at(target.clone()))?;
        }
        let started = service.jobs.start(kind, &target, &by, work(kind, pool));
        // The watching thread may have noticed the scrub first.
        let shown = || service.jobs.running_on(&[JobKind::Scrub], &target).filter(|_| kind == JobKind::Scrub);
        let started = started.or_else(|why| shown().ok_or(why));
        started.map_err(|why| Problem::new(ErrorCode::Conflict, why).at(target))
    });
    let audited = Extension(Audited { target: Some(target_too), ..Audited::default() });
    Ok((audited, Created(job.await?)).into_response())
}

fn work(kind: JobKind, pool: Arc<OwnedPool>) -> impl FnOnce(&Running) -> anyhow::Result<Finished> + Send + 'static {
    move |running| match kind {
        JobKind::Verify => verify::verify(&pool, running),
        JobKind::Scrub | JobKind::Resilver | JobKind::Destroy => scan_job::follow(&pool, running),
        JobKind::Send | JobKind::Receive => anyhow::bail!("it is started by its command"),
    }
}

fn no_job(id: u64) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("no such job: {id}"))
}

pub async fn job(State(service): State<Arc<Service>>, Path(id): Path<u64>) -> Answer<Json<Job>> {
    service.jobs.get(id).map(Json).ok_or_else(|| no_job(id))
}

pub async fn cancel_job(State(service): State<Arc<Service>>, Path(id): Path<u64>) -> Answer<Json<Job>> {
    let job = service.jobs.get(id).filter(|job| job.ended.is_none());
    let refused = |message: &str| Err(Problem::new(ErrorCode::Conflict, message).at(id.to_string()));
    match job.as_ref().map(|job| job.kind) {
        Some(JobKind::Destroy) => {
            return refused("destroyed data cannot be recovered: its space is being freed");
        }
        Some(JobKind::Resilver) => return refused("a resilver cannot be stopped, because devices lack data"),
        Some(JobKind::Scrub) => {
            let pool = service.pool(&job.map(|job| job.target).unwrap_or_default())?;
            let stopped = waiting(move || scan_job::stop(&pool).map_err(|why| Problem::new(ErrorCode::Conflict, why)));
            stopped.await?;
        }
        Some(JobKind::Verify | JobKind::Send | JobKind::Receive) | None => {}
    }
    service.jobs.cancel(id).map(Json).ok_or_else(|| no_job(id))
}

/// Query of `GET /v1/events`.
#[derive(Deserialize)]
pub struct After {
    after: Option<u64>,
    limit: Option<u64>,
}

pub async fn events(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(page): Query<After>,
) -> Answer<Json<EventList>> {
    let (items, more) = service.events.after(page.after, limit(page.limit)?, service.sight(&caller));
    let next = if more { items.last().map(|e| e.id.to_string()) } else { None };
    Ok(Json(EventList { items, next }))
}

pub async fn audit(State(service): State<Arc<Service>>, Query(page): Query<Page>) -> Answer<Json<AuditList>> {
    waiting(move || {
        let (skip, limit) = (page.skip()?, page.limit()?);
        let (items, more) = service.access.audit.read(skip, limit);
        Ok(Json(AuditList { items, next: more.then(|| skip.saturating_add(limit).to_string()) }))
    })
    .await
}

/// Query of `GET /v1/events/stream`.
#[derive(Deserialize)]
pub struct Topics {
    topics: Option<String>,
}

#[derive(Clone, Copy, Default)]
struct Wanted {
    events: bool,
    pools: bool,
    jobs: bool,
    datasets: bool,
    clients: bool,
    health: bool,
}

impl Topics {
    fn wanted(&self) -> Answer<Wanted> {
        let Some(list) = &self.topics else {
            return Ok(Wanted { events: true, pools: true, jobs: true, datasets: true, clients: true, health: true });
        };
        let mut wanted = Wanted::default();
        for topic in list.split(',') {
            match topic.trim() {
                "events" => wanted.events = true,
                "pools" => wanted.pools = true,
                "jobs" => wanted.jobs = true,
                "datasets" => wanted.datasets = true,
                "clients" => wanted.clients = true,
                "health" => wanted.health = true,
                other => {
                    return Err(Problem::invalid(
                        "topics",
                        format!("'{other}'"),
                        "events, pools, jobs, datasets, clients or health",
                    ));
                }
            }
        }
        Ok(wanted)
    }
}

impl Wanted {
    fn has(self, message: &LiveMessage) -> bool {
        match message {
            LiveMessage::Event { .. } => self.events,
            LiveMessage::Missed => true,
            LiveMessage::Pools { .. } => self.pools,
            LiveMessage::Job { .. } => self.jobs,
            LiveMessage::Datasets { .. } => self.datasets,
            LiveMessage::Clients { .. } => self.clients,
            LiveMessage::Health { .. } => self.health,
        }
    }
}

pub async fn stream(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(topics): Query<Topics>,
    headers: HeaderMap,
) -> Answer<Response> {
    let wanted = topics.wanted()?;
    let place = service.stream_place(&caller)?;
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()?.parse().ok());
    let (to, from) = channel(UNREAD);
    tokio::spawn(async move {
        let _place = place;
        send_updates(&service, &caller, wanted, last, &to).await;
    });
    Ok(streams::events(from))
}

/// A comment: nothing happened, but the server answers.
const SILENCE: Bytes = Bytes::from_static(b": \n\n");

/// Sends messages until the client disconnects or loses its permission, or the process stops.
async fn send_updates(service: &Arc<Service>, caller: &Caller, wanted: Wanted, last: Option<u64>, to: &Sender<Bytes>) {
    let (missed, mut live) = service.events.listen(last, service.sight(caller));
    let begin = service.clone();
    let mut pools = std::pin::pin!(tokio::task::spawn_blocking(move || {
        let read = begin.read_pools();
        let health = begin.health.assess(&begin, &read);
        (read.into_iter().map(|read| read.pool).collect(), health)
    }));
    // Its first tick comes at once: a pool that does not answer is not a silent server.
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    let (pools, health) = loop {
        tokio::select! {
            both = &mut pools => break both.map_or_else(|_| Default::default(), |(pools, health)| (pools, Some(health))),
            _ = heartbeat.tick() => if to.send(SILENCE).await.is_err() { return },
            _ = to.closed() => return,
        }
    };
    let jobs = service.jobs.list().into_iter().rev().map(|job| LiveMessage::Job { job });
    let health = health.map(|health| LiveMessage::Health { health });
    let first = missed.into_iter().chain([LiveMessage::Pools { pools }]).chain(health).chain(jobs);
    for message in first.filter(|m| wanted.has(m)) {
        if to.send(text(&message)).await.is_err() {
            return;
        }
    }
    let mut stopped = service.signals.stopped.clone();
    let mut over = std::pin::pin!(service.until_over(caller));
    loop {
        let chunk = tokio::select! {
            message = live.recv() => match message.map(|m| m.seen(service.sight(caller))) {
                Ok(message) if wanted.has(&message) => text(&message),
                Ok(_) => continue,
                Err(RecvError::Lagged(_)) => text(&LiveMessage::Missed),
                Err(RecvError::Closed) => return,
            },
            _ = heartbeat.tick() => SILENCE,
            () = &mut over => return,
            _ = to.closed() => return,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if to.send(chunk).await.is_err() {
            return;
        }
    }
}

fn text(message: &LiveMessage) -> Bytes {
    let (name, id) = match message {
        LiveMessage::Event { event } => ("event", format!("id: {}\n", event.id)),
        LiveMessage::Missed => ("missed", String::new()),
        LiveMessage::Pools { .. } => ("pools", String::new()),
        LiveMessage::Job { .. } => ("job", String::new()),
        LiveMessage::Datasets { .. } => ("datasets", String::new()),
        LiveMessage::Clients { .. } => ("clients", String::new()),
        LiveMessage::Health { .. } => ("health", String::new()),
    };
    let data = serde_json::to_string(message).unwrap_or_default();
    format!("event: {name}\n{id}data: {data}\n\n").into()
}

/// Delivers the answer to a command's question.
pub async fn answer(State(service): State<Arc<Service>>, Body(answer): Body<CommandAnswer>) -> Answer<Response> {
    // The number of the question is the authorization: only the client that was asked knows it.
    match service.owner.questions.answer(answer) {
        true => Ok((Extension(Audited { own: true, ..Audited::default() }), Done).into_response()),
        false => Err(Problem::new(ErrorCode::NotFound, "no command is waiting for this answer")),
    }
}

/// Delivers input to a command.
pub async fn bytes(
    State(service): State<Arc<Service>>,
    Query(of): Query<OutputOf>,
    body: axum::body::Body,
) -> Answer<Response> {
    let unknown = || Problem::new(ErrorCode::NotFound, "no command with this number is waiting for input");
    let to = service.owner.questions.input(&of.id).ok_or_else(unknown)?;
    pass(body, to).await;
    Ok((Extension(Audited { own: true, ..Audited::default() }), Done).into_response())
}

/// Returns the output of a command.
pub async fn output(State(service): State<Arc<Service>>, Query(of): Query<OutputOf>) -> Answer<Response> {
    let unknown = || Problem::new(ErrorCode::NotFound, "no command with this number has output");
    let from = service.owner.questions.output(&of.id).ok_or_else(unknown)?;
    Ok(chunks(from, "application/octet-stream"))
}

fn line(request: &CommandRequest) -> String {
    std::iter::once(&request.program).chain(&request.args).cloned().collect::<Vec<_>>().join(" ")
}

/// Runs a command line and streams its output. Commands that only read are not in the audit log.
pub async fn command(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<CommandRequest>,
) -> Answer<Response> {
    let commands = &service.owner.commands;
    // Permissions are delegated to users of this machine, not to those of the web interface.
    let delegated = caller.is_local() && caller.peer().is_known() && commands.checks_delegation(&request);
    if !caller.is_administrator() && !delegated && !commands.only_looks(&request) {
        let line = line(&request);
        service.note_waiting(caller, line.clone(), None, Outcome::Denied, None).await;
        return Err(Problem::new(ErrorCode::Forbidden, format!("{line} is for administrators")));
    }
    let place = caller.key().map(|key| service.access.commands.take(key)).transpose();
    let place = place.map_err(|full| Problem::full(full, "commands run"))?;
    let (frames, answer) = channel(FRAMES);
    let io = Io::new(frames.clone(), service.owner.questions.clone(), caller.peer());
    let (watcher, watched, canceller) = (service.clone(), caller.clone(), io.canceller().clone());
    let (running_until, ended) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        tokio::select! {
            () = watcher.until_over(&watched) => canceller.store(true, Ordering::Relaxed),
            _ = ended => {}
        }
    });
    let begun = in_thread(move || {
        let _until = (place, running_until);
        let owner = service.owner.clone();
        // The process does not stop before the command has ended.
        let running = owner.begin();
        let code = match &running {
            Some(_) => owner.commands.run(&owner, &request, &io),
            None => {
                let _ = frames.blocking_send(CommandFrame::Stderr("weir: the daemon is stopping\n".to_owned()));
                1
            }
        };
        if !owner.commands.only_looks(&request) {
            let line = line(&request);
            let outcome = if code == 0 { Outcome::Ok } else { Outcome::Failed };
            let reason = (code != 0).then(|| format!("it exited with {code}"));
            service.note(&caller, &line, None, outcome, reason);
            service.ran(&caller, &line, code);
            // The pool is somewhere among the arguments.
            let pools: Vec<String> = owner.house.list().iter().map(|p| p.name()).collect();
            let named = |pool: &&String| request.args.iter().any(|a| pool_of(a) == **pool);
            pools.iter().filter(named).for_each(|pool| service.changed(pool));
            service.changed("");
        }
        let _ = frames.blocking_send(CommandFrame::Exit(code));
        drop(running);
    });
    begun.map_err(|error| {
        Problem::new(ErrorCode::Unavailable, format!("cannot start a thread for the command: {error}"))
    })?;
    let audited = Extension(Audited { own: true, ..Audited::default() });
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((audited, kind, axum::body::Body::from_stream(Lines(answer))).into_response())
}
