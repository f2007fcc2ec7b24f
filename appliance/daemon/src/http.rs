//! HTTP routes of the control socket.
//!
//! Handlers that may wait for a disk run in a thread that may block.

use crate::body::{Lines, chunks, pass};
use crate::command::{Io, in_thread};
use crate::owner::Owner;
use crate::peer::Peer;
use api::{
    COMMAND_BYTES_PATH, COMMAND_INPUT_PATH, COMMAND_OUTPUT_PATH, COMMANDS_PATH, Check, CommandAnswer, CommandFrame,
    CommandRequest, ErrorBody, ErrorCode, ErrorReply, HealthReply,
};
use axum::body::Body;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use std::os::fd::AsFd;
use std::sync::Arc;
use tokio::net::UnixListener;
use tokio::sync::mpsc::channel;

/// Limit for the frames of a command that its client has not read yet.
const FRAMES_WAITING: usize = 16;
/// Maximum size of a request: command lines are short.
const REQUEST_BYTES: usize = 1 << 20;

impl Connected<IncomingStream<'_, UnixListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        // A caller that cannot be identified has no permissions.
        stream.io().peer_cred().map_or_else(
            |_| Self::unknown(),
            |c| {
                let groups = host::peer::groups(stream.io().as_fd()).unwrap_or_default();
                Self { uid: c.uid(), gid: c.gid(), groups: groups.into(), pid: c.pid() }
            },
        )
    }
}

/// Routes of the control socket of any process that owns pools: commands and health.
pub fn control(owner: Arc<Owner>) -> Router {
    Router::new()
        .route(COMMANDS_PATH, post(command))
        .route(COMMAND_INPUT_PATH, post(input))
        .route(COMMAND_BYTES_PATH, post(bytes))
        .route(COMMAND_OUTPUT_PATH, get(output))
        .route("/healthz", get(health))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .with_state(owner)
}

/// An error in the format of all endpoints.
pub fn problem(code: ErrorCode, message: impl std::fmt::Display) -> Response {
    let message = message.to_string();
    let error = ErrorBody { code, message, place: None, found: None, expected: None };
    let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(ErrorReply { error })).into_response()
}

async fn command(
    State(owner): State<Arc<Owner>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(request): Json<CommandRequest>,
) -> Response {
    let (frames, answer) = channel(FRAMES_WAITING);
    let begun = in_thread(move || {
        let io = Io::new(frames.clone(), owner.questions.clone(), peer);
        // The process does not stop before the command has ended.
        let running = owner.begin();
        let code = match &running {
            Some(_) => owner.commands.run(&owner, &request, &io),
            None => {
                let _ = frames.blocking_send(CommandFrame::Stderr("weir: the daemon is stopping\n".to_owned()));
                1
            }
        };
        let _ = frames.blocking_send(CommandFrame::Exit(code));
        drop(running);
    });
    if let Err(error) = begun {
        return problem(ErrorCode::Unavailable, format_args!("cannot start a thread for the command: {error}"));
    }
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(Lines(answer))).into_response()
}

async fn input(
    State(owner): State<Arc<Owner>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Json(answer): Json<CommandAnswer>,
) -> Response {
    // The number of the question is the authorization: only the client that was asked knows it.
    let _ = peer;
    match owner.questions.answer(answer) {
        true => StatusCode::NO_CONTENT.into_response(),
        false => problem(ErrorCode::NotFound, "no command is waiting for this answer"),
    }
}

/// Query that selects the bytes.
#[derive(serde::Deserialize)]
pub(crate) struct OutputOf {
    /// Number of the question.
    pub(crate) id: String,
}

async fn bytes(State(owner): State<Arc<Owner>>, Query(of): Query<OutputOf>, body: Body) -> Response {
    match owner.questions.input(&of.id) {
        Some(to) => {
            pass(body, to).await;
            StatusCode::NO_CONTENT.into_response()
        }
        None => problem(ErrorCode::NotFound, "no command with this number is waiting for input"),
    }
}

async fn output(State(owner): State<Arc<Owner>>, Query(of): Query<OutputOf>) -> Response {
    match owner.questions.output(&of.id) {
        Some(from) => chunks(from, "application/octet-stream"),
        None => problem(ErrorCode::NotFound, "no command with this number has output"),
    }
}

async fn health(State(owner): State<Arc<Owner>>) -> Response {
    let ok = owner.is_ready();
    let message = (!ok).then(|| "pools are being opened, or closed".to_owned());
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = vec![Check { name: "ready".to_owned(), ok, message }];
    (status, Json(HealthReply { ok, checks })).into_response()
}
