//! Browser sessions. They end with the process.

use super::accounts::Proof;
use super::{now, secret};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit for the sessions of one user; a further login ends the oldest.
const OF_A_USER: usize = 50;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Name of the user.
    pub user: String,
    /// What the login proved.
    pub proof: Proof,
    /// CSRF token that requests with side effects must carry in addition to the cookie.
    pub csrf: String,
    /// Time when it ends if it is not used, in seconds since 1970.
    pub expires: u64,
}

fn seconds(hours: u64) -> u64 {
    hours.clamp(1, 24 * 366) * 3600
}

/// All sessions, by the digest of their number.
pub struct Sessions {
    seconds: AtomicU64,
    open: Mutex<HashMap<String, Session>>,
}

impl Sessions {
    /// No sessions yet. A session ends after `hours` without use.
    pub fn new(hours: u64) -> Self {
        Self { seconds: AtomicU64::new(seconds(hours)), open: Mutex::default() }
    }

    /// Changes the idle time after which a session ends, from its next use on.
    pub fn set_hours(&self, hours: u64) {
        self.seconds.store(seconds(hours), Ordering::Relaxed);
    }

    /// Begins a session. Returns its number for the cookie, and the session.
    pub fn begin(&self, user: &str, proof: Proof) -> (String, Session) {
        let number = secret::random();
        let expires = now() + self.seconds.load(Ordering::Relaxed);
        let session = Session { user: user.to_owned(), proof, csrf: secret::random(), expires };
        let mut open = self.open.lock();
        open.retain(|_, s| s.expires > now());
        let mut own: Vec<(u64, String)> =
            open.iter().filter(|(_, s)| s.user == user).map(|(n, s)| (s.expires, n.clone())).collect();
        own.sort();
        for (_, oldest) in own.iter().take((own.len() + 1).saturating_sub(OF_A_USER)) {
            open.remove(oldest);
        }
        open.insert(secret::digest(&number), session.clone());
        (number, session)
    }

    /// The session with this number. Extends it.
    pub fn find(&self, number: &str) -> Option<Session> {
        let mut open = self.open.lock();
        let session = open.get_mut(&secret::digest(number)).filter(|s| s.expires > now())?;
        session.expires = now() + self.seconds.load(Ordering::Relaxed);
        Some(session.clone())
    }

    /// Updates what the session has proved, after its user changed the password in it.
    pub fn renew(&self, number: &str, proof: Proof) {
        if let Some(session) = self.open.lock().get_mut(&secret::digest(number)) {
            session.proof = proof;
        }
    }

    /// Ends the session with this number; no effect if there is none.
    pub fn end(&self, number: &str) {
        self.open.lock().remove(&secret::digest(number));
    }

    /// Ends all sessions of a user except the one with the number `but`.
    pub fn end_all(&self, user: &str, but: Option<&str>) {
        let but = but.map(secret::digest);
        self.open.lock().retain(|number, s| s.user != user || Some(number) == but.as_ref());
    }

    /// Number of a user's sessions.
    pub fn count(&self, user: &str) -> u64 {
        self.open.lock().values().filter(|s| s.user == user && s.expires > now()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Role;

    const PROOF: Proof = Proof { role: Role::Viewer, generation: 1 };

    #[test]
    fn sessions_end_one_by_one_or_all_but_one() {
        let sessions = Sessions::new(1);
        let (a, first) = sessions.begin("eve", PROOF);
        let (b, _) = sessions.begin("eve", PROOF);
        let (c, _) = sessions.begin("root", PROOF);
        assert_eq!(sessions.find(&a).expect("open").csrf, first.csrf);
        assert_eq!(sessions.find("0"), None);
        sessions.end_all("eve", Some(&b));
        assert_eq!((sessions.find(&a), sessions.count("eve")), (None, 1));
        sessions.end(&b);
        assert_eq!((sessions.count("eve"), sessions.count("root")), (0, 1));
        assert!(sessions.find(&c).is_some());
    }

    #[test]
    fn the_sessions_of_a_user_are_limited() {
        let sessions = Sessions::new(1);
        let (first, _) = sessions.begin("eve", PROOF);
        sessions.open.lock().values_mut().for_each(|s| s.expires -= 1);
        (0..OF_A_USER).for_each(|_| drop(sessions.begin("eve", PROOF)));
        assert_eq!((sessions.count("eve"), sessions.find(&first)), (OF_A_USER as u64, None));
    }

    #[test]
    fn a_session_that_is_not_used_ends() {
        let sessions = Sessions::new(1);
        let (number, _) = sessions.begin("eve", PROOF);
        sessions.open.lock().values_mut().for_each(|s| s.expires = now());
        assert_eq!((sessions.find(&number), sessions.count("eve")), (None, 0));
    }
}
