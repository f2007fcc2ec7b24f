//! Users, sessions and tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Role of a user; each includes the rights of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Look at everything but accounts and the audit log.
    Viewer,
    /// Besides: create, set, share, verify; nothing by which data or access is lost.
    Operator,
    /// Everything.
    Administrator,
}

/// Who may log in over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Name.
    pub name: String,
    /// Role of the user.
    pub role: Role,
    /// Time of creation.
    pub created: u64,
    /// Time of the last login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_login: Option<u64>,
    /// Sessions that are open.
    pub sessions: u64,
}

/// Creates a user.
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
    /// Role of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// New password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// Logs in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// Name.
    pub user: String,
    /// Password.
    pub password: String,
}

/// The current user and role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Name: a user, or `uid 0` of a local process.
    pub user: String,
    /// Role of the user.
    pub role: Role,
    /// Authentication.
    pub by: Authentication,
    /// Value for the header `X-CSRF-Token`, required in every request that changes something and
    /// carries the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// When the session ends, if it is not used before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// Authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Authentication {
    /// A local process on the Unix socket.
    Socket,
    /// A cookie.
    Session,
    /// `Authorization: Bearer`.
    Token,
}

/// Changes one's own password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePassword {
    /// The one that holds.
    pub current: String,
    /// The one that shall.
    pub new: String,
}

/// Whether the first administrator has not been created yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupState {
    /// There are no users yet; the log contains a setup link.
    pub needed: bool,
}

/// Creates the first administrator, with the token of the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// From the link.
    pub token: String,
    /// Name.
    pub user: String,
    /// Password.
    pub password: String,
}

/// A token for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Number.
    pub id: u64,
    /// Its purpose.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Its role, at most that of its user.
    pub role: Role,
    /// It shows these statistics and opens nothing else; without: all that its role may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Vec<String>>,
    /// Time of creation.
    pub created: u64,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// When it was last used, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used: Option<u64>,
}

/// Creates a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// Its purpose.
    pub name: String,
    /// Its role, at most that of its user.
    pub role: Role,
    /// Days until it ends; without: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// Statistics (1 to 32), such as those of a worksheet, to which the token is restricted. Its
    /// role is `viewer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Vec<String>>,
}

/// A new token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// It.
    #[serde(flatten)]
    pub token: Token,
    /// The secret to send as `Authorization: Bearer`. It is not shown again.
    pub secret: String,
}
