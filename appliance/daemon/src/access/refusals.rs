//! Limits how many refusals enter the audit log: for each address the first ones are recorded, the
//! rest is counted, so that an attacker cannot fill the log and displace its contents.
//!
//! Invariants:
//!   * successful changes are not limited here: they are always recorded
//!   * every refusal is recorded, or counted in a later entry or in the log of the process
//!   * memory is bounded

use parking_lot::Mutex;
use serve::network::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Refusals per address and [`WINDOW`] that are recorded individually: more than people cause.
const RECORDED: u32 = 30;
/// Time during which they are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// Limit for the addresses remembered; all others are counted as one.
const REMEMBERED: usize = 4096;

/// Counts of refusals by address, in memory only.
#[derive(Default)]
pub struct Refusals(Mutex<HashMap<Option<IpAddr>, Counted>>);

#[derive(Debug, Clone, Copy)]
struct Counted {
    since: Instant,
    recorded: u32,
    left_out: u64,
}

impl Refusals {
    /// Counts a refusal. Returns `None` if it must not be recorded, else the number of refusals
    /// before it that were not.
    pub fn count(&self, address: IpAddr) -> Option<u64> {
        self.count_at(Instant::now(), address)
    }

    fn count_at(&self, now: Instant, address: IpAddr) -> Option<u64> {
        let mut all = self.0.lock();
        let mut of = Some(network(address));
        if all.len() >= REMEMBERED && !all.contains_key(&of) {
            all.retain(|address, counted| {
                let is_over = now.saturating_duration_since(counted.since) >= WINDOW;
                if is_over && counted.left_out > 0 {
                    let count = counted.left_out;
                    tracing::warn!(?address, count, "refusals were not recorded in the audit log: too many");
                }
                !is_over
            });
            if all.len() >= REMEMBERED {
                of = None;
            }
        }
        let counted = all.entry(of).or_insert(Counted { since: now, recorded: 0, left_out: 0 });
        let mut before = 0;
        if now.saturating_duration_since(counted.since) >= WINDOW {
            before = counted.left_out;
            *counted = Counted { since: now, recorded: 0, left_out: 0 };
        }
        if counted.recorded >= RECORDED {
            counted.left_out += 1;
            return None;
        }
        counted.recorded += 1;
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_refusals_some_are_recorded_and_the_rest_are_counted() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let (a, b) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let recorded = (0..1000).filter(|_| refusals.count_at(now, a).is_some()).count();
        assert_eq!(recorded, RECORDED as usize);
        assert_eq!(refusals.count_at(now, b), Some(0), "another address has its own");
        assert_eq!(refusals.count_at(now + WINDOW, a), Some(1000 - u64::from(RECORDED)));
        assert_eq!(refusals.count_at(now + WINDOW, a), Some(0));
    }

    #[test]
    fn addresses_that_are_remembered_are_bounded() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let recorded = (0..3 * REMEMBERED as u32)
            .filter(|i| refusals.count_at(now, IpAddr::from(i.to_be_bytes())).is_some())
            .count();
        assert_eq!(recorded, REMEMBERED + RECORDED as usize);
        assert_eq!(refusals.0.lock().len(), REMEMBERED + 1);
    }
}
