//! Clients of the NFS server with their rates, which are differences between two samples.

use crate::access::now;
use api::Client;
use parking_lot::Mutex;
use serve::nfs::ClientInfo;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Minimum interval over which rates are computed.
const MIN_INTERVAL: Duration = Duration::from_millis(1800);

/// The last sample of all clients, and the rates computed from it.
#[derive(Default)]
pub struct Clients(Mutex<Last>);

#[derive(Default)]
struct Last {
    at: Option<Instant>,
    seen: HashMap<IpAddr, Seen>,
    listed: Vec<Client>,
}

#[derive(Clone, Copy)]
struct Seen {
    since: u64,
    calls: u64,
    read: u64,
    written: u64,
}

impl Clients {
    /// All clients, with their rates since the last sample.
    pub fn look(&self, all: impl FnOnce() -> Vec<ClientInfo>) -> Vec<Client> {
        self.look_at(Instant::now(), all)
    }

    fn look_at(&self, now: Instant, all: impl FnOnce() -> Vec<ClientInfo>) -> Vec<Client> {
        let mut last = self.0.lock();
        let elapsed = last.at.map(|then| now.saturating_duration_since(then));
        if elapsed.is_some_and(|e| e < MIN_INTERVAL) {
            return last.listed.clone();
        }
        let seconds = elapsed.map_or(0.0, |e| e.as_secs_f64());
        let rate =
            |now: u64, before: u64| if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 };
        let (mut seen, mut listed) = (HashMap::new(), Vec::new());
        for info in all() {
            let before = last.seen.get(&info.address).copied();
            let since = before.map_or_else(self::now, |b| b.since);
            let (calls, read, written) = (info.calls, info.read_bytes, info.written_bytes);
            let from = before.unwrap_or(Seen { since, calls, read, written });
            seen.insert(info.address, Seen { since, calls, read, written });
            listed.push(Client {
                address: info.address.to_string(),
                protocols: info.protocols.into_iter().map(str::to_owned).collect(),
                connections: info.connections,
                since,
                last_seen: if info.connections > 0 { self::now() } else { info.last_seen_seconds },
                operations: calls,
                read_bytes: read,
                written_bytes: written,
                operations_per_second: rate(calls, from.calls),
                read_bytes_per_second: rate(read, from.read),
                written_bytes_per_second: rate(written, from.written),
            });
        }
        *last = Last { at: Some(now), seen, listed: listed.clone() };
        listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_between_two_samples() {
        let info = |calls, read_bytes| ClientInfo {
            protocols: vec!["nfs3"],
            address: IpAddr::from([192, 0, 2, 1]),
            connections: 1,
            calls,
            read_bytes,
            written_bytes: 0,
            received_bytes: 0,
            sent_bytes: 0,
            last_seen_seconds: 7,
        };
        let (clients, start) = (Clients::default(), Instant::now());
        let at = |seconds: u64, calls, read| {
            clients.look_at(start + Duration::from_secs(seconds), || vec![info(calls, read)])
        };
        assert_eq!(at(0, 10, 1000)[0].operations_per_second, 0.0);
        let listed = &at(2, 30, 5000)[0];
        assert_eq!((listed.operations, listed.operations_per_second, listed.read_bytes_per_second), (30, 10.0, 2000.0));
        assert_eq!(at(3, 99, 9999)[0].operations, 30, "too early to compute again");
    }
}
