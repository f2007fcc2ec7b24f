//! Parts that inspect devices: labels, uberblocks, packed nvlists in files.

use super::argument::argument;
use super::convert;
use crate::source::Opener;
use ::block::label::{self, Labels};
use ::dataset::Datasets;
use ::dataset::tree::ListOptions;
use ::pool::{OpenOptions, Pool};
use anyhow::{Context, Result, bail};
use clap::ArgMatches;
use host::device::{Device, open_with_partitions};
use ondisk::nvlist::{Nvlist, Packed};
use ondisk::pool_dir::{config, directory};
use ondisk::uberblock::Uberblock;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Cache size for opening one state of a pool.
const CACHE_BYTES: u64 = 32 << 20;
/// Limit for the dataset names listed per state.
const NAMES_MAX: usize = 1000;
/// Maximum size of a file with a packed nvlist.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The device and its partitions that have labels; the device itself if none has.
fn labelled(path: &Path) -> Result<Vec<(Arc<dyn Device>, Labels)>> {
    let all = open_with_partitions(path).with_context(|| path.display().to_string())?;
    let mut all: Vec<_> = all.into_iter().map(|d| (d.clone(), label::read(d.as_ref(), true))).collect();
    let has_any = |l: &Labels| l.configs().next().is_some() || !l.uberblocks.is_empty();
    if all.iter().any(|(_, l)| has_any(l)) {
        all.retain(|(_, l)| has_any(l));
    } else {
        all.truncate(1);
    }
    Ok(all)
}

/// `inspect label DEVICE`.
pub fn label(matches: &ArgMatches) -> Result<Value> {
    let found = labelled(Path::new(argument(matches, "DEVICE")))?;
    Ok(one_or_many(found.iter().map(|(device, labels)| label_of(device.as_ref(), labels)).collect()))
}

fn one_or_many(mut all: Vec<Value>) -> Value {
    if all.len() == 1 { all.remove(0) } else { Value::Array(all) }
}

fn label_of(device: &dyn Device, labels: &Labels) -> Value {
    let mut first: Option<(usize, &Nvlist)> = None;
    let mut configs = serde_json::Map::new();
    let mut rows = Vec::new();
    for l in &labels.labels {
        let rings: Vec<&Uberblock> =
            labels.uberblocks.iter().filter(|u| u.label == l.index).map(|u| &u.uberblock).collect();
        let state = match (&l.config, first) {
            (Err(e), _) => e.clone(),
            (Ok(c), Some((n, f))) if c == f => format!("good, the same as label {n}"),
            (Ok(c), before) => {
                configs.insert(format!("label_{}", l.index), convert::nvlist(c));
                first.get_or_insert((l.index, c));
                before.map_or("good".into(), |(n, f)| format!("good, differs from label {n}: {}", differences(f, c)))
            }
        };
        rows.push(json!({
            "label": l.index,
            "offset_bytes": l.offset,
            "configuration": state,
            "txg": l.config.as_ref().ok().and_then(|c| c.get_u64(config::POOL_TXG)),
            "uberblocks": rings.len(),
            "newest_txg": rings.iter().map(|u| u.txg.0).max(),
        }));
    }
    json!({ "device": device.name(), "size_bytes": device.size_bytes(), "labels": rows, "configurations": configs })
}

/// Names of the entries in which two configurations differ.
fn differences(a: &Nvlist, b: &Nvlist) -> String {
    let names = a.pairs.iter().chain(&b.pairs).map(|p| p.name_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|n| a.get(n) != b.get(n)).collect();
    names.sort();
    names.dedup();
    names.join(", ")
}

/// `inspect uberblocks DEVICE-OR-POOL`.
pub fn uberblocks(matches: &ArgMatches) -> Result<Value> {
    let name = argument(matches, "DEVICE-OR-POOL");
    let path = Path::new(name);
    if name.contains('/') || path.exists() {
        let found = labelled(path)?;
        return Ok(one_or_many(found.iter().map(|(device, labels)| rings(device.as_ref(), labels)).collect()));
    }
    states(matches, name)
}

fn rings(device: &dyn Device, labels: &Labels) -> Value {
    let mut all: Vec<_> = labels.uberblocks.iter().collect();
    all.sort_by_key(|u| (std::cmp::Reverse(u.uberblock.txg), u.label, u.slot));
    let row = |u: &&label::FoundUberblock| {
        let mut row = json!({ "txg": u.uberblock.txg.0, "label": u.label, "slot": u.slot });
        extend(&mut row, facts(&u.uberblock));
        row
    };
    json!({ "device": device.name(), "uberblocks": all.iter().map(row).collect::<Vec<_>>() })
}

fn extend(row: &mut Value, more: Value) {
    if let (Value::Object(row), Value::Object(more)) = (row, more) {
        row.extend(more);
    }
}

fn facts(u: &Uberblock) -> Value {
    json!({
        "time": convert::time(u.timestamp),
        "version": u.version,
        "guid_sum": u.guid_sum.to_string(),
        "checkpoint_txg": u.checkpoint_txg.0,
        "multihost": u.multihost.is_some(),
        "root": convert::pointer(&u.root),
    })
}

/// The surviving states of a pool, newest first, with the contents of each.
fn states(matches: &ArgMatches, name: &str) -> Result<Value> {
    // An imported pool may have another name than that on its disks.
    let (wanted, places) = match Opener::new(matches).imported(name)? {
        Some(record) => (record.guid.to_string(), record.places),
        None => (name.to_owned(), matches.get_many::<PathBuf>("search").into_iter().flatten().cloned().collect()),
    };
    let found = admin::open::find(&wanted, &places)?;
    let mut before: Option<Vec<String>> = None;
    let mut states = Vec::new();
    for u in ::pool::uberblocks(&found) {
        let options = OpenOptions { cache_bytes: CACHE_BYTES, txg: Some(u.txg.0), ..OpenOptions::default() };
        let mut state = json!({ "txg": u.txg.0, "time": convert::time(u.timestamp) });
        match Pool::open(&found, &options).and_then(|pool| names(&pool)) {
            Ok((names, used)) => {
                let datasets = match &before {
                    Some(b) if *b == names => format!("the same {}", names.len()),
                    _ => names.join(" "),
                };
                let list = json!({
                    "opens": "yes", "used_bytes": used, "datasets": if matches.get_flag("json") { json!(names) } else { json!(datasets) },
                });
                extend(&mut state, list);
                before = Some(names);
            }
            Err(e) => extend(&mut state, json!({ "opens": format!("no: {e}"), "used_bytes": null, "datasets": null })),
        }
        extend(&mut state, json!({ "root": convert::pointer(&u.root) }));
        states.push(state);
    }
    if states.is_empty() {
        bail!("{name}: no uberblock with a valid checksum on any device");
    }
    Ok(json!({ "pool": found.name(), "guid": found.guid.to_string(), "states": states }))
}

/// The datasets and snapshots of a state, and the space that they use.
fn names(pool: &Arc<Pool>) -> errors::Result<(Vec<String>, u64)> {
    let datasets = Datasets::open(pool.clone())?;
    let listing = datasets.list(&[], &ListOptions { bookmarks: false, ..ListOptions::all() })?;
    if let Some(e) = listing.errors.into_iter().next() {
        return Err(e);
    }
    let names = listing.entries.iter().take(NAMES_MAX).map(|e| e.name().to_owned()).collect();
    Ok((names, datasets.root().phys().used_bytes))
}

/// `inspect nvlist FILE`.
pub fn nvlist(matches: &ArgMatches) -> Result<Value> {
    let path = Path::new(argument(matches, "FILE"));
    let size = std::fs::metadata(path).with_context(|| path.display().to_string())?.len();
    if size > FILE_BYTES_MAX {
        bail!("{}: {size} bytes, expected a packed list of at most {FILE_BYTES_MAX}", path.display());
    }
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    let packed = Packed::parse(&bytes).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))?;
    Ok(convert::nvlist(&packed.list))
}

/// Entries of the object directory.
pub fn directory_of(pool: &Pool) -> Result<Value> {
    let mut found = serde_json::Map::new();
    for e in pool.directory().entries()? {
        let name = String::from_utf8_lossy(&e.name).into_owned();
        let secret = name == directory::CHECKSUM_SALT;
        found.insert(name, if secret { json!("(32 bytes)") } else { convert::zap_value(&e.value) });
    }
    Ok(Value::Object(found))
}
