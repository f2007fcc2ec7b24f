//! Accounts: setup, sessions, users, tokens.

use super::caller::{Caller, Who, set_cookie};
use super::guard::Audited;
use super::reply::{Answer, Body, Created, Done, Path, Problem, waiting};
use crate::access::accounts::Proof;
use crate::access::password::Turn;
use crate::events::Happening;
use crate::service::Service;
use api::{
    Authentication, ChangePassword, ChangeUser, CreateToken, CreateUser, CreatedToken, ErrorCode, EventKind, Login,
    Role, Session, Setup, SetupState, TokenList, User, UserList,
};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use std::sync::Arc;

impl Service {
    /// Begins a session. The answer contains its cookie.
    fn begin_session(&self, caller: &Caller, user: &str, proof: Proof) -> Response {
        let (number, session) = self.access.sessions.begin(user, proof);
        let body = Session {
            user: user.to_owned(),
            role: proof.role,
            by: Authentication::Session,
            csrf_token: Some(session.csrf),
            expires: Some(session.expires),
        };
        let tls = caller.remote.is_some_and(|r| r.tls);
        ([(header::SET_COOKIE, set_cookie(&number, tls))], Created(body)).into_response()
    }

    /// Counts an attempt as failed until it succeeds. Fails if it comes too early.
    fn attempt(&self, caller: &Caller, account: &str) -> Answer<()> {
        self.access.limits.begin(caller.address(), account).map_err(|wait| {
            let message = format!("too many attempts failed; try again in {} s", wait.as_secs() + 1);
            let mut problem = Problem::new(ErrorCode::TooManyRequests, message);
            problem.retry_after = Some(wait);
            problem
        })
    }

    /// Waits for a turn to compute a password hash.
    async fn turn(&self, caller: &Caller) -> Answer<Turn> {
        let unknown = caller.role.is_none().then(|| caller.address()).flatten();
        self.access.turns.take(unknown).await.map_err(|full| Problem::full(full, "login attempts are waiting"))
    }

    /// Permissions were revoked: streams and commands check at once.
    fn revoked(&self) {
        self.access.revocations.send_modify(|n| *n += 1);
    }

    fn about(&self, happening: Happening, caller: &Caller, user: &str) {
        self.events.post(happening.about(user).by(format!("{} from {}", caller.name(), caller.from())));
    }
}

pub async fn setup_state(State(service): State<Arc<Service>>) -> Json<SetupState> {
    Json(SetupState { needed: service.access.accounts.is_empty() })
}

pub async fn set_up(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<Setup>,
) -> Answer<Response> {
    let turn = service.turn(&caller).await?;
    service.attempt(&caller, "")?;
    waiting(move || {
        let _turn = turn;
        let Setup { token, user, password } = request;
        let made = service
            .access
            .setup
            .using(&token, || service.access.accounts.create(&user, Role::Administrator, &password, true));
        match made {
            None => {
                let message = "the link has expired; the daemon logs a new one when it starts without users";
                Err(Problem::new(ErrorCode::Unauthenticated, message))
            }
            Some(made) => {
                service.access.limits.succeeded(caller.address(), "");
                made?;
                service.about(
                    Happening::info(EventKind::Account, "the first administrator was created"),
                    &caller,
                    &user,
                );
                service.access.accounts.logged_in(&user);
                let audited = Extension(Audited { target: Some(user.clone()), ..Audited::default() });
                let gone = || Problem::new(ErrorCode::Conflict, "the user was removed at once");
                let proof = service.access.accounts.proof(&user).ok_or_else(gone)?;
                Ok((audited, service.begin_session(&caller, &user, proof)).into_response())
            }
        }
    })
    .await
}

pub async fn log_in(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<Login>,
) -> Answer<Response> {
    let Login { user, password } = request;
    let named: String = user.chars().take(64).collect();
    let audited = Audited { target: Some(named.clone()), ..Audited::default() };
    let turn = match service.turn(&caller).await {
        // Others may have failed while this one waited.
        Ok(turn) => service.attempt(&caller, &user).map(|()| turn),
        Err(problem) => Err(problem),
    };
    let turn = match turn {
        Ok(turn) => turn,
        Err(problem) => return Ok((Extension(audited), problem).into_response()),
    };
    waiting(move || {
        let _turn = turn;
        let response = match service.access.accounts.check(&user, &password) {
            Some(proof) => {
                service.access.limits.succeeded(caller.address(), &user);
                service.access.accounts.logged_in(&user);
                service.about(Happening::info(EventKind::Login, "logged in"), &caller, &named);
                service.begin_session(&caller, &user, proof)
            }
            None => {
                service.about(Happening::warning(EventKind::Login, "a login failed"), &caller, &named);
                Problem::new(ErrorCode::Unauthenticated, "the name or the password is wrong").into_response()
            }
        };
        Ok((Extension(audited), response).into_response())
    })
    .await
}

pub async fn session(caller: Caller) -> Answer<Json<Session>> {
    let role = caller.role.ok_or_else(|| Problem::new(ErrorCode::Unauthenticated, "not logged in"))?;
    let user = caller.user().map_or_else(|| caller.name(), str::to_owned);
    let (by, csrf_token) = (caller.by(), caller.csrf.clone());
    Ok(Json(Session { user, role, by, csrf_token, expires: caller.expires }))
}

pub async fn log_out(State(service): State<Arc<Service>>, caller: Caller) -> Answer<Response> {
    let Who::Session { number, user } = &caller.who else {
        return Err(Problem::new(ErrorCode::Conflict, "no session to end"));
    };
    service.access.sessions.end(number);
    service.revoked();
    service.about(Happening::info(EventKind::Login, "logged out"), &caller, user);
    let tls = caller.remote.is_some_and(|r| r.tls);
    Ok(([(header::SET_COOKIE, set_cookie("", tls))], Done).into_response())
}

pub async fn change_password(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<ChangePassword>,
) -> Answer<Done> {
    let Who::Session { user, number } = caller.who.clone() else {
        return Err(Problem::new(ErrorCode::Conflict, "only a user who logged in with a password has one"));
    };
    let turn = service.turn(&caller).await?;
    service.attempt(&caller, &user)?;
    waiting(move || {
        let _turn = turn;
        if service.access.accounts.check(&user, &request.current).is_none() {
            return Err(Problem::new(ErrorCode::Forbidden, "the current password is wrong").at("current"));
        }
        service.access.limits.succeeded(caller.address(), &user);
        service.access.accounts.change_user(&user, None, Some(&request.new))?;
        service.access.sessions.end_all(&user, Some(&number));
        if let Some(proof) = service.access.accounts.proof(&user) {
            service.access.sessions.renew(&number, proof);
        }
        service.revoked();
        service.about(Happening::info(EventKind::Account, "the password was changed"), &caller, &user);
        Ok(Done)
    })
    .await
}

pub async fn users(State(service): State<Arc<Service>>) -> Json<UserList> {
    Json(UserList { items: service.access.accounts.users(|user| service.access.sessions.count(user)), next: None })
}

pub async fn create_user(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<CreateUser>,
) -> Answer<Response> {
    let CreateUser { name, role, password } = request;
    let turn = service.turn(&caller).await?;
    waiting(move || {
        let _turn = turn;
        let user = service.access.accounts.create(&name, role, &password, false)?;
        service.about(Happening::info(EventKind::Account, "a user was created"), &caller, &name);
        let audited = Extension(Audited { target: Some(name), ..Audited::default() });
        Ok((audited, Created(user)).into_response())
    })
    .await
}

pub async fn change_user(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
    Body(request): Body<ChangeUser>,
) -> Answer<Json<User>> {
    let turn = service.turn(&caller).await?;
    waiting(move || {
        let _turn = turn;
        let user = service.access.accounts.change_user(&name, request.role, request.password.as_deref())?;
        service.access.sessions.end_all(&name, None);
        service.revoked();
        service.about(Happening::info(EventKind::Account, "a user was changed"), &caller, &name);
        Ok(Json(user))
    })
    .await
}

pub async fn delete_user(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Path(name): Path<String>,
) -> Answer<Done> {
    waiting(move || {
        service.access.accounts.remove(&name)?;
        service.access.sessions.end_all(&name, None);
        service.revoked();
        service.about(Happening::info(EventKind::Account, "a user was removed"), &caller, &name);
        Ok(Done)
    })
    .await
}

/// User whose tokens the caller may see; `None`: an administrator sees all.
fn whose(caller: &Caller) -> Option<&str> {
    if caller.is_administrator() { None } else { Some(caller.user().unwrap_or_default()) }
}

pub async fn tokens(State(service): State<Arc<Service>>, caller: Caller) -> Json<TokenList> {
    Json(TokenList { items: service.access.accounts.tokens(whose(&caller)), next: None })
}

pub async fn create_token(
    State(service): State<Arc<Service>>,
    caller: Caller,
    Body(request): Body<CreateToken>,
) -> Answer<Created<CreatedToken>> {
    let Who::Session { user, .. } = caller.who.clone() else {
        return Err(Problem::new(ErrorCode::Conflict, "creating a token requires a login with a password"));
    };
    waiting(move || {
        let made = service.access.accounts.create_token(&user, request)?;
        let name = &made.token.name;
        service.about(Happening::info(EventKind::Account, format!("token {name} was created")), &caller, &user);
        Ok(Created(made))
    })
    .await
}

pub async fn delete_token(State(service): State<Arc<Service>>, caller: Caller, Path(id): Path<u64>) -> Answer<Done> {
    waiting(move || {
        service.access.accounts.remove_token(id, whose(&caller))?;
        service.revoked();
        let who = caller.name();
        service.about(Happening::info(EventKind::Account, format!("token {id} was removed")), &caller, &who);
        Ok(Done)
    })
    .await
}
