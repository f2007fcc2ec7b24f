//! Passwords: argon2id, with the parameters stored next to each hash so that they can be raised.
//!
//! Invariant: at most [`AT_A_TIME`] hashes are computed at once, as each takes 19 MiB: computing a
//! [`Hash`] requires a [`Turn`].

use super::secret;
use crate::places::{Full, Places};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use serve::network::network;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Minimum length of a password in bytes.
pub const LEAST_BYTES: usize = 10;
/// Maximum length of a password in bytes.
pub const MOST_BYTES: usize = 256;

/// The first recommendation for argon2id in OWASP's cheat sheet of 2023: 19 MiB, 2 passes, 1 lane.
const COST: Cost = Cost { memory_kib: 19 << 10, passes: 2, lanes: 1 };
/// Number of passwords that are checked at a time.
const AT_A_TIME: usize = 2;

/// Parameters of argon2id, stored with each hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// The salted hash of a password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hash {
    argon2id: String,
    salt: String,
    #[serde(flatten)]
    cost: Cost,
}

/// Limit for attempts that wait for their turn. Guessed: some seconds of work.
const WAITING: usize = 256;
/// The same for one address.
const WAITING_OF_ONE: usize = 8;

/// Queue for checking passwords. A waiting request holds no thread, so that it does not delay
/// others.
pub struct Turns {
    running: Arc<Semaphore>,
    waiting: Arc<Places<IpAddr>>,
}

/// The right to compute one hash.
pub struct Turn {
    _running: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self { running: Arc::new(Semaphore::new(AT_A_TIME)), waiting: Places::new(WAITING, WAITING_OF_ONE) }
    }
}

impl Turns {
    /// Waits for a turn. Fails if too many requests wait already. `address` is that of an
    /// unauthenticated caller; others are few and not limited.
    pub async fn take(&self, address: Option<IpAddr>) -> Result<Turn, Full> {
        let _place = address.map(|address| self.waiting.take(network(address))).transpose()?;
        let running = self.running.clone().acquire_owned().await;
        Ok(Turn { _running: running.expect("it is never closed") })
    }
}

fn compute(password: &str, salt: &[u8], cost: Cost) -> Option<[u8; 32]> {
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(32)).ok()?;
    let mut out = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password.as_bytes(), salt, &mut out)
        .ok()?;
    Some(out)
}

impl Hash {
    /// Hash of a password. Takes some tens of milliseconds.
    pub fn of(password: &str) -> Self {
        let salt = host::random::bytes::<16>();
        let hash = compute(password, &salt, COST).expect("the parameters are within argon2's bounds");
        Self { argon2id: secret::hex(&hash), salt: secret::hex(&salt), cost: COST }
    }

    /// Whether this is the hash of `password`.
    pub fn is_of(&self, password: &str) -> bool {
        let (Some(salt), Some(hash)) = (secret::unhex(&self.salt), secret::unhex(&self.argon2id)) else { return false };
        password.len() <= MOST_BYTES
            && compute(password, &salt, self.cost).is_some_and(|found| secret::same(&found, &hash))
    }
}

/// Takes as long as checking a password, so that the time does not reveal whether the user exists.
pub fn pretend(password: &str) {
    let _ = compute(password.get(..MOST_BYTES.min(password.len())).unwrap_or(""), &[0; 16], COST);
}

/// Why this text cannot be a password, if so.
pub fn refusal(password: &str) -> Option<String> {
    let bytes = password.len();
    if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) {
        return Some(format!("a password has {LEAST_BYTES} to {MOST_BYTES} bytes"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_again_and_no_other() {
        let hash = Hash::of("correct horse");
        assert!(hash.is_of("correct horse"));
        assert!(!hash.is_of("correct horsf"));
        assert!(!hash.is_of(""));
        assert_ne!(hash, Hash::of("correct horse"), "salts differ");
        let kept: Hash = serde_json::from_str(&serde_json::to_string(&hash).expect("JSON")).expect("read");
        assert!(kept.is_of("correct horse"));
        assert!(!format!("{kept:?}").contains("horse"));
    }

    #[test]
    fn the_hash_is_argon2id() {
        // From the reference implementation: `echo -n password | argon2 somesalt -id -t 2 -k 65536
        // -p 1 -l 32 -r`.
        let params = Params::new(65536, 2, 1, Some(32)).expect("in bounds");
        let mut out = [0; 32];
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon2.hash_password_into(b"password", b"somesalt", &mut out).expect("computed");
        assert_eq!(secret::hex(&out), "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7");
    }

    #[test]
    fn short_and_endless_passwords_are_refused() {
        assert!(refusal("123456789").is_some());
        assert!(refusal("1234567890").is_none());
        assert!(refusal(&"x".repeat(257)).is_some());
    }
}
