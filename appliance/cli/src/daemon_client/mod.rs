//! Client of the running daemon, for commands that show statistics.

pub mod when;

use crate::forward;
use crate::state_folder;
use admin::state::State;
use anyhow::{Context as _, Result};
use daemon::config::Source;
use observe::scrape::Metrics;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// The daemon of a state directory.
pub struct DaemonClient {
    state: State,
}

/// Percent-encodes text for a URL.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

/// A path with a query string. Parameters without a value are omitted.
pub fn with(path: &str, params: &[(&str, Option<String>)]) -> String {
    let mut out = path.to_owned();
    let given = params.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    for (n, (name, value)) in given.enumerate() {
        let _ = write!(out, "{}{name}={}", if n == 0 { '?' } else { '&' }, encoded(value));
    }
    out
}

impl DaemonClient {
    /// The daemon of the configured state directory. Whether it runs shows at the first request.
    pub fn find() -> Result<Self> {
        let config = Source::default().load().unwrap_or_default();
        Ok(Self { state: state_folder::configured(&config)? })
    }

    /// Process id of the daemon; `None` if it does not run.
    pub fn pid(&self) -> Result<Option<u32>> {
        let stream = daemon::socket::connect(&daemon::socket::of_daemon(self.state.folder()))?;
        let Some(stream) = stream else { return Ok(None) };
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        Ok(u32::try_from(peer.pid.as_raw_nonzero().get()).ok())
    }

    /// Sends a request and returns the body of the answer.
    pub fn bytes(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Vec<u8>> {
        let answer = forward::ask(&self.state, method, path, body)?;
        answer.with_context(|| {
            format!("'weir serve' is not running with the state folder {}", self.state.folder().display())
        })
    }

    /// All statistics, as text.
    pub fn metrics_text(&self) -> Result<String> {
        let text = self.bytes("GET", "/metrics", None)?;
        String::from_utf8(text).context("cannot parse the daemon's answer")
    }

    /// All metrics, parsed. Each call is one request.
    pub fn metrics(&self) -> Result<Metrics> {
        let text = self.metrics_text()?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Metrics::parse(&text, at))
    }

    /// Sends a GET request and parses the document of the answer.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        serde_json::from_slice(&self.bytes("GET", path, None)?).context("cannot parse the daemon's answer")
    }

    /// Sends a change and returns the answer.
    pub fn send<T: DeserializeOwned>(&self, method: &str, path: &str, body: &impl Serialize) -> Result<T> {
        let answer = self.bytes(method, path, Some(&serde_json::to_vec(body)?))?;
        serde_json::from_slice(&answer).context("cannot parse the daemon's answer")
    }

    /// Requests a stream of lines, until `each` returns false or the stream ends.
    pub fn lines(&self, path: &str, each: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<()> {
        let sent = forward::lines(&self.state, path, each)?;
        sent.with_context(|| {
            format!("'weir serve' is not running with the state folder {}", self.state.folder().display())
        })
    }

    /// Values of a statistic from `from` to `to`, in steps of `step` seconds.
    pub fn query(&self, name: &str, from: u64, to: u64, step: u64) -> Result<api::StatisticData> {
        let params = [
            ("name", Some(name.to_owned())),
            ("from", Some(from.to_string())),
            ("to", Some(to.to_string())),
            ("step", Some(step.to_string())),
        ];
        self.get(&with("/v1/analytics/query", &params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_encoded_and_absent_ones_left_out() {
        let params = [("name", Some("nfs3.ops[file=/a b&c]".to_owned())), ("from", None), ("to", Some("5".to_owned()))];
        assert_eq!(with("/q", &params), "/q?name=nfs3.ops%5Bfile%3D%2Fa%20b%26c%5D&to=5");
        assert_eq!(with("/q", &[("a", None)]), "/q");
    }
}
