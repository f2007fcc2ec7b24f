//! Analytics: past values of statistics, and explanations of selected operations.

use super::caller::Caller;
use super::reply::{Answer, Body, Created, Done, Path, Problem, Query, waiting};
use crate::access::Sight;
use crate::analytics::to_api;
use crate::service::Service;
use analytics::catalogue::{CATALOGUE, Shown};
use analytics::engine::{Dataset, Error};
use analytics::explain::{Explanation, Times};
use analytics::fold::Scale;
use analytics::name::Name;
use api::{
    ChangeCounted, CountStatistic, Counted, CountedList, ErrorCode, ExplainedField, ExplainedValue, OperationTimes,
    PruneCounted, Statistic, StatisticData, StatisticExplanation, StatisticField, StatisticList,
};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use std::sync::Arc;

/// Default time span in seconds.
const DEFAULT_SECONDS: u64 = 60;
/// Limit for the rows of a folded heat map.
const ROWS: u32 = 4096;
/// The last second that can be requested: the end of the year 9999.
pub const LAST: u64 = 253_402_300_799;
/// Time before a rectangle with which it is compared, in seconds.
const AMONG: u64 = 300;

pub fn problem(error: Error) -> Problem {
    match error {
        Error::Name(bad) => Problem::new(ErrorCode::InvalidRequest, bad.to_string()).at("name"),
        Error::TooMany(..) => Problem::new(ErrorCode::InvalidRequest, error.to_string()).at("step"),
        Error::NotRecorded => Problem::new(ErrorCode::InvalidRequest, error.to_string()).at("name"),
        Error::Counted(_) => Problem::new(ErrorCode::Conflict, error.to_string()),
        Error::Watched(_) | Error::Followed(_) => Problem::new(ErrorCode::Unavailable, error.to_string()),
        Error::Io(error) => Problem::internal(&error.into()),
    }
}

pub fn name(text: &str) -> Answer<Name> {
    text.parse().map_err(|bad| problem(Error::Name(bad)))
}

/// Fails if the caller may not request a statistic.
pub fn permitted(sight: Sight, name: &Name) -> Answer<()> {
    if sight.may(name) {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::Forbidden, "viewers cannot see file names (analytics.viewers_see_files)").at("name"))
}

pub async fn list() -> Json<StatisticList> {
    let field = |field: &analytics::name::Field| StatisticField {
        name: field.name().to_owned(),
        title: field.title().to_owned(),
        heat_map: field.scheme().is_some(),
    };
    let statistic = |s: &analytics::catalogue::Statistic| Statistic {
        name: s.name.to_owned(),
        category: s.category.to_owned(),
        title: s.title.to_owned(),
        unit: s.unit.to_owned(),
        help: s.help.to_owned(),
        level: s.shown == Shown::Level,
        fields: s.fields.iter().map(field).collect(),
    };
    Json(StatisticList { items: CATALOGUE.iter().map(statistic).collect() })
}

fn counted(dataset: Dataset) -> Counted {
    Counted {
        id: dataset.id,
        name: dataset.name,
        title: dataset.title,
        created: dataset.created,
        suspended: dataset.suspended,
        archived: dataset.archived,
        passing: dataset.passing,
        incore_bytes: dataset.incore,
        ondisk_bytes: dataset.ondisk,
        cost_ns: dataset.cost,
    }
}

fn all(service: &Service) -> Answer<Vec<Dataset>> {
    service.analytics.engine.datasets().map_err(|e| problem(e.into()))
}

fn one(service: &Service, id: u32) -> Answer<Counted> {
    let found = all(service)?.into_iter().find(|d| d.id == id);
    found.map(counted).ok_or_else(|| missing(id))
}

fn missing(id: u32) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("no such statistic: {id}"))
}

pub async fn datasets(State(service): State<Arc<Service>>, caller: Caller) -> Answer<Json<CountedList>> {
    let sight = service.sight(&caller);
    let shown = move |dataset| sight.counted(counted(dataset));
    waiting(move || Ok(Json(CountedList { items: all(&service)?.into_iter().map(shown).collect() }))).await
}

pub async fn count(
    State(service): State<Arc<Service>>,
    Body(request): Body<CountStatistic>,
) -> Answer<Created<Counted>> {
    let wanted = name(&request.name)?;
    waiting(move || {
        let id = service.analytics.engine.count(&wanted, request.archived).map_err(problem)?;
        Ok(Created(one(&service, id)?))
    })
    .await
}

pub async fn change(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
    Body(request): Body<ChangeCounted>,
) -> Answer<Json<Counted>> {
    waiting(move || match service.analytics.engine.suspend(id, request.suspended).map_err(problem)? {
        true => Ok(Json(one(&service, id)?)),
        false => Err(missing(id)),
    })
    .await
}

pub async fn delete(State(service): State<Arc<Service>>, Path(id): Path<u32>) -> Answer<Done> {
    waiting(move || match service.analytics.engine.destroy(id).map_err(problem)? {
        true => Ok(Done),
        false => Err(missing(id)),
    })
    .await
}

pub async fn prune(
    State(service): State<Arc<Service>>,
    Path(id): Path<u32>,
    Body(request): Body<PruneCounted>,
) -> Answer<Json<Counted>> {
    waiting(move || match service.analytics.engine.prune(id, request.before).map_err(problem)? {
        true => Ok(Json(one(&service, id)?)),
        false => Err(missing(id)),
    })
    .await
}

#[derive(Deserialize)]
pub struct Wanted {
    name: String,
    from: Option<u64>,
    to: Option<u64>,
    step: Option<u64>,
    rows: Option<u32>,
    scale: Option<Scale>,
    top: Option<u64>,
}

pub(super) fn span(from: Option<u64>, to: Option<u64>) -> Answer<(u64, u64)> {
    let to = to.unwrap_or_else(host::clock::seconds);
    if to > LAST {
        return Err(Problem::invalid("to", to.to_string(), format!("at most {LAST}")));
    }
    let from = from.unwrap_or(to.saturating_sub(DEFAULT_SECONDS));
    if from < to { Ok((from, to)) } else { Err(Problem::invalid("from", from.to_string(), format!("less than {to}"))) }
}

pub async fn query(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Answer<Json<StatisticData>> {
    let (statistic, (from, to)) = (name(&wanted.name)?, span(wanted.from, wanted.to)?);
    let sight = service.sight(&caller);
    permitted(sight, &statistic)?;
    let step = wanted.step.unwrap_or(1);
    if step == 0 {
        return Err(Problem::invalid("step", "0", "1 or more"));
    }
    if wanted.rows.is_some_and(|rows| !(1..=ROWS).contains(&rows)) {
        let rows = wanted.rows.unwrap_or_default();
        return Err(Problem::invalid("rows", rows.to_string(), format!("1 to {ROWS}")));
    }
    if wanted.rows.is_none() && (wanted.scale.is_some() || wanted.top.is_some()) {
        return Err(Problem::new(ErrorCode::InvalidRequest, "scale and top require rows").at("rows"));
    }
    if wanted.rows.is_some() && statistic.breakdown.is_none_or(|field| field.scheme().is_none()) {
        return Err(Problem::invalid("rows", "not a heat map", "a statistic broken down by a number, such as latency"));
    }
    waiting(move || {
        let mut found = service.analytics.engine.query(&statistic, from, to, step).map_err(problem)?;
        if let Some(rows) = wanted.rows {
            found.fold(rows, wanted.scale.unwrap_or_default(), wanted.top);
        }
        Ok(Json(to_api::data(sight.answer(found))))
    })
    .await
}

#[derive(Deserialize)]
pub struct Rectangle {
    name: String,
    from: Option<u64>,
    to: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
    among_from: Option<u64>,
    among_to: Option<u64>,
}

pub async fn explain(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(wanted): Query<Rectangle>,
) -> Answer<Json<StatisticExplanation>> {
    let (statistic, (from, to)) = (name(&wanted.name)?, span(wanted.from, wanted.to)?);
    let sight = service.sight(&caller);
    permitted(sight, &statistic)?;
    let rows = (wanted.low.is_some() || wanted.high.is_some())
        .then(|| (wanted.low.unwrap_or(0), wanted.high.unwrap_or(u64::MAX)));
    let among = (wanted.among_from.unwrap_or(from.saturating_sub(AMONG)), wanted.among_to.unwrap_or(to));
    waiting(move || {
        let found = service.analytics.engine.explain(&statistic, (from, to), rows, among).map_err(problem)?;
        Ok(Json(sight.explanation(explanation(found))))
    })
    .await
}

fn explanation(found: Explanation) -> StatisticExplanation {
    let times = |t: Times| OperationTimes {
        latency_ns: t.latency,
        queue_wait_ns: t.queue_wait,
        log_wait_ns: t.log_wait,
        txg_wait_ns: t.txg_wait,
        disk_wait_ns: t.disk_wait,
    };
    let fields = found.fields.into_iter().map(|f| ExplainedField {
        field: f.field.name().to_owned(),
        title: f.field.title().to_owned(),
        score: f.score,
        more: f.more as u64,
        values: (f.values.into_iter())
            .map(|v| ExplainedValue { value: v.value, inside: v.inside, outside: v.outside, score: v.score })
            .collect(),
    });
    StatisticExplanation {
        inside: found.inside,
        outside: found.outside,
        fields: fields.collect(),
        times_inside: times(found.times_inside),
        times_outside: times(found.times_outside),
    }
}
