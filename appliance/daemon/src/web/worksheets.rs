//! Worksheets.

use super::caller::{Caller, Who};
use super::reply::{Answer, Body, Created, Done, Path, Problem, waiting};
use super::statistics::problem;
use crate::analytics::worksheets::{Refused, statistics};
use crate::service::Service;
use api::{ErrorCode, SaveWorksheet, Worksheet, WorksheetList};
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

fn refused(refused: Refused) -> Problem {
    let message = refused.to_string();
    match refused {
        Refused::Invalid(place, found, expected) => Problem::invalid(&place, found, expected),
        Refused::Full => Problem::new(ErrorCode::Conflict, message),
        Refused::Missing(id) => Problem::new(ErrorCode::NotFound, message).at(id.to_string()),
        Refused::Io(_) => Problem::new(ErrorCode::Internal, message),
    }
}

/// Owner of a worksheet: the user, whatever token was used.
fn owner(caller: &Caller) -> String {
    match &caller.who {
        Who::Session { user, .. } | Who::Token { user, .. } => user.clone(),
        Who::Local(_) | Who::Nobody => caller.name(),
    }
}

/// Records all statistics of a worksheet from now on, so that they are available later.
fn archive(service: &Service, wanted: &SaveWorksheet) -> Answer<()> {
    for name in statistics(wanted).map_err(refused)? {
        service.analytics.engine.count(&name, true).map_err(problem)?;
    }
    Ok(())
}

pub async fn list(State(service): State<Arc<Service>>, caller: Caller) -> Json<WorksheetList> {
    let (sight, all) = (service.sight(&caller), service.analytics.worksheets.list());
    Json(WorksheetList { items: all.into_iter().map(|sheet| sight.worksheet(sheet)).collect() })
}

pub async fn get(State(service): State<Arc<Service>>, caller: Caller, Path(id): Path<u32>) -> Answer<Json<Worksheet>> {
    let sight = service.sight(&caller);
    service.analytics.worksheets.get(id).map(|sheet| Json(sight.worksheet(sheet))).map_err(refused)
}

pub async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(wanted): Body<SaveWorksheet>,
) -> Answer<Created<Worksheet>> {
    waiting(move || {
        archive(&service, &wanted)?;
        service.analytics.worksheets.add(wanted, owner(&caller)).map(Created).map_err(refused)
    })
    .await
}

pub async fn save(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
    Body(wanted): Body<SaveWorksheet>,
) -> Answer<Json<Worksheet>> {
    waiting(move || {
        service.analytics.worksheets.get(id).map_err(refused)?;
        archive(&service, &wanted)?;
        service.analytics.worksheets.set(id, wanted).map(Json).map_err(refused)
    })
    .await
}

pub async fn delete(State(service): State<Arc<Service>>, Path(id): Path<u32>) -> Answer<Done> {
    waiting(move || service.analytics.worksheets.remove(id).map(|()| Done).map_err(refused)).await
}
