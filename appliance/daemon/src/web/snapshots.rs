//! Snapshots: the verbs of zfs(8) that take, hold, rename and use them, and a preview of what
//! destroying an object would destroy.

use super::caller::Caller;
use super::datasets::{detail, entry, may_set};
use super::invoke::Change;
use super::names::{assignments, dataset_name, property_name};
use super::pools::{audited, confirmed};
use super::reply::{Answer, Body, Created, Done, Page, Path, Problem, Query, waiting};
use super::tree;
use crate::service::Service;
use admin::verbs::zfs::bookmark::{self, BookmarkRequest};
use admin::verbs::zfs::create::{self, CloneRequest};
use admin::verbs::zfs::destroy::{DestroyRequest, Preview, Unseen, plan};
use admin::verbs::zfs::hold::{self, HoldRequest};
use admin::verbs::zfs::promote;
use admin::verbs::zfs::rollback::{self, RollbackRequest};
use admin::verbs::zfs::snapshot::{self, SnapshotRequest};
use admin::verbs::{Invocation, Refusal};
use api::{
    CloneSnapshot, CreateBookmark, CreateSnapshots, DatasetList, DestroyDataset, DestroyPreview, Hold, HoldList,
    HoldSnapshot, RollBack,
};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dataset::{Entry, ListOptions};
use serde::Deserialize;
use std::sync::Arc;

/// Limit for the names in a preview.
const PREVIEWED_MAX: usize = 1000;
/// Limit for the snapshots in one request. Guessed: what fits into a request.
const NAMED_MAX: usize = 1000;
/// Limit for the bytes that name snapshots of one dataset. Guessed: what servers and clients accept
/// in a path.
const SPEC_BYTES: usize = 8192;

/// Refuses invalid names of snapshots.
fn snapshot_name<'a>(place: &str, name: &'a str) -> Answer<&'a str> {
    dataset_name(place, name)?;
    match name.split_once('@') {
        Some((_, short)) if !short.is_empty() && !short.contains(['@', '#', '%', '/']) => Ok(name),
        _ => Err(Problem::invalid(place, format!("'{name}'"), "a dataset, '@', and the name of a snapshot")),
    }
}

/// Refuses names of objects that cannot be destroyed. Valid are a dataset, a bookmark, or snapshots
/// of one dataset (`pool/a@b,c,d%e`).
fn destroyed_name(name: &str) -> Answer<()> {
    let Some((of, spec)) = name.split_once('@') else { return dataset_name("dataset", name).map(drop) };
    dataset_name("dataset", of)?;
    let good = |c: char| c.is_alphanumeric() || "-_.: %,".contains(c);
    match spec.chars().all(good) && !spec.is_empty() && spec.len() <= SPEC_BYTES {
        true => Ok(()),
        false => Err(Problem::invalid("dataset", format!("'{name}'"), "a dataset, or snapshots of one: 'a@b,c,d%e'")),
    }
}

/// Checks that the dataset exists. The command reports missing snapshots of a list.
async fn is_there(service: &Arc<Service>, name: &str) -> Answer<()> {
    let (service, mut name) = (service.clone(), name);
    if let Some((of, spec)) = name.split_once('@')
        && spec.contains([',', '%'])
    {
        name = of;
    }
    let name = name.to_owned();
    waiting(move || entry(&service, &name).map(drop)).await
}

#[derive(Debug, Deserialize)]
pub struct Along {
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    clones: bool,
}

pub async fn preview(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Query(along): Query<Along>,
) -> Answer<Json<DestroyPreview>> {
    destroyed_name(&name)?;
    is_there(&service, &name).await?;
    let Along { recursive, clones } = along;
    let request = DestroyRequest { name, recursive, clones, ..DestroyRequest::default() };
    let line = request.command_line();
    let preview = service.invoke(&caller, &line, move |invocation| {
        let mut preview = DestroyPreview { count: 0, names: Vec::new(), reclaimed_bytes: None };
        preview.reclaimed_bytes = plan(invocation, &request, &mut Listed(&mut preview))?.reclaimed_bytes;
        Ok(preview)
    });
    Ok(Json(preview.await?))
}

/// Adds what a plan would destroy to the answer.
struct Listed<'a>(&'a mut DestroyPreview);

impl Preview for Listed<'_> {
    fn name(&mut self, name: &str) {
        self.0.count += 1;
        if self.0.names.len() < PREVIEWED_MAX {
            self.0.names.push(name.to_owned());
        }
    }

    fn wants_space(&self) -> bool {
        true
    }
}

pub async fn destroy(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<DestroyDataset>,
) -> Answer<Response> {
    destroyed_name(&name)?;
    is_there(&service, &name).await?;
    confirmed(&name, &request.confirm)?;
    let DestroyDataset { recursive, clones, deferred, force, confirm: _ } = request;
    let request = DestroyRequest { name: name.clone(), recursive, clones, deferred, force };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| plan(invocation, &request, &mut Unseen)?.run(invocation);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Done).into_response())
}

pub async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<CreateSnapshots>,
) -> Answer<Response> {
    let CreateSnapshots { names, recursive, properties } = request;
    if names.is_empty() || names.len() > NAMED_MAX {
        return Err(Problem::invalid("names", names.len().to_string(), format!("1 to {NAMED_MAX} names")));
    }
    for name in &names {
        snapshot_name("names", name)?;
    }
    let request = SnapshotRequest { names: names.clone(), recursive, properties: assignments(properties)? };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| snapshot::run(invocation, &request);
    service.change(&caller, Change::of_dataset(&names[0], &line), run).await?;
    let taken = waiting(move || {
        let mounted = tree::mounted();
        let line = |name: &String| {
            let (pool, entry) = entry(&service, name)?;
            Ok(tree::dataset(&pool, &entry, &mounted)?)
        };
        let items = names.iter().map(line).collect::<Answer<Vec<_>>>()?;
        Ok(DatasetList { items, next: None })
    });
    Ok((audited(line), Created(taken.await?)).into_response())
}

pub async fn roll_back(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<RollBack>,
) -> Answer<Response> {
    let of = snapshot_name("dataset", &name)?.split('@').next().unwrap_or_default().to_owned();
    is_there(&service, &name).await?;
    confirmed(&name, &request.confirm)?;
    let RollBack { recursive, clones, force, confirm: _ } = request;
    let request = RollbackRequest { snapshot: name.clone(), recursive, clones, force };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| Refusal::unless_mounted(rollback::run(invocation, &request)?);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Json(detail(service, of).await?)).into_response())
}

pub async fn clone(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<CloneSnapshot>,
) -> Answer<Response> {
    snapshot_name("dataset", &name)?;
    let to = dataset_name("to", &request.to)?.to_owned();
    for property in request.properties.keys() {
        may_set(&caller, property)?;
    }
    let (properties, parents) = (assignments(request.properties)?, request.parents);
    let request = CloneRequest { origin: name.clone(), name: to.clone(), properties, parents, unmounted: false };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| Refusal::unless_mounted(create::clone(invocation, &request)?);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Created(detail(service, to).await?)).into_response())
}

pub async fn promote(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let (line, of) = (promote::command_line(&name), name.clone());
    let run = move |invocation: &Invocation<'_>| promote::run(invocation, &of);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Json(detail(service, name).await?)).into_response())
}

pub async fn bookmark(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<CreateBookmark>,
) -> Answer<Response> {
    dataset_name("dataset", &name)?;
    let mark = dataset_name("name", &request.name)?.to_owned();
    let request = BookmarkRequest { source: name.clone(), name: mark.clone(), recursive: request.recursive };
    let line = request.command_line();
    let run = move |invocation: &Invocation<'_>| bookmark::run(invocation, &request);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Created(detail(service, mark).await?)).into_response())
}

/// Refuses invalid hold tags.
fn tag(tag: &str) -> Answer<&str> {
    property_name(tag).map_err(|_| Problem::invalid("tag", format!("'{tag}'"), "letters, digits, '-', '_', '.', ':'"))
}

fn holding(name: &str, request: HoldSnapshot) -> Answer<HoldRequest> {
    snapshot_name("dataset", name)?;
    tag(&request.tag)?;
    let HoldSnapshot { tag, recursive } = request;
    Ok(HoldRequest { tag, snapshots: vec![name.to_owned()], recursive })
}

fn holds_of(service: &Service, name: &str, recursive: bool) -> Answer<Vec<Hold>> {
    let (pool, entry) = entry(service, name)?;
    let options = ListOptions { filesystems: false, volumes: false, bookmarks: false, ..ListOptions::all() };
    let datasets = pool.datasets()?;
    let snapshots = match name.split_once('@') {
        Some((of, short)) if recursive => {
            let all = datasets.list(&[of], &options).map_err(anyhow::Error::from)?.entries;
            all.into_iter().filter(|e| e.name().split_once('@').is_some_and(|(_, s)| s == short)).collect()
        }
        Some(_) => vec![entry],
        None => {
            let options = ListOptions { depth: if recursive { None } else { Some(1) }, ..options };
            let all = datasets.list(&[name], &options).map_err(anyhow::Error::from)?.entries;
            let own = |e: &Entry| recursive || e.name().split_once('@').is_some_and(|(of, _)| of == name);
            all.into_iter().filter(own).collect()
        }
    };
    let mut holds = Vec::new();
    for snapshot in snapshots {
        let Some(d) = snapshot.dataset() else { continue };
        let own = |h: dataset::Hold| Hold { snapshot: d.name().to_owned(), tag: h.tag, created: h.time };
        holds.extend(d.holds().map_err(anyhow::Error::from)?.into_iter().map(own));
    }
    Ok(holds)
}

#[derive(Debug, Deserialize)]
pub struct WantedHolds {
    #[serde(default)]
    recursive: bool,
    limit: Option<u64>,
    cursor: Option<String>,
}

pub async fn holds(
    State(service): State<Arc<Service>>,
    Path(name): Path<String>,
    Query(wanted): Query<WantedHolds>,
) -> Answer<Json<HoldList>> {
    let WantedHolds { recursive, limit, cursor } = wanted;
    let page = Page { limit, cursor };
    let (skip, limit) = (page.skip()?, page.limit()?);
    let all = waiting(move || holds_of(&service, &name, recursive)).await?;
    let until = skip.saturating_add(limit);
    let next = (until < all.len()).then(|| until.to_string());
    Ok(Json(HoldList { items: all.into_iter().skip(skip).take(limit).collect(), next }))
}

pub async fn hold(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<HoldSnapshot>,
) -> Answer<Response> {
    let request = holding(&name, request)?;
    let (line, recursive) = (request.command_line("hold"), request.recursive);
    let run = move |invocation: &Invocation<'_>| hold::hold(invocation, &request);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    let items = waiting(move || holds_of(&service, &name, recursive)).await?;
    Ok((audited(line), Json(HoldList { items, next: None })).into_response())
}

pub async fn release(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<HoldSnapshot>,
) -> Answer<Response> {
    let request = holding(&name, request)?;
    let line = request.command_line("release");
    let run = move |invocation: &Invocation<'_>| hold::release(invocation, &request);
    service.change(&caller, Change::of_dataset(&name, &line), run).await?;
    Ok((audited(line), Done).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots_are_looked_at_before_a_command_gets_them() {
        for good in ["tank@a", "tank/b c@2026-11-22_23:00"] {
            assert!(snapshot_name("x", good).is_ok(), "{good}");
        }
        for bad in ["tank", "tank@", "-r@a", "tank@a,b", "tank@a%b", "tank@a@b", "tank#a", "tank@a/b"] {
            assert!(snapshot_name("x", bad).is_err(), "{bad}");
        }
        for good in ["tank/a", "tank/a#mark", "tank@a,b%c,%", "tank@%"] {
            assert!(destroyed_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-r", "tank@", "tank@a\nb", "tank@a@b", "tank@$(x)"] {
            assert!(destroyed_name(bad).is_err(), "{bad}");
        }
        assert!(tag("-r").is_err() && tag("before upgrade").is_err() && tag("keep:1").is_ok());
    }
}
