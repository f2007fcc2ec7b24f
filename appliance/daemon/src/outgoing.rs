//! HTTP requests by this process: webhooks of alerts, export of statistics.
//!
//! Invariants:
//!   * a request ends within its time limit, whatever the other side does; at most some KiB of the
//!     answer are read
//!   * addresses chosen by operators reach neither this machine nor its link, unless the
//!     configuration allows it; the address that was checked is the one that is connected to
//!   * redirects are not followed and proxies from the environment are not used: data goes where
//!     the configuration says

use serve::nfs::{HostNames, HostPattern};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// Metadata services of clouds besides link-local addresses: Alibaba, Oracle; AWS.
const METADATA_V4: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192)];
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Maximum length of a URL.
const URL_BYTES: usize = 2000;

/// Why a URL is invalid, if so.
pub fn wrong_url(url: &str) -> Option<String> {
    let expected = "expected http://HOST… or https://HOST…, without a user";
    let shown: String = url.chars().take(100).collect();
    let parsed: Option<Uri> = (url.len() <= URL_BYTES).then(|| url.parse().ok()).flatten();
    let is_right = parsed.is_some_and(|uri| {
        let authority = uri.authority().map_or("", |a| a.as_str());
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|h| !h.is_empty())
            && !authority.contains('@')
    });
    (!is_right).then(|| format!("'{shown}' is not a valid URL, {expected}"))
}

/// Why a header is invalid, if so.
pub fn wrong_header(header: &str) -> Option<String> {
    let is_right = header.split_once(':').is_some_and(|(name, value)| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            && value.chars().all(|c| c == ' ' || c.is_ascii_graphic())
    });
    // The header is not shown, because headers contain secrets.
    (!is_right).then(|| "contains an invalid header, expected NAME: VALUE".to_owned())
}

/// The HTTP client. It trusts this machine's certificates (or those in the file named by
/// `SSL_CERT_FILE`).
fn agent() -> &'static Agent {
    static AGENT: OnceLock<Agent> = OnceLock::new();
    AGENT.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "loading the trusted certificates of this machine");
        }
        let roots: Vec<Certificate<'static>> =
            found.certs.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
            .build();
        Agent::config_builder()
            .tls_config(tls)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_response_header_size(16 << 10)
            .max_idle_connections(4)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent()
    })
}

/// Hosts that may be reached although they are on this machine or its link.
fn exceptions(hosts: &[String]) -> Vec<HostPattern> {
    hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).collect()
}

/// Whether an address leads to this machine, to its link only, or to a cloud's metadata service.
fn is_inside(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            v4.octets()[0] == 0
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_broadcast()
                || METADATA_V4.contains(&v4)
        }
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            // NAT64 (RFC 6052) and IPv4-compatible addresses contain an IPv4 address.
            let holds_v4 = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] || segments[..6] == [0; 6];
            let held = Ipv4Addr::from(u32::from(segments[6]) << 16 | u32::from(segments[7]));
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unicast_link_local()
                || v6 == METADATA_V6
                || holds_v4 && is_inside(held.into())
        }
    }
}

fn may_reach(address: IpAddr, exceptions: &[HostPattern]) -> bool {
    let names = HostNames::default();
    !is_inside(address) || exceptions.iter().any(|host| host.matches(address, &names))
}

/// Why an alert must not use a URL, as far as its address shows; names are checked when they are
/// resolved.
pub fn refused_host(url: &str, hosts: &[String]) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let address = match host {
        name if name.eq_ignore_ascii_case("localhost") => IpAddr::from(Ipv4Addr::LOCALHOST),
        other => other.parse().ok()?,
    };
    (!may_reach(address, &exceptions(hosts))).then(|| inside(host))
}

fn inside(host: &str) -> String {
    format!("{host} is this machine or on its link, which webhooks do not reach unless alerts.webhook_hosts names it")
}

/// A resolver that returns only permitted addresses.
#[derive(Debug)]
struct Outside(Vec<HostPattern>);

impl Resolver for Outside {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        for address in found.iter().filter(|address| may_reach(address.ip(), &self.0)) {
            allowed.push(*address);
        }
        if allowed.is_empty() {
            let why = inside(uri.host().unwrap_or_default());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why).into());
        }
        Ok(allowed)
    }
}

/// Like [`post`], to a URL that an operator chose.
pub fn post_outside(url: &str, kind: &str, body: &[u8], patience: Duration, hosts: &[String]) -> Result<(), String> {
    let resolver = Outside(exceptions(hosts));
    let agent = Agent::with_parts(agent().config().clone(), DefaultConnector::default(), resolver);
    post_by(&agent, url, kind, &[], body, patience)
}

/// Sends a document and waits for the answer, at most `patience`. An answer other than 2xx is an
/// error.
pub fn post(
    url: &str,
    kind: &str,
    headers: &[(String, String)],
    body: &[u8],
    patience: Duration,
) -> Result<(), String> {
    post_by(agent(), url, kind, headers, body, patience)
}

fn post_by(
    agent: &Agent,
    url: &str,
    kind: &str,
    headers: &[(String, String)],
    body: &[u8],
    patience: Duration,
) -> Result<(), String> {
    let mut request = agent.post(url).header("content-type", kind);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.config().timeout_global(Some(patience)).build();
    let answer = request.send(body).map_err(|e| e.to_string())?;
    let status = answer.status();
    match status.as_u16() {
        200..=299 => Ok(()),
        300..=399 => Err(format!("it answered {status}: redirects are not followed")),
        _ => Err(format!("it answered {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_reach_neither_this_machine_nor_its_link() {
        let refused = |url: &str| refused_host(url, &[]).is_some();
        for inside in [
            "http://127.0.0.1/",
            "http://localhost:8215/",
            "http://169.254.169.254/latest/meta-data/",
            "http://0.0.0.0:1/",
            "http://[::1]/",
            "http://[fe80::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[fd00:ec2::254]/",
            "http://100.100.100.200/",
        ] {
            assert!(refused(inside), "{inside}");
        }
        for outside in ["http://192.0.2.1/", "http://10.0.0.7:9093/", "http://[2001:db8::1]/", "http://hooks.example/"]
        {
            assert!(!refused(outside), "{outside}");
        }
        let hosts = ["127.0.0.0/8".to_owned()];
        assert!(refused_host("http://127.0.0.1/", &hosts).is_none() && refused_host("http://[::1]/", &hosts).is_some());
        // Names are checked when they are resolved; unusual forms of addresses count as names.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("set");
        let port = listener.local_addr().expect("bound").port();
        for name in ["localhost", "127.1", "2130706433", "0x7f.1"] {
            let url = format!("http://{name}:{port}/");
            assert!(post_outside(&url, "text/plain", b"x", Duration::from_secs(20), &[]).is_err(), "{name}");
        }
        assert!(listener.accept().is_err(), "nothing was connected to");
    }

    #[test]
    fn addresses_are_those_of_servers() {
        for right in ["http://a", "https://a.example:8443/hook?x=1", "http://[::1]:80/", "http://127.0.0.1:1/"] {
            assert_eq!(wrong_url(right), None);
        }
        for wrong in ["", "a", "/x", "ftp://a/", "file:///etc/passwd", "http://", "https://u:p@a/", "http://a b/"] {
            assert!(wrong_url(wrong).is_some(), "{wrong}");
        }
        assert!(wrong_url(&format!("http://a/{}", "x".repeat(3000))).is_some());
    }
}
