//! Requests that this process makes: webhooks of alerts, figures that are pushed.
//!
//! Invariants:
//!   * a request ends within its time, whatever the other side does; at most some KiB of its answer are read
//!   * redirections are not followed and proxies of the environment not used: what is sent goes where the configuration says

use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Longest address.
const URL_BYTES: usize = 2000;

/// Why something cannot be sent to an address.
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
    (!is_right).then(|| format!("'{shown}' is no address that can be sent to, {expected}"))
}

/// The client; certificates are those that this machine trusts (or of the file that `SSL_CERT_FILE` names).
fn agent() -> &'static Agent {
    static AGENT: OnceLock<Agent> = OnceLock::new();
    AGENT.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "certificates that this machine trusts");
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

/// Sends a document. Waits for the answer, `patience` at most; an answer that is not 2xx is an error.
pub fn post(
    url: &str,
    kind: &str,
    headers: &[(String, String)],
    body: &[u8],
    patience: Duration,
) -> Result<(), String> {
    let mut request = agent().post(url).header("content-type", kind);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.config().timeout_global(Some(patience)).build();
    let answer = request.send(body).map_err(|e| e.to_string())?;
    let status = answer.status();
    match status.as_u16() {
        200..=299 => Ok(()),
        300..=399 => Err(format!("it answered {status}: redirections are not followed")),
        _ => Err(format!("it answered {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
