//! Checks that every request passes: host, caller, permission; and the audit log.
//!
//! Invariants:
//!   * a request over TCP has a host name of this machine: names of other sites do not work
//!   * roles come from the table of operations; operations that are not in the table are refused
//!   * with a cookie, changes require the session's CSRF token, which other sites cannot send
//!   * changes and refusals are in the audit log before the answer is sent

use super::caller::{Caller, Who, bearer, connection, cookie};
use super::reply::{ErrorText, Problem};
use crate::access::sessions::Session;
use crate::access::{Sight, now_ms, secret};
use crate::peer::Peer;
use crate::places::Place;
use crate::service::Service;
use crate::tcp::{Remote, Visitor};
use analytics::name::Name;
use api::{AuditEntry, ErrorCode, Operation, Outcome, Role, Token};
use axum::extract::{MatchedPath, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Operations that are answered from memory or at once: they report the health of the process.
const UNCOUNTED: &[&str] = &["getHealth", "getReadiness", "getVersion", "getSetup"];

/// Header with the session's CSRF token.
pub const CSRF: &str = "x-csrf-token";

/// Information of a handler for the audit log.
#[derive(Debug, Clone, Default)]
pub struct Audited {
    /// What was done, instead of the operation's name.
    pub what: Option<String>,
    /// Target of the operation.
    pub target: Option<String>,
    /// The handler writes its own entry.
    pub own: bool,
}

/// The operation of a route.
pub fn operation(method: &str, path: &str) -> Option<&'static Operation> {
    api::operations().iter().find(|o| o.method.name() == method && o.path == path)
}

/// Checks requests to operations.
pub async fn guard(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let method = if request.method() == "HEAD" { "GET".to_owned() } else { request.method().as_str().to_owned() };
    let path = request.extensions().get::<MatchedPath>().map(|p| p.as_str().to_owned()).unwrap_or_default();
    let Some(operation) = operation(&method, &path) else {
        let message = format!("{path} has no {}", request.method());
        return Problem::new(ErrorCode::MethodNotAllowed, message).into_response();
    };
    let caller = service.identify(request.headers(), connection(request.extensions()));
    let target = target(operation, request.uri());
    let may = allowed(operation, &caller, request.headers());
    if let Err(problem) = may.and_then(|()| within(operation, &caller, request.uri())) {
        if problem.body.code == ErrorCode::Forbidden {
            let reason = Some(problem.body.message.clone());
            service.note_waiting(caller, operation.id.to_owned(), target, Outcome::Denied, reason).await;
        }
        return problem.into_response();
    }
    let _place = match service.place(operation, &caller) {
        Ok(place) => place,
        Err(problem) => return problem.into_response(),
    };
    if let (Some(_), Some(visitor)) = (caller.role, request.extensions().get::<Arc<Visitor>>()) {
        // The caller is authenticated and limited by other means: its body may take its time.
        visitor.works();
    }
    request.extensions_mut().insert(caller.clone());
    let mut response = next.run(request).await;
    let audited = response.extensions_mut().remove::<Audited>().unwrap_or_default();
    if !operation.is_read() && !audited.own {
        let what = audited.what.unwrap_or_else(|| operation.id.to_owned());
        let target = audited.target.or(target);
        let reason = response.extensions().get::<ErrorText>().map(|s| s.0.clone());
        let outcome = match response.status() {
            s if s.is_success() => Outcome::Ok,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => Outcome::Denied,
            _ => Outcome::Failed,
        };
        service.note_waiting(caller, what, target, outcome, reason).await;
    }
    response
}

/// Operations permitted for a token for statistics: reading them, and their descriptions.
const OF_STATISTICS: &[&str] = &["queryStatistic", "streamStatistics", "listStatistics"];

/// Checks that a caller with access to some statistics requests no others.
fn within(operation: &Operation, caller: &Caller, uri: &Uri) -> Result<(), Problem> {
    let (Some(only), Some(_)) = (&caller.only, operation.role) else { return Ok(()) };
    let forbidden = |what: &str| Err(Problem::new(ErrorCode::Forbidden, format!("this token does not allow {what}")));
    if !OF_STATISTICS.contains(&operation.id) {
        return forbidden(operation.id);
    }
    let query_pairs: Vec<(String, String)> = Query::try_from_uri(uri).map(|Query(pairs)| pairs).unwrap_or_default();
    for (_, name) in query_pairs.iter().filter(|(key, _)| key == "name") {
        // In canonical form: brackets, numbers and units can be written in several ways.
        let written = name.parse::<Name>().map(|name| name.to_string());
        if !written.is_ok_and(|written| only.contains(&written)) {
            return forbidden(name);
        }
    }
    Ok(())
}

fn allowed(operation: &Operation, caller: &Caller, headers: &HeaderMap) -> Result<(), Problem> {
    if let Some(least) = operation.role {
        match caller.role {
            None => return Err(Problem::new(ErrorCode::Unauthenticated, "log in or send a token")),
            Some(role) if role < least => {
                let name = |role: Role| format!("{role:?}").to_lowercase();
                let message = format!("{} requires the role {}", operation.id, name(least));
                let mut problem = Problem::new(ErrorCode::Forbidden, message);
                (problem.body.found, problem.body.expected) = (Some(name(role)), Some(name(least)));
                return Err(problem);
            }
            Some(_) => {}
        }
    }
    if operation.is_read() || caller.remote.is_none() {
        return Ok(());
    }
    if !same_origin(headers) {
        return Err(Problem::new(ErrorCode::Forbidden, "the request comes from the page of another site"));
    }
    if let Some(csrf) = &caller.csrf {
        let sent = headers.get(CSRF).map(HeaderValue::as_bytes).unwrap_or_default();
        if !secret::same(sent, csrf.as_bytes()) {
            return Err(Problem::new(ErrorCode::Forbidden, "the header X-CSRF-Token is missing or wrong"));
        }
    }
    Ok(())
}

/// Whether the browser says that the request comes from this page, or there is no origin.
fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|v| v.to_str().ok());
    match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => true,
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(host)),
        (Some(_), None) => false,
    }
}

/// Target in the path: the first of its parameters.
fn target(operation: &Operation, uri: &Uri) -> Option<String> {
    let at = operation.path.split('/').position(|part| part.starts_with('{'))?;
    let part = uri.path().split('/').nth(at)?;
    Some(percent_decoded(part))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|c| (*c as char).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Service {
    /// The caller of a request with these headers on this connection.
    pub fn identify(&self, headers: &HeaderMap, (remote, peer): (Option<Remote>, Option<Peer>)) -> Caller {
        let caller = |who, role| Caller { who, role, remote, csrf: None, expires: None, only: None };
        if let (None, Some(peer)) = (remote, peer) {
            // The socket's group may open it, too: its members may read.
            let role = if peer.is_owner() { Role::Administrator } else { Role::Viewer };
            return caller(Who::Local(peer), Some(role));
        }
        if let Some(token) = bearer(headers) {
            return match self.access.accounts.by_token(token) {
                Some(Token { id, user, name, role, statistics, .. }) => {
                    Caller { only: statistics.map(Into::into), ..caller(Who::Token { user, name, id }, Some(role)) }
                }
                None => caller(Who::Nobody, None),
            };
        }
        let session = cookie(headers).and_then(|number| Some((number, self.access.sessions.find(number)?)));
        let Some((number, session)) = session else { return caller(Who::Nobody, None) };
        // The user may have changed or been removed since.
        let Some(role) = self.proved(&session) else { return caller(Who::Nobody, None) };
        let who = Who::Session { user: session.user, number: number.to_owned() };
        Caller { csrf: Some(session.csrf), expires: Some(session.expires), ..caller(who, Some(role)) }
    }

    /// Role of a session's user, if the user has not changed since the login.
    fn proved(&self, session: &Session) -> Option<Role> {
        self.access.accounts.proof(&session.user).filter(|proof| *proof == session.proof).map(|proof| proof.role)
    }

    /// Whether the caller may continue a long request: with the same session or token, in the same
    /// role.
    pub fn is_still(&self, caller: &Caller) -> bool {
        let role = match &caller.who {
            Who::Local(_) => return true,
            Who::Session { number, .. } => self.access.sessions.find(number).and_then(|session| self.proved(&session)),
            Who::Token { id, .. } => self.access.accounts.token_role(*id),
            Who::Nobody => None,
        };
        role.is_some() && role == caller.role
    }

    /// Whether a caller sees the names of files in statistics.
    pub fn sight(&self, caller: &Caller) -> Sight {
        let files = caller.role >= Some(Role::Operator) || self.settings.now().analytics.viewers_see_files;
        Sight { files }
    }

    /// A slot for a request. Health requests take none, because they wait for nothing. Public
    /// operations have limits of their own, and their bodies may be slow.
    fn place(&self, operation: &Operation, caller: &Caller) -> Result<Option<Place<String>>, Problem> {
        if UNCOUNTED.contains(&operation.id) || caller.role.is_none() {
            return Ok(None);
        }
        let Some(key) = caller.key() else { return Ok(None) };
        match self.access.requests.take(key) {
            Ok(place) => Ok(Some(place)),
            Err(full) => Err(Problem::full(full, "requests are in progress")),
        }
    }

    /// Writes to the audit log in a thread that may wait for the disk. The answer waits for it.
    pub(super) async fn note_waiting(
        self: &Arc<Self>,
        caller: Caller,
        what: String,
        target: Option<String>,
        outcome: Outcome,
        reason: Option<String>,
    ) {
        let mut reason = reason;
        if let (Outcome::Denied, Some(address)) = (outcome, caller.address()) {
            let Some(left_out) = self.access.refusals.count(address) else { return };
            if left_out > 0 {
                let text = reason.unwrap_or_default();
                reason = Some(format!("{text} ({left_out} earlier refusals of this address were not recorded)"));
            }
        }
        let service = self.clone();
        let _ = tokio::task::spawn_blocking(move || service.note(&caller, &what, target, outcome, reason)).await;
    }

    /// Writes a change or refusal to the audit log.
    pub fn note(&self, caller: &Caller, what: &str, target: Option<String>, outcome: Outcome, reason: Option<String>) {
        self.access.audit.note(AuditEntry {
            time_ms: now_ms(),
            who: caller.name(),
            from: caller.from(),
            what: what.to_owned(),
            target,
            outcome,
            reason,
        });
    }
}

/// Refuses requests for other hosts, and adds the security headers to every answer.
pub async fn outer(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let (remote, _) = connection(request.extensions());
    let host = request.headers().get(header::HOST).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let is_embedded = request.uri().path().starts_with(crate::page::EMBED);
    let mut response = match remote {
        Some(_) if !service.access.hosts.allow(host) => {
            let problem =
                Problem::invalid("Host", format!("'{host}'"), "this machine's address or name, or one of api.hosts");
            let mut body = problem.body;
            body.code = ErrorCode::WrongHost;
            Problem { body, retry_after: None }.into_response()
        }
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    let mut set = |name, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    if is_embedded {
        set(header::CONTENT_SECURITY_POLICY, crate::page::EMBEDDED);
    } else {
        set(header::CONTENT_SECURITY_POLICY, crate::page::POLICY);
        set(header::X_FRAME_OPTIONS, "DENY");
    }
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_are_known_by_their_origin() {
        let headers = |pairs: &[(header::HeaderName, &'static str)]| -> HeaderMap {
            pairs.iter().map(|(n, v)| (n.clone(), HeaderValue::from_static(v))).collect()
        };
        let host = (header::HOST, "localhost:8215");
        assert!(same_origin(&headers(std::slice::from_ref(&host))));
        assert!(same_origin(&headers(&[host.clone(), (header::ORIGIN, "http://localhost:8215")])));
        for origin in ["http://localhost:1", "https://evil.example", "null"] {
            assert!(!same_origin(&headers(&[host.clone(), (header::ORIGIN, origin)])), "{origin}");
        }
    }

    #[test]
    fn the_target_is_taken_from_the_path() {
        let op = operation("POST", "/v1/datasets/{dataset}/destroy").expect("there");
        let uri: Uri = "/v1/datasets/tank%2Fa%20b/destroy?x=1".parse().expect("a path");
        assert_eq!(target(op, &uri).as_deref(), Some("tank/a b"));
        assert_eq!(target(operation("GET", "/v1/pools").expect("there"), &"/v1/pools".parse().expect("a path")), None);
        assert_eq!(percent_decoded("%zz%4"), "%zz%4");
    }
}
