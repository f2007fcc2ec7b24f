//! Stores loaded keys between commands.
//!
//! A key stays loaded although no Weir process needs to run, so it is stored in a file that only
//! its owner can read. The file is in `keys` in the state folder, if that was set explicitly, or
//! otherwise in `$XDG_RUNTIME_DIR/weir` or `/run/weir`. A restart clears those, as it clears a
//! kernel's memory. Unloading a key removes it.

use crate::state::{Imported, State};
use anyhow::{Context as _, Result};
use dataset::{Datasets, KeyStore};
use host::durable;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// A loaded key, as the file has it.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
struct StoredKey {
    dataset: String,
    /// Passphrase, hex digits or raw bytes.
    material: Vec<u8>,
}

fn folder(state: &State) -> PathBuf {
    if state.is_chosen() {
        return state.folder().join("keys");
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()).map(PathBuf::from);
    match runtime {
        _ if rustix::process::geteuid().is_root() => PathBuf::from("/run/weir"),
        Some(runtime) => runtime.join("weir"),
        None => state.folder().join("keys"),
    }
}

fn path(state: &State, record: &Imported) -> PathBuf {
    folder(state).join(format!("{}-{}.json", record.guid, record.load_guid))
}

fn kept(state: &State, record: &Imported) -> Vec<StoredKey> {
    fs::read(path(state, record)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn keep(state: &State, record: &Imported, keys: &[StoredKey]) -> Result<()> {
    let path = path(state, record);
    let folder = folder(state);
    durable::make_private(&folder).with_context(|| folder.display().to_string())?;
    durable::replace(&path, &serde_json::to_vec(keys)?, durable::PRIVATE).with_context(|| path.display().to_string())
}

/// Stores the key of a dataset that was just created, or that got a new key: it counts as loaded.
pub fn keep_new(state: &State, record: &Imported, dataset: &str, material: &[u8]) -> Result<()> {
    let mut keys = kept(state, record);
    keys.retain(|k| k.dataset != dataset);
    keys.push(StoredKey { dataset: dataset.to_owned(), material: material.to_owned() });
    keep(state, record, &keys)
}

/// Whether the key of a dataset is stored.
pub fn has(state: &State, record: &Imported, dataset: &str) -> bool {
    kept(state, record).iter().any(|k| k.dataset == dataset)
}

/// Removes the stored key of a dataset. Returns whether there was one.
pub fn drop_one(state: &State, record: &Imported, dataset: &str) -> Result<bool> {
    let mut keys = kept(state, record);
    let before = keys.len();
    keys.retain(|k| k.dataset != dataset);
    if keys.len() == before {
        return Ok(false);
    }
    keep(state, record, &keys)?;
    Ok(true)
}

/// Removes the stored keys of a destroyed dataset and its descendants.
pub fn forget_below(state: &State, record: &Imported, dataset: &str) {
    let mut keys = kept(state, record);
    let before = keys.len();
    keys.retain(|k| !is_at_or_below(&k.dataset, dataset));
    if keys.len() != before
        && let Err(error) = keep(state, record, &keys)
    {
        tracing::warn!(dataset, error = %format!("{error:#}"), "its key is still stored");
    }
}

/// Renames datasets in the stored keys.
pub fn rename(state: &State, record: &Imported, from: &str, to: &str) {
    let mut keys = kept(state, record);
    let mut changed = false;
    for key in keys.iter_mut().filter(|k| is_at_or_below(&k.dataset, from)) {
        key.dataset = format!("{to}{}", &key.dataset[from.len()..]);
        changed = true;
    }
    if changed && let Err(error) = keep(state, record, &keys) {
        tracing::warn!(dataset = to, error = %format!("{error:#}"), "its key must be loaded again");
    }
}

/// Moves the stored key of `from` to `to`, which replaces it as encryption root.
pub fn hand_on(state: &State, record: &Imported, from: &str, to: &str) {
    let mut keys = kept(state, record);
    let Some(key) = keys.iter_mut().find(|k| k.dataset == from) else { return };
    key.dataset = to.to_owned();
    if let Err(error) = keep(state, record, &keys) {
        tracing::warn!(dataset = to, error = %format!("{error:#}"), "its key must be loaded again");
    }
}

fn is_at_or_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Removes all stored keys of a pool, which was exported.
pub fn forget(state: &State, record: &Imported) {
    let _ = fs::remove_file(path(state, record));
}

/// Loads the stored keys of a pool.
pub fn restore(state: &State, record: &Imported, datasets: &std::sync::Arc<Datasets>, keys: &KeyStore) {
    for key in kept(state, record) {
        let loaded = datasets.dataset(&key.dataset).and_then(|d| keys.load(&d, &key.material));
        if let Err(error) = loaded {
            tracing::warn!(dataset = key.dataset, %error, "a loaded key no longer matches");
        }
    }
}
