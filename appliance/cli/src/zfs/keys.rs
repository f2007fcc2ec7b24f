//! `zfs load-key` and `unload-key`.
//!
//! [`admin::kept_keys`] stores loaded keys for later commands and for the process that owns the
//! pool.

use super::datasets::{Pools, Types, Wanted};
use crate::client::Client;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Options;
use admin::kept_keys;
use admin::verbs::Found;
use anyhow::{Context as _, Result};
use dataset::{Entry, KeyLocation, View, property};
use std::fs;

pub use admin::kept_keys::{drop_one, forget, forget_below, hand_on, keep_new, rename, restore};

const LOAD: Options = Options { short: "anrL:", long: &[] };
const UNLOAD: Options = Options { short: "ar", long: &[] };
/// The largest key file that is read, in bytes.
const KEY_FILE_MAX: u64 = 4096;

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
    let mut pools = Pools::new(cx);
    let (found, mut code) = pools.list(cx, names, Wanted { types: Types::HEADS, depth })?;
    let (mut tried, mut failed) = (0, 0);
    for f in found {
        // With several datasets, skip those that are not encryption roots. A dataset named on its
        // own gets an error instead.
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

/// Checks that `name` is the encryption root, so that its key may be loaded or unloaded.
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
    let material = material(cx.client, &found.entry, location).map_err(|e| text(&format!("{e:#}")))?;
    match found.pool.keys.check(dataset, &material) {
        Ok(()) if check_only => Ok(()),
        Ok(()) => {
            found.pool.keys.load(dataset, &material).map_err(|e| text(&e))?;
            kept_keys::keep_new(&cx.state, &found.pool.record, name, &material).map_err(|e| text(&format!("{e:#}")))
        }
        Err(error) if object::is_incorrect_key(&error) => {
            Err(format!("Key load error: Incorrect key provided for '{name}'."))
        }
        Err(error) => Err(text(&error)),
    }
}

/// Reads the key from its location.
fn material(client: &dyn Client, entry: &Entry, location: Option<&str>) -> Result<Vec<u8>> {
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
        Some(KeyLocation::Url(url)) => anyhow::bail!("unsupported: keys from a web server ('{url}')"),
        _ if format == "raw" => anyhow::bail!("Cannot read raw key from terminal; use -L file:///path"),
        _ => {
            let kind = if format == "hex" { "hex key" } else { "passphrase" };
            let typed = client.secret(&format!("Enter {kind} for '{}':", entry.name()))?;
            Ok(typed.into_bytes())
        }
    }
}

fn unload_one(cx: &mut Context<'_>, found: &Found) -> Result<(), String> {
    check_root(found, "unload")?;
    let name = found.entry.name();
    if let Some(owner) = crate::mounts::owner(cx, found.pool.record.guid) {
        forget_here(&owner, found, name).map_err(|why| format!("Key unload error: {why}"))?;
    }
    match kept_keys::drop_one(&cx.state, &found.pool.record, name) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("Key unload error: Key already unloaded for '{name}'.")),
        Err(error) => Err(format!("Key unload error: {error:#}")),
    }
}

/// Unloads a key in this process, unless a dataset that uses it is in use.
fn forget_here(owner: &daemon::Owner, found: &Found, name: &str) -> Result<(), String> {
    let busy = || format!("'{name}' is busy.");
    let pool = owner.house.import(&found.pool.record).map_err(|e| format!("{e:#}"))?;
    let Some(writable) = pool.writable() else {
        let dataset = found.entry.dataset().ok_or_else(busy)?;
        return found.pool.keys.unload(dataset).map(|_| ()).map_err(|e| e.to_string());
    };
    for below in owner.mounts.below(found.pool.record.guid, name) {
        let dataset = found.pool.datasets.dataset(&below.dataset).and_then(|d| d.encryption_root());
        if dataset.is_ok_and(|root| root.is_some_and(|root| root.name() == name)) {
            return Err(busy());
        }
    }
    let heads = found.pool.datasets.list(&[name], &dataset::ListOptions::heads()).map_err(|e| e.to_string())?;
    for entry in heads.entries.iter().filter(|e| owner.mounts.of(e.name()).is_none()) {
        writable.close_dataset(entry.name()).map_err(|e| format!("{e:#}"))?;
    }
    match writable.live.unload_key(name) {
        Ok(_) => Ok(()),
        Err(dataset::Error::Refused { why: dataset::Refusal::Busy, .. }) => Err(busy()),
        Err(error) => Err(error.to_string()),
    }
}
