//! Alerts: thresholds on statistics.

use super::caller::Caller;
use super::guard::Audited;
use super::reply::{Answer, Body, Created, Done, Path, Problem, waiting};
use crate::alerts::Refused;
use crate::service::Service;
use api::{Alert, AlertList, AlertRule, ErrorCode};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use std::sync::Arc;

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::Rule(_) => ErrorCode::InvalidRequest,
            Refused::Missing => ErrorCode::NotFound,
            Refused::BuiltIn(_) => ErrorCode::Conflict,
            Refused::Failed(_) => ErrorCode::Internal,
        };
        Self::new(code, refused.to_string())
    }
}

/// Target for the audit log.
fn audited(alert: &Alert) -> Extension<Audited> {
    Extension(Audited { target: Some(format!("{} {}", alert.id, alert.rule.title)), ..Audited::default() })
}

pub async fn list(State(service): State<Arc<Service>>, caller: Caller) -> Json<AlertList> {
    let sight = service.sight(&caller);
    Json(AlertList { items: service.alerts.list().into_iter().map(|alert| sight.alert(alert)).collect() })
}

pub async fn get(State(service): State<Arc<Service>>, caller: Caller, Path(id): Path<u32>) -> Answer<Json<Alert>> {
    let alert = service.alerts.get(id).ok_or(Refused::Missing)?;
    Ok(Json(service.sight(&caller).alert(alert)))
}

pub async fn create(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(rule): Body<AlertRule>,
) -> Answer<Response> {
    let made = waiting(move || Ok(service.alerts.create(rule, &caller.name())?)).await?;
    Ok((audited(&made), Created(made)).into_response())
}

pub async fn replace(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
    caller: Caller,
    Body(rule): Body<AlertRule>,
) -> Answer<Response> {
    let made = waiting(move || Ok(service.alerts.replace(id, rule, &caller.name())?)).await?;
    Ok((audited(&made), Json(made)).into_response())
}

pub async fn delete(State(service): State<Arc<Service>>, Path(id): Path<u32>) -> Answer<Done> {
    waiting(move || {
        service.alerts.delete(id)?;
        Ok(Done)
    })
    .await
}
