//! The configuration file: reading it, on top of the defaults or of an earlier one, and writing the
//! commented file with all defaults.

use super::keys::{Key, keys};
use super::sections::Config;
use crate::outgoing;
use api::{Setting, SettingChanges, SettingSource};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use toml::de::{DeTable, DeValue};

/// Default path of the configuration file.
pub const DEFAULT_FILE: &str = "/etc/weir/weir.toml";

/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", line.map(|n| format!(", line {n}")).unwrap_or_default())]
pub struct Wrong {
    /// The file, or `command line`.
    pub file: String,
    /// Line number, if known.
    pub line: Option<usize>,
    /// What was found and what was expected.
    pub message: String,
}

impl Wrong {
    /// All errors in one text.
    pub fn join(wrong: &[Self]) -> String {
        wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl Config {
    /// Parses a file on top of the defaults. Returns all errors, not only the first.
    pub fn parse(text: &str, file: &str) -> Result<Self, Vec<Wrong>> {
        let mut config = Self::default();
        config.take(text, file, SettingSource::File)?;
        Ok(config)
    }

    /// Applies a file on top of the current values.
    pub(super) fn take(&mut self, text: &str, file: &str, source: SettingSource) -> Result<(), Vec<Wrong>> {
        let line = |at: usize| text.get(..at).map(|before| before.matches('\n').count() + 1);
        let wrong =
            |at: Option<usize>, message: String| Wrong { file: file.to_owned(), line: at.and_then(line), message };
        let table = DeTable::parse(text).map_err(|e| vec![wrong(e.span().map(|s| s.start), e.message().to_owned())])?;
        let mut errors = Vec::new();
        let mut lines = BTreeMap::new();
        let mut flat = Vec::new();
        for (name, value) in table.get_ref() {
            match value.get_ref() {
                DeValue::Table(section) if is_section(name.get_ref()) => {
                    let inside =
                        section.iter().map(|(n, v)| (format!("{}.{}", name.get_ref(), n.get_ref()), n.span(), v));
                    flat.extend(inside);
                }
                _ => flat.push((name.get_ref().to_string(), name.span(), value)),
            }
        }
        for (name, span, value) in flat {
            let Some(key) = keys().iter().find(|k| k.name == name) else {
                errors.push(wrong(Some(span.start), unknown(&name)));
                continue;
            };
            match (key.set)(self, value.get_ref()) {
                Ok(()) => {
                    self.sources.insert(key.name, source);
                    lines.insert(key.name, span.start);
                }
                Err(found) => {
                    let message = format!("{name} is {found}, expected {}", key.expected);
                    errors.push(wrong(Some(value.span().start), message));
                }
            }
        }
        let conflicts = self.conflicts().into_iter();
        errors.extend(conflicts.map(|(key, message)| wrong(lines.get(key).copied(), message)));
        errors.sort_by_key(|e| e.line);
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Reads a file; without one, `/etc/weir/weir.toml` if it exists.
    pub fn load(file: Option<&Path>) -> Result<Self, Vec<Wrong>> {
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, &path.display().to_string()),
            Err(e) if file.is_none() && e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(vec![Wrong { file: path.display().to_string(), line: None, message: e.to_string() }]),
        }
    }

    /// Sets a key from a command line option. `value` is as in the file, without quotes.
    pub fn set_option(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        let wrong = |message: String| Wrong { file: "command line".to_owned(), line: None, message };
        let Some(key) = keys().iter().find(|k| k.name == name) else { return Err(wrong(unknown(name))) };
        let text = DeValue::String(value.into());
        let mut set = (key.set)(self, &text);
        if set.is_err()
            && let Ok(parsed) = DeValue::parse(value)
        {
            set = (key.set)(self, parsed.get_ref());
        }
        set.map_err(|_| wrong(format!("{name} is '{value}', expected {}", key.expected)))?;
        self.sources.insert(key.name, SettingSource::Option);
        Ok(())
    }

    /// Contradictions: the key, and the reason. Check again after setting options.
    pub fn conflicts(&self) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let away = self.api.listen.iter().find(|a| !a.ip().is_loopback());
        if let (true, Some(address)) = (self.api.plain_http, away) {
            let message = format!(
                "api.plain_http is true, but api.listen has {address}: passwords would cross the network \
                                   unprotected; expected only loopback addresses"
            );
            found.push(("api.plain_http", message));
        }
        match (&self.api.certificate, &self.api.key) {
            (Some(_), None) => {
                found.push(("api.certificate", "api.certificate is set, expected api.key too".to_owned()))
            }
            (None, Some(_)) => found.push(("api.key", "api.key is set, expected api.certificate too".to_owned())),
            _ => {}
        }
        const VERSIONS: [&str; 4] = ["3", "4.0", "4.1", "4.2"];
        if let Some(unknown) = self.nfs.versions.iter().find(|v| !VERSIONS.contains(&v.as_str())) {
            found.push(("nfs.versions", format!("nfs.versions has \"{unknown}\", expected {}", VERSIONS.join(", "))));
        }
        if !(10..=3600).contains(&self.nfs.lease_seconds) {
            let message = format!("nfs.lease_seconds is {}, expected 10 to 3600", self.nfs.lease_seconds);
            found.push(("nfs.lease_seconds", message));
        }
        if let Some(why) = self.nbd.hosts.iter().find_map(|h| serve::nfs::HostPattern::parse(h).err()) {
            found.push(("nbd.hosts", format!("nbd.hosts: {why}")));
        }
        if self.smb.listen.iter().any(|a| a.port() != self.smb.listen[0].port()) {
            let message = "smb.listen has different ports, expected one for all addresses".to_owned();
            found.push(("smb.listen", message));
        }
        if !self.smb.program.is_absolute() {
            let message = format!("smb.program is '{}', expected an absolute path", self.smb.program.display());
            found.push(("smb.program", message));
        }
        if let Some(why) = self.alerts.webhook_hosts.iter().find_map(|h| serve::nfs::HostPattern::parse(h).err()) {
            found.push(("alerts.webhook_hosts", format!("alerts.webhook_hosts: {why}")));
        }
        if self.alerts.mail_command.first().is_some_and(|program| !program.starts_with('/')) {
            let message = format!(
                "alerts.mail_command is '{}', expected the absolute path of a program first",
                self.alerts.mail_command.join(" ")
            );
            found.push(("alerts.mail_command", message));
        }
        if let Some((url, why)) = self.events.webhooks.iter().find_map(|u| Some((u, outgoing::wrong_url(u)?))) {
            found.push(("events.webhooks", format!("events.webhooks has '{url}': {why}")));
        }
        for (key, number, most) in [
            ("events.program_seconds", self.events.program_seconds, 3600),
            ("events.programs_at_once", self.events.programs_at_once, 256),
            ("events.slow_ms", self.events.slow_ms, 3_600_000),
        ] {
            if !(1..=most).contains(&number) {
                found.push((key, format!("{key} is {number}, expected 1 to {most}")));
            }
        }
        for (key, number, range) in [
            ("import.missing_vdevs", self.import.missing_vdevs, 0..=65_536),
            ("multihost.interval_ms", self.multihost.interval_ms, 100..=16_777_215),
            ("multihost.fail_intervals", self.multihost.fail_intervals, 0..=65_535),
            ("multihost.import_intervals", self.multihost.import_intervals, 1..=10_000),
            ("multihost.history", self.multihost.history, 0..=100_000),
        ] {
            if !range.contains(&number) {
                found.push((key, format!("{key} is {number}, expected {} to {}", range.start(), range.end())));
            }
        }
        if !self.otlp.endpoint.is_empty()
            && let Some(why) = outgoing::wrong_url(&self.otlp.endpoint)
        {
            found.push(("otlp.endpoint", format!("otlp.endpoint: {why}")));
        }
        if !(1..=3600).contains(&self.otlp.interval_seconds) {
            let message = format!("otlp.interval_seconds is {}, expected 1 to 3600", self.otlp.interval_seconds);
            found.push(("otlp.interval_seconds", message));
        }
        if let Some(why) = self.otlp.headers.iter().find_map(|h| outgoing::wrong_header(h)) {
            found.push(("otlp.headers", format!("otlp.headers {why}")));
        }
        if !self.alerts.syslog.starts_with('/') && self.alerts.syslog.parse::<SocketAddr>().is_err() {
            let message = format!(
                "alerts.syslog is '{}', expected the absolute path of a socket, or an address with a port",
                self.alerts.syslog
            );
            found.push(("alerts.syslog", message));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.smb.workgroup.is_empty() || self.smb.workgroup.len() > 15 || !self.smb.workgroup.chars().all(is_name) {
            let message = format!("smb.workgroup is '{}', expected at most 15 letters and digits", self.smb.workgroup);
            found.push(("smb.workgroup", message));
        }
        if let Err(why) = serve::nfs::exports::ShareOptions::parse(&self.shares.options) {
            found.push(("shares.options", format!("shares.options is '{}': {why}", self.shares.options)));
        }
        found
    }

    /// All settings. `next` is the configuration after a restart.
    pub fn settings(&self, next: &Self) -> Vec<Setting> {
        let default = Self::default();
        let setting = |key: &Key| Setting {
            name: key.name.to_owned(),
            value: (key.get)(self),
            default: (key.get)(&default),
            source: self.sources.get(key.name).copied().unwrap_or(SettingSource::Default),
            help: key.help.to_owned(),
            changes: if key.live { SettingChanges::Now } else { SettingChanges::Restart },
            pending: Some((key.get)(next)).filter(|value| *value != (key.get)(self)),
        };
        keys().iter().map(setting).collect()
    }
}

fn is_section(name: &str) -> bool {
    keys().iter().any(|k| k.name.split_once('.').is_some_and(|(section, _)| section == name))
}

/// The error for a key that does not exist.
pub(super) fn unknown(name: &str) -> String {
    let mut near: Vec<&str> = match name.split_once('.') {
        Some((section, _)) => keys().iter().map(|k| k.name).filter(|k| k.starts_with(&format!("{section}."))).collect(),
        None => Vec::new(),
    };
    if near.is_empty() {
        near = keys().iter().map(|k| k.name).collect();
    }
    format!("unknown key {name}, expected one of {}", near.join(", "))
}

/// The commented file with all defaults.
pub fn default_file() -> String {
    let config = Config::default();
    let mut text = String::from(
        "# Configuration of `weir serve`: /etc/weir/weir.toml, or the file given by --config.\n# Every key is shown with its \
         default, commented out. `weir config check FILE` reports errors in a file.\n",
    );
    let mut section = "";
    for key in keys() {
        let (of, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if of != section {
            section = of;
            let _ = write!(text, "\n[{section}]\n");
        }
        text.push('\n');
        for line in key.help.lines() {
            let _ = writeln!(text, "# {line}");
        }
        let when = if key.live { "can change while the daemon runs" } else { "a change requires a restart" };
        let _ = writeln!(text, "# Takes {}; {when}.", key.expected);
        let _ = writeln!(text, "#{name} = {}", key.example.map_or_else(|| (key.get)(&config), str::to_owned));
    }
    text
}
