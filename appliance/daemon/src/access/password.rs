//! Passwords: argon2id, with the parameters kept beside each so that they can be raised.
//!
//! Invariant: [`AT_A_TIME`] are checked or made at once, as each takes 19 MiB: whoever computes a [`Hash`] has a [`Turn`].

use super::secret;
use crate::places::{Full, Places, network};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Shortest password, in bytes.
pub const LEAST_BYTES: usize = 10;
/// Longest password, in bytes.
pub const MOST_BYTES: usize = 256;

/// What OWASP's cheat sheet of 2023 names first for argon2id: 19 MiB, 2 passes, 1 lane.
const COST: Cost = Cost { memory_kib: 19 << 10, passes: 2, lanes: 1 };
/// Passwords that are checked at a time.
const AT_A_TIME: usize = 2;

/// What checking a password costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// What a password can be checked with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hash {
    argon2id: String,
    salt: String,
    #[serde(flatten)]
    cost: Cost,
}

/// Attempts that wait for their turn, at most. Guessed: some seconds of work.
const WAITING: usize = 256;
/// Of one address.
const WAITING_OF_ONE: usize = 8;

/// Passwords are checked in turn. Who waits for his turn holds no thread, so that nothing else waits with him.
pub struct Turns {
    running: Arc<Semaphore>,
    waiting: Arc<Places<IpAddr>>,
}

/// The right to check a password, or to make one.
pub struct Turn {
    _running: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self { running: Arc::new(Semaphore::new(AT_A_TIME)), waiting: Places::new(WAITING, WAITING_OF_ONE) }
    }
}

impl Turns {
    /// Waits for a turn, unless too many wait already. `address`: of a caller who need not be known; others are few.
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
    /// Of a password; takes some tens of milliseconds.
    pub fn of(password: &str) -> Self {
        let salt = host::random::bytes::<16>();
        let hash = compute(password, &salt, COST).expect("the parameters are within argon2's bounds");
        Self { argon2id: secret::hex(&hash), salt: secret::hex(&salt), cost: COST }
    }

    /// Whether it is that of `password`.
    pub fn is_of(&self, password: &str) -> bool {
        let (Some(salt), Some(hash)) = (secret::unhex(&self.salt), secret::unhex(&self.argon2id)) else { return false };
        password.len() <= MOST_BYTES
            && compute(password, &salt, self.cost).is_some_and(|found| secret::same(&found, &hash))
    }
}

/// Takes as long as checking a password, so that it does not show that there is no such user.
pub fn pretend(password: &str) {
    let _ = compute(password.get(..MOST_BYTES.min(password.len())).unwrap_or(""), &[0; 16], COST);
}

/// Why it cannot be a password.
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
        // Made with the reference implementation: `echo -n password | argon2 somesalt -id -t 2 -k 65536 -p 1 -l 32 -r`.
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
