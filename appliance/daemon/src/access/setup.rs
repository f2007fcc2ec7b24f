//! The link for creating the first administrator: shown once, valid once, for an hour.

use super::secret;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Lifetime of a link.
pub const GOOD_FOR: Duration = Duration::from_secs(3600);

/// The digest and expiry of the current link, if any.
#[derive(Default)]
pub struct SetupLink {
    open: Mutex<Option<(String, Instant)>>,
}

impl SetupLink {
    /// Creates a link. An earlier one becomes invalid.
    pub fn make(&self) -> String {
        let token = secret::random();
        *self.open.lock() = Some((secret::digest(&token), Instant::now() + GOOD_FOR));
        token
    }

    /// Whether there is a valid link.
    pub fn is_open(&self) -> bool {
        self.open.lock().as_ref().is_some_and(|(_, end)| *end > Instant::now())
    }

    /// Runs `act` if the token is valid. If that succeeds, the link is used up. `None`: the token
    /// is invalid.
    pub fn using<T, E>(&self, token: &str, act: impl FnOnce() -> Result<T, E>) -> Option<Result<T, E>> {
        let mut open = self.open.lock();
        let (digest, end) = open.as_ref()?;
        if *end <= Instant::now() || !secret::same(digest.as_bytes(), secret::digest(token).as_bytes()) {
            return None;
        }
        let done = act();
        if done.is_ok() {
            *open = None;
        }
        Some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_good_once() {
        let link = SetupLink::default();
        assert_eq!(link.using("", || Ok::<_, ()>(1)), None);
        let token = link.make();
        assert_eq!(link.using("0", || Ok::<_, ()>(1)), None);
        assert_eq!(link.using(&token, || Err::<(), _>("too short")), Some(Err("too short")));
        assert!(link.is_open());
        assert_eq!(link.using(&token, || Ok::<_, ()>(1)), Some(Ok(1)));
        assert_eq!(link.using(&token, || Ok::<_, ()>(2)), None);
        assert!(!link.is_open());
    }

    #[test]
    fn a_new_link_makes_the_old_one_void_and_time_does_too() {
        let link = SetupLink::default();
        let (old, new) = (link.make(), link.make());
        assert_eq!(link.using(&old, || Ok::<_, ()>(1)), None);
        link.open.lock().as_mut().expect("open").1 = Instant::now();
        assert_eq!(link.using(&new, || Ok::<_, ()>(1)), None);
    }
}
