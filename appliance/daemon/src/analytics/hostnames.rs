//! Host names of clients, without waiting for the name service.
//!
//! ```text
//!   sampler, each second ── name(address) ──> known names; unknown ones are requested ──> one thread ──> the system's name service
//! ```
//!
//! Invariant: a lookup never waits; until there is an answer, a client has no name.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Lifetime of an answer. Guessed: hosts are seldom renamed.
const BELIEVED: Duration = Duration::from_secs(600);
/// Limit for the names remembered.
const NAMES: usize = 4096;

/// A name, and when it was requested; `None` while there is no answer, too.
type Known = HashMap<IpAddr, (Instant, Option<String>)>;

/// See the module. Its thread ends with it.
pub struct Hostnames {
    known: Arc<Mutex<Known>>,
    ask: Sender<IpAddr>,
}

impl Hostnames {
    /// Starts the thread. `name_of` may block.
    pub fn start(name_of: fn(IpAddr) -> Option<String>) -> io::Result<Self> {
        let (ask, requests) = channel();
        let known = Arc::<Mutex<Known>>::default();
        let answers = known.clone();
        std::thread::Builder::new().name("weir-names".to_owned()).spawn(move || {
            for address in requests {
                let name = name_of(address);
                answers.lock().insert(address, (Instant::now(), name));
            }
        })?;
        Ok(Self { known, ask })
    }

    /// The name of an address, as far as it is known.
    pub fn name(&self, address: IpAddr) -> Option<String> {
        let mut known = self.known.lock();
        let found = known.get(&address).cloned();
        if found.as_ref().is_none_or(|(queried, _)| queried.elapsed() > BELIEVED) {
            if known.len() >= NAMES {
                known.clear();
            }
            // The old answer is used until there is a new one.
            known.insert(address, (Instant::now(), found.as_ref().and_then(|(_, name)| name.clone())));
            // The thread lives as long as this value.
            let _ = self.ask.send(address);
        }
        found.and_then(|(_, name)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_known_once_the_name_service_has_answered() {
        let names = Hostnames::start(|address| (address == IpAddr::from([10, 0, 0, 7])).then(|| "deimos".to_owned()));
        let names = names.expect("a thread");
        let deadline = Instant::now() + Duration::from_secs(60);
        while names.name([10, 0, 0, 7].into()).is_none() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(names.name([10, 0, 0, 7].into()).as_deref(), Some("deimos"));
        assert_eq!(names.name([10, 0, 0, 8].into()), None);
    }
}
