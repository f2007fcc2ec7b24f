//! Keys that are loaded, kept from one command to the next.
//!
//! No process of ours need stay while a key is loaded, so a loaded key is kept in a file that only its owner can read: in the
//! state folder's `keys` if that folder was chosen, else in `$XDG_RUNTIME_DIR/weir` or `/run/weir`, which a restart empties,
//! as it empties a kernel's memory. Unloading removes it.

use crate::durable;
use crate::state::{Imported, State};
use anyhow::{Context as _, Result};
use dataset::{Datasets, KeyStore};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// A loaded key as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
struct Kept {
    /// The encryption root.
    dataset: String,
    /// Passphrase, hexadecimal digits or raw bytes.
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

fn kept(state: &State, record: &Imported) -> Vec<Kept> {
    fs::read(path(state, record)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn keep(state: &State, record: &Imported, keys: &[Kept]) -> Result<()> {
    let path = path(state, record);
    let folder = folder(state);
    durable::make_private(&folder).with_context(|| folder.display().to_string())?;
    durable::replace(&path, &serde_json::to_vec(keys)?, durable::PRIVATE).with_context(|| path.display().to_string())
}

/// Keeps the key of a dataset that was just made or got a new one: it counts as loaded.
pub fn keep_new(state: &State, record: &Imported, dataset: &str, material: &[u8]) -> Result<()> {
    let mut keys = kept(state, record);
    keys.retain(|k| k.dataset != dataset);
    keys.push(Kept { dataset: dataset.to_owned(), material: material.to_owned() });
    keep(state, record, &keys)
}

/// Keeps no key of a dataset any more; whether one was kept.
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

/// Keeps no keys of what was destroyed.
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

/// Keeps keys under the new names of their datasets.
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

/// Keeps the key of `from` as that of `to`, which is the encryption root in its place.
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

/// Forgets all keys of a pool: it was exported.
pub fn forget(state: &State, record: &Imported) {
    let _ = fs::remove_file(path(state, record));
}

/// Loads the keys that are kept for a pool.
pub fn restore(state: &State, record: &Imported, datasets: &std::sync::Arc<Datasets>, keys: &KeyStore) {
    for key in kept(state, record) {
        let loaded = datasets.dataset(&key.dataset).and_then(|d| keys.load(&d, &key.material));
        if let Err(error) = loaded {
            tracing::warn!(dataset = key.dataset, %error, "a loaded key no longer matches");
        }
    }
}
