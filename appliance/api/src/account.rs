//! Users, sessions and tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What somebody may do; each may do what those before it may.
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
    /// What he may do.
    pub role: Role,
    /// When he was made.
    pub created: u64,
    /// When he last logged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_login: Option<u64>,
    /// Sessions that are open.
    pub sessions: u64,
}

/// Makes a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// Name: 1 to 32 of `a-z 0-9 . _ -`, beginning with a letter.
    pub name: String,
    /// What he may do.
    pub role: Role,
    /// Password: 10 to 256 bytes.
    pub password: String,
}

/// Changes a user. His sessions end; tokens stay, with the lesser of both roles.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChangeUser {
    /// What he may do.
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

/// Who asks, and what he may.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Name: a user, or `uid 0` of a local process.
    pub user: String,
    /// What he may do.
    pub role: Role,
    /// How he is known.
    pub by: Authentication,
    /// To be sent as `X-CSRF-Token` with every request that changes something and carries the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csrf_token: Option<String>,
    /// When the session ends, if it is not used before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// How somebody is known.
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

/// Whether the first administrator is still to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SetupState {
    /// Nobody can log in yet; the log names a link.
    pub needed: bool,
}

/// Makes the first administrator, with the token of the link.
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
    /// What it is for.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// What it may do, at most what its user may.
    pub role: Role,
    /// It shows these statistics and opens nothing else; without: all that its role may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Vec<String>>,
    /// When it was made.
    pub created: u64,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// When it was last used, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used: Option<u64>,
}

/// Makes a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is for.
    pub name: String,
    /// What it may do, at most what its user may.
    pub role: Role,
    /// Days until it ends; without: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// A token that shows these statistics, such as those of a worksheet (1 to 32), and opens nothing else. Its role is `viewer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Vec<String>>,
}

/// A token that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// It.
    #[serde(flatten)]
    pub token: Token,
    /// What to send as `Authorization: Bearer`. It is not told again.
    pub secret: String,
}
