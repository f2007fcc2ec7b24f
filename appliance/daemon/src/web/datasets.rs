//! Datasets and their properties: reading, and the verbs of zfs(8).

use super::Service;
use super::caller::Caller;
use super::pools::audited;
use super::reply::{Answer, Body, Created, Path, Problem, Query, limit, waiting};
use super::verbs::{Verb, dataset_name, pool_of, property_name};
use super::{shown, tree};
use admin::OwnedPool;
use api::{
    ChangeProperties, CreateDataset, DatasetDetail, DatasetKind, DatasetList, ErrorCode, LoadKey,
    PropertyDefinitionList, RenameDataset, Role,
};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dataset::pages::Part;
use dataset::{DatasetKind as Kind, Entry, ListOptions};
use serde::Deserialize;
use std::sync::Arc;

/// Properties that could give access to more of the machine than its pools: only for
/// administrators.
const FOR_ADMINISTRATORS: &[&str] =
    &["mountpoint", "keylocation", "setuid", "devices", "exec", "zoned", "overlay", "canmount", "sharesmb"];

/// Selects datasets.
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

fn not_found(name: &str, error: &dataset::Error) -> Problem {
    let (code, message) = match error {
        dataset::Error::NotFound { .. } => {
            (ErrorCode::NotFound, format!("cannot open '{name}': dataset does not exist"))
        }
        dataset::Error::Invalid { .. } => (ErrorCode::InvalidRequest, format!("cannot open '{name}': {error}")),
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
    let mut verb = Verb::zfs("create").flag("-p", parents).flag("-s", sparse && volume_bytes.is_some());
    verb = verb.properties("-o", &properties)?.secret(passphrase);
    if let Some(bytes) = volume_bytes {
        verb = verb.option("-V", &bytes.to_string());
    }
    verb = verb.on(&name);
    let line = verb.run(&service, &caller).await?;
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
    let mut told = Vec::new();
    if !change.set.is_empty() {
        let mut verb = Verb::zfs("set");
        for (property, value) in &change.set {
            verb = verb.on(format!("{property}={value}"));
        }
        let verb = verb.on(&name).of_pool(pool_of(&name));
        told.push(verb.run(&service, &caller).await?);
    }
    for property in &change.inherit {
        let verb = Verb::zfs("inherit").on(property).on(&name).of_pool(pool_of(&name));
        told.push(verb.run(&service, &caller).await?);
    }
    Ok((audited(told.join("; ")), Json(detail(service, name).await?)).into_response())
}

pub async fn rename(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<RenameDataset>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let to = dataset_name("to", &request.to)?.to_owned();
    let verb = Verb::zfs("rename").flag("-p", request.parents).flag("-r", request.recursive).on(&name).on(&to);
    let line = verb.run(&service, &caller).await?;
    Ok((audited(line), Json(detail(service, to).await?)).into_response())
}

pub async fn load_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<LoadKey>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let mut verb = Verb::zfs("load-key").secret(request.passphrase.clone());
    if request.passphrase.is_some() {
        verb = verb.option("-L", "prompt");
    }
    let verb = verb.on(&name);
    let line = verb.run(&service, &caller).await?;
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}

pub async fn unload_key(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let verb = Verb::zfs("unload-key").on(&name);
    let line = verb.run(&service, &caller).await?;
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}

pub async fn definitions() -> Json<PropertyDefinitionList> {
    let items = shown::pool_definitions().chain(tree::definitions()).collect();
    Json(PropertyDefinitionList { items, next: None })
}

/// Converts the engine's kinds to those of the interface.
pub fn kind(kind: Kind) -> DatasetKind {
    match kind {
        Kind::FileSystem => DatasetKind::Filesystem,
        Kind::Volume => DatasetKind::Volume,
        Kind::Snapshot => DatasetKind::Snapshot,
        Kind::Bookmark => DatasetKind::Bookmark,
    }
}
