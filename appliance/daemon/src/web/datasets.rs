//! Datasets and their properties: reading, and the verbs of zfs(8).

use super::caller::Caller;
use super::invoke::Change;
use super::names::{assignments, dataset_name, property_name};
use super::pools::audited;
use super::reply::{Answer, Body, Created, Path, Problem, Query, limit, waiting};
use super::tree;
use crate::service::Service;
use crate::service::to_api;
use admin::OwnedPool;
use admin::keys::Question;
use admin::new_key::Material;
use admin::verbs::zfs::create::{CreateRequest, NewVolume, plan};
use admin::verbs::zfs::inherit::{self, InheritRequest};
use admin::verbs::zfs::keys::{self, KeysRequest, LoadKeyRequest};
use admin::verbs::zfs::rename::{self, RenameRequest};
use admin::verbs::zfs::set::{self, SetRequest};
use admin::verbs::{Invocation, Refusal, pool_of};
use anyhow::Context as _;
use api::{
    ChangeProperties, CreateDataset, DatasetDetail, DatasetList, ErrorCode, LoadKey, PropertyDefinitionList,
    RenameDataset, Role,
};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dataset::pages::Part;
use dataset::{Entry, ListOptions};
use serde::Deserialize;
use std::io;
use std::sync::Arc;

/// Properties that could give access to more of the machine than its pools: only for
/// administrators.
const FOR_ADMINISTRATORS: &[&str] =
    &["mountpoint", "keylocation", "setuid", "devices", "exec", "zoned", "overlay", "canmount", "sharesmb"];

/// Query of `GET /v1/datasets`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Wanted {
    root: Option<String>,
    depth: Option<usize>,
    kind: Option<String>,
    search: Option<String>,
    limit: Option<u64>,
    cursor: Option<String>,
}

fn options(wanted: &Wanted) -> Answer<ListOptions> {
    let mut options = ListOptions {
        filesystems: false,
        volumes: false,
        snapshots: false,
        bookmarks: false,
        depth: wanted.depth,
        hidden: false,
    };
    for kind in wanted.kind.as_deref().unwrap_or("filesystem,volume").split(',') {
        match kind.trim() {
            "filesystem" => options.filesystems = true,
            "volume" => options.volumes = true,
            "snapshot" => options.snapshots = true,
            "bookmark" => options.bookmarks = true,
            other => {
                return Err(Problem::invalid("kind", format!("'{other}'"), "filesystem, volume, snapshot or bookmark"));
            }
        }
    }
    Ok(options)
}

pub async fn list(State(service): State<Arc<Service>>, Query(wanted): Query<Wanted>) -> Answer<Json<DatasetList>> {
    waiting(move || {
        let (limit, options) = (limit(wanted.limit)?, options(&wanted)?);
        let pools = match &wanted.root {
            Some(root) => vec![service.pool(pool_of(root))?],
            None => service.owner.house.list(),
        };
        let mounted = tree::mounted();
        let mut items = Vec::new();
        // Pools before that of the cursor are already listed.
        let cursor = wanted.cursor.as_deref();
        for pool in pools.iter().filter(|p| cursor.is_none_or(|c| p.name().as_str() >= pool_of(c))) {
            let datasets = pool.datasets()?;
            let name = pool.name();
            let root = wanted.root.clone().unwrap_or_else(|| name.clone());
            let after = cursor.filter(|c| pool_of(c) == name);
            let search = wanted.search.as_deref().unwrap_or_default();
            let part = Part { options: &options, after, search, limit: limit - items.len() };
            let page = pool.names().page(&datasets, &root, &part).map_err(|e| not_found(&root, &e))?;
            for error in &page.errors {
                tracing::warn!(pool = name, %error, "a dataset is omitted from a list");
            }
            let last = page.entries.last().map(|entry| entry.name().to_owned());
            for entry in &page.entries {
                match tree::dataset(pool, entry, &mounted) {
                    Ok(line) => items.push(line),
                    Err(error) => tracing::warn!(dataset = entry.name(), %error, "it is omitted from a list"),
                }
            }
            if page.more {
                // If the page has no room, the cursor is the last dataset of the previous pools.
                let next = last.or_else(|| items.last().map(|d: &api::Dataset| d.name.clone()));
                return Ok(Json(DatasetList { items, next }));
            }
        }
        Ok(Json(DatasetList { items, next: None }))
    })
    .await
}

fn not_found(name: &str, error: &errors::Error) -> Problem {
    let (code, message) = match error {
        errors::Error::NotFound { .. } => {
            (ErrorCode::NotFound, format!("cannot open '{name}': dataset does not exist"))
        }
        errors::Error::Invalid { .. } => (ErrorCode::InvalidRequest, format!("cannot open '{name}': {error}")),
        error => (ErrorCode::Failed, format!("cannot open '{name}': {error}")),
    };
    Problem::new(code, message).at(name)
}

pub fn entry(service: &Service, name: &str) -> Answer<(Arc<OwnedPool>, Entry)> {
    let pool = service.pool(pool_of(name)).map_err(|mut problem| {
        problem.body.message = format!("cannot open '{name}': dataset does not exist");
        problem
    })?;
    let entry = pool.datasets()?.entry(name).map_err(|e| not_found(name, &e))?;
    Ok((pool, entry))
}

pub async fn detail(service: Arc<Service>, name: String) -> Answer<DatasetDetail> {
    waiting(move || {
        let (pool, entry) = entry(&service, &name)?;
        let mounted = tree::mounted();
        let dataset = tree::dataset(&pool, &entry, &mounted)?;
        Ok(DatasetDetail { dataset, properties: tree::properties(&pool, &entry, &mounted)? })
    })
    .await
}

pub async fn get(State(service): State<Arc<Service>>, Path(name): Path<String>) -> Answer<Json<DatasetDetail>> {
    Ok(Json(detail(service, name).await?))
}

pub fn may_set(caller: &Caller, property: &str) -> Answer<()> {
    property_name(property)?;
    if caller.role < Some(Role::Administrator) && FOR_ADMINISTRATORS.contains(&dataset::property::full_name(property)) {
        let message = format!("the property {property} is for administrators");
        return Err(Problem::new(ErrorCode::Forbidden, message).at(property));
    }
    Ok(())
}

pub async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<CreateDataset>,
) -> Answer<Response> {
    let CreateDataset { name, volume_bytes, sparse, parents, properties, passphrase } = request;
    dataset_name("name", &name)?;
    for property in properties.keys() {
        // Prompting for a passphrase is allowed for everyone.
        if !(property == "keylocation" && properties[property] == "prompt") {
            may_set(&caller, property)?;
        }
    }
    let volume = volume_bytes.map(|bytes| NewVolume { size: bytes.to_string(), block_size: None, sparse });
    let properties = assignments(properties)?;
    let request = CreateRequest { name: name.clone(), volume, properties, parents, unmounted: false };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| {
        let ask = |_: &str| Ok(Material::new(secret(passphrase.as_deref())?.into_bytes()));
        Refusal::unless_mounted(plan(invocation, &request)?.run(invocation, &ask)?)
    };
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Created(detail(service, name).await?)).into_response())
}

pub async fn set_properties(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(change): Body<ChangeProperties>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let before = name.clone();
    let check = service.clone();
    waiting(move || entry(&check, &before).map(drop)).await?;
    for property in change.set.keys().chain(&change.inherit) {
        may_set(&caller, property)?;
    }
    let mut lines = Vec::new();
    if !change.set.is_empty() {
        let properties = assignments(change.set)?;
        lines.push(service.set(&caller, &name, properties).await?);
    }
    for property in change.inherit {
        lines.push(service.inherit(&caller, &name, property).await?);
    }
    Ok((audited(lines.join("; ")), Json(detail(service, name).await?)).into_response())
}

impl Service {
    /// Sets properties of a dataset. Returns the command line.
    pub async fn set(
        self: &Arc<Self>,
        caller: &Caller,
        name: &str,
        properties: Vec<(String, String)>,
    ) -> Answer<String> {
        let request = SetRequest { properties, datasets: vec![name.to_owned()], keep_mounts: false };
        let line = request.command_line();
        let run = move |invocation: &Invocation<'_>| Refusal::unless_mounted(set::run(invocation, &request)?);
        self.change(caller, Change::of_dataset(name, &line), run).await?;
        Ok(line)
    }

    /// Removes the own value of a dataset's property. Returns the command line.
    pub async fn inherit(self: &Arc<Self>, caller: &Caller, name: &str, property: String) -> Answer<String> {
        let datasets = vec![name.to_owned()];
        let request = InheritRequest { property, datasets, recursive: false, received: false };
        let line = request.command_line();
        let run = move |invocation: &Invocation<'_>| Refusal::unless_mounted(inherit::run(invocation, &request)?);
        self.change(caller, Change::of_dataset(name, &line), run).await?;
        Ok(line)
    }
}

/// The passphrase or key of a request.
fn secret(given: Option<&str>) -> anyhow::Result<String> {
    given.map(str::to_owned).context("a passphrase is required")
}

pub async fn rename(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<RenameDataset>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let to = dataset_name("to", &request.to)?.to_owned();
    let RenameDataset { parents, recursive, .. } = request;
    let request = RenameRequest { from: name.clone(), to: to.clone(), parents, recursive, ..RenameRequest::default() };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| Refusal::unless_mounted(rename::run(invocation, &request)?);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Json(detail(service, to).await?)).into_response())
}

pub async fn load_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<LoadKey>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let LoadKey { passphrase } = request;
    let request = LoadKeyRequest {
        keys: KeysRequest { datasets: vec![name.clone()], recursive: false },
        location: passphrase.as_ref().map(|_| "prompt".to_owned()),
        check_only: false,
    };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| {
        let ask = |_: &Question<'_>| secret(passphrase.as_deref()).map(String::into_bytes).map_err(io::Error::other);
        keys::load(invocation, &request, &ask)?.into_result()
    };
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}

pub async fn unload_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let request = KeysRequest { datasets: vec![name.clone()], recursive: false };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| keys::unload(invocation, &request)?.into_result();
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}

pub async fn definitions() -> Json<PropertyDefinitionList> {
    let items = to_api::pool_definitions().chain(tree::definitions()).collect();
    Json(PropertyDefinitionList { items, next: None })
}
