//! The host names by which clients may address this machine: requests that name another host come
//! from the page of another site.

use parking_lot::RwLock;
use std::net::IpAddr;

/// Host names of this machine.
pub struct Hosts(RwLock<Vec<String>>);

impl Hosts {
    /// The configured names, `localhost`, and this machine's name.
    pub fn new(configured: &[String]) -> Self {
        let hosts = Self(RwLock::default());
        hosts.set(configured);
        hosts
    }

    /// Replaces the configured names.
    pub fn set(&self, configured: &[String]) {
        let own = host::name();
        let short = own.split('.').next().unwrap_or_default().to_owned();
        let names = configured.iter().cloned().chain(["localhost".to_owned(), own, short]);
        *self.0.write() = names.map(|n| n.to_ascii_lowercase()).filter(|n| !n.is_empty()).collect();
    }

    /// Whether `Host` is one of the names or an address. An address cannot be the name of another
    /// site.
    pub fn allow(&self, host: &str) -> bool {
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host
                .rsplit_once(':')
                .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
                .map_or(host, |(n, _)| n),
        };
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        name.parse::<IpAddr>().is_ok() || self.0.read().contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_lead_here() {
        let hosts = Hosts::new(&["Filer.example".to_owned()]);
        for host in [
            "localhost",
            "LOCALHOST:8215",
            "127.0.0.1:8215",
            "[::1]:8215",
            "192.0.2.1",
            "filer.example:443",
            "filer.example.",
        ] {
            assert!(hosts.allow(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "filer.example.evil",
            "127.0.0.1.evil.example:80",
            "[evil]:1",
        ] {
            assert!(!hosts.allow(host), "{host}");
        }
    }
}
