//! Pools: reading, and the verbs of zpool(8).

use super::caller::Caller;
use super::guard::Audited;
use super::invoke::Change;
use super::names::{absolute_path, assignments, dataset_name, property_name};
use super::reply::{Answer, Body, Created, Done, Path, Problem, Query, waiting};
use crate::service::{Service, to_api};
use admin::OwnedPool;
use admin::import::OpenRequest;
use admin::verbs::zpool::clear::{self, ClearRequest};
use admin::verbs::zpool::create::{self, CreateRequest};
use admin::verbs::zpool::destroy::{self, DestroyRequest};
use admin::verbs::zpool::export::{self, ExportRequest};
use admin::verbs::zpool::import::{ImportRequest, find, plan};
use admin::verbs::zpool::set::{self, SetRequest};
use admin::verbs::zpool::sync::{self, SyncRequest};
use admin::verbs::{Invocation, Refusal};
use admin::{import, layout};
use api::{
    ChangeProperties, ClearPool, Confirm, CreatePool, DeviceGroup, ErrorCode, ExportPool, ImportPool, ImportablePool,
    ImportablePoolList, Layout, PoolDetail, PoolList, PropertyList, Purpose,
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
    waiting(move || Ok(to_api::pool_detail(&service.pool(&name)?)?)).await
}

pub async fn get(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Answer<Json<PoolDetail>> {
    Ok(Json(detail(service, name).await?))
}

pub async fn properties(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Answer<Json<PropertyList>> {
    waiting(move || {
        let view = to_api::pool_view(&service.pool(&name)?)?;
        Ok(Json(PropertyList { items: to_api::pool_properties(&view.properties), next: None }))
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
    let mut lines = Vec::new();
    for (property, value) in change.set {
        let request = SetRequest { pool: name.clone(), device: None, property, value };
        let line = request.command_line();
        let run = move |invocation: &Invocation<'_>| set::run(invocation, &request);
        service.change(&caller, Change::of_pool(&name, &line), run).await?;
        lines.push(line);
    }
    let list = properties(State(service), Path(name)).await?;
    Ok((audited(lines.join("; ")), list).into_response())
}

/// Audit log entry: the change as a command line.
pub fn audited(line: String) -> Extension<Audited> {
    Extension(Audited { what: Some(line), ..Audited::default() })
}

/// The word of `zpool create` for a kind of redundancy.
fn redundancy(layout: Layout) -> Option<&'static str> {
    match layout {
        Layout::Single => None,
        Layout::Mirror => Some("mirror"),
        Layout::Raidz1 => Some("raidz1"),
        Layout::Raidz2 => Some("raidz2"),
        Layout::Raidz3 => Some("raidz3"),
    }
}

fn purpose(purpose: Purpose) -> layout::Use {
    match purpose {
        Purpose::Data => layout::Use::Blocks(layout::Purpose::Normal),
        Purpose::Log => layout::Use::Blocks(layout::Purpose::Log),
        Purpose::Special => layout::Use::Blocks(layout::Purpose::Special),
        Purpose::Dedup => layout::Use::Blocks(layout::Purpose::Dedup),
        Purpose::Cache => layout::Use::Cache,
        Purpose::Spare => layout::Use::Spare,
    }
}

/// The devices of a request.
fn devices(groups: &[DeviceGroup]) -> Result<layout::Layout, layout::Wrong> {
    let mut all = layout::Layout::default();
    for group in groups {
        let leaves = group.paths.iter().map(|path| layout::leaf(path)).collect::<Result<_, _>>()?;
        all.add(purpose(group.purpose), redundancy(group.layout), leaves)?;
    }
    Ok(all)
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
    let (properties, dataset_properties) = (assignments(properties)?, assignments(dataset_properties)?);
    let mut made = Vec::new();
    for group in &groups {
        if group.layout != Layout::Single && group.paths.len() < 2 {
            return Err(Problem::invalid(
                "groups.paths",
                format!("{} device", group.paths.len()),
                "two or more for this layout",
            ));
        }
        for path in &group.paths {
            absolute_path("groups.paths", path)?;
            made.extend(group.make_files_bytes.map(|bytes| (PathBuf::from(path), bytes)));
        }
    }
    let files = waiting(move || make_files(made)).await?;
    let of = name.clone();
    // Devices are looked at in a thread that may wait for them.
    let request = waiting(move || {
        Ok(CreateRequest { properties, dataset_properties, force, ..CreateRequest::new(of, devices(&groups)) })
    });
    let request = request.await?;
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| {
        let no_passphrase = |_: &str| anyhow::bail!("a passphrase is required");
        Refusal::unless_mounted(create::plan(invocation, request)?.run(invocation, &no_passphrase)?)
    };
    let created = service.change(&caller, Change::of_pool(&name, &line), run).await;
    if created.is_err() {
        let _ = waiting(move || {
            files.iter().for_each(|path| drop(std::fs::remove_file(path)));
            Ok(())
        })
        .await;
    }
    created?;
    Ok((audited(line), Created(detail(service, name).await?)).into_response())
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
    let request = ExportRequest { pools: vec![name.clone()], force: request.force, unmarked: false };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| export::run(invocation, &request);
    for remark in service.change(&caller, Change::of_pool(&name, &line), run).await? {
        tracing::warn!(pool = name, remark, "exported");
    }
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
    let request = DestroyRequest { pool: name.clone(), force: request.force };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| destroy::run(invocation, &request);
    service.change(&caller, Change::of_pool(&name, &line), run).await?;
    Ok((audited(line), Done).into_response())
}

pub async fn sync(State(service): State<Arc<Service>>, caller: Caller, Path(name): Path<String>) -> Answer<Done> {
    service.pool(&name)?;
    let request = SyncRequest { pools: vec![name.clone()], force: false };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| sync::run(invocation, &request);
    service.change(&caller, Change::of_pool(&name, &line), run).await?;
    Ok(Done)
}

pub async fn clear(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<ClearPool>,
) -> Answer<Response> {
    service.pool(&name)?;
    if let Some(device) = &request.device
        && (device.is_empty() || device.starts_with('-') || device.len() > 4096)
    {
        return Err(Problem::invalid("device", format!("'{device}'"), "the name of a device"));
    }
    let request = ClearRequest { pool: name.clone(), device: request.device };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| clear::run(invocation, &request, &mut |_, _| {});
    service.change(&caller, Change::of_pool(&name, &line), run).await?;
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
            let health = to_api::health(admin::health::reason(status, true));
            let devices = to_api::device(&status.root, false);
            ImportablePool {
                name: candidate.found.name().to_owned(),
                guid: candidate.found.guid.to_string(),
                state: devices.state,
                health,
                destroyed: candidate.label_state == pool::PoolState::Destroyed,
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
    for place in &places {
        absolute_path("places", place)?;
    }
    if let Some(altroot) = &altroot {
        absolute_path("altroot", altroot)?;
    }
    if let Some(name) = &new_name {
        dataset_name("new_name", name)?;
    }
    let request = ImportRequest {
        pool: pool.clone(),
        new_name,
        places: places.iter().map(PathBuf::from).collect(),
        force,
        readonly: read_only,
        altroot,
        ..ImportRequest::default()
    };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| {
        let found = find(invocation, &request)?;
        let outcome = plan(invocation, &request, found)?.run(invocation, None)?;
        Refusal::unless_mounted(outcome.report)?;
        Ok(outcome.name)
    };
    let name = service.change(&caller, Change::of_pool(&pool, &line), run).await?;
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}
