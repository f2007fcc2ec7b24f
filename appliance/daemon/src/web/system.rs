//! The process itself: health, versions, statistics, settings.

use super::caller::Caller;
use super::guard::Audited;
use super::reply::{Answer, Body, Problem, waiting};
use crate::process;
use crate::service::Service;
use api::{
    Cache, ChangeSettings, Check, ErrorCode, HealthReply, SettingList, SettingsChanged, System, SystemHealth, Version,
};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use std::sync::Arc;
use std::time::Duration;

/// Time limit for a blocking thread to answer before the process counts as unhealthy.
const PATIENCE: Duration = Duration::from_secs(5);

fn health(checks: Vec<Check>) -> Response {
    let ok = checks.iter().all(|c| c.ok);
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(HealthReply { ok, checks })).into_response()
}

/// Liveness: the process answers, and not all of its blocking threads are stuck.
pub async fn healthz() -> Response {
    let free = tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(|| ())).await.is_ok();
    let message = (!free).then(|| "all threads are waiting for disks".to_owned());
    health(vec![Check { name: "threads".to_owned(), ok: free, message }])
}

/// Readiness: all imported pools are open.
pub async fn readyz(State(service): State<Arc<Service>>) -> Response {
    let ready = service.owner.is_ready();
    let message = (!ready).then(|| "the daemon is starting or stopping".to_owned());
    // The caller is not authenticated: pools are not named.
    let mut checks = vec![Check { name: "started".to_owned(), ok: ready, message }];
    if ready {
        let check = service.clone();
        let closed = tokio::task::spawn_blocking(move || {
            let all = check.owner.house.state().pools().map_or(0, |p| p.len());
            all.saturating_sub(check.owner.house.list().len())
        });
        let closed = tokio::time::timeout(PATIENCE, closed).await.map_or(Ok(1), |r| r).unwrap_or(1);
        let message = (closed > 0).then(|| format!("{closed} imported pools could not be opened"));
        checks.push(Check { name: "pools".to_owned(), ok: closed == 0, message });
    }
    health(checks)
}

pub async fn version() -> Json<Version> {
    Json(Version {
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        api: "1".to_owned(),
        openzfs: "2.3.2".to_owned(),
        host: host::name(),
    })
}

/// The verdict on everything, as of now.
pub async fn system_health(State(service): State<Arc<Service>>) -> Answer<Json<SystemHealth>> {
    waiting(move || Ok(Json(service.health.assess(&service, &service.read_pools())))).await
}

pub async fn system(State(service): State<Arc<Service>>) -> Answer<Json<System>> {
    waiting(move || {
        let usage = process::usage();
        Ok(Json(System {
            started: service.metrics.started,
            pid: std::process::id(),
            memory_bytes: usage.memory_bytes,
            cpu_seconds: usage.cpu_nanoseconds as f64 / 1e9,
            open_files: usage.open_files,
            threads: usage.threads,
            processors: host::processors() as u64,
            cache: cache(&service),
        }))
    })
    .await
}

/// Sum of the caches of all pools.
fn cache(service: &Service) -> Cache {
    let mut sum = Cache::default();
    for pool in service.owner.house.list() {
        let counters = pool.store().cache().counters();
        sum.max_bytes += counters.cap_bytes;
        sum.used_bytes += counters.size_bytes;
        sum.hits += counters.hits;
        sum.misses += counters.misses;
    }
    sum
}

pub async fn settings(State(service): State<Arc<Service>>) -> Json<SettingList> {
    Json(SettingList { items: service.settings.list(), next: None })
}

fn changed(done: Result<SettingsChanged, String>) -> Answer<Json<SettingsChanged>> {
    done.map(Json).map_err(|why| Problem::new(ErrorCode::InvalidRequest, why))
}

pub async fn change_settings(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<ChangeSettings>,
) -> Answer<Response> {
    let names: Vec<&str> = request.set.keys().map(String::as_str).collect();
    let audited = Extension(Audited { target: Some(names.join(",")), ..Audited::default() });
    let done = waiting(move || changed(service.change_settings(&request.set, &caller.name()))).await?;
    Ok((audited, done).into_response())
}

pub async fn reload_settings(State(service): State<Arc<Service>>, caller: Caller) -> Answer<Json<SettingsChanged>> {
    waiting(move || changed(service.reload(&caller.name()))).await
}

/// Content type of Prometheus's text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Content type of Prometheus's protobuf format, which has native histograms.
const PROTOBUF: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// Whether the client prefers protobuf: Prometheus asks for it if native histograms are enabled.
fn wants_protobuf(accept: &str) -> bool {
    let quality = |kind: &str| {
        let found = accept.split(',').find_map(|one| {
            let mut parts = one.split(';').map(str::trim);
            if parts.next() != Some(kind) {
                return None;
            }
            let mut quality = 1.0;
            for part in parts {
                match part.split_once('=') {
                    Some(("q", q)) => quality = q.parse().unwrap_or(0.0),
                    Some(("proto", proto)) if proto != "io.prometheus.client.MetricFamily" => return None,
                    Some(("encoding", encoding)) if encoding != "delimited" => return None,
                    _ => {}
                }
            }
            Some(quality)
        });
        found.unwrap_or(0.0)
    };
    let protobuf: f64 = quality("application/vnd.google.protobuf");
    protobuf > 0.0 && protobuf >= quality("text/plain")
}

pub async fn metrics(State(service): State<Arc<Service>>, headers: HeaderMap) -> Answer<Response> {
    let accept = headers.get(header::ACCEPT).and_then(|a| a.to_str().ok()).unwrap_or_default();
    let protobuf = wants_protobuf(accept);
    waiting(move || {
        service.list_figures();
        let families = service.metrics.registry.collect();
        Ok(match protobuf {
            true => ([(header::CONTENT_TYPE, PROTOBUF)], observe::prometheus_protobuf(&families)).into_response(),
            false => ([(header::CONTENT_TYPE, TEXT)], observe::prometheus(&families)).into_response(),
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protobuf_is_sent_on_request() {
        let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                          application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert!(wants_protobuf(prometheus));
        for text in [
            "",
            "*/*",
            "text/plain",
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text",
            "application/vnd.google.protobuf;q=0.1,text/plain",
            "application/vnd.google.protobuf;q=x",
        ] {
            assert!(!wants_protobuf(text), "{text}");
        }
    }
}
