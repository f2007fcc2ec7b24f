//! Users, sessions and tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Role of a user; each includes the rights of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May read everything except accounts and the audit log.
    Viewer,
    /// May also create, set, share and verify, but nothing that loses data or gives others access.
    Operator,
    /// May do everything, including destroying pools and managing users.
    Administrator,
}

/// A user who may log in over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Unique name of the user.
    pub name: String,
    /// Role of the user.
    pub role: Role,
    /// Time of creation, in seconds since 1970.
    pub created: u64,
    /// Time of the last login with a password, in seconds since 1970; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_login: Option<u64>,
    /// Number of open browser sessions.
    pub sessions: u64,
}

/// A user to create. Fails with `conflict` if the name is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// Name: 1 to 32 of `a-z 0-9 . _ -`, beginning with a letter.
    pub name: String,
    /// Role of the user.
    pub role: Role,
    /// Password: 10 to 256 bytes.
    pub password: String,
}

/// Changes a user. The user's sessions end; tokens remain, with the lesser of both roles.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeUser {
    /// New role; absent: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// New password, 10 to 256 bytes; absent: unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// Credentials for a login. The response sets the session cookie.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Password of the user. After too many failed attempts, logins are refused for a while with
    /// `too_many_requests`.
    pub password: String,
}

/// The current user and role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Name: a user, or `uid 0` of a local process.
    pub user: String,
    /// Role of the user.
    pub role: Role,
    /// How the caller authenticated.
    pub by: Authentication,
    /// Value for the header `X-CSRF-Token`, which is required in every request that changes
    /// something and carries the cookie. Absent if the caller has no session cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// Time when the session ends unless it is used again, in seconds since 1970. Absent if the
    /// caller has no session cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// How a caller proves its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// The Unix socket: the kernel reports the user ID of the local process.
    Socket,
    /// The cookie `weir_session`, set by a login over TCP.
    Session,
    /// A token in the header `Authorization: Bearer`.
    Token,
}

/// Changes the password of the current user, whose other sessions end. Requires a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePassword {
    /// The current password.
    pub current: String,
    /// The new password, 10 to 256 bytes.
    pub new: String,
}

/// Whether the first administrator has not been created yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupState {
    /// Whether there are no users yet. The log of the daemon then contains a setup link, which is
    /// valid for an hour.
    pub needed: bool,
}

/// Creates the first administrator, with the token of the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Token from the setup link in the log of the daemon. It can be used once.
    pub token: String,
    /// Name of the administrator: 1 to 32 of `a-z 0-9 . _ -`, beginning with a letter.
    pub user: String,
    /// Password of the administrator: 10 to 256 bytes.
    pub password: String,
}

/// A token with which programs authenticate. It does not contain the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Number of the token; never reused.
    pub id: u64,
    /// Label given at creation; not unique.
    pub name: String,
    /// User who created it. The token is removed together with this user.
    pub user: String,
    /// Its role, at most that of its user.
    pub role: Role,
    /// Statistics to which the token is restricted; absent: it may do everything that its role
    /// allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Vec<String>>,
    /// Time of creation, in seconds since 1970.
    pub created: u64,
    /// Time from which it is refused, in seconds since 1970; absent: it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Time of the last use, in seconds since 1970 and accurate to a minute. Absent if it was not
    /// used since the daemon started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used: Option<u64>,
}

/// A token to create for the current user. Requires a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Label, 1 to 100 bytes without control characters.
    pub name: String,
    /// Role of the token, at most that of the user.
    pub role: Role,
    /// Validity in days, 1 or more; absent: it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// Statistics to which the token is restricted, such as those of a worksheet: 1 to 32. Its role
    /// must then be `viewer`. Absent: no restriction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Vec<String>>,
}

/// A new token and its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// The token, as lists show it.
    #[serde(flatten)]
    pub token: Token,
    /// The secret to send as `Authorization: Bearer`. It is not shown again.
    pub secret: String,
}
