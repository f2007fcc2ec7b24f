//! Bodies that are sent and received piece by piece.

use api::CommandFrame;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, Sender};

/// Sends chunks as they come.
pub fn chunks(from: Receiver<Bytes>, kind: &'static str) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static(kind));
    // Proxies must pass each message on at once.
    let through = (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    ([kind, through], Body::from_stream(Chunks(from))).into_response()
}

struct Chunks(Receiver<Bytes>);

impl Stream for Chunks {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(Ok))
    }
}

/// Frames, one per line. It is dropped with the connection, and then the command finds its
/// channel closed.
pub(crate) struct Lines(pub(crate) Receiver<CommandFrame>);

impl Stream for Lines {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|frame| {
            frame.map(|frame| {
                let mut line = serde_json::to_vec(&frame)?;
                line.push(b'\n');
                Ok(line.into())
            })
        })
    }
}

/// Passes a body to a command until it ends, fails, or the command needs no more.
pub(crate) async fn pass(body: Body, to: Sender<io::Result<Bytes>>) {
    let mut body = body.into_data_stream();
    while let Some(piece) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_next(cx)).await {
        let piece = piece.map_err(|error| io::Error::new(io::ErrorKind::BrokenPipe, error));
        let broke = piece.is_err();
        if to.send(piece).await.is_err() || broke {
            return;
        }
    }
}
