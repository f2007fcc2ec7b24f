//! The list of imported pools, stored in a folder, so that each command finds the pools that an
//! earlier one imported.
//!
//! The folder is `--state DIR`, `$WEIR_STATE`, `/var/lib/weir` for root, or the XDG state folder.
//! Its file `pools.json` lists the imported pools. It has nothing of the pools themselves: each
//! command opens them again.
//!
//! Invariants:
//!   * `pools.json` is replaced atomically, under a lock: readers see the old list or the new one
//!   * a folder that does not exist means that nothing is imported; the first import creates it

use anyhow::{Context as _, Result};
use host::durable;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A pool in the list of imported pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Imported {
    /// Name under which it is imported.
    pub name: String,
    /// Guid of the pool.
    pub guid: u64,
    /// Guid of this import.
    pub load_guid: u64,
    /// Folders and devices searched for its devices.
    pub places: Vec<PathBuf>,
    /// Nothing may be written: `-o readonly=on` was given, or the pool has something that Weir
    /// cannot write.
    pub readonly: bool,
    /// `-R` or `-o altroot=`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altroot: Option<String>,
    /// `-o cachefile=`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cachefile: Option<String>,
    /// `-T`: the latest txg to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txg: Option<u64>,
    /// `-F`: older uberblocks may be tried.
    pub rewind: bool,
    /// `--rewind-to-checkpoint` of a read-only import: shows the state of the checkpoint.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
    /// `-t`: the name is used here only; the pool keeps its own.
    pub temporary_name: bool,
    pub no_mount: bool,
    /// Guids of devices that are offline until the next import.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offline: Vec<u64>,
}

/// The folder of the list, and of all other state of Weir.
#[derive(Debug, Clone)]
pub struct State {
    folder: PathBuf,
    chosen: bool,
}

/// The folder of `--state`, if given.
static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// Sets the state folder of this process. Only the first call has an effect.
pub fn choose(folder: PathBuf) {
    let _ = CHOSEN.set(folder);
}

/// The state folder: `--state`, `$WEIR_STATE`, /var/lib/weir for root, or otherwise
/// `$XDG_STATE_HOME/weir` or ~/.local/state/weir.
pub fn folder() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = CHOSEN.get().cloned().or_else(|| set("WEIR_STATE")) {
        return Ok(dir);
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/weir"));
    }
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    Ok(state.context("set WEIR_STATE: neither HOME nor XDG_STATE_HOME is set")?.join("weir"))
}

impl State {
    /// The state in an explicitly given folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, chosen: true }
    }

    /// The state in this process's [`folder`].
    pub fn of_process() -> Result<Self> {
        let chosen = CHOSEN.get().is_some() || std::env::var_os("WEIR_STATE").is_some_and(|v| !v.is_empty());
        Ok(Self { folder: folder()?, chosen })
    }

    /// Whether the folder was given explicitly.
    pub fn is_chosen(&self) -> bool {
        self.chosen
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The imported pools, sorted by name.
    pub fn pools(&self) -> Result<Vec<Imported>> {
        let path = self.folder.join("pools.json");
        let mut pools: Vec<Imported> = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{} is damaged", path.display()))?,
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e).with_context(|| path.display().to_string()),
        };
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(pools)
    }

    /// The imported pool of that name.
    pub fn pool(&self, name: &str) -> Result<Option<Imported>> {
        Ok(self.pools()?.into_iter().find(|p| p.name == name))
    }

    /// Changes the list, under the lock.
    pub fn change<T>(&self, change: impl FnOnce(&mut Vec<Imported>) -> T) -> Result<T> {
        fs::create_dir_all(&self.folder).with_context(|| self.folder.display().to_string())?;
        let lock_path = self.folder.join("lock");
        let lock = durable::lock_file(&lock_path).with_context(|| lock_path.display().to_string())?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .with_context(|| lock_path.display().to_string())?;
        let mut pools = self.pools()?;
        let result = change(&mut pools);
        let path = self.folder.join("pools.json");
        durable::replace(&path, &serde_json::to_vec_pretty(&pools)?, durable::PUBLIC)
            .with_context(|| path.display().to_string())?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_imported_by_one_command_is_found_by_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = State::new(folder.path().join("deep/state"));
        assert_eq!(state.pools().expect("none yet"), []);
        for name in ["tank", "rz"] {
            let pool = Imported { name: name.into(), guid: 7, txg: Some(3), ..Imported::default() };
            state.change(|pools| pools.push(pool)).expect("written");
        }
        let names: Vec<String> = state.pools().expect("read").into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["rz", "tank"]);
        assert_eq!(state.pool("tank").expect("read").expect("there").txg, Some(3));
        state.change(|pools| pools.retain(|p| p.name != "tank")).expect("written");
        assert!(state.pool("tank").expect("read").is_none());
    }

    #[test]
    fn a_damaged_list_is_an_error_and_is_not_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("pools.json"), "[{").expect("written");
        let state = State::new(folder.path().to_owned());
        assert!(state.pools().expect_err("damaged").to_string().contains("damaged"));
        assert!(state.change(Vec::clear).is_err());
        assert_eq!(fs::read_to_string(folder.path().join("pools.json")).expect("still there"), "[{");
    }
}
