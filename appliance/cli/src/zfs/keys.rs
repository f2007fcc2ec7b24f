//! `zfs load-key` and `unload-key`.
//!
//! No process of ours stays while a key is loaded, so a loaded key is kept in a file that only its owner can read: in the
//! state folder's `keys` if that folder was chosen, else in `$XDG_RUNTIME_DIR/weir` or `/run/weir`, which a restart empties,
//! as it empties a kernel's memory. Unloading removes it. `weir mount -L` and the others need no loaded key.

use super::datasets::{Found, Pools, Types, Wanted};
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use crate::state::{Imported, State};
use anyhow::{Context as _, Result};
use dataset::{Datasets, Entry, KeyLocation, KeyStore, View, property};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

const LOAD: Options = Options { short: "anrL:", long: &[] };
const UNLOAD: Options = Options { short: "ar", long: &[] };
/// Longest file that is taken for a key.
const KEY_FILE_MAX: u64 = 4096;

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
    let (folder, path) = (folder(state), path(state, record));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).with_context(|| folder.display().to_string())?;
    let fresh = path.with_extension("new");
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    file.write_all(&serde_json::to_vec(keys)?)?;
    fs::rename(&fresh, &path).with_context(|| path.display().to_string())
}

/// Keeps the key of a dataset that was just made or got a new one: it counts as loaded.
pub fn keep_new(state: &State, record: &Imported, dataset: &str, material: &[u8]) -> Result<()> {
    let mut keys = kept(state, record);
    keys.retain(|k| k.dataset != dataset);
    keys.push(Kept { dataset: dataset.to_owned(), material: material.to_owned() });
    keep(state, record, &keys)
}

/// Keeps no key of a dataset any more: it has none of its own.
pub fn drop_one(state: &State, record: &Imported, dataset: &str) -> Result<()> {
    let mut keys = kept(state, record);
    keys.retain(|k| k.dataset != dataset);
    keep(state, record, &keys)
}

/// Keeps no keys of what was destroyed.
pub fn forget_below(state: &State, record: &Imported, dataset: &str) {
    let mut keys = kept(state, record);
    let before = keys.len();
    keys.retain(|k| !is_at_or_below(&k.dataset, dataset));
    if keys.len() != before
        && let Err(error) = keep(state, record, &keys)
    {
        tracing::warn!(dataset, error = %format!("{error:#}"), "its key is still kept");
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
        tracing::warn!(dataset = to, error = %format!("{error:#}"), "its key has to be loaded again");
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
            tracing::warn!(dataset = key.dataset, %error, "a key that was loaded does not fit any more");
        }
    }
}

/// `zfs load-key`.
pub fn load(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = LOAD.parse(args).map_err(Failure::usage)?;
    let location = parsed.last('L').map(str::to_owned);
    if location.as_deref().is_some_and(|l| KeyLocation::parse(l).is_none()) {
        return Err(Failure::usage(format!("invalid keylocation '{}'", location.unwrap_or_default())));
    }
    let check_only = parsed.has('n');
    each(
        cx,
        &parsed.operands,
        parsed.has('a'),
        parsed.has('r'),
        if check_only { "verified" } else { "loaded" },
        check_only,
        &|cx, found| load_one(cx, found, location.as_deref(), check_only),
    )
}

/// `zfs unload-key`.
pub fn unload(cx: &mut Context<'_>, args: &[String]) -> Outcome {
    let parsed = UNLOAD.parse(args).map_err(Failure::usage)?;
    each(cx, &parsed.operands, parsed.has('a'), parsed.has('r'), "unloaded", false, &unload_one)
}

type One<'a> = &'a dyn Fn(&mut Context<'_>, &Found) -> Result<(), String>;

fn each(
    cx: &mut Context<'_>,
    names: &[String],
    all: bool,
    recursive: bool,
    done: &str,
    tell: bool,
    one: One<'_>,
) -> Outcome {
    match (all, names) {
        (true, []) | (false, [_]) => {}
        (true, _) => return Err(Failure::usage("cannot specify dataset with '-a' option")),
        (false, []) => return Err(Failure::usage("Missing dataset argument or -a option")),
        (false, _) => return Err(Failure::usage("too many arguments")),
    }
    let many = all || recursive;
    let depth = if many { None } else { Some(0) };
    let mut pools = Pools::new();
    let (found, mut code) = pools.list(cx, names, Wanted { types: Types::HEADS, depth })?;
    let (mut tried, mut failed) = (0, 0);
    for f in found {
        // Of many, only encryption roots are meant; one that is named is told if it is none.
        if many && !is_encryption_root(&f) {
            continue;
        }
        if many && done == "loaded" && f.entry.dataset().is_some_and(|d| f.pool.keys.is_available(d).unwrap_or(false)) {
            continue;
        }
        tried += 1;
        if let Err(message) = one(cx, &f) {
            cx.complain(&message);
            failed += 1;
            code = 255;
        }
    }
    if tell || (many && tried != 0) {
        cx.print(&format!("{} / {tried} key(s) successfully {done}\n", tried - failed));
    }
    Ok(code)
}

fn is_encryption_root(found: &Found) -> bool {
    let root = found.entry.dataset().and_then(|d| d.encryption_root().ok().flatten());
    root.is_some_and(|root| root.name() == found.entry.name())
}

/// Checks that the key of a dataset may be loaded or unloaded by its name.
fn check_root(found: &Found, verb: &str) -> Result<(), String> {
    let name = found.entry.name();
    let root = found.entry.dataset().map(|d| d.encryption_root());
    match root {
        Some(Ok(Some(root))) if root.name() == name => Ok(()),
        Some(Ok(Some(root))) => {
            Err(format!("Key {verb} error: Keys must be {verb}ed for encryption root of '{name}' ({}).", root.name()))
        }
        Some(Ok(None)) | None => Err(format!("Key {verb} error: '{name}' is not encrypted.")),
        Some(Err(error)) => Err(format!("Key {verb} error: {error}")),
    }
}

fn load_one(cx: &mut Context<'_>, found: &Found, location: Option<&str>, check_only: bool) -> Result<(), String> {
    check_root(found, "load")?;
    let name = found.entry.name();
    let text = |e: &dyn std::fmt::Display| format!("Key load error: {e}");
    let dataset = found.entry.dataset().ok_or_else(|| text(&"a bookmark has no key"))?;
    if !check_only && found.pool.keys.is_available(dataset).map_err(|e| text(&e))? {
        return Err(format!("Key load error: Key already loaded for '{name}'."));
    }
    let material = material(&found.entry, location).map_err(|e| text(&format!("{e:#}")))?;
    match found.pool.keys.check(dataset, &material) {
        Ok(()) if check_only => Ok(()),
        Ok(()) => {
            let mut keys = kept(&cx.state, &found.pool.record);
            keys.retain(|k| k.dataset != name);
            keys.push(Kept { dataset: name.to_owned(), material });
            found.pool.keys.load(dataset, &keys[keys.len() - 1].material).map_err(|e| text(&e))?;
            keep(&cx.state, &found.pool.record, &keys).map_err(|e| text(&format!("{e:#}")))
        }
        Err(error) if object::is_incorrect_key(&error) => {
            Err(format!("Key load error: Incorrect key provided for '{name}'."))
        }
        Err(error) => Err(text(&error)),
    }
}

/// The key from where it is said to be.
fn material(entry: &Entry, location: Option<&str>) -> Result<Vec<u8>> {
    let value = |name: &str| Ok::<_, anyhow::Error>(property::get(entry, name, &View::default())?.map(|p| p.value.raw));
    let format = value("keyformat")?.unwrap_or_default();
    let location = match location {
        Some(location) => location.to_owned(),
        None => value("keylocation")?.unwrap_or_else(|| "prompt".into()),
    };
    match KeyLocation::parse(&location) {
        Some(KeyLocation::File(path)) => {
            let shown = || format!("Failed to open key material file '{location}'");
            anyhow::ensure!(fs::metadata(&path).with_context(shown)?.len() <= KEY_FILE_MAX, "Key file too large.");
            let mut bytes = fs::read(&path).with_context(shown)?;
            if format != "raw"
                && let Some(end) = bytes.iter().position(|b| *b == b'\n')
            {
                bytes.truncate(end);
            }
            Ok(bytes)
        }
        Some(KeyLocation::Url(url)) => anyhow::bail!("unsupported: keys from the web ('{url}')"),
        _ if format == "raw" => anyhow::bail!("Cannot read raw key from terminal; use -L file:///path"),
        _ => {
            let kind = if format == "hex" { "hex key" } else { "passphrase" };
            let typed = rpassword::prompt_password(format!("Enter {kind} for '{}':", entry.name()))?;
            Ok(typed.into_bytes())
        }
    }
}

fn unload_one(cx: &mut Context<'_>, found: &Found) -> Result<(), String> {
    check_root(found, "unload")?;
    let name = found.entry.name();
    let mut keys = kept(&cx.state, &found.pool.record);
    let before = keys.len();
    keys.retain(|k| k.dataset != name);
    if keys.len() == before {
        return Err(format!("Key unload error: Key already unloaded for '{name}'."));
    }
    keep(&cx.state, &found.pool.record, &keys).map_err(|e| format!("Key unload error: {e:#}"))
}
