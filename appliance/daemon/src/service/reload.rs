//! Changes of settings while the process runs: a reload of the file, and single settings.

use super::Service;
use crate::config::{Change, Config, Wrong};
use crate::events::Happening;
use crate::tls;
use api::{EventKind, SettingsChanged};
use std::collections::BTreeMap;
use std::time::Duration;

impl Service {
    /// Applies live changes; on an error nothing has changed. Sets `fresh` if the certificate
    /// changed.
    fn apply(&self, config: &Config, fresh: &mut bool) -> Result<(), String> {
        let folder = self.owner.house.state().folder();
        let loaded = self.servers.tls.get().map(|_| tls::load(&config.api, folder)).transpose();
        let loaded = loaded.map_err(|error| format!("{error:#}"))?;
        (self.level)(&config.log.level).map_err(|why| format!("log.level is '{}': {why}", config.log.level))?;
        if let (Some(current), Some(loaded)) = (self.servers.tls.get(), loaded) {
            *fresh = current.replace(loaded);
        }
        self.owner.house.set_cache_bytes(config.arc_max.0);
        self.owner.mounts.set_automatic(config.mount);
        self.owner.mounts.set_uring(config.mount_uring);
        self.access.sessions.set_hours(config.api.session_hours);
        self.access.hosts.set(&config.api.hosts);
        pool::devices::set_slow(Duration::from_millis(config.events.slow_ms));
        pool::mmp::set_settings(config.multihost.settings());
        admin::import::set_missing_max(config.import.missing_vdevs);
        self.servers.exports.set_on(&config.shares.options);
        self.analytics.engine.switch(config.analytics.enabled);
        Ok(())
    }

    /// Re-reads configuration and certificate. The error contains all problems; then nothing has
    /// changed.
    pub fn reload(&self, by: &str) -> Result<SettingsChanged, String> {
        let mut fresh = false;
        let done = self.settings.reload(|config| self.apply(config, &mut fresh));
        self.report("the configuration was read", done, fresh, by)
    }

    /// Changes settings, for this process and later ones.
    pub fn change_settings(&self, set: &BTreeMap<String, Option<String>>, by: &str) -> Result<SettingsChanged, String> {
        let mut fresh = false;
        let done = self.settings.change(set, |config| self.apply(config, &mut fresh));
        self.report("settings were changed", done, fresh, by)
    }

    /// Reports a change of settings, or its failure, to the log and the events.
    fn report(
        &self,
        what: &str,
        done: Result<Change, Vec<Wrong>>,
        fresh: bool,
        by: &str,
    ) -> Result<SettingsChanged, String> {
        let names = |names: Vec<&'static str>| names.into_iter().map(str::to_owned).collect::<Vec<String>>();
        let done =
            done.map(|change| SettingsChanged { changed: names(change.changed), restart: names(change.restart) });
        match done {
            Ok(mut done) => {
                if fresh && !done.changed.iter().any(|name| name == "api.certificate") {
                    done.changed.push("api.certificate".to_owned());
                }
                let mut message = match done.changed.is_empty() {
                    true => format!("{what}: nothing changed"),
                    false => format!("{what}: changed: {}", done.changed.join(", ")),
                };
                if !done.restart.is_empty() {
                    message += &format!("; after a restart: {}", done.restart.join(", "));
                }
                tracing::info!(changed = ?done.changed, restart = ?done.restart, "{what}");
                self.events.post(Happening::info(EventKind::Service, message).by(by));
                Ok(done)
            }
            Err(wrong) => {
                let why = Wrong::join(&wrong);
                tracing::error!(why, "the configuration is invalid, nothing changed");
                let message = format!("the configuration is invalid, nothing changed: {why}");
                self.events.post(Happening::error(EventKind::Service, message).by(by));
                Err(why)
            }
        }
    }
}
