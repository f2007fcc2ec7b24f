//! Users and tokens, stored in `accounts.json` of the state directory.
//!
//! Invariants:
//!   * only the file's owner can read it, and it is replaced as a whole
//!   * once there is an administrator, there is always one
//!   * a token has at most the permissions of its user

use super::password::{self, Hash};
use super::{now, secret};
use analytics::catalogue;
use analytics::name::Name;
use anyhow::{Context as _, Result};
use api::{CreateToken, CreatedToken, ErrorCode, Role, Token, User};
use parking_lot::Mutex;
#[cfg(test)]
use parking_lot::MutexGuard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Limit for the number of users.
const USERS: usize = 1_000;
/// Limit for the tokens of one user.
const TOKENS: usize = 100;
/// Limit for the statistics that one token may read: those of one stream.
const STATISTICS: usize = 32;
/// Interval at which the last use of a token is recorded, in seconds.
const NOTED: u64 = 60;
/// Prefix of tokens, so that leaked ones can be recognized.
const TOKEN_PREFIX: &str = "weir_";

/// Why an account cannot be created or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub code: ErrorCode,
    pub message: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    users: BTreeMap<String, StoredUser>,
    tokens: Vec<StoredToken>,
    last_token: u64,
    #[serde(skip)]
    last_generation: u64,
}

/// Result of a successful password check. It is valid until the user changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Role of the user.
    pub role: Role,
    /// Generation of the user: it differs after each change, and for a later user of the same name.
    pub generation: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredUser {
    role: Role,
    password: Hash,
    created: u64,
    #[serde(default)]
    last_login: Option<u64>,
    /// Changes whenever the user changes: sessions from before become invalid.
    #[serde(skip)]
    generation: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredToken {
    id: u64,
    name: String,
    user: String,
    role: Role,
    created: u64,
    #[serde(default)]
    expires: Option<u64>,
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    statistics: Option<Vec<String>>,
    #[serde(skip)]
    last_used: Option<u64>,
}

/// The users and tokens.
pub struct Accounts {
    path: PathBuf,
    kept: Mutex<Stored>,
}

/// Names of statistics in canonical form. Fails for unknown names.
fn as_written(names: &[String]) -> Result<Vec<String>, Refused> {
    if names.is_empty() || names.len() > STATISTICS {
        return refuse(ErrorCode::InvalidRequest, format!("a token shows 1 to {STATISTICS} statistics"));
    }
    let written = |name: &String| match name.parse::<Name>() {
        Ok(name) => catalogue::find(&name).map(|_| name.to_string()),
        Err(bad) => Err(bad),
    };
    let written: Result<_, _> = names.iter().map(written).collect();
    written.or_else(|bad| refuse(ErrorCode::InvalidRequest, bad.to_string()))
}

fn refuse<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { code, message: message.into() })
}

fn name_refusal(name: &str) -> Option<String> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_lowercase());
    let rest = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c));
    (!first || !rest || name.len() > 32)
        .then(|| "a name has 1 to 32 of a-z, 0-9, '.', '_' and '-', and begins with a letter".to_owned())
}

impl Accounts {
    /// Opens the accounts of the state directory.
    pub fn open(state: &Path) -> Result<Self> {
        let path = state.join("accounts.json");
        let kept = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?,
            Err(e) if e.kind() == ErrorKind::NotFound => Stored::default(),
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        };
        Ok(Self { path, kept: Mutex::new(kept) })
    }

    /// Whether there are no users yet, so that no login is possible.
    pub fn is_empty(&self) -> bool {
        self.kept.lock().users.is_empty()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Stored) -> Result<T, Refused>) -> Result<T, Refused> {
        let mut kept = self.kept.lock();
        let mut changed = kept.clone();
        let result = change(&mut changed)?;
        let administrators = |k: &Stored| k.users.values().filter(|u| u.role == Role::Administrator).count();
        if administrators(&changed) == 0 && administrators(&kept) > 0 {
            return refuse(ErrorCode::Conflict, "there would be no administrator left");
        }
        match crate::secret_file::replace(&self.path, &changed) {
            Ok(()) => *kept = changed,
            Err(e) => return refuse(ErrorCode::Internal, format!("{}: {e}", self.path.display())),
        }
        Ok(result)
    }

    /// All users. `sessions` returns the number of a user's sessions.
    pub fn users(&self, sessions: impl Fn(&str) -> u64) -> Vec<User> {
        let kept = self.kept.lock();
        kept.users.iter().map(|(name, user)| shown(name, user, sessions(name))).collect()
    }

    /// A user's role; `None` if there is no such user.
    pub fn role(&self, user: &str) -> Option<Role> {
        self.proof(user).map(|proof| proof.role)
    }

    /// What a login as this user would prove now.
    pub fn proof(&self, user: &str) -> Option<Proof> {
        self.kept.lock().users.get(user).map(|u| Proof { role: u.role, generation: u.generation })
    }

    /// Creates a user. With `first`, fails if there are users already.
    pub fn create(&self, name: &str, role: Role, new: &str, first: bool) -> Result<User, Refused> {
        if let Some(why) = name_refusal(name).or_else(|| password::refusal(new)) {
            return refuse(ErrorCode::InvalidRequest, why);
        }
        let mut user = StoredUser { role, password: Hash::of(new), created: now(), last_login: None, generation: 0 };
        self.change(|kept| {
            if first && !kept.users.is_empty() {
                return refuse(ErrorCode::Conflict, "the first administrator already exists");
            }
            if kept.users.contains_key(name) {
                return refuse(ErrorCode::Conflict, format!("user '{name}' already exists"));
            }
            if kept.users.len() >= USERS {
                return refuse(ErrorCode::Conflict, format!("there are already {USERS} users, the maximum"));
            }
            kept.last_generation += 1;
            user.generation = kept.last_generation;
            kept.users.insert(name.to_owned(), user.clone());
            Ok(shown(name, &user, 0))
        })
    }

    /// Changes a user's role or password.
    pub fn change_user(&self, name: &str, role: Option<Role>, new: Option<&str>) -> Result<User, Refused> {
        if let Some(why) = new.and_then(password::refusal) {
            return refuse(ErrorCode::InvalidRequest, why);
        }
        let hash = new.map(Hash::of);
        self.change(|kept| {
            kept.last_generation += 1;
            let Some(user) = kept.users.get_mut(name) else { return no_user(name) };
            user.generation = kept.last_generation;
            user.role = role.unwrap_or(user.role);
            user.password = hash.unwrap_or_else(|| user.password.clone());
            let (role, shown) = (user.role, shown(name, user, 0));
            for token in kept.tokens.iter_mut().filter(|t| t.user == name) {
                token.role = token.role.min(role);
            }
            Ok(shown)
        })
    }

    /// Removes a user and all of their tokens.
    pub fn remove(&self, name: &str) -> Result<(), Refused> {
        self.change(|kept| match kept.users.remove(name) {
            Some(_) => {
                kept.tokens.retain(|t| t.user != name);
                Ok(())
            }
            None => no_user(name),
        })
    }

    /// Checks a password. Takes the same time whether the user exists or not.
    pub fn check(&self, name: &str, given: &str) -> Option<Proof> {
        let found = self.kept.lock().users.get(name).cloned();
        match found {
            Some(StoredUser { role, password, generation, .. }) => {
                password.is_of(given).then_some(Proof { role, generation })
            }
            None => {
                password::pretend(given);
                None
            }
        }
    }

    /// Records that a user logged in.
    pub fn logged_in(&self, name: &str) {
        let _ = self.change(|kept| {
            if let Some(user) = kept.users.get_mut(name) {
                user.last_login = Some(now());
            }
            Ok(())
        });
    }

    /// Tokens of one user, or all tokens.
    pub fn tokens(&self, of: Option<&str>) -> Vec<Token> {
        let kept = self.kept.lock();
        kept.tokens.iter().filter(|t| of.is_none_or(|user| t.user == user)).map(StoredToken::shown).collect()
    }

    /// Current role of the token with this number.
    pub fn token_role(&self, id: u64) -> Option<Role> {
        let kept = self.kept.lock();
        let token = kept.tokens.iter().find(|t| t.id == id && !t.is_over())?;
        Some(token.role.min(kept.users.get(&token.user)?.role))
    }

    /// Creates a token for a user.
    pub fn create_token(&self, user: &str, wanted: CreateToken) -> Result<CreatedToken, Refused> {
        let CreateToken { name, role, days, statistics } = wanted;
        if name.is_empty() || name.len() > 100 || name.chars().any(char::is_control) {
            return refuse(ErrorCode::InvalidRequest, "a token's name has 1 to 100 bytes and no control characters");
        }
        if days == Some(0) {
            return refuse(ErrorCode::InvalidRequest, "a token is valid for at least a day");
        }
        if statistics.is_some() && role != Role::Viewer {
            return refuse(ErrorCode::InvalidRequest, "a token for statistics only must have the role viewer");
        }
        let statistics = statistics.map(|names| as_written(&names)).transpose()?;
        let secret = format!("{TOKEN_PREFIX}{}", secret::random());
        self.change(|kept| {
            let Some(owner) = kept.users.get(user) else { return no_user(user) };
            if role > owner.role {
                return refuse(ErrorCode::Forbidden, "a token cannot have more rights than its user");
            }
            kept.tokens.retain(|t| !t.is_over());
            if kept.tokens.iter().filter(|t| t.user == user).count() >= TOKENS {
                return refuse(ErrorCode::Conflict, format!("'{user}' already has {TOKENS} tokens, the maximum"));
            }
            kept.last_token += 1;
            let token = StoredToken {
                id: kept.last_token,
                name: name.clone(),
                user: user.to_owned(),
                role,
                created: now(),
                expires: days.map(|days| now() + u64::from(days) * 86_400),
                digest: secret::digest(&secret),
                statistics: statistics.clone(),
                last_used: None,
            };
            let shown = token.shown();
            kept.tokens.push(token);
            Ok(CreatedToken { token: shown, secret: secret.clone() })
        })
    }

    /// Removes a token. With `of`, only a token of that user.
    pub fn remove_token(&self, id: u64, of: Option<&str>) -> Result<(), Refused> {
        self.change(|kept| {
            let before = kept.tokens.len();
            kept.tokens.retain(|t| t.id != id || of.is_some_and(|user| t.user != user));
            if kept.tokens.len() == before {
                return refuse(ErrorCode::NotFound, format!("no such token: {id}"));
            }
            Ok(())
        })
    }

    /// The token with this secret, with its current permissions.
    pub fn by_token(&self, secret: &str) -> Option<Token> {
        let digest = secret::digest(secret.strip_prefix(TOKEN_PREFIX).map(|_| secret)?);
        let mut kept = self.kept.lock();
        let Stored { users, tokens, .. } = &mut *kept;
        let token = tokens.iter_mut().find(|t| secret::same(t.digest.as_bytes(), digest.as_bytes()))?;
        let user = users.get(&token.user)?;
        if token.is_over() {
            return None;
        }
        if token.last_used.is_none_or(|used| used + NOTED < now()) {
            token.last_used = Some(now());
        }
        Some(Token { role: token.role.min(user.role), ..token.shown() })
    }

    #[cfg(test)]
    fn lock(&self) -> MutexGuard<'_, Stored> {
        self.kept.lock()
    }
}

fn no_user<T>(name: &str) -> Result<T, Refused> {
    refuse(ErrorCode::NotFound, format!("no such user: '{name}'"))
}

fn shown(name: &str, user: &StoredUser, sessions: u64) -> User {
    let StoredUser { role, created, last_login, .. } = *user;
    User { name: name.to_owned(), role, created, last_login, sessions }
}

impl StoredToken {
    fn is_over(&self) -> bool {
        self.expires.is_some_and(|end| end <= now())
    }

    fn shown(&self) -> Token {
        Token {
            id: self.id,
            name: self.name.clone(),
            user: self.user.clone(),
            role: self.role,
            statistics: self.statistics.clone(),
            created: self.created,
            expires: self.expires,
            last_used: self.last_used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const PASSWORD: &str = "long enough";

    fn with_root() -> (tempfile::TempDir, Accounts) {
        let folder = tempfile::tempdir().expect("a folder");
        let accounts = Accounts::open(folder.path()).expect("none yet");
        assert!(accounts.is_empty());
        accounts.create("root", Role::Administrator, PASSWORD, true).expect("the first");
        (folder, accounts)
    }

    #[test]
    fn users_are_there_after_a_restart_and_the_file_is_private() {
        let (folder, accounts) = with_root();
        accounts.create("eve", Role::Viewer, PASSWORD, false).expect("made");
        let again = Accounts::open(folder.path()).expect("kept");
        assert_eq!(again.check("root", PASSWORD).map(|proof| proof.role), Some(Role::Administrator));
        assert_eq!(again.check("eve", PASSWORD).map(|proof| proof.role), Some(Role::Viewer));
        assert_eq!(again.check("eve", "long enougH"), None);
        assert_eq!(again.check("nobody", PASSWORD), None);
        let path = folder.path().join("accounts.json");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(!fs::read_to_string(path).expect("read").contains(PASSWORD));
    }

    #[test]
    fn the_last_administrator_stays() {
        let (_folder, accounts) = with_root();
        let code = |result: Result<(), Refused>| result.expect_err("refused").code;
        assert_eq!(code(accounts.remove("root")), ErrorCode::Conflict);
        assert_eq!(code(accounts.change_user("root", Some(Role::Viewer), None).map(drop)), ErrorCode::Conflict);
        accounts.create("second", Role::Administrator, PASSWORD, false).expect("made");
        accounts.remove("root").expect("another is left");
        assert_eq!(accounts.role("root"), None);
    }

    #[test]
    fn only_one_is_the_first() {
        let (_folder, accounts) = with_root();
        let refused = accounts.create("second", Role::Administrator, PASSWORD, true).expect_err("too late");
        assert_eq!(refused.code, ErrorCode::Conflict);
    }

    #[test]
    fn names_and_passwords_are_looked_at() {
        let (_folder, accounts) = with_root();
        for name in ["", "Root", "a b", "9x", "-x", "ü", &"x".repeat(33)] {
            let refused = accounts.create(name, Role::Viewer, PASSWORD, false).expect_err(name);
            assert_eq!(refused.code, ErrorCode::InvalidRequest, "{name}");
        }
        assert!(accounts.create("ok", Role::Viewer, "short", false).is_err());
        assert!(accounts.change_user("root", None, Some("short")).is_err());
    }

    fn token(role: Role, days: Option<u32>) -> CreateToken {
        CreateToken { name: "x".to_owned(), role, days, statistics: None }
    }

    #[test]
    fn a_token_for_statistics_names_some_that_there_are_and_is_a_viewers() {
        let (_folder, accounts) = with_root();
        let only = |role, names: &[&str]| {
            let statistics = Some(names.iter().map(|n| (*n).to_owned()).collect());
            accounts.create_token("root", CreateToken { statistics, ..token(role, None) })
        };
        let made = only(Role::Viewer, &["nfs3.ops[latency=1000us..2ms][client]", "io.ops"]).expect("made");
        let found = accounts.by_token(&made.secret).expect("known").statistics;
        assert_eq!(found, Some(vec!["nfs3.ops[latency=1ms..2ms][client]".to_owned(), "io.ops".to_owned()]));
        for (role, names) in [(Role::Operator, &["io.ops"][..]), (Role::Viewer, &[]), (Role::Viewer, &["io.nothing"])] {
            assert_eq!(only(role, names).expect_err("refused").code, ErrorCode::InvalidRequest, "{names:?}");
        }
    }

    #[test]
    fn a_token_has_the_permissions_of_its_user() {
        let (folder, accounts) = with_root();
        accounts.create("op", Role::Operator, PASSWORD, false).expect("made");
        assert_eq!(
            accounts.create_token("op", token(Role::Administrator, None)).expect_err("more").code,
            ErrorCode::Forbidden
        );
        let made = accounts.create_token("op", token(Role::Operator, Some(1))).expect("made");
        let found = accounts.by_token(&made.secret).expect("known");
        assert_eq!((found.user.as_str(), found.name.as_str(), found.role), ("op", "x", Role::Operator));
        assert_eq!(accounts.by_token(&made.secret[5..]), None);
        accounts.change_user("op", Some(Role::Viewer), None).expect("changed");
        assert_eq!(accounts.by_token(&made.secret).expect("still known").role, Role::Viewer);
        let again = Accounts::open(folder.path()).expect("kept");
        assert!(again.by_token(&made.secret).is_some());
        accounts.lock().tokens[0].expires = Some(now() - 1);
        assert_eq!(accounts.by_token(&made.secret), None);
        accounts.remove("op").expect("removed");
        assert_eq!(accounts.tokens(None), []);
    }

    #[test]
    fn a_password_check_is_void_after_the_user_changes() {
        let (_folder, accounts) = with_root();
        let create = || accounts.create("eve", Role::Operator, PASSWORD, false).expect("made");
        create();
        let first = accounts.check("eve", PASSWORD).expect("right");
        assert_eq!(accounts.proof("eve"), Some(first));
        accounts.change_user("eve", None, Some("another one")).expect("changed");
        assert_ne!(accounts.proof("eve"), Some(first), "the password");
        accounts.remove("eve").expect("removed");
        create();
        assert_ne!(accounts.proof("eve"), Some(first), "another user of the same name");
    }

    #[test]
    fn one_user_cannot_remove_anothers_token() {
        let (_folder, accounts) = with_root();
        let made = accounts.create_token("root", token(Role::Viewer, None)).expect("made");
        assert_eq!(accounts.remove_token(made.token.id, Some("eve")).expect_err("not hers").code, ErrorCode::NotFound);
        accounts.remove_token(made.token.id, Some("root")).expect("his");
    }
}
