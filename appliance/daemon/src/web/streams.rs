//! What all streams have in common: how many there may be, and how they are sent.

use super::reply::{Answer, Problem};
use api::ErrorCode;
use axum::body::Bytes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Streams at once.
const STREAMS: usize = 256;
/// How often a stream without news says that it is there, and each looks whether its client still may.
pub const ALIVE: Duration = Duration::from_secs(15);

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A stream that is open.
pub struct Place;

impl Place {
    /// One more, if there may be.
    pub fn take() -> Answer<Self> {
        let taken = OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < STREAMS).then_some(n + 1));
        let full = || Problem::new(ErrorCode::Unavailable, format!("{STREAMS} streams are open"));
        taken.map(|_| Self).map_err(|_| full())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends server-sent events.
pub fn events(from: Receiver<Bytes>) -> Response {
    send(from, "text/event-stream")
}

/// Sends what comes, as it comes.
pub fn send(from: Receiver<Bytes>, kind: &'static str) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Whatever stands between must pass each message on at once.
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
