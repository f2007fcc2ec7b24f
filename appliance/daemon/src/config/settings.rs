//! The current settings, and how they change while the daemon runs.
//!
//! ```text
//!   defaults < configuration file < STATE/settings.toml (set over the API) < command line options
//! ```
//!
//! Invariants:
//!   * an error anywhere changes nothing
//!   * a key that needs a restart keeps its value from the start; the value after the next start is
//!     listed with it

use super::file::{Wrong, unknown};
use super::keys::keys;
use super::sections::Config;
use api::SettingSource;
use host::durable;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File in the state directory with the values set through the interface.
const KEPT: &str = "settings.toml";

/// Source of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// The file; without one, the default path if it exists.
    pub file: Option<PathBuf>,
    /// Keys and values of the command line.
    pub options: Vec<(String, String)>,
}

impl Source {
    /// Reads the current configuration. Returns all errors.
    pub fn load(&self) -> Result<Config, Vec<Wrong>> {
        self.with("", Path::new(""))
    }

    /// The same, with the values set through the interface between file and command line.
    fn with(&self, kept: &str, path: &Path) -> Result<Config, Vec<Wrong>> {
        let mut config = Config::load(self.file.as_deref())?;
        config.take(kept, &path.display().to_string(), SettingSource::Interface)?;
        let set = self.options.iter().filter_map(|(key, value)| config.set_option(key, value).err());
        let mut wrong: Vec<Wrong> = set.collect();
        let place = |message| Wrong { file: "command line".to_owned(), line: None, message };
        wrong.extend(config.conflicts().into_iter().map(|(_, message)| place(message)));
        if wrong.is_empty() { Ok(config) } else { Err(wrong) }
    }
}

/// Result of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Keys whose value changed.
    pub changed: Vec<&'static str>,
    /// Keys whose new value needs a restart.
    pub restart: Vec<&'static str>,
}

/// The current configuration, and the one of the next start.
pub struct Settings {
    source: Source,
    path: PathBuf,
    now: RwLock<Arc<Config>>,
    next: RwLock<Config>,
    changing: Mutex<()>,
}

impl Settings {
    /// Loads `source` and the values set through the interface before.
    pub fn open(source: Source, state: &Path) -> Result<Self, Vec<Wrong>> {
        let path = state.join(KEPT);
        let config = source.with(&text(&path)?, &path)?;
        let (now, next) = (RwLock::new(Arc::new(config.clone())), RwLock::new(config));
        Ok(Self { source, path, now, next, changing: Mutex::default() })
    }

    /// A configuration without a source, for tests.
    pub fn fixed(config: Config, state: &Path) -> Self {
        let (now, next) = (RwLock::new(Arc::new(config.clone())), RwLock::new(config));
        Self { source: Source::default(), path: state.join(KEPT), now, next, changing: Mutex::default() }
    }

    /// The configuration in effect. It does not change while the caller holds it.
    pub fn now(&self) -> Arc<Config> {
        self.now.read().clone()
    }

    /// The list of settings for the interface.
    pub fn list(&self) -> Vec<api::Setting> {
        self.now().settings(&self.next.read())
    }

    /// Reads everything again. `apply` puts live changes into effect and may refuse: then nothing
    /// changes.
    pub fn reload(&self, apply: impl FnOnce(&Config) -> Result<(), String>) -> Result<Change, Vec<Wrong>> {
        let _changing = self.changing.lock();
        let config = self.source.with(&text(&self.path)?, &self.path)?;
        self.become_(config, apply)
    }

    /// Sets keys, or (`None`) resets them to the value in the file, for this process and later
    /// ones.
    pub fn change(
        &self,
        set: &BTreeMap<String, Option<String>>,
        apply: impl FnOnce(&Config) -> Result<(), String>,
    ) -> Result<Change, Vec<Wrong>> {
        let _changing = self.changing.lock();
        let wrong = |message: String| vec![Wrong { file: "request".to_owned(), line: None, message }];
        let mut kept = Config::default();
        kept.take(&text(&self.path)?, &self.path.display().to_string(), SettingSource::Interface)?;
        for (name, value) in set {
            let Some(key) = keys().iter().find(|k| k.name == name) else { return Err(wrong(unknown(name))) };
            if !key.live {
                let message = format!("{name} is set in the configuration file, and applies after a restart");
                return Err(wrong(message));
            }
            if self.source.options.iter().any(|(option, _)| option == name) {
                return Err(wrong(format!("{name} is set by a command line option, which overrides everything else")));
            }
            match value {
                Some(value) => {
                    kept.set_option(name, value).map_err(|w| wrong(w.message))?;
                }
                None => drop(kept.sources.remove(key.name)),
            }
        }
        let mut written = String::from("# Settings made through the API: they override the configuration file.\n");
        for key in keys().iter().filter(|k| kept.sources.contains_key(k.name)) {
            written += &format!("{} = {}\n", key.name, (key.get)(&kept));
        }
        let config = self.source.with(&written, &self.path)?;
        let change = self.become_(config, apply)?;
        if let Err(error) = durable::replace(&self.path, written.as_bytes(), durable::PRIVATE) {
            let message = format!("it applies now, but will be lost at a restart: {error}");
            return Err(vec![Wrong { file: self.path.display().to_string(), line: None, message }]);
        }
        Ok(change)
    }

    fn become_(&self, config: Config, apply: impl FnOnce(&Config) -> Result<(), String>) -> Result<Change, Vec<Wrong>> {
        let now = self.now();
        let mut becomes = Config::clone(&now);
        let mut change = Change::default();
        for key in keys() {
            let differs = (key.get)(&now) != (key.get)(&config);
            if key.live {
                (key.copy)(&mut becomes, &config);
                match config.sources.get(key.name) {
                    Some(source) => becomes.sources.insert(key.name, *source),
                    None => becomes.sources.remove(key.name),
                };
            }
            match differs {
                true if key.live => change.changed.push(key.name),
                true => change.restart.push(key.name),
                false => {}
            }
        }
        apply(&becomes).map_err(|message| vec![Wrong { file: "configuration".to_owned(), line: None, message }])?;
        *self.now.write() = Arc::new(becomes);
        *self.next.write() = config;
        Ok(change)
    }
}

fn text(path: &Path) -> Result<String, Vec<Wrong>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(vec![Wrong { file: path.display().to_string(), line: None, message: e.to_string() }]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, Option<&str>)]) -> BTreeMap<String, Option<String>> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.map(str::to_owned))).collect()
    }

    #[test]
    fn dynamic_settings_change_and_the_rest_waits_for_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("weir.toml");
        let write = |text: &str| std::fs::write(&file, text).expect("written");
        write("[api]\nhosts = ['a.example']\nlisten = ['127.0.0.1:1']\n");
        let source = Source { file: Some(file.clone()), options: vec![("log.level".to_owned(), "warn".to_owned())] };
        let settings = Settings::open(source.clone(), folder.path()).expect("right");
        write("[api]\nhosts = ['b.example']\nlisten = ['127.0.0.1:2']\n[log]\nlevel = 'debug'\n");
        let change = settings.reload(|_| Ok(())).expect("right");
        assert_eq!((change.changed, change.restart), (vec!["api.hosts"], vec!["api.listen"]));
        let now = settings.now();
        // A command line option takes precedence over the file.
        assert_eq!(
            (now.api.hosts[0].as_str(), now.api.listen[0].port(), now.log.level.as_str()),
            ("b.example", 1, "warn")
        );
        let listen = settings.list().into_iter().find(|s| s.name == "api.listen").expect("listed");
        assert_eq!(listen.pending.as_deref(), Some("[\"127.0.0.1:2\"]"));
        // Invalid or refused values change nothing.
        write("[api]\nhosts = 7\n");
        assert!(settings.reload(|_| Ok(())).is_err());
        write("[api]\nhosts = ['c.example']\n");
        assert!(settings.reload(|_| Err("no".to_owned())).is_err());
        assert_eq!(settings.now().api.hosts, ["b.example"]);
    }

    #[test]
    fn settings_of_the_api_survive_a_restart_until_they_are_reset() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, "api.session_hours = 3\n").expect("written");
        let source = Source { file: Some(file), options: vec![("log.level".to_owned(), "warn".to_owned())] };
        let open = || Settings::open(source.clone(), folder.path()).expect("right");
        let settings = open();
        let change = settings.change(&set(&[("api.session_hours", Some("5"))]), |_| Ok(())).expect("right");
        assert_eq!(change.changed, ["api.session_hours"]);
        for settings in [settings, open()] {
            assert_eq!(settings.now().api.session_hours, 5);
            let reported = settings.list().into_iter().find(|s| s.name == "api.session_hours").expect("listed");
            assert_eq!(reported.source, SettingSource::Interface);
        }
        let settings = open();
        for wrong in
            [("api.listen", "127.0.0.1:1"), ("log.level", "info"), ("api.session_hours", "x"), ("no.such", "1")]
        {
            let reported = settings.change(&set(&[(wrong.0, Some(wrong.1))]), |_| Ok(())).expect_err("refused");
            assert!(
                reported[0].message.starts_with(if wrong.0 == "no.such" { "unknown key" } else { wrong.0 }),
                "{reported:?}"
            );
        }
        settings.change(&set(&[("api.session_hours", None)]), |_| Ok(())).expect("right");
        assert_eq!((settings.now().api.session_hours, open().now().api.session_hours), (3, 3));
    }
}
