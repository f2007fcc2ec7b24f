//! Error responses.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorReply {
    /// The only member, so that an error is never mistaken for a result.
    pub error: ErrorBody,
}

/// The error, its place, and the expected value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Kind of the error, for programs. It determines the HTTP status.
    pub code: ErrorCode,
    /// The error in words, for people. The text may change between versions.
    pub message: String,
    /// Subject of the error: a pool, a dataset, or a field of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Value that was found; absent if the error is not about a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Values that would be accepted; absent if the error is not about a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
}

/// Kinds of error, each with its HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: the request is invalid.
    InvalidRequest,
    /// 401: authentication is required.
    Unauthenticated,
    /// 403: the caller lacks permission.
    Forbidden,
    /// 404: the named object does not exist.
    NotFound,
    /// 405: the path supports other methods.
    MethodNotAllowed,
    /// 409: the current state does not permit it.
    Conflict,
    /// 409: data would be lost; the request must repeat the name of the object in `confirm`.
    ConfirmationRequired,
    /// 413: the request is too large.
    TooLarge,
    /// 421: the request is for another host than this one.
    WrongHost,
    /// 422: it was tried and failed; the message is the command's.
    Failed,
    /// 429: too many attempts; `Retry-After` says when to try again.
    TooManyRequests,
    /// 500: an error of the daemon, which its log explains.
    Internal,
    /// 501: this version cannot do it.
    Unsupported,
    /// 503: temporarily impossible; the daemon is starting, stopping or too busy.
    Unavailable,
}

impl ErrorCode {
    /// The HTTP status that goes with it.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict | Self::ConfirmationRequired => 409,
            Self::TooLarge => 413,
            Self::WrongHost => 421,
            Self::Failed => 422,
            Self::TooManyRequests => 429,
            Self::Internal => 500,
            Self::Unsupported => 501,
            Self::Unavailable => 503,
        }
    }
}
