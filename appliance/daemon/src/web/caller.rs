//! The caller of a request.

use crate::peer::Peer;
use crate::tcp::Remote;
use api::{Authentication, Role};
use axum::extract::{FromRequestParts, connect_info::ConnectInfo};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use serve::network::network;
use std::net::IpAddr;
use std::sync::Arc;

/// Name of the session cookie. Its `Path` is `/`, so requests for the page's files carry it too,
/// which is harmless.
pub const COOKIE: &str = "weir_session";

/// Identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// A process on this machine, on the Unix socket.
    Local(Peer),
    /// A user with a session.
    Session {
        user: String,
        /// Number of the session.
        number: String,
    },
    /// A program with a token.
    Token {
        /// User who created the token.
        user: String,
        /// Name of the token; not unique.
        name: String,
        /// Number of the token; never reused.
        id: u64,
    },
    /// Not authenticated: only public operations.
    Nobody,
}

/// The caller's identity, role and origin.
#[derive(Debug, Clone)]
pub struct Caller {
    pub who: Who,
    /// Role of the caller; `None`: only public operations.
    pub role: Option<Role>,
    /// The connection, if it is TCP.
    pub remote: Option<Remote>,
    /// CSRF token that requests with this session must carry.
    pub csrf: Option<String>,
    /// Time when the session ends, in seconds since 1970.
    pub expires: Option<u64>,
    /// The caller may read these statistics and nothing else.
    pub only: Option<Arc<[String]>>,
}

impl Caller {
    /// Name in the audit log.
    pub fn name(&self) -> String {
        match &self.who {
            Who::Local(peer) => format!("uid {}", peer.uid),
            Who::Session { user, .. } => user.clone(),
            Who::Token { user, name, .. } => format!("token {name} of {user}"),
            Who::Nobody => "-".to_owned(),
        }
    }

    /// The user name, if the caller is one of the daemon's users.
    pub fn user(&self) -> Option<&str> {
        match &self.who {
            Who::Session { user, .. } | Who::Token { user, .. } => Some(user),
            Who::Local(_) | Who::Nobody => None,
        }
    }

    /// Origin of the request.
    pub fn from(&self) -> String {
        match (&self.who, self.remote) {
            (_, Some(remote)) => remote.address.ip().to_canonical().to_string(),
            (Who::Local(Peer { pid: Some(pid), .. }), _) => format!("local process {pid}"),
            _ => "local".to_owned(),
        }
    }

    /// IP address of a TCP caller.
    pub fn address(&self) -> Option<IpAddr> {
        self.remote.map(|r| r.address.ip())
    }

    /// Key for the limits on requests, commands and streams; `None`: the owner of the pools is not
    /// limited.
    pub fn key(&self) -> Option<String> {
        match (&self.who, self.remote) {
            (Who::Local(peer), _) if peer.is_owner() => None,
            (Who::Local(peer), _) => Some(format!("uid {}", peer.uid)),
            (Who::Session { user, .. } | Who::Token { user, .. }, _) => Some(user.clone()),
            // Not a valid user name.
            (Who::Nobody, Some(remote)) => Some(format!("from {}", network(remote.address.ip()))),
            (Who::Nobody, None) => Some("-".to_owned()),
        }
    }

    /// How the caller authenticated, for the API.
    pub fn by(&self) -> Authentication {
        match self.who {
            Who::Session { .. } => Authentication::Session,
            Who::Token { .. } => Authentication::Token,
            Who::Local(_) | Who::Nobody => Authentication::Socket,
        }
    }

    /// Whether the caller is a process of this machine, on the Unix socket.
    pub fn is_local(&self) -> bool {
        matches!(self.who, Who::Local(_))
    }

    /// Whether the caller is an administrator.
    pub fn is_administrator(&self) -> bool {
        self.role == Some(Role::Administrator)
    }

    /// Identity for commands: of TCP callers, operators and administrators act as the owner, others
    /// have no permissions.
    pub fn peer(&self) -> Peer {
        match &self.who {
            Who::Local(peer) => peer.clone(),
            _ if self.role < Some(Role::Operator) => Peer::unknown(),
            _ => Peer::this(),
        }
    }
}

/// The guard has added it to the request.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = super::reply::Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let missing = || super::reply::Problem::new(api::ErrorCode::Internal, "the caller was not authenticated");
        parts.extensions.get::<Self>().cloned().ok_or_else(missing)
    }
}

/// The other end of the connection: TCP or the Unix socket.
pub fn connection(extensions: &Extensions) -> (Option<Remote>, Option<Peer>) {
    let remote = extensions.get::<ConnectInfo<Remote>>().map(|c| c.0);
    (remote, extensions.get::<ConnectInfo<Peer>>().map(|c| c.0.clone()))
}

/// Value of the session cookie.
pub fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|v| v.to_str().ok());
    all.flat_map(|v| v.split(';')).find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

/// The token of `Authorization: Bearer`.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Header value that sets the cookie; an empty number deletes it.
pub fn set_cookie(number: &str, tls: bool) -> String {
    let secure = if tls { "; Secure" } else { "" };
    let age = if number.is_empty() { "; Max-Age=0" } else { "" };
    format!("{COOKIE}={number}; Path=/; HttpOnly; SameSite=Strict{secure}{age}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn cookies_and_tokens_are_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=b; weir_session=12ab ;weir_sessions=no"));
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("bearer weir_x"));
        assert_eq!((cookie(&headers), bearer(&headers)), (Some("12ab"), Some("weir_x")));
        headers.insert(header::COOKIE, HeaderValue::from_static("xweir_session=1"));
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic abc"));
        assert_eq!((cookie(&headers), bearer(&headers)), (None, None));
    }
}
