//! Host patterns of a share: addresses, networks, host names and domains.
//!
//! Host names are resolved with the system's name service, which may take seconds and may be wrong;
//! answers are cached for some minutes. A name found for an address counts only if it resolves back
//! to that address, because the owner of an address can choose any name for it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long an answer of the name service is cached. Guessed; mountd of Linux caches for 30
/// minutes.
const BELIEVED: Duration = Duration::from_secs(300);
/// How long a missing answer is cached.
const MISSING_BELIEVED: Duration = Duration::from_secs(30);
/// Maximum number of cached answers.
const KEPT_MAX: usize = 4096;

/// An entry of a host list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// All hosts: `*`.
    Everyone,
    /// A network with its prefix length, or one address.
    Network(IpAddr, u8),
    /// A host name in lower case. Matches the addresses that it resolves to.
    Name(String),
    /// All hosts whose names match: `*` and `?` match within one label, a leading dot matches any
    /// host of a domain.
    Wildcard(String),
}

impl HostPattern {
    /// Parses `10.0.0.1`, `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `@10.0.0.0/8`, `[fd00::]/64`, `host`,
    /// `*.domain`, `.domain` or `*`. Netgroups (`@name`) are not supported.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (at, bare) = match text.strip_prefix('@') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if let Some(network) = network(bare)? {
            return Ok(network);
        }
        if at {
            return Err(format!("'{text}' is a netgroup, and netgroups are not supported"));
        }
        match bare {
            "" => Err("a host is missing".to_owned()),
            "*" => Ok(Self::Everyone),
            _ if bare.contains('/') => Err(format!("'{text}' is not a network")),
            _ if bare.contains(['*', '?']) || bare.starts_with('.') => Ok(Self::Wildcard(bare.to_ascii_lowercase())),
            _ => Ok(Self::Name(bare.to_ascii_lowercase())),
        }
    }

    /// Whether the pattern matches this address.
    pub fn matches(&self, address: IpAddr, names: &HostNames) -> bool {
        match self {
            Self::Everyone => true,
            Self::Network(network, bits) => is_in(address, *network, *bits),
            Self::Name(name) => names.addresses(name).contains(&address),
            Self::Wildcard(pattern) => names.name(address).is_some_and(|name| wildcard(pattern, &name)),
        }
    }
}

fn network(text: &str) -> Result<Option<HostPattern>, String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let bare = address.strip_prefix('[').and_then(|a| a.strip_suffix(']')).unwrap_or(address);
    // Solaris allows the trailing zeros of a network to be omitted.
    let padded = match (bits, bare.split('.').count()) {
        (Some(_), n @ 1..4) if bare.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !bare.is_empty() => {
            format!("{bare}{}", ".0".repeat(4 - n))
        }
        _ => bare.to_owned(),
    };
    let Ok(ip) = padded.parse::<IpAddr>() else { return Ok(None) };
    let max = if ip.is_ipv4() { 32 } else { 128 };
    let bad = || format!("'{text}' is not a network");
    let bits = match bits {
        None => max,
        Some(mask) if mask.contains('.') => {
            let mask = u32::from(mask.parse::<std::net::Ipv4Addr>().map_err(|_| bad())?);
            if mask.leading_ones() + mask.trailing_zeros() != 32 && mask != u32::MAX {
                return Err(bad());
            }
            mask.leading_ones() as u8
        }
        Some(bits) => bits.parse::<u8>().ok().filter(|b| *b <= max).ok_or_else(bad)?,
    };
    Ok(Some(HostPattern::Network(ip, bits)))
}

fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address.to_canonical(), network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (u32::from(a) ^ u32::from(n)) & mask == 0
        }
        (IpAddr::V6(a), IpAddr::V6(n)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            (u128::from(a) ^ u128::from(n)) & mask == 0
        }
        _ => false,
    }
}

/// As in exports(5), wildcards do not match dots. A leading dot is Solaris syntax: any host in the
/// domain, at any depth.
fn wildcard(pattern: &str, name: &str) -> bool {
    if pattern.starts_with('.') && !pattern.contains(['*', '?']) {
        return name.len() > pattern.len() && name.ends_with(pattern);
    }
    fn go(p: &[u8], n: &[u8]) -> bool {
        match (p.split_first(), n.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                go(rest, n) || n.split_first().is_some_and(|(c, more)| *c != b'.' && go(p, more))
            }
            (Some((b'?', rest)), Some((c, more))) => *c != b'.' && go(rest, more),
            (Some((a, rest)), Some((b, more))) => a == b && go(rest, more),
            _ => false,
        }
    }
    // Patterns and names have at most 255 bytes. More stars than this would take too long to match.
    pattern.bytes().filter(|b| *b == b'*').count() <= 4 && go(pattern.as_bytes(), name.as_bytes())
}

type Answers<K, V> = Mutex<HashMap<K, (Instant, V)>>;

/// Cached answers of the name service.
pub struct HostNames {
    forward: Answers<String, Vec<IpAddr>>,
    reverse: Answers<IpAddr, Option<String>>,
    resolve: fn(&str) -> Vec<IpAddr>,
    name_of: fn(IpAddr) -> Option<String>,
}

impl Default for HostNames {
    fn default() -> Self {
        Self {
            forward: Mutex::default(),
            reverse: Mutex::default(),
            resolve: system_addresses,
            name_of: host::names::of,
        }
    }
}

fn system_addresses(name: &str) -> Vec<IpAddr> {
    (name, 0).to_socket_addrs().map(|all| all.map(|a| a.ip().to_canonical()).collect()).unwrap_or_default()
}

/// Returns a cached answer, or asks for one. No lock is held during the query.
fn remembered<K, V>(answers: &Answers<K, V>, key: K, is_missing: fn(&V) -> bool, ask: impl FnOnce(&K) -> V) -> V
where
    K: std::hash::Hash + Eq,
    V: Clone,
{
    if let Some((until, answer)) = answers.lock().get(&key)
        && Instant::now() < *until
    {
        return answer.clone();
    }
    let answer = ask(&key);
    let until = Instant::now() + if is_missing(&answer) { MISSING_BELIEVED } else { BELIEVED };
    let mut answers = answers.lock();
    if answers.len() >= KEPT_MAX {
        answers.clear();
    }
    answers.insert(key, (until, answer.clone()));
    answer
}

impl HostNames {
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        remembered(&self.forward, name.to_owned(), Vec::is_empty, |name| (self.resolve)(name))
    }

    fn name(&self, address: IpAddr) -> Option<String> {
        remembered(&self.reverse, address, Option::is_none, |address| {
            let name = (self.name_of)(*address)?.to_ascii_lowercase();
            (self.resolve)(&name).contains(address).then_some(name)
        })
    }

    #[cfg(test)]
    pub(super) fn of_test(resolve: fn(&str) -> Vec<IpAddr>, name_of: fn(IpAddr) -> Option<String>) -> Self {
        Self { resolve, name_of, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// `fake` is a host that claims a name that is not its own.
    fn names() -> HostNames {
        HostNames::of_test(
            |name| match name {
                "a.lab.example" => vec![ip("10.1.0.1")],
                "honest.lab.example" => vec![ip("10.1.0.2")],
                _ => Vec::new(),
            },
            |address| match address.to_string().as_str() {
                "10.1.0.1" => Some("A.lab.example".to_owned()),
                "6.6.6.6" => Some("honest.lab.example".to_owned()),
                _ => None,
            },
        )
    }

    fn matches(pattern: &str, address: &str) -> bool {
        HostPattern::parse(pattern).expect(pattern).matches(ip(address), &names())
    }

    #[test]
    fn networks_are_written_in_many_ways() {
        for pattern in ["10.1.0.0/16", "@10.1.0.0/16", "@10.1/16", "10.1.0.0/255.255.0.0", "10.1.0.1", "*", "0.0.0.0/0"]
        {
            assert!(matches(pattern, "10.1.0.1"), "{pattern}");
            assert!(matches(pattern, "::ffff:10.1.0.1"), "{pattern}");
        }
        for pattern in ["10.2.0.0/16", "10.1.0.2", "@10.1.0.0/32", "::/0", "[fd00::1]"] {
            assert!(!matches(pattern, "10.1.0.1"), "{pattern}");
        }
        assert!(matches("[fd00::]/16", "fd00::5"));
        assert!(matches("fd00::/16", "fd00::5"));
        assert!(!matches("[fd00::]/16", "fe00::5"));
        for bad in ["10.0.0.0/33", "10.0.0.0/x", "a/24", "", "@group", "10.0.0.0/255.0.255.0"] {
            HostPattern::parse(bad).expect_err(bad);
        }
        assert!(HostPattern::parse("@friends").expect_err("a netgroup").contains("netgroup"));
    }

    #[test]
    fn a_name_found_from_an_address_must_lead_back_to_it() {
        assert!(matches("a.lab.example", "10.1.0.1"));
        assert!(matches("A.LAB.example", "10.1.0.1"));
        assert!(matches("*.lab.example", "10.1.0.1"));
        assert!(matches(".example", "10.1.0.1"));
        assert!(!matches("*.example", "10.1.0.1"), "a star does not match dots");
        assert!(matches("?.lab.*", "10.1.0.1"));
        assert!(!matches("*.lab.example", "6.6.6.6"), "it only claims so");
        assert!(!matches("*.lab.example", "10.1.0.3"), "it has no name");
    }
}
