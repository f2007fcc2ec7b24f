//! Common parts of all streams: limits, and sending.

use super::Service;
use super::caller::Caller;
use super::reply::{Answer, Problem};
use crate::places::{Place, Places};
use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Limit for open streams.
const STREAMS: usize = 256;
/// The same for one caller: some dozens of open pages.
const STREAMS_OF_ONE: usize = 64;
/// Interval of keep-alive messages, and of checks whether the client still has permission.
pub const ALIVE: Duration = Duration::from_secs(15);

/// Slots for streams.
pub fn places() -> Arc<Places<String>> {
    Places::new(STREAMS, STREAMS_OF_ONE)
}

impl Service {
    /// A slot for a stream.
    pub fn stream_place(&self, caller: &Caller) -> Answer<Option<Place<String>>> {
        let place = caller.key().map(|key| self.streams.take(key)).transpose();
        place.map_err(|full| Problem::full(full, "streams are open"))
    }

    /// Returns when the caller may not continue: its session or token has ended, or its role has
    /// changed.
    pub async fn until_over(&self, caller: &Caller) {
        let mut revocations = self.revocations.subscribe();
        let mut alive = tokio::time::interval(ALIVE);
        while self.is_still(caller) {
            tokio::select! {
                _ = alive.tick() => {}
                _ = revocations.changed() => {}
            }
        }
    }
}

/// Sends server-sent events.
pub fn events(from: Receiver<Bytes>) -> Response {
    send(from, "text/event-stream")
}

/// Sends chunks as they come.
pub fn send(from: Receiver<Bytes>, kind: &'static str) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Proxies must pass each message on at once.
    let through = (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    ([kind, through], axum::body::Body::from_stream(Chunks(from))).into_response()
}

struct Chunks(Receiver<Bytes>);

impl Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(Ok))
    }
}
