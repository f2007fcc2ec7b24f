//! Answers: JSON, or an error in the interface's format.

use crate::access::accounts::Refused;
use crate::places::Full;
use api::{ErrorBody, ErrorCode, ErrorReply};
use axum::Json;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Time limit for the body of a request. Its head has the same limit (`tcp`).
const PATIENCE: Duration = Duration::from_secs(15);
/// Time after which to retry a request that was over a limit.
const AGAIN: Duration = Duration::from_secs(1);

/// An error and its HTTP response, with the status of its code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Contents of the answer.
    pub body: Box<ErrorBody>,
    /// Time after which to retry.
    pub retry_after: Option<Duration>,
}

/// Result of a handler.
pub type Answer<T> = Result<T, Problem>;

impl Problem {
    /// An error of this kind with this message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let body = ErrorBody { code, message: message.into(), place: None, found: None, expected: None };
        Self { body: Box::new(body), retry_after: None }
    }

    /// The request is invalid.
    pub fn invalid(place: &str, found: impl Into<String>, expected: impl Into<String>) -> Self {
        let (found, expected) = (found.into(), expected.into());
        let mut problem = Self::new(ErrorCode::InvalidRequest, format!("{place} is {found}, expected {expected}"));
        (problem.body.place, problem.body.found) = (Some(place.to_owned()), Some(found));
        problem.body.expected = Some(expected);
        problem
    }

    /// A limit is reached: too many `what`, such as "requests are in progress".
    pub fn full(full: Full, what: &str) -> Self {
        let (code, message) = match full {
            Full::One(n) => (ErrorCode::TooManyRequests, format!("{n} {what} of this caller, which is the maximum")),
            Full::All(n) => (ErrorCode::Unavailable, format!("{n} {what}, which is the maximum")),
        };
        Self { retry_after: Some(AGAIN), ..Self::new(code, message) }
    }

    /// Sets the object that the error is about.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.body.place = Some(place.into());
        self
    }

    pub fn internal(error: &anyhow::Error) -> Self {
        Self::new(ErrorCode::Internal, format!("{error:#}"))
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self::new(refused.code, refused.message)
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        Self::internal(&error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.body.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let message = self.body.message.clone();
        let mut response = (status, Json(ErrorReply { error: *self.body })).into_response();
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(ErrorText(message));
        response
    }
}

/// Message of an error answer, for the audit log.
#[derive(Debug, Clone)]
pub struct ErrorText(pub String);

/// 201 with the created object.
pub struct Created<T>(pub T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}

pub struct Done;

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

/// The body of a request, parsed from JSON.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Answer<Self> {
        let Ok(body) = tokio::time::timeout(PATIENCE, Json::<T>::from_request(request, state)).await else {
            let message = format!("the body did not arrive within {} s", PATIENCE.as_secs());
            return Err(Problem::new(ErrorCode::InvalidRequest, message));
        };
        match body {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => {
                let code = match rejection.status() {
                    StatusCode::PAYLOAD_TOO_LARGE => ErrorCode::TooLarge,
                    _ => ErrorCode::InvalidRequest,
                };
                Err(Problem::new(code, rejection.body_text()))
            }
        }
    }
}

/// The parsed query string.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(Problem::new(ErrorCode::InvalidRequest, rejection.body_text())),
        }
    }
}

/// The parsed path parameters.
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(path)) => Ok(Self(path)),
            Err(rejection) => Err(Problem::new(ErrorCode::InvalidRequest, rejection.body_text())),
        }
    }
}

/// Runs work that may wait for a disk in a thread that may block.
pub async fn waiting<T: Send + 'static>(work: impl FnOnce() -> Answer<T> + Send + 'static) -> Answer<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(Problem::new(ErrorCode::Internal, "internal error; see the log")),
    }
}

/// Selects a page of a long list.
#[derive(Debug, Clone, Default, serde::Deserialize)]
pub struct Page {
    /// Number of items; `None`: the default.
    pub limit: Option<u64>,
    /// `next` of the previous page.
    pub cursor: Option<String>,
}

impl Page {
    /// Number of items on the page.
    pub fn limit(&self) -> Answer<usize> {
        limit(self.limit)
    }

    /// The cursor as a number of items to skip.
    pub fn skip(&self) -> Answer<usize> {
        let Some(cursor) = &self.cursor else { return Ok(0) };
        cursor.parse().map_err(|_| Problem::invalid("cursor", format!("'{cursor}'"), "`next` of the previous page"))
    }
}

/// Number of items: 1 to 1000; the default is 100.
pub fn limit(limit: Option<u64>) -> Answer<usize> {
    match limit.unwrap_or(100) {
        n @ 1..=1000 => Ok(usize::try_from(n).unwrap_or(1000)),
        n => Err(Problem::invalid("limit", n.to_string(), "1 to 1000")),
    }
}

/// Answer for an unknown path or method of the interface.
pub async fn unknown(method: axum::http::Method, uri: axum::http::Uri) -> Problem {
    Problem::new(ErrorCode::NotFound, format!("no such operation: {method} {}", uri.path()))
}
