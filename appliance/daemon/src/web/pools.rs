//! Pools: reading, and the verbs of zpool(8).

use super::Service;
use super::caller::Caller;
use super::guard::Audited;
use super::reply::{Answer, Body, Created, Done, Path, Problem, Query, waiting};
use super::shown;
use super::verbs::{Verb, absolute_path, dataset_name, property_name};
use admin::OwnedPool;
use admin::import::{self, OpenRequest};
use api::{
    ChangeProperties, ClearPool, Confirm, CreatePool, ErrorCode, ExportPool, ImportPool, ImportablePool,
    ImportablePoolList, Layout, Pool, PoolDetail, PoolList, PropertyList, Purpose,
};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Time limit for jobs of a pool to end before it is exported.
const JOBS_END: Duration = Duration::from_secs(10);
/// Limit for the devices of one pool.
const DEVICES: usize = 1_000;

impl Service {
    /// The imported pool with this name.
    pub fn pool(&self, name: &str) -> Answer<Arc<OwnedPool>> {
        let found = self.owner.house.list().into_iter().find(|p| p.name() == name);
        if let Some(pool) = found {
            return Ok(pool);
        }
        let message = match self.owner.house.state().pool(name) {
            Ok(Some(_)) => format!("cannot open '{name}': it is imported but could not be opened; see the log"),
            _ => format!("cannot open '{name}': no such pool"),
        };
        Err(Problem::new(ErrorCode::NotFound, message).at(name))
    }

    /// All pools, in short form.
    pub fn pools(&self) -> Vec<Pool> {
        let line = |pool: &Arc<OwnedPool>| match shown::pool_view(pool).and_then(|view| shown::pool(pool, &view)) {
            Ok(line) => Some(line),
            Err(error) => {
                tracing::warn!(pool = pool.name(), error = %format!("{error:#}"), "cannot read its state");
                None
            }
        };
        self.owner.house.list().iter().filter_map(line).collect()
    }

    /// Ends the jobs of a pool before it is exported.
    async fn end_jobs(self: &Arc<Self>, pool: &str) -> Answer<()> {
        let (service, pool) = (self.clone(), pool.to_owned());
        waiting(move || {
            service.jobs.cancel_of(&pool, JOBS_END);
            Ok(())
        })
        .await
    }
}

pub async fn list(State(service): State<Arc<Service>>) -> Answer<Json<PoolList>> {
    waiting(move || Ok(Json(PoolList { items: service.pools(), next: None }))).await
}

async fn detail(service: Arc<Service>, name: String) -> Answer<PoolDetail> {
    waiting(move || Ok(shown::pool_detail(&service.pool(&name)?)?)).await
}

pub async fn get(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Answer<Json<PoolDetail>> {
    Ok(Json(detail(service, name).await?))
}

pub async fn properties(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Answer<Json<PropertyList>> {
    waiting(move || {
        let view = shown::pool_view(&service.pool(&name)?)?;
        Ok(Json(PropertyList { items: shown::pool_properties(&view.properties), next: None }))
    })
    .await
}

pub async fn set_properties(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(change): Body<ChangeProperties>,
) -> Answer<Response> {
    service.pool(&name)?;
    if let Some(property) = change.inherit.first() {
        return Err(Problem::new(ErrorCode::InvalidRequest, format!("{property}: pools do not inherit properties"))
            .at("inherit"));
    }
    for property in change.set.keys() {
        property_name(property)?;
    }
    let mut told = Vec::new();
    for (property, value) in &change.set {
        let verb = Verb::zpool("set").on(format!("{property}={value}")).on(&name);
        told.push(verb.run(&service, &caller).await?);
    }
    let list = properties(State(service), Path(name)).await?;
    Ok((audited(told.join("; ")), list).into_response())
}

/// Audit log entry: the change as a command line.
pub fn audited(line: String) -> Extension<Audited> {
    Extension(Audited { what: Some(line), ..Audited::default() })
}

fn layout(layout: Layout) -> Option<&'static str> {
    match layout {
        Layout::Single => None,
        Layout::Mirror => Some("mirror"),
        Layout::Raidz1 => Some("raidz1"),
        Layout::Raidz2 => Some("raidz2"),
        Layout::Raidz3 => Some("raidz3"),
    }
}

fn purpose(purpose: Purpose) -> Option<&'static str> {
    match purpose {
        Purpose::Data => None,
        Purpose::Log => Some("log"),
        Purpose::Special => Some("special"),
        Purpose::Dedup => Some("dedup"),
        Purpose::Cache => Some("cache"),
        Purpose::Spare => Some("spare"),
    }
}

pub async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<CreatePool>,
) -> Answer<Response> {
    let CreatePool { name, groups, properties, dataset_properties, force } = request;
    dataset_name("name", &name)?;
    let count: usize = groups.iter().map(|g| g.paths.len()).sum();
    if count == 0 || count > DEVICES {
        return Err(Problem::invalid("groups", format!("{count} devices"), format!("1 to {DEVICES}")));
    }
    let mut verb =
        Verb::zpool("create").flag("-f", force).properties("-o", &properties)?.properties("-O", &dataset_properties)?;
    verb = verb.on(&name);
    let mut made = Vec::new();
    // Data devices first, as on the command line: words such as `log` apply to all devices behind
    // them.
    let (data, other): (Vec<_>, Vec<_>) = groups.iter().partition(|g| g.purpose == Purpose::Data);
    for group in data.into_iter().chain(other) {
        if group.layout != Layout::Single && group.paths.len() < 2 {
            return Err(Problem::invalid(
                "groups.paths",
                format!("{} device", group.paths.len()),
                "two or more for this layout",
            ));
        }
        for word in purpose(group.purpose).into_iter().chain(layout(group.layout)) {
            verb = verb.on(word);
        }
        for path in &group.paths {
            verb = verb.on(absolute_path("groups.paths", path)?);
            made.extend(group.make_files_bytes.map(|bytes| (PathBuf::from(path), bytes)));
        }
    }
    let files = waiting(move || make_files(made)).await?;
    let line = verb.run(&service, &caller).await;
    if line.is_err() {
        let _ = waiting(move || {
            files.iter().for_each(|path| drop(std::fs::remove_file(path)));
            Ok(())
        })
        .await;
    }
    Ok((audited(line?), Created(detail(service, name).await?)).into_response())
}

/// Creates sparse files as devices where they do not exist yet. Returns those created.
fn make_files(files: Vec<(PathBuf, u64)>) -> Answer<Vec<PathBuf>> {
    let mut made: Vec<PathBuf> = Vec::new();
    for (path, bytes) in files {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let result = match file {
            Ok(file) => {
                made.push(path.clone());
                file.set_len(bytes)
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(e),
        };
        if let Err(error) = result {
            made.iter().for_each(|path| drop(std::fs::remove_file(path)));
            let message = format!("cannot create {}: {error}", path.display());
            return Err(Problem::new(ErrorCode::Failed, message).at(path.display().to_string()));
        }
    }
    Ok(made)
}

pub async fn export(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<ExportPool>,
) -> Answer<Response> {
    service.pool(&name)?;
    service.end_jobs(&name).await?;
    let verb = Verb::zpool("export").flag("-f", request.force).on(&name);
    let line = verb.run(&service, &caller).await?;
    Ok((audited(line), Done).into_response())
}

/// Checks the confirmation: the name of the object that will be lost must be repeated.
pub fn confirmed(name: &str, confirm: &str) -> Answer<()> {
    if confirm == name {
        return Ok(());
    }
    let mut problem = Problem::new(ErrorCode::ConfirmationRequired, format!("all data in '{name}' would be lost"));
    problem.body.place = Some("confirm".to_owned());
    (problem.body.found, problem.body.expected) = (Some(confirm.to_owned()), Some(name.to_owned()));
    Err(problem)
}

pub async fn destroy(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<Confirm>,
) -> Answer<Response> {
    service.pool(&name)?;
    confirmed(&name, &request.confirm)?;
    service.end_jobs(&name).await?;
    let verb = Verb::zpool("destroy").flag("-f", request.force).on(&name);
    let line = verb.run(&service, &caller).await?;
    Ok((audited(line), Done).into_response())
}

pub async fn sync(State(service): State<Arc<Service>>, caller: Caller, Path(name): Path<String>) -> Answer<Done> {
    service.pool(&name)?;
    Verb::zpool("sync").on(&name).run(&service, &caller).await?;
    Ok(Done)
}

pub async fn clear(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<ClearPool>,
) -> Answer<Response> {
    service.pool(&name)?;
    let mut verb = Verb::zpool("clear").on(&name);
    if let Some(device) = request.device {
        if device.is_empty() || device.starts_with('-') || device.len() > 4096 {
            return Err(Problem::invalid("device", format!("'{device}'"), "the name of a device"));
        }
        verb = verb.on(device);
    }
    let line = verb.run(&service, &caller).await?;
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}

/// Where to search for pools.
#[derive(Deserialize)]
pub struct Places {
    place: Option<String>,
}

pub async fn importable(
    State(service): State<Arc<Service>>,
    Query(places): Query<Places>,
) -> Answer<Json<ImportablePoolList>> {
    let place = match &places.place {
        Some(place) => absolute_path("place", place)?.to_owned(),
        None => "/dev".to_owned(),
    };
    waiting(move || {
        let imported: BTreeMap<u64, ()> = service.owner.house.list().iter().map(|p| (p.guid(), ())).collect();
        let found = import::search(&[PathBuf::from(place)]).into_iter().filter(|f| !imported.contains_key(&f.guid));
        let items = found.map(|found| {
            let candidate = import::examine(found, &OpenRequest::default());
            let status = &candidate.status;
            let health = shown::health(admin::health::reason(status, true));
            let devices = shown::device(&status.root, false);
            ImportablePool {
                name: candidate.found.name().to_owned(),
                guid: candidate.found.guid.to_string(),
                state: devices.state,
                health,
                destroyed: candidate.label_state == import::LabelState::Destroyed,
                devices,
            }
        });
        Ok(Json(ImportablePoolList { items: items.collect(), next: None }))
    })
    .await
}

pub async fn import(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<ImportPool>,
) -> Answer<Response> {
    let ImportPool { pool, places, new_name, read_only, altroot, force } = request;
    dataset_name("pool", &pool)?;
    let mut verb = Verb::zpool("import").flag("-f", force);
    for place in &places {
        verb = verb.option("-d", absolute_path("places", place)?);
    }
    if let Some(altroot) = &altroot {
        verb = verb.option("-R", absolute_path("altroot", altroot)?);
    }
    if read_only {
        verb = verb.option("-o", "readonly=on");
    }
    verb = verb.on(&pool);
    if let Some(name) = &new_name {
        verb = verb.on(dataset_name("new_name", name)?);
    }
    let before: Vec<u64> = service.owner.house.list().iter().map(|p| p.guid()).collect();
    let line = verb.run(&service, &caller).await?;
    // A pool that was given by its guid has a name now.
    let new = service.owner.house.list().into_iter().find(|p| !before.contains(&p.guid()));
    let name = new.map_or_else(|| new_name.unwrap_or(pool), |p| p.name());
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}
