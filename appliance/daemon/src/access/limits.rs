//! Limits on password guessing: each failure makes the next attempt wait longer, per address and
//! per account.
//!
//! Invariants:
//!   * an attempt that comes too early is not checked, and does not extend the wait
//!   * an attempt counts as failed before it is checked: concurrent attempts cannot exceed the
//!     number of sequential ones
//!   * an attacked account waits at most a minute: attackers cannot lock a user out for good
//!   * memory is bounded; when it is full, the entry with the shortest wait is dropped

use parking_lot::Mutex;
use serve::network::network;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Failures without a penalty: people mistype.
const FREE: u32 = 4;
/// Longest wait of an address.
const ADDRESS_MOST: Duration = Duration::from_secs(15 * 60);
/// Longest wait of an account.
const ACCOUNT_MOST: Duration = Duration::from_secs(60);
/// Failures are dropped after this time without another one.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// Limit for the addresses and accounts remembered.
const REMEMBERED: usize = 4096;

/// Key under which attempts are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Who {
    /// An IPv4 address, or the /64 of an IPv6 address: the owner of one address has all of them.
    Address(IpAddr),
    /// An account name from a request; the account need not exist.
    Account(String),
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
    until: Instant,
}

/// Failed attempts by address and account.
#[derive(Default)]
pub struct Limits {
    failures: Mutex<HashMap<Who, Failures>>,
}

fn wait(count: u32, most: Duration) -> Duration {
    match count.saturating_sub(FREE) {
        0 => Duration::ZERO,
        n => Duration::from_secs(1u64.checked_shl(n - 1).unwrap_or(u64::MAX)).min(most),
    }
}

impl Limits {
    fn keys(address: Option<IpAddr>, account: &str) -> Vec<(Who, Duration)> {
        let name: String = account.chars().take(64).collect();
        let mut keys = vec![(Who::Account(name), ACCOUNT_MOST)];
        keys.extend(address.map(|a| (Who::Address(network(a)), ADDRESS_MOST)));
        keys
    }

    /// Counts an attempt as failed until [`Limits::succeeded`]. Fails with the remaining wait if
    /// the attempt comes too early.
    pub fn begin(&self, address: Option<IpAddr>, account: &str) -> Result<(), Duration> {
        self.begin_at(Instant::now(), address, account)
    }

    fn begin_at(&self, now: Instant, address: Option<IpAddr>, account: &str) -> Result<(), Duration> {
        let mut failures = self.failures.lock();
        let keys = Self::keys(address, account);
        let waits = keys.iter().filter_map(|(who, _)| failures.get(who));
        if let Some(wait) = waits.map(|f| f.until.saturating_duration_since(now)).max().filter(|w| !w.is_zero()) {
            return Err(wait);
        }
        for (who, most) in keys {
            if failures.len() >= REMEMBERED && !failures.contains_key(&who) {
                failures.retain(|_, f| now.saturating_duration_since(f.last) < FORGOTTEN);
            }
            if failures.len() >= REMEMBERED
                && !failures.contains_key(&who)
                && let Some(least) = failures.iter().min_by_key(|(_, f)| (f.until, f.last)).map(|(who, _)| who.clone())
            {
                failures.remove(&least);
            }
            let entry = failures.entry(who).or_insert(Failures { count: 0, last: now, until: now });
            if now.saturating_duration_since(entry.last) >= FORGOTTEN {
                entry.count = 0;
            }
            entry.count = entry.count.saturating_add(1);
            (entry.last, entry.until) = (now, now + wait(entry.count, most));
        }
        Ok(())
    }

    /// Records a success: clears the failures of the account and of the address.
    pub fn succeeded(&self, address: Option<IpAddr>, account: &str) {
        let mut failures = self.failures.lock();
        for (who, _) in Self::keys(address, account) {
            failures.remove(&who);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));
    const B: Option<IpAddr> = Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)));

    /// Makes an attempt fail at `now`, ignoring any wait.
    fn failed_at(limits: &Limits, now: Instant, address: Option<IpAddr>, account: &str) {
        for (who, _) in Limits::keys(address, account) {
            if let Some(failures) = limits.failures.lock().get_mut(&who) {
                failures.until = now;
            }
        }
        assert_eq!(limits.begin_at(now, address, account), Ok(()));
    }

    fn wait_at(limits: &Limits, now: Instant, address: Option<IpAddr>, account: &str) -> Option<Duration> {
        let failures = limits.failures.lock();
        let waits = Limits::keys(address, account).into_iter().filter_map(|(who, _)| failures.get(&who).copied());
        waits.map(|f| f.until.saturating_duration_since(now)).max().filter(|w| !w.is_zero())
    }

    #[test]
    fn attempts_at_once_are_no_more_than_attempts_one_after_the_other() {
        let limits = std::sync::Arc::new(Limits::default());
        let attempts: Vec<_> = (0..100)
            .map(|_| {
                let limits = limits.clone();
                // None of them has been checked when the next one comes.
                std::thread::spawn(move || limits.begin(A, "root").is_ok())
            })
            .collect();
        let allowed = attempts.into_iter().filter_map(|t| t.join().ok()).filter(|allowed| *allowed).count();
        assert_eq!(allowed, FREE as usize + 1);
    }

    #[test]
    fn waits_double_and_end_at_their_bounds() {
        let (limits, now) = (Limits::default(), Instant::now());
        (0..FREE).for_each(|_| failed_at(&limits, now, A, "root"));
        assert_eq!(wait_at(&limits, now, A, "root"), None);
        for seconds in [1, 2, 4, 8] {
            failed_at(&limits, now, A, "root");
            assert_eq!(wait_at(&limits, now, A, "root"), Some(Duration::from_secs(seconds)));
        }
        (0..100).for_each(|_| failed_at(&limits, now, A, "root"));
        assert_eq!(wait_at(&limits, now, A, "other"), Some(ADDRESS_MOST), "the address waits, with any name");
        assert_eq!(
            wait_at(&limits, now, B, "root"),
            Some(ACCOUNT_MOST),
            "the account waits, wherever it is tried from"
        );
        assert_eq!(wait_at(&limits, now, B, "other"), None);
        assert_eq!(wait_at(&limits, now + ACCOUNT_MOST, B, "root"), None);
    }

    #[test]
    fn success_and_an_hour_make_failures_forgotten() {
        let (limits, now) = (Limits::default(), Instant::now());
        (0..20).for_each(|_| failed_at(&limits, now, A, "root"));
        limits.succeeded(A, "root");
        assert_eq!(wait_at(&limits, now, A, "root"), None);
        (0..20).for_each(|_| failed_at(&limits, now, A, "root"));
        failed_at(&limits, now + FORGOTTEN, A, "root");
        assert_eq!(wait_at(&limits, now + FORGOTTEN, A, "root"), None);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let (limits, now) = (Limits::default(), Instant::now());
        let address = |last: u16| Some(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]));
        (0..20).for_each(|i| failed_at(&limits, now, address(i), &format!("user{i}")));
        assert!(wait_at(&limits, now, address(99), "another").is_some());
        assert_eq!(network("::ffff:192.0.2.1".parse().expect("an address")), A.expect("one"));
    }

    #[test]
    fn the_table_is_bounded_and_keeps_waiting_clients() {
        let (limits, now) = (Limits::default(), Instant::now());
        (0..30).for_each(|_| failed_at(&limits, now, A, "root"));
        for i in 0..2 * REMEMBERED as u32 {
            failed_at(&limits, now, Some(IpAddr::from(i.to_be_bytes())), &format!("user{i}"));
        }
        assert!(limits.failures.lock().len() <= REMEMBERED);
        assert_eq!(wait_at(&limits, now, A, "other"), Some(ADDRESS_MOST));
    }
}
