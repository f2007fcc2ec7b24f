//! Names of clients' hosts, without waiting for them.
//!
//! ```text
//!   sampler, each second ── name(address) ──> what is known; what is not is asked for ──> one thread ──> the system's name service
//! ```
//!
//! Invariant: who asks never waits; until there is an answer, a client has no name.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How long an answer is believed. Guessed: hosts are seldom renamed.
const BELIEVED: Duration = Duration::from_secs(600);
/// Names that are remembered.
const NAMES: usize = 4096;

/// A name, and when it was asked for; `None` also while nobody has answered.
type Known = HashMap<IpAddr, (Instant, Option<String>)>;

/// See the module. Its thread ends with it.
pub struct Hostnames {
    known: Arc<Mutex<Known>>,
    ask: Sender<IpAddr>,
}

impl Hostnames {
    /// `name_of` may take its time.
    pub fn start(name_of: fn(IpAddr) -> Option<String>) -> io::Result<Self> {
        let (ask, asked) = channel();
        let known = Arc::<Mutex<Known>>::default();
        let answers = known.clone();
        std::thread::Builder::new().name("weir-names".to_owned()).spawn(move || {
            for address in asked {
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
        if found.as_ref().is_none_or(|(asked, _)| asked.elapsed() > BELIEVED) {
            if known.len() >= NAMES {
                known.clear();
            }
            // The old answer stands until there is a new one.
            known.insert(address, (Instant::now(), found.as_ref().and_then(|(_, name)| name.clone())));
            // The thread is there as long as this is.
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
