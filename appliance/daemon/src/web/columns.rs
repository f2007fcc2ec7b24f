//! Live statistics: a message each second.

use super::caller::Caller;
use super::reply::{Answer, Problem, Query, waiting};
use super::statistics::{name, permitted, problem};
use super::streams::{self, HEARTBEAT};
use crate::access::Sight;
use crate::analytics::Second;
use crate::service::Service;
use analytics::engine::{Engine, Watch};
use analytics::name::Name;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Sender, channel};

/// Limit for the statistics of one stream.
const STATISTICS: usize = 32;
/// Limit for past seconds that are sent.
const MISSED: u64 = 900;
/// Number of past seconds that are collected at a time.
const AT_ONCE: u64 = 60;
/// Limit for messages that a client has not read yet; it misses further seconds.
const UNREAD: usize = 4;

struct Wanted {
    names: Vec<Name>,
    after: Option<u64>,
}

/// Parses the query; `name` may occur several times.
fn wanted(pairs: Vec<(String, String)>) -> Answer<Wanted> {
    let mut wanted = Wanted { names: Vec::new(), after: None };
    for (key, value) in pairs {
        match key.as_str() {
            "name" => wanted.names.push(name(&value)?),
            "after" => wanted.after = Some(value.parse().map_err(|_| Problem::invalid("after", value, "a second"))?),
            _ => {}
        }
    }
    match wanted.names.len() {
        1..=STATISTICS => Ok(wanted),
        n => Err(Problem::invalid("name", format!("given {n} times"), format!("1 to {STATISTICS} statistics"))),
    }
}

pub async fn stream(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(pairs): Query<Vec<(String, String)>>,
    headers: HeaderMap,
) -> Answer<Response> {
    let Wanted { names, after } = wanted(pairs)?;
    let sight = service.sight(&caller);
    names.iter().try_for_each(|name| permitted(sight, name))?;
    let place = service.stream_place(&caller)?;
    let last = headers.get("last-event-id").and_then(|v| v.to_str().ok()?.parse().ok()).or(after);
    let engine = service.analytics.engine.clone();
    let watched = names.clone();
    let watches: Vec<Watch> =
        waiting(move || watched.iter().map(|n| engine.watch(n).map_err(problem)).collect()).await?;
    let (to, from) = channel(UNREAD);
    tokio::spawn(async move {
        send_updates(&service, &caller, names, last, &to).await;
        // Dropping them takes the lock of the engine.
        let _ = tokio::task::spawn_blocking(move || drop((watches, place))).await;
    });
    Ok(streams::events(from))
}

/// Sends seconds until the client disconnects or loses its permission, or the process stops.
async fn send_updates(
    service: &Arc<Service>,
    caller: &Caller,
    names: Vec<Name>,
    last: Option<u64>,
    to: &Sender<Bytes>,
) {
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    // Subscribe before reading the past, so that there is no gap.
    let mut live = service.analytics.columns.listen();
    let engine = service.analytics.engine.clone();
    let last_closed = move || (engine.wait(0, Duration::ZERO), engine);
    let Ok((mut last_sent, engine)) = tokio::task::spawn_blocking(last_closed).await else { return };
    let mut from = last.map_or(last_sent, |last| last.max(last_sent.saturating_sub(MISSED))).saturating_add(1);
    while from <= last_sent {
        let until = (last_sent + 1).min(from + AT_ONCE);
        let (engine, names, requested, sight) = (engine.clone(), names.clone(), texts.clone(), service.sight(caller));
        let messages = tokio::task::spawn_blocking(move || {
            let seconds = before(&engine, &names, from, until);
            seconds.iter().map(|second| text(second, &requested, sight)).collect::<Vec<_>>()
        });
        let messages = messages.await;
        for message in messages.unwrap_or_default() {
            if to.send(message).await.is_err() {
                return;
            }
        }
        from = until;
    }
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    let mut stopped = service.signals.stopped.clone();
    let mut over = std::pin::pin!(service.until_over(caller));
    loop {
        let chunk = tokio::select! {
            second = live.recv() => match second {
                Ok(second) if second.second > last_sent => {
                    last_sent = second.second;
                    text(&second, &texts, service.sight(caller))
                }
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            },
            _ = heartbeat.tick() => Bytes::from_static(b": \n\n"),
            () = &mut over => return,
            _ = to.closed() => return,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if to.send(chunk).await.is_err() {
            return;
        }
    }
}

/// The recorded values of the seconds from `from` to before `to`.
fn before(engine: &Engine, names: &[Name], from: u64, to: u64) -> Vec<Second> {
    let answers: Vec<_> = names.iter().filter_map(|name| engine.query(name, from, to, 1).ok()).collect();
    (from..to).map(|second| Second::new(second, &answers)).collect()
}

fn text(second: &Second, names: &[String], sight: Sight) -> Bytes {
    format!("event: columns\nid: {}\ndata: {}\n\n", second.second, second.message(names, sight)).into()
}
