//! Single operations: recorded ones, and a live stream.

use super::caller::Caller;
use super::reply::{Answer, Problem, Query, waiting};
use super::statistics::{name, permitted, problem, span};
use crate::access::Sight;
use crate::body::chunks;
use crate::service::Service;
use analytics::engine::Follower;
use analytics::operation::Operation;
use api::{RecordedOperation, RecordedOperationList};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// Limit for the operations in one list, and the default; a tenth of the limit is enough for
/// people.
const MOST: u64 = 10_000;
const USUAL: u64 = 1000;
/// Interval at which new operations are sent to followers.
const OFTEN: Duration = Duration::from_millis(200);
/// Limit for texts that a client has not read yet. Further operations wait in a queue, which is
/// bounded.
const UNREAD: usize = 2;

#[derive(Deserialize)]
pub struct Wanted {
    name: String,
    from: Option<u64>,
    to: Option<u64>,
    slower_than_ns: Option<u64>,
    limit: Option<u64>,
    follow: Option<bool>,
}

fn shown(operation: Operation, sight: Sight) -> RecordedOperation {
    let file = sight.file(operation.file);
    RecordedOperation {
        ended_ns: operation.ended,
        layer: operation.layer.to_owned(),
        op: operation.op.to_owned(),
        client: operation.client,
        user: operation.user,
        share: operation.share,
        object: if sight.files { operation.object } else { 0 },
        file,
        offset: operation.offset,
        size: operation.size,
        latency_ns: operation.latency,
        queue_wait_ns: operation.queue_wait,
        log_wait_ns: operation.log_wait,
        txg_wait_ns: operation.txg_wait,
        disk_wait_ns: operation.disk_wait,
        cache: operation.cache,
        result: operation.result,
        missed: 0,
    }
}

pub async fn list(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Query(wanted): Query<Wanted>,
) -> Answer<Response> {
    let statistic = name(&wanted.name)?;
    let sight = service.sight(&caller);
    permitted(sight, &statistic)?;
    let slower = wanted.slower_than_ns.unwrap_or(0);
    if wanted.follow == Some(true) {
        let place = service.stream_place(&caller)?;
        let engine = service.analytics.engine.clone();
        let follower = waiting(move || engine.follow(&statistic, slower).map_err(problem)).await?;
        let (to, from) = channel(UNREAD);
        tokio::spawn(async move {
            let _place = place;
            send_updates(&service, &caller, Arc::new(follower), &to).await;
        });
        return Ok(chunks(from, "application/x-ndjson"));
    }
    let span = span(wanted.from, wanted.to)?;
    let limit = match wanted.limit.unwrap_or(USUAL) {
        n @ 1..=MOST => usize::try_from(n).unwrap_or(usize::MAX),
        n => return Err(Problem::invalid("limit", n.to_string(), format!("1 to {MOST}"))),
    };
    waiting(move || {
        let found = service.analytics.engine.newest(&statistic, span, slower, limit).map_err(problem)?;
        let items = found.into_iter().map(|operation| shown(operation, sight)).collect();
        Ok(Json(RecordedOperationList { items }).into_response())
    })
    .await
}

/// Sends operations until the client disconnects or loses its permission, or the process stops.
async fn send_updates(service: &Arc<Service>, caller: &Caller, follower: Arc<Follower>, to: &Sender<Bytes>) {
    let mut often = tokio::time::interval(OFTEN);
    let mut stopped = service.signals.stopped.clone();
    let mut over = std::pin::pin!(service.until_over(caller));
    let mut missed = 0;
    loop {
        tokio::select! {
            _ = often.tick() => {}
            () = &mut over => return,
            _ = to.closed() => return,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
        let (follower, sight) = (follower.clone(), service.sight(caller));
        let outcome = tokio::task::spawn_blocking(move || lines(&follower, sight, missed)).await;
        let lines;
        (lines, missed) = outcome.unwrap_or_default();
        if !lines.is_empty() && to.send(lines).await.is_err() {
            return;
        }
    }
}

/// New operations, and the number of those that were dropped. The first one contains the number
/// missing before it.
fn lines(follower: &Follower, sight: Sight, missed: u64) -> (Bytes, u64) {
    let (operations, more) = follower.take();
    let nothing = operations.is_empty();
    let mut out = Vec::new();
    for (n, operation) in operations.into_iter().enumerate() {
        let mut operation = shown(operation, sight);
        operation.missed = if n == 0 { missed } else { 0 };
        if serde_json::to_writer(&mut out, &operation).is_ok() {
            out.push(b'\n');
        }
    }
    (out.into(), if nothing { missed } else { more })
}
